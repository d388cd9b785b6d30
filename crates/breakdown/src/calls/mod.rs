//! Calls by name and by caller.

pub(crate) mod callers;
pub(crate) mod costs;
pub(crate) mod stacks;

/// Longer names are cut in output, in characters.
const LONGEST: usize = 200;

/// A name for output: without the addresses of objects, which differ from call to call, and cut if it is too long.
pub(crate) fn label(name: &str) -> String {
    let mut text: String = name.chars().take(LONGEST + 40).collect();
    while let Some(at) = text.find(" at 0x") {
        let digits = text[at + 6..].chars().take_while(char::is_ascii_hexdigit).count();
        text.replace_range(at..at + 6 + digits, "");
    }
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
