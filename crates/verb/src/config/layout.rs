//! The lines of an INI file in the layout of the published files: fold marks, comments, lists over several lines.

use perf4sight_base::error::{Error, Result};

/// A section header or an assignment without its comments, on one line, and where it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfigStatement {
    pub text: String,
    pub line: usize,
}

/// Converts text that rust-ini would refuse or misread into the form it reads: one statement per line, nothing else.
///
/// Editors' fold marks (`#{{{`, `#}}}`) are comments, also behind a section header. In a bare value a comment starts
/// at a `#` after white space, so that `a#b` stays one word.
pub(super) fn statements(source: &str) -> Result<Vec<ConfigStatement>> {
    let mut lines = source.trim_start_matches('\u{feff}').lines().enumerate().map(|(index, text)| (index + 1, text));
    let mut statements = Vec::new();
    while let Some((line, text)) = lines.next() {
        let text = text.trim();
        if text.is_empty() || text.starts_with(['#', ';']) {
            continue;
        }
        let text = match text.starts_with('[') {
            true => header(text),
            false => assignment(text, &mut lines.by_ref().map(|(_, text)| text)),
        };
        statements.push(ConfigStatement { text: text.map_err(|error| error.line(line))?, line });
    }
    Ok(statements)
}

fn header(text: &str) -> Result<String> {
    let malformed = |problem: &str| Error::config(format!("{problem}: {text}")).expected("[section]");
    let (header, rest) = text.split_once(']').ok_or_else(|| malformed("a section header without its \"]\""))?;
    match rest.trim_start() {
        "" => Ok(format!("{header}]")),
        rest if rest.starts_with(['#', ';']) => Ok(format!("{header}]")),
        _ => Err(malformed("text behind a section header")),
    }
}

fn assignment<'a>(text: &'a str, following: &mut impl Iterator<Item = &'a str>) -> Result<String> {
    let Some((key, value)) = text.split_once(['=', ':']).filter(|(key, _)| !key.trim().is_empty()) else {
        return Err(Error::config(format!("neither a section header nor an assignment: {text}"))
            .expected("key = value")
            .help("a comment starts with #; a list may go on over several lines until its closing bracket"));
    };
    let value = value.trim_start();
    let value = match value.chars().next() {
        Some('[' | '(') => literal(value, following)?,
        Some('\'' | '"') => literal(value, &mut std::iter::empty())?,
        _ => without_comment(value).to_string(),
    };
    if value.ends_with('\\') {
        // rust-ini would take the next line for the rest of this one.
        return Err(Error::config(format!("{} ends in a backslash", key.trim())).help("put the value in quotes"));
    }
    Ok(format!("{} = {value}", key.trim()))
}

fn without_comment(bare: &str) -> &str {
    let comment = bare.match_indices('#').find(|(at, _)| bare[..*at].ends_with(char::is_whitespace) || *at == 0);
    comment.map_or(bare, |(at, _)| &bare[..at]).trim_end()
}

/// A list or string, with as many of the following lines as its brackets need.
fn literal<'a>(first: &'a str, following: &mut impl Iterator<Item = &'a str>) -> Result<String> {
    let mut scan = BracketScan::default();
    let mut value = scan.line(first).to_string();
    while scan.depth > 0 {
        let Some(line) = following.next() else {
            return Err(Error::config("the list that starts here is never closed").expected("a closing bracket"));
        };
        value.push(' ');
        value.push_str(scan.line(line.trim()));
    }
    Ok(value)
}

/// How many brackets are open.
#[derive(Default)]
struct BracketScan {
    depth: usize,
}

impl BracketScan {
    /// The line without its comment. Strings end with their line at the latest.
    fn line<'a>(&mut self, line: &'a str) -> &'a str {
        let mut quote = None;
        let mut characters = line.char_indices();
        while let Some((at, character)) = characters.next() {
            match (quote, character) {
                (Some(_), '\\') => drop(characters.next()),
                (Some(open), _) if open == character => quote = None,
                (Some(_), _) => {}
                (None, '\'' | '"') => quote = Some(character),
                (None, '[' | '(') => self.depth += 1,
                (None, ']' | ')') => self.depth = self.depth.saturating_sub(1),
                (None, '#') => return line[..at].trim_end(),
                (None, _) => {}
            }
        }
        line.trim_end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(source: &str) -> Vec<(usize, String)> {
        statements(source).unwrap().into_iter().map(|s| (s.line, s.text)).collect()
    }

    #[test]
    fn fold_marks_and_comments_vanish_wherever_they_stand() {
        let source = "\u{feff}#{{{\n[profile] #{{{\n; old\n  bs= [1, # small\n\n    2] #}}}\r\nlog_dir = a#b # c\n#}}}";
        let expected = [(2, "[profile]"), (4, "bs = [1,  2]"), (7, "log_dir = a#b")];
        assert_eq!(laid_out(source), expected.map(|(line, text)| (line, text.to_string())));
    }

    #[test]
    fn a_hash_inside_quotes_is_text() {
        assert_eq!(laid_out("k = ['a #b', \"c]\"] # d"), [(1, "k = ['a #b', \"c]\"]".to_string())]);
    }

    #[test]
    fn malformed_lines_are_told_with_their_number() {
        for (source, place) in [("[a]\nnonsense", "2: "), ("[a", "1: "), ("[a] b", "1: "), ("\n\nk = [1,\n2", "3: ")] {
            let error = statements(source).unwrap_err().file("f").to_string();
            assert!(error.starts_with(&format!("f:{place}")), "{error}");
        }
        assert!(statements("[a]\nk = C:\\dir\\\nl = 1").is_err());
    }
}
