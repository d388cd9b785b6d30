//! The checked values of one section, defaults filled in, handed out as Rust types.

use super::document::{Document, Entry, Origin, SectionText};
use super::from_value::FromValue;
use super::key::{Key, Kind, Missing, Table};
use super::literal::Value;
use perf4sight_base::error::{Error, Result, suggestion};
use std::fmt::Display;
use std::time::Duration;

/// The values of one section by the keys of its table.
///
/// ```
/// use crate::config::{Document, Key, Kind, Missing, Table, Values};
/// static PROFILE: Table = Table {
///     section: "profile",
///     about: "measures",
///     keys: &[
///         Key { name: "bs", kind: Kind::List(&Kind::Integer(1, i64::MAX)), default: Missing::Required, help: "sizes" },
///         Key { name: "device", kind: Kind::Text, default: Missing::Literal("cpu"), help: "device" },
///         Key { name: "log_dir", kind: Kind::Path, default: Missing::Literal("logs/{device}"), help: "folder" },
///     ],
/// };
/// let document = Document::parse("[profile]\nbs= [2, 8]\n", "config.ini").unwrap();
/// let values = Values::check(&document, &document.sections()[0], &PROFILE, &[]).unwrap();
/// assert_eq!(values.get::<Vec<usize>>("bs").unwrap(), [2, 8]);
/// assert_eq!(values.get::<String>("log_dir").unwrap(), "logs/cpu");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Values<'a> {
    document: &'a Document,
    section: Option<&'a SectionText>,
    table: &'a Table,
    others: &'a [&'a Table],
}

