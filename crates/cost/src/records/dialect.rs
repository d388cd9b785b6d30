//! What a cell can hold: no separator, nothing that a spreadsheet would run, and a word for what is missing.

use perf4sight_base::error::{Error, Result};

/// Between the cells of a row.
pub(super) const SEPARATOR: &str = "|";

/// The word for a value that is missing; `-1` in published rows.
pub(super) const NONE: &str = "None";

/// Whether a row could not be read again with this inside a cell.
pub(super) fn ends_cell(c: char) -> bool {
    SEPARATOR.contains(c) || c.is_control()
}

/// Whether a spreadsheet would run it instead of showing it.
pub(super) fn begins_formula(word: &str) -> bool {
    word.starts_with(['=', '+', '-', '@'])
}

/// Refuses words from a configuration that rows would hold and could not be read again with.
///
/// # Errors
/// The word, and what is wrong with it.
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

/// A value, or the word for none.
pub(super) fn written<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| NONE.to_owned(), |value| value.to_string())
}

/// Words in one cell, or the word for none.
pub(super) fn joined<T: ToString>(words: &[T], separator: &str) -> String {
    let words: Vec<String> = words.iter().map(T::to_string).collect();
    written(Some(words.join(separator)).filter(|words| !words.is_empty()))
}
