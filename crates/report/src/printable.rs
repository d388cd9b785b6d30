//! Words that came from files, other programs and other machines, as a terminal may be given them.

use std::borrow::Cow;

/// The text with everything escaped that a terminal would obey instead of showing it, such as `\u{1b}`; lines stay lines. A name could
/// else clear the screen, set the window's title, or turn around the order of what follows.
///
/// ```
/// use perf4sight_report::printable;
/// assert_eq!(printable("a line\nand \x1b[2Janother"), "a line\nand \\u{1b}[2Janother");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c.escape_default().to_string())
}

/// The same as one message: further lines are indented, so that a name with a line end in it is not taken for another message.
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

/// The same on one line.
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

/// Controls (C0 and C1), and what sets the direction of writing (Unicode Standard Annex 9, explicit formatting characters).
pub(super) fn is_obeyed(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && !matches!(c, '\n' | '\t'))
}

#[cfg(test)]
mod tests;