impl<'a> Values<'a> {
    /// Checks a section against its table. Defaults may refer to the keys of the `others` tables.
    ///
    /// # Errors
    /// A key the table does not name (the nearest is suggested), a value of another kind, an empty list where the default is none, a
    /// required key that is missing; each with file and line.
    pub fn check(
        document: &'a Document,
        section: &'a SectionText,
        table: &'a Table,
        others: &'a [&'a Table],
    ) -> Result<Values<'a>> {
        let values = Values { document, section: Some(section), table, others };
        section.entries.iter().try_for_each(|entry| values.check_entry(entry))?;
        table.keys.iter().try_for_each(|key| values.check_present(key))?;
        Ok(values)
    }

    fn check_entry(&self, entry: &Entry) -> Result<()> {
        let Some(key) = self.table.key(&entry.key) else {
            let help = suggestion(&entry.key, self.table.keys.iter().map(|key| key.name));
            return Err(self.error(&entry.key, "no such key in this section").help(help));
        };
        if entry.value == Value::List(Vec::new()) && !key.may_be_empty() {
            let none = self
                .error(key.name, "the list is empty")
                .expected(format!("at least one value: {}", key.kind.expected()));
            return Err(none.help(format!("{}: {}", key.name, key.help)));
        }
        if entry.value == Value::None || key.kind.admits(&entry.value) {
            return Ok(());
        }
        let problem = match &entry.value {
            list @ Value::List(_) if !matches!(key.kind, Kind::List(_)) => format!("{list} is a list"),
            other => format!("{} does not fit", key.kind.wrong_part(other)),
        };
        let error = self.error(key.name, problem).expected(key.kind.expected());
        Err(match key.kind.remedy(&entry.value) {
            Some(remedy) => error.help(remedy),
            None => error,
        })
    }

    fn check_present(&self, key: &Key) -> Result<()> {
        match key.default {
            Missing::Required if self.value(key.name)? == Value::None => Err(self
                .error(key.name, "this key is required")
                .expected(key.kind.expected())
                .help(format!("{}: {}", key.name, key.help))),
            _ => Ok(()),
        }
    }

    /// The value of a key as a Rust type: `bool`, integers, `f64`, `String`, `PathBuf`, `Vec` of them (a single value is
    /// a list of one), `Option` where there may be none.
    ///
    /// # Errors
    /// The value does not fit the type, or the table has no such key.
    pub fn get<T: FromValue>(&self, key: &str) -> Result<T> {
        let value = self.value(key)?;
        T::from_value(&value).ok_or_else(|| {
            let expected = self.table.key(key).map_or(String::new(), |key| key.kind.expected());
            self.error(key, format!("{value} does not fit")).expected(expected)
        })
    }

    /// A word that names a folder.
    ///
    /// # Errors
    /// One that names none, or one elsewhere.
    pub fn folder_name(&self, key: &str) -> Result<String> {
        let name: String = self.get(key)?;
        match name.is_empty() || name.starts_with('.') || name.contains('/') || name.contains(char::is_control) {
            true => Err(self.error(key, format!("\"{name}\" cannot name a folder")).expected("a word without slashes")),
            false => Ok(name),
        }
    }

    /// The word of a key, turned into what it names: `values.named("stage", Stage::parse)`.
    ///
    /// # Errors
    /// What `parse` refuses, with the place of the key.
    pub fn named<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T>) -> Result<T> {
        parse(&self.get::<String>(key)?).map_err(|error| self.placed(key, error))
    }

    /// The same of a key that may be unset.
    ///
    /// # Errors
    /// See [`Values::named`].
    pub fn named_if_set<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T>) -> Result<Option<T>> {
        let set = self.get::<Option<String>>(key)?.is_some();
        set.then(|| self.named(key, parse)).transpose()
    }

    /// A number of seconds.
    ///
    /// # Errors
    /// More of them than a clock counts; see [`Values::get`].
    pub fn seconds(&self, key: &str) -> Result<Duration> {
        let seconds: f64 = self.get(key)?;
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| self.error(key, format!("{seconds} s is too long to wait")).expected("seconds"))
    }

    /// A command as its words: one value is split at blanks, a list is taken as it is, so that words may hold blanks; none where it is unset.
    ///
    /// # Errors
    /// See [`Values::get`].
    pub fn command(&self, key: &str) -> Result<Vec<String>> {
        let command: Vec<String> = self.get::<Option<Vec<String>>>(key)?.unwrap_or_default();
        Ok(match command.as_slice() {
            [line] => line.split_whitespace().map(str::to_owned).collect(),
            _ => command,
        })
    }

    /// The words of a list, each turned into what it names.
    ///
    /// # Errors
    /// What `parse` refuses, with the place of the key.
    pub fn each<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
        let words: Vec<String> = self.get(key)?;
        words.iter().map(|word| parse(word).map_err(|error| self.placed(key, error))).collect()
    }

    /// An error about a key, with its place.
    pub fn error(&self, key: &str, problem: impl Display) -> Error {
        self.placed(key, Error::config(format!("[{}] {key}: {problem}", self.table.section)))
    }

    /// Any error, placed where a key is written, or at its section where it is not.
    pub fn placed(&self, key: &str, error: Error) -> Error {
        let error = error.configured();
        match self.section.and_then(|section| section.entry(key)).map(|entry| &entry.origin) {
            Some(Origin::Override(text)) => error.file(text),
            Some(Origin::Line(line)) => error.file(self.document.file()).line(*line),
            None => {
                let error = error.file(self.document.file());
                self.section.map(|section| section.line).into_iter().fold(error, Error::line)
            }
        }
    }

    /// Whether the configuration gives a key a value, instead of leaving it to the default.
    pub fn writes(&self, key: &str) -> bool {
        self.written(key).is_some()
    }

    fn written(&self, key: &str) -> Option<&Value> {
        let written = self.section.and_then(|section| section.entry(key)).map(|entry| &entry.value);
        written.filter(|value| **value != Value::None)
    }

    /// The value as written, or its default with everything it refers to filled in.
    fn value(&self, name: &str) -> Result<Value> {
        if let Some(value) = self.written(name) {
            return Ok(value.clone());
        }
        let unknown = || Error::config(format!("no table has the key [{}] {name}", self.table.section));
        match self.table.key(name).ok_or_else(unknown)?.default {
            Missing::Required | Missing::Unset => Ok(Value::None),
            // A bare value that starts with a reference would read as a dictionary.
            Missing::Literal(text) if text.starts_with('{') => self.filled_in(Value::from(text)),
            Missing::Literal(literal) => self.filled_in(Value::parse(literal)?),
        }
    }

    fn filled_in(&self, template: Value) -> Result<Value> {
        match template {
            Value::Text(text) => match text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                Some(reference) if !reference.contains('{') => self.referred(reference),
                _ => self.filled_text(&text).map(Value::Text),
            },
            Value::List(items) => {
                Ok(Value::List(items.into_iter().map(|item| self.filled_in(item)).collect::<Result<_>>()?))
            }
            constant => Ok(constant),
        }
    }

    fn filled_text(&self, text: &str) -> Result<String> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, (reference, after))) =
            rest.split_once('{').and_then(|(before, inner)| Some((before, inner.split_once('}')?)))
        {
            filled.push_str(before);
            filled.push_str(&self.word_of(reference)?);
            rest = after;
        }
        Ok(filled + rest)
    }

    /// The word a `{key}` stands for, a hyphen before it where it is written `{-key}`; nothing where there is no value.
    fn word_of(&self, reference: &str) -> Result<String> {
        let (before, key) = reference.strip_prefix('-').map_or(("", reference), |key| ("-", key));
        let word = String::from_value(&self.referred(key)?);
        Ok(word.map_or(String::new(), |word| format!("{before}{word}")))
    }

    /// The value a `{key}` or `{section.key}` stands for.
    fn referred(&self, reference: &str) -> Result<Value> {
        let Some((name, key)) = reference.split_once('.') else {
            return self.value(reference);
        };
        let unknown = || Error::config(format!("no table describes the section [{name}]"));
        let table = self.others.iter().find(|table| table.section == name).ok_or_else(unknown)?;
        Values { section: self.document.section(name), table, ..*self }.value(key)
    }
}
