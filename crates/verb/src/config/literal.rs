//! Values as Python writes them: `True`, `None`, numbers, quoted or bare words, lists; read and written.

use perf4sight_base::error::{Error, Result};
use std::fmt;
use std::path::PathBuf;

/// Lists inside lists deeper than this are refused rather than followed.
const MAX_DEPTH: usize = 32;

/// One value of a key. Tuples are read as lists.
///
/// ```
/// use perf4sight_verb::config::Value;
/// let value = Value::parse("['resnet18', 30, True]").unwrap();
/// assert_eq!(value, Value::List(vec![Value::Text("resnet18".into()), Value::Integer(30), Value::Flag(true)]));
/// assert_eq!(value.to_string(), "['resnet18', 30, True]");
/// // What is no other literal is a word, as in `device= 2080ti`.
/// assert_eq!(Value::parse("2080ti").unwrap(), Value::Text("2080ti".into()));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `None`, or nothing after the equals sign.
    None,
    /// `True` or `False`.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Number(f64),
    /// A word or a quoted string.
    Text(String),
    /// A path of the command line, which need not be text.
    Path(PathBuf),
    /// `[a, b]`.
    List(Vec<Value>),
}

impl Value {
    /// Reads one literal.
    ///
    /// # Errors
    /// Unbalanced brackets or quotes, missing commas, dictionaries. The error has no place yet.
    pub fn parse(text: &str) -> Result<Value> {
        let text = text.trim();
        if !text.starts_with(['[', '(', '{', '\'', '"']) {
            return Ok(parse_bare(text));
        }
        let mut reader = LiteralReader { rest: text };
        let value = reader.value(0)?;
        match reader.rest.trim_start() {
            "" => Ok(value),
            rest => Err(malformed(format!("\"{rest}\" follows a complete value"))),
        }
    }
}

/// A word without quotes: a constant or number where it reads as one, else text.
pub(super) fn parse_bare(word: &str) -> Value {
    match word {
        "" | "None" => Value::None,
        "True" => Value::Flag(true),
        "False" => Value::Flag(false),
        _ => number(word).unwrap_or_else(|| Value::Text(word.to_string())),
    }
}

fn number(word: &str) -> Option<Value> {
    if let Ok(integer) = word.parse() {
        return Some(Value::Integer(integer));
    }
    // Rust also reads "inf" and "nan", which in a configuration are words.
    let numeric = word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    word.parse().ok().filter(|number: &f64| numeric && number.is_finite()).map(Value::Number)
}

fn malformed(problem: String) -> Error {
    Error::config(problem)
        .expected("a Python literal: True, False, None, a number, a word, 'text' or a list such as [1, 2]")
}

struct LiteralReader<'a> {
    rest: &'a str,
}

impl LiteralReader<'_> {
    fn value(&mut self, depth: usize) -> Result<Value> {
        self.rest = self.rest.trim_start();
        match self.rest.chars().next() {
            _ if depth > MAX_DEPTH => Err(malformed(format!("lists nested more than {MAX_DEPTH} deep"))),
            Some('[') => self.list(']', depth),
            Some('(') => self.list(')', depth),
            Some('{') => Err(malformed("dictionaries are not understood here".to_string())),
            Some(quote @ ('\'' | '"')) => self.quoted(quote),
            _ => self.word(),
        }
    }

    fn list(&mut self, close: char, depth: usize) -> Result<Value> {
        self.rest = &self.rest[1..];
        let mut items = Vec::new();
        while !self.take(close) {
            items.push(self.value(depth + 1)?);
            if !self.take(',') && !self.rest.starts_with(close) {
                return Err(malformed(match self.rest {
                    "" => format!("a list without its closing \"{close}\""),
                    rest => format!("a comma is missing before \"{rest}\""),
                }));
            }
        }
        Ok(Value::List(items))
    }

    fn take(&mut self, wanted: char) -> bool {
        self.rest = self.rest.trim_start();
        let after = self.rest.strip_prefix(wanted);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn quoted(&mut self, quote: char) -> Result<Value> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => text.push_str(&escaped(characters.next().map(|(_, escape)| escape))),
                _ if character == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(Value::Text(text));
                }
                _ => text.push(character),
            }
        }
        Err(malformed(format!("a string without its closing {quote}")))
    }

    fn word(&mut self) -> Result<Value> {
        let end = self.rest.find([',', ']', ')', '[', '(', '\'', '"']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if word.trim().is_empty() {
            return Err(malformed("a value is missing in a list".to_string()));
        }
        self.rest = rest;
        Ok(parse_bare(word.trim()))
    }
}

