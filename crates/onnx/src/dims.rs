//! Sizes of dimensions that network files leave open, as `NAME=SIZE`.

use perf4sight_base::error::{Error, Result};
use std::collections::BTreeMap;

/// Sizes for dimensions that files leave open, by their names in the file, such as `tokens`.
pub type NamedDims = BTreeMap<String, u64>;

/// A name and a size.
///
/// # Errors
/// A usage error if one of them is missing.
pub fn parse_dim(text: &str) -> Result<(String, u64)> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let size = pair.and_then(|(_, size)| size.parse::<u64>().ok()).filter(|size| (1..1 << 31).contains(size));
    let (Some((name, _)), Some(size)) = (pair, size) else {
        let wanted = "the name that the file gives a dimension and a size from 1 on, such as tokens=197";
        return Err(Error::usage(format!("\"{text}\" is not a size of a dimension")).expected(wanted));
    };
    Ok((name.to_owned(), size))
}

/// The sizes of several dimensions.
///
/// # Errors
/// A usage error if a dimension has two sizes.
pub fn dims(sizes: impl IntoIterator<Item = (String, u64)>) -> Result<NamedDims> {
    let mut dims = NamedDims::new();
    for (name, size) in sizes {
        if let Some(other) = dims.insert(name.clone(), size).filter(|&other| other != size) {
            let problem = format!("dimension \"{name}\" is set to both {other} and {size}");
            return Err(Error::usage(problem).expected("one size for each dimension"));
        }
    }
    Ok(dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_anything_but_come_with_a_size() {
        assert_eq!(parse_dim("tokens=197").unwrap(), ("tokens".into(), 197));
        assert_eq!(parse_dim("batch_size*2=8").unwrap(), ("batch_size*2".into(), 8));
        for wrong in ["tokens", "=3", "tokens=0", "tokens=-1", "tokens=many"] {
            assert!(parse_dim(wrong).unwrap_err().to_string().contains("such as tokens=197"), "{wrong}");
        }
    }

    #[test]
    fn a_dimension_has_one_size() {
        let said = |sizes: [u64; 2]| dims(sizes.map(|size| ("tokens".to_string(), size)));
        assert_eq!(said([37, 37]).unwrap(), NamedDims::from([("tokens".into(), 37)]));
        let error = said([37, 40]).unwrap_err().to_string();
        assert!(error.contains("dimension \"tokens\" is set to both 37 and 40"), "{error}");
    }
}
