//! Makes text from files, other programs and other machines safe for a terminal.

use std::borrow::Cow;

/// Escapes all characters that a terminal would execute instead of showing, such as `\u{1b}`; newlines are kept.
/// Otherwise a name could clear the screen, set the window's title, or reverse the direction of the text after it.
///
/// ```
/// use perf4sight_report::printable;
/// assert_eq!(printable("a line\nand \x1b[2Janother"), "a line\nand \\u{1b}[2Janother");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.escape_default().to_string())
}

/// The same as one message: further lines are indented, so that a name with a newline is not mistaken for another
/// message.
///
/// ```
/// use perf4sight_report::paragraph;
/// assert_eq!(paragraph("net\nerror: none\n  help: rename it"), "net\n  error: none\n  help: rename it");
/// ```
pub fn paragraph(text: &str) -> String {
    let mut lines = text.lines().map(printable);
    let first = lines.next().unwrap_or_default().into_owned();
    lines.fold(first, |text, line| text + if line.starts_with("  ") { "\n" } else { "\n  " } + &line)
}

pub(super) fn one_line(text: &str) -> String {
    printable(text).replace('\n', "\\n").replace('\t', " ")
}

/// The same for JSON, where such characters occur only in strings.
pub(super) fn printable_json(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect())
}

fn escaped(text: &str, escape: fn(char) -> String) -> Cow<'_, str> {
    match text.contains(is_obeyed) {
        true => text.chars().map(|c| if is_obeyed(c) { escape(c) } else { c.to_string() }).collect(),
        false => Cow::Borrowed(text),
    }
}

/// Control characters (C0 and C1), and characters that set the writing direction (Unicode Standard Annex 9, explicit
/// formatting characters).
pub(super) fn is_obeyed(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && !matches!(c, '\n' | '\t'))
}

#[cfg(test)]
mod tests;