/// The character of an escape sequence, without its backslash; unknown escapes stay as written, as in Python.
fn escaped(character: Option<char>) -> String {
    match character {
        Some('n') => "\n".to_string(),
        Some('t') => "\t".to_string(),
        Some(itself @ ('\\' | '\'' | '"')) => itself.to_string(),
        Some(other) => format!("\\{other}"),
        None => "\\".to_string(),
    }
}

impl fmt::Display for Value {
    /// The literal Python's `repr` would write.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::None => write!(f, "None"),
            Value::Flag(flag) => write!(f, "{}", if *flag { "True" } else { "False" }),
            Value::Integer(integer) => write!(f, "{integer}"),
            Value::Number(number) => write!(f, "{number:?}"),
            Value::Text(text) => write!(f, "'{}'", quotable(text)),
            Value::Path(path) => write!(f, "'{}'", quotable(&path.to_string_lossy())),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(Value::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
        }
    }
}

fn quotable(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n").replace('\t', "\\t")
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Flag(flag)
    }
}

impl From<i64> for Value {
    fn from(integer: i64) -> Self {
        Value::Integer(integer)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Text(text.to_string())
    }
}

impl<T: Into<Value>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Value::List(items.into_iter().map(Into::into).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Value {
        Value::parse(text).unwrap()
    }

    #[test]
    fn constants_numbers_and_words() {
        assert_eq!(read("True"), Value::Flag(true));
        assert_eq!(read("None"), Value::None);
        assert_eq!(read(""), Value::None);
        assert_eq!(read("-7"), Value::Integer(-7));
        assert_eq!(read("1e-3"), Value::Number(0.001));
        assert_eq!(read(".5"), Value::Number(0.5));
        for word in ["2080ti", "resnet18", "inf", "nan", "true", "1_000", "models/imagenet", "99999999999999999999x"] {
            assert_eq!(read(word), Value::Text(word.to_string()));
        }
    }

    #[test]
    fn lists_nest_and_may_end_in_a_comma() {
        assert_eq!(read("[]"), Value::List(vec![]));
        assert_eq!(read("[1, 2,]"), [1, 2].into_iter().collect());
        assert_eq!(read("(1, 2)"), read("[1,2]"));
        assert_eq!(read("[[1], ['a', b]]").to_string(), "[[1], ['a', 'b']]");
        assert_eq!(read("[training, inference]").to_string(), "['training', 'inference']");
    }

    #[test]
    fn strings_keep_what_they_hold() {
        assert_eq!(read(r#""a, ] 'b'""#), Value::Text("a, ] 'b'".to_string()));
        assert_eq!(read(r"'it\'s'"), Value::Text("it's".to_string()));
        assert_eq!(read("'ä'"), Value::Text("ä".to_string()));
    }

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["it's", r"C:\new\", "a\tb\nc", "\\'", "", "True", "5"] {
            let value = Value::from(text);
            assert_eq!(read(&value.to_string()), value);
        }
        for number in [0.1, 1e300, -2.0, 5e-324] {
            assert_eq!(read(&Value::Number(number).to_string()), Value::Number(number));
        }
    }

    #[test]
    fn malformed_values_are_refused() {
        let nested = "[".repeat(100_000);
        for text in ["[1", "[1 [2]", "[1,,2]", "'open", "{'a': 1}", "[1] 2", "[1)", "'a' 'b'", "[,]", nested.as_str()] {
            assert!(Value::parse(text).is_err(), "{text} was read");
        }
    }
}
