//! The keys a section may hold, as data: names, kinds, defaults, meanings.

use super::from_value::FromValue;
use super::literal::Value;
use perf4sight_base::error::nearest;
use perf4sight_base::units::Bytes;

/// The keys of one section.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// The name between the brackets.
    pub section: &'static str,
    /// What the section does, in one line.
    pub about: &'static str,
    /// Its keys, in the order they are documented.
    pub keys: &'static [Key],
}

/// One key of a section.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name in the file.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// What holds where it is not written, or written as `None`.
    pub default: Missing,
    /// What it means, in one sentence.
    pub help: &'static str,
}

/// What values a key takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// `True` or `False`.
    Flag,
    /// A whole number between the two, both included.
    Integer(i64, i64),
    /// A number that is at least the given one.
    Number(f64),
    /// An amount of memory, at least a MiB: a number of MiB, or with its unit.
    Memory,
    /// Any word.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A file or folder, relative to the current directory; a leading `~` is refused, for nothing would expand it.
    Path,
    /// A list; a single value stands for a list of one.
    List(&'static Kind),
}

/// What holds where a key is not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The key must be written.
    Required,
    /// There is no value; read as an `Option`.
    Unset,
    /// This literal. `{key}` in it stands for another key of the section, `{section.key}` for one of another section,
    /// each with its own default: `models/pruned/{mode}_pruning`; `{-key}` stands for it with a hyphen before it. A literal that is nothing but `{key}` takes that
    /// key's value whatever its kind. In a list such words stand in quotes.
    Literal(&'static str),
}

impl Key {
    /// Whether an empty list says something: that there are no values, as the default does, or no folders to look into.
    pub(super) fn may_be_empty(&self) -> bool {
        let unset = matches!(self.default, Missing::Unset | Missing::Literal("[]"));
        unset || matches!(self.kind, Kind::List(Kind::Path))
    }
}

impl Table {
    /// The key of that name.
    pub fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl Kind {
    /// What is expected, for people.
    pub fn expected(&self) -> String {
        match self {
            Kind::Flag => "True or False".to_string(),
            Kind::Integer(low, i64::MAX) => format!("a whole number, {low} or more"),
            Kind::Integer(low, high) => format!("a whole number from {low} to {high}"),
            Kind::Number(low) => format!("a number, {low} or more"),
            Kind::Memory => "an amount of memory such as 8GiB or '1300 MiB'; a number alone is MiB".to_string(),
            Kind::Text => "a word".to_string(),
            Kind::Word(words) => words.join(" or "),
            Kind::Path => "a path".to_string(),
            Kind::List(of) => format!("a list such as [a, b], each item {}", of.expected()),
        }
    }

    /// An example of a right value close to a wrong one.
    pub(super) fn remedy(&self, wrong: &Value) -> Option<String> {
        match (self, wrong) {
            (Kind::Path, Value::Text(path)) if path.starts_with('~') => Some("write the folder in full".to_string()),
            (Kind::Flag, Value::Text(word)) => suggest(word, &["True", "False"]),
            (Kind::Word(words), Value::Text(word)) => suggest(word, words),
            (Kind::List(of), _) => of.remedy(self.wrong_part(wrong)),
            (of, Value::List(items)) => {
                items.first().filter(|item| of.admits(item)).map(|item| format!("write one value such as {item}"))
            }
            _ => None,
        }
    }

    /// What of a value is not of this kind: the first wrong item of a list, else the value.
    pub(super) fn wrong_part<'v>(&self, value: &'v Value) -> &'v Value {
        match (self, value) {
            (Kind::List(of), Value::List(items)) => items.iter().find(|item| !of.admits(item)).unwrap_or(value),
            _ => value,
        }
    }

    /// Whether a value is of this kind.
    pub fn admits(&self, value: &Value) -> bool {
        match (self, value) {
            (Kind::List(of), Value::List(items)) => items.iter().all(|item| of.admits(item)),
            (Kind::List(of), value) => of.admits(value),
            (Kind::Flag, Value::Flag(_)) => true,
            (Kind::Integer(low, high), Value::Integer(integer)) => (low..=high).contains(&integer),
            (Kind::Number(low), Value::Integer(integer)) => *integer as f64 >= *low,
            (Kind::Number(low), Value::Number(number)) => number >= low && number.is_finite(),
            (Kind::Memory, value) => Bytes::from_value(value).is_some(),
            (Kind::Word(words), Value::Text(word)) => words.contains(&word.as_str()),
            (Kind::Path, Value::Text(path)) => !path.starts_with('~') && !path.is_empty(),
            // A device may be called 2080: what reads as a number is a word where a word is wanted.
            (Kind::Text | Kind::Path, Value::Text(_) | Value::Integer(_) | Value::Number(_)) => true,
            _ => false,
        }
    }
}

fn suggest(word: &str, known: &[&str]) -> Option<String> {
    nearest(word, known.iter().copied()).map(|name| format!("did you mean {name}?"))
}
