//! A setting, declared once: its key in a configuration, its argument on the command line, its kind, its default, its meaning.

use super::kind::ValueKind;
use super::literal::Value;

/// One setting of a verb of the command line, of a section of a configuration, or of both.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its key in a configuration, by which the program asks for it.
    pub key: &'static str,
    /// The kind of its values.
    pub kind: ValueKind,
    /// Whether it is a list; a single value is a list of one.
    pub many: bool,
    /// The default, where it is not written, or written as `None`.
    pub default: DefaultValue,
    /// Its meaning, in one sentence.
    pub help: &'static str,
    /// Where it may be written; anywhere if none.
    pub only: Option<Surface>,
    /// How it is written on the command line.
    pub argument: ArgumentSpec,
}

/// Where settings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// As a key of a section.
    Configuration,
    /// As an argument of a verb.
    CommandLine,
}

/// The default of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultValue {
    /// It must be written.
    Required,
    /// There is no value; read as an `Option`.
    Unset,
    /// This literal. `{key}` in it is replaced by another key of the section, `{section.key}` by one of another
    /// section, each with its own default: `models/pruned/{mode}_pruning`; `{-key}` is the same with a hyphen before
    /// it. A literal that is nothing but `{key}` takes that key's value whatever its kind. In a list such words are in
    /// quotes.
    Literal(&'static str),
}

/// How a setting is written on the command line.
#[derive(Debug, Clone, Copy)]
pub struct ArgumentSpec {
    /// The form of the argument.
    pub form: ArgumentForm,
    /// The name of its value in the help; its key if empty.
    pub value: &'static str,
    /// A short flag of one letter.
    pub short: Option<char>,
    /// Another spelling of the flag.
    pub alias: Option<&'static str>,
    /// The default on the command line, if it differs from that of the key.
    pub default: Option<DefaultValue>,
    /// The value of the flag alone.
    pub alone: Option<&'static str>,
    /// Whether commas separate the values of a list, as in `1,8,32`; otherwise the argument is repeated.
    pub commas: bool,
    /// Whether several words may follow the flag.
    pub several: bool,
    /// Words that a shell may complete it with; others are taken too.
    pub known: Option<fn() -> Vec<&'static str>>,
    /// The setting without which it means nothing.
    pub requires: Option<&'static str>,
    /// Settings that contradict it.
    pub conflicts: Conflicts,
    /// The group of settings, exactly one of which must be written.
    pub one_of: Option<&'static str>,
    /// The variable of the environment that counts where the argument is not written.
    pub environment: Option<&'static str>,
}

/// The form of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentForm {
    /// With a flag: two dashes and this word, or the key where there is none.
    Flag(Option<&'static str>),
    /// With itself.
    Positional,
    /// After two dashes on their own: the words of a command.
    Command,
}

/// Settings that contradict one.
#[derive(Debug, Clone, Copy)]
pub enum Conflicts {
    /// These.
    With(&'static [&'static str]),
    /// All of the verb but these.
    WithAllBut(&'static [&'static str]),
}

impl Setting {
    /// Whether it may be written there.
    pub fn is_on(&self, surface: Surface) -> bool {
        self.only.is_none_or(|only| only == surface)
    }

    /// The default on that surface.
    pub fn missing(&self, surface: Surface) -> DefaultValue {
        match surface {
            Surface::Configuration => self.default,
            Surface::CommandLine => self.argument.default.unwrap_or(self.default),
        }
    }

    /// Whether another setting of the same table contradicts it.
    pub fn contradicts(&self, other: &Setting) -> bool {
        match self.argument.conflicts {
            Conflicts::With(keys) => keys.contains(&other.key),
            Conflicts::WithAllBut(keys) => other.key != self.key && !keys.contains(&other.key),
        }
    }

    /// The word of its flag; none where it is written without one.
    pub fn flag(&self) -> Option<String> {
        match self.argument.form {
            ArgumentForm::Flag(named) => Some(named.map_or_else(|| self.key.replace('_', "-"), str::to_owned)),
            ArgumentForm::Positional | ArgumentForm::Command => None,
        }
    }

    /// Its name on the command line: its flag, or its name in the help.
    pub fn spelling(&self) -> String {
        self.flag().map_or_else(|| self.argument.value.to_owned(), |flag| format!("--{flag}"))
    }

    /// A description of the expected value, for people.
    pub fn expected(&self) -> String {
        match self.many {
            true => format!("a list such as [a, b], each item {}", self.kind.expected()),
            false => self.kind.expected(),
        }
    }

    /// Whether a value fits.
    pub fn admits(&self, value: &Value) -> bool {
        match value {
            Value::List(items) if self.many => items.iter().all(|item| self.kind.admits(item)),
            value => self.kind.admits(value),
        }
    }

    /// Whether an empty list is meaningful: no values, like the default, or no folders to search.
    pub(super) fn may_be_empty(&self) -> bool {
        let unset = matches!(self.default, DefaultValue::Unset | DefaultValue::Literal("[]"));
        unset || (self.many && matches!(self.kind, ValueKind::Path))
    }

    /// The invalid part of a value: the first wrong item of a list, else the value.
    pub(super) fn wrong_part<'v>(&self, value: &'v Value) -> &'v Value {
        match value {
            Value::List(items) if self.many => items.iter().find(|item| !self.kind.admits(item)).unwrap_or(value),
            _ => value,
        }
    }

    /// A value as the program reads it.
    pub(super) fn canonical(&self, value: Value) -> Value {
        match value {
            Value::List(items) => Value::List(items.into_iter().map(|item| self.kind.canonical(item)).collect()),
            value => self.kind.canonical(value),
        }
    }

    /// Parses a word of the command line; a list of numbers may also be written as in a configuration: `[1,8]`.
    ///
    /// # Errors
    /// The problem, in a sentence.
    pub fn read(&self, word: &str) -> Result<Value, String> {
        if !(self.many && self.argument.commas) {
            return self.kind.read(word);
        }
        let word = word.trim();
        let inner = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')).unwrap_or(word);
        let inner = inner.trim().trim_end_matches(',');
        if inner.is_empty() {
            return Err(format!("there is no value in it; expected {}", self.kind.expected()));
        }
        inner.split(',').map(|item| self.kind.read(item.trim())).collect::<Result<_, _>>().map(Value::List)
    }
}
