//! Names of events as they are shown.

/// Characters of a name that are kept.
const LONGEST: usize = 200;

/// A name as it is shown: without the addresses of objects, which differ from call to call; cut where it is longer than anybody reads.
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
