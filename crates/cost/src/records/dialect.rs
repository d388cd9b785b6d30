//! The rules for cells: no separator, nothing that a spreadsheet would run as a formula, and a marker for missing
//! values.

use perf4sight_base::error::{Error, Result};

pub(super) const SEPARATOR: &str = "|";

/// The marker for a missing value; published rows also use `-1`.
pub(super) const NONE: &str = "None";

/// Whether this character in a cell would make the row unreadable.
pub(super) fn ends_cell(c: char) -> bool {
    SEPARATOR.contains(c) || c.is_control()
}

/// Whether a spreadsheet would run this text as a formula instead of showing it.
pub(super) fn begins_formula(word: &str) -> bool {
    word.starts_with(['=', '+', '-', '@'])
}

/// Refuses words of a configuration that would make rows unreadable.
///
/// # Errors
/// The word and the reason.
pub fn check_cell(word: &str) -> Result<()> {
    match word.chars().find(|c| ends_cell(*c)) {
        None => Ok(()),
        Some(c) => {
            Err(Error::config(format!("\"{}\" holds {c:?}, which ends a cell of a profile", word.escape_debug()))
                .expected("words without | and without control characters")
                .help("rename it"))
        }
    }
}

pub(super) fn optional_text<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
}

/// Words joined in one cell, or the marker for none.
pub(super) fn join_words<T: ToString>(words: &[T], separator: &str) -> String {
    let words: Vec<String> = words.iter().map(T::to_string).collect();
    optional_text(Some(words.join(separator)).filter(|words| !words.is_empty()))
}
