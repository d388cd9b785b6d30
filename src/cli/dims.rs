//! Sizes of dimensions that network files leave open, as `NAME=SIZE`.

/// A name and a size.
pub(super) fn parse(text: &str) -> Result<(String, u64), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let size = pair.and_then(|(_, size)| size.parse::<u64>().ok()).filter(|size| (1..1 << 31).contains(size));
    let (Some((name, _)), Some(size)) = (pair, size) else {
        return Err(
            "write the name that the file gives a dimension and a size from 1 on, such as tokens=197".to_owned()
        );
    };
    Ok((name.to_owned(), size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_anything_but_come_with_a_size() {
        assert_eq!(parse("tokens=197"), Ok(("tokens".into(), 197)));
        assert_eq!(parse("batch_size*2=8"), Ok(("batch_size*2".into(), 8)));
        for wrong in ["tokens", "=3", "tokens=0", "tokens=-1", "tokens=many"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
