//! Batch sizes as an argument.

use perf4sight_step::workload::LARGEST_BATCH;

/// Batch sizes as one argument: `1,8,32`, or a list as configurations write it, `[1,8,32]`.
#[derive(Debug, Clone)]
pub(super) struct Sizes(Vec<u64>);

impl Sizes {
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let text = text.trim();
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let size = |word: &str| match word.trim().parse::<u64>() {
            Ok(size @ 1..=LARGEST_BATCH) => Ok(size),
            _ => Err(format!("{} is not in 1..={LARGEST_BATCH}; batch sizes are such as 1,8,32", word.trim())),
        };
        match inner.trim().trim_end_matches(',') {
            "" => Err("there is no batch size in it; write such as 1,8,32".to_owned()),
            sizes => sizes.split(',').map(size).collect::<std::result::Result<_, _>>().map(Sizes),
        }
    }

    /// Of an argument that may be given several times.
    pub fn all(given: Vec<Sizes>) -> Vec<u64> {
        given.into_iter().flat_map(|Sizes(sizes)| sizes).collect()
    }
}
