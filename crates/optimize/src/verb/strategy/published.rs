//! The sub-options of `analyze --option optimize`, as published, and the passes that they name.

use perf4sight_base::error::{Error, Result};

/// Published words, and the names of passes.
const WORDS: [(&str, &str); 6] = [
    ("tensor_fusion", "tensor_fusion"),
    ("tsfs", "tensor_fusion"),
    ("xla", "op_fusion"),
    ("amp", "amp"),
    ("memory", "memory"),
    ("from_opfs2tsfs", "from_opfs2tsfs"),
];
/// Without the pass of memory, which otherwise always runs.
const WITHOUT_MEMORY: &str = "^memory";

/// The passes of a `--sub_option` such as `tensor_fusion,xla` or `xla,^memory`.
///
/// # Errors
/// A word that is none of the published ones.
pub fn passes(sub_option: &str) -> Result<Vec<String>> {
    let words = || sub_option.split(',').map(str::trim).filter(|word| !word.is_empty());
    let known = || WORDS.iter().map(|(word, _)| *word).chain([WITHOUT_MEMORY]).collect::<Vec<_>>();
    let pass = |word: &str| match WORDS.iter().find(|(published, _)| *published == word) {
        Some((_, pass)) => Ok((*pass).to_owned()),
        None => Err(Error::usage(format!("--sub_option {word} is not known")).one_of(word, known())),
    };
    let mut passes: Vec<String> = words().filter(|word| *word != WITHOUT_MEMORY).map(pass).collect::<Result<_>>()?;
    if !words().any(|word| word == WITHOUT_MEMORY || word == "from_opfs2tsfs") {
        passes.push("memory".to_owned());
    }
    Ok(passes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_sub_options_name_passes() {
        assert_eq!(passes("xla").unwrap(), ["op_fusion", "memory"]);
        assert_eq!(passes("tensor_fusion,xla,^memory").unwrap(), ["tensor_fusion", "op_fusion"]);
        assert_eq!(passes("from_opfs2tsfs").unwrap(), ["from_opfs2tsfs"]);
        assert!(passes("xlaa").unwrap_err().to_string().contains("did you mean \"xla\"?"));
    }
}
