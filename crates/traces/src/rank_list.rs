//! Names ranks in sentences.

use std::collections::BTreeSet;

const LISTED: usize = 6;

/// "ranks 0 to 3, 6 and 7"; of many that do not follow one another, their number.
pub fn rank_list(ranks: &BTreeSet<u32>) -> String {
    let mut runs: Vec<[u32; 2]> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some([_, last]) if *last + 1 == rank => *last = rank,
            _ => runs.push([rank; 2]),
        }
    }
    let word = |[first, last]: &[u32; 2]| match last - first {
        0 => vec![first.to_string()],
        1 => vec![first.to_string(), last.to_string()],
        _ => vec![format!("{first} to {last}")],
    };
    let words: Vec<String> = runs.iter().flat_map(word).collect();
    match words.split_last() {
        _ if runs.len() > LISTED => format!("{} ranks", ranks.len()),
        Some((last, [])) if ranks.len() == 1 => format!("rank {last}"),
        Some((last, [])) => format!("ranks {last}"),
        Some((last, first)) => format!("ranks {} and {last}", first.join(", ")),
        None => "no rank".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_named_as_runs() {
        let named = |ranks: &[u32]| rank_list(&ranks.iter().copied().collect());
        assert_eq!(named(&[3]), "rank 3");
        assert_eq!(named(&[0, 3]), "ranks 0 and 3");
        assert_eq!(named(&[0, 1]), "ranks 0 and 1");
        assert_eq!(named(&[0, 1, 2, 3]), "ranks 0 to 3");
        assert_eq!(named(&[0, 1, 2, 5, 6, 9]), "ranks 0 to 2, 5, 6 and 9");
        assert_eq!(named(&[0, 2, 4, 6, 8, 10, 12]), "7 ranks");
    }
}
