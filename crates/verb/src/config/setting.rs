//! A setting, declared once: its key in a configuration, its argument on the command line, its kind, its default, its meaning.
//!
//! ```
//! use crate::config::{Setting, integer, path};
//! static SETTINGS: &[Setting] = &[
//!     path("out").or("recording").value("DIR").help("Folder for the traces."),
//!     integer("batch_size", 1, 1024).many().required().short('b').help("Images of a step."),
//! ];
//! assert_eq!(SETTINGS.iter().map(Setting::spelled).collect::<Vec<_>>(), ["--out", "--batch-size"]);
//! ```

use super::kind::Kind;
use super::literal::Value;

/// One setting of a verb of the command line, of a section of a configuration, or of both.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its key in a configuration, by which the program asks for it.
    pub key: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Whether it is a list; a single value stands for a list of one.
    pub many: bool,
    /// What holds where it is not written, or written as `None`.
    pub default: Missing,
    /// What it means, in one sentence.
    pub help: &'static str,
    /// Where it may be written; anywhere if none.
    pub only: Option<Surface>,
    /// How it is written on the command line.
    pub argument: Argument,
}

/// Where settings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// As a key of a section.
    Configuration,
    /// As an argument of a verb.
    CommandLine,
}

/// What holds where a setting is not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// It must be written.
    Required,
    /// There is no value; read as an `Option`.
    Unset,
    /// This literal. `{key}` in it stands for another key of the section, `{section.key}` for one of another section,
    /// each with its own default: `models/pruned/{mode}_pruning`; `{-key}` stands for it with a hyphen before it. A literal that is nothing but `{key}` takes that
    /// key's value whatever its kind. In a list such words stand in quotes.
    Literal(&'static str),
}

/// How a setting is written on the command line.
#[derive(Debug, Clone, Copy)]
pub struct Argument {
    /// With what it begins.
    pub form: Form,
    /// What its value is called in the help; its key if empty.
    pub value: &'static str,
    /// One letter that stands for the flag.
    pub short: Option<char>,
    /// Another spelling of the flag.
    pub alias: Option<&'static str>,
    /// What holds where it is left out, if that is not the default of the key.
    pub default: Option<Missing>,
    /// The value of the flag alone.
    pub alone: Option<&'static str>,
    /// Whether commas part the values of a list, as in `1,8,32`; else the argument is repeated.
    pub commas: bool,
    /// Whether several words may follow the flag.
    pub several: bool,
    /// Words that a shell may complete it with; others are taken too.
    pub known: Option<fn() -> Vec<&'static str>>,
    /// The setting without which it means nothing.
    pub requires: Option<&'static str>,
    /// Settings that contradict it.
    pub conflicts: Conflicts,
    /// The group of settings of which exactly one must be written.
    pub one_of: Option<&'static str>,
}

/// With what an argument begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// With a flag: two dashes and this word, or the key where there is none.
    Flag(Option<&'static str>),
    /// With itself.
    Positional,
    /// Behind two dashes that stand alone: the words of a command.
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

/// `True` or `False`, by default `False`; on the command line a flag without a value.
pub const fn flag(key: &'static str) -> Setting {
    of(key, Kind::Flag).or("False")
}

/// A whole number from `low` to `high`.
pub const fn integer(key: &'static str, low: i64, high: i64) -> Setting {
    of(key, Kind::Integer(low, high))
}

/// A number that is at least `low`.
pub const fn number(key: &'static str, low: f64) -> Setting {
    of(key, Kind::Number(low))
}

/// An amount of memory; in a configuration a number alone has that unit.
pub const fn memory(key: &'static str, unit: &'static str) -> Setting {
    of(key, Kind::Memory(unit))
}

/// A time such as `90s`.
pub const fn time(key: &'static str) -> Setting {
    of(key, Kind::Time).value("TIME")
}

/// Any word.
pub const fn text(key: &'static str) -> Setting {
    of(key, Kind::Text)
}

/// One of some words.
pub const fn word(key: &'static str, words: fn() -> Vec<&'static str>) -> Setting {
    of(key, Kind::Word(words))
}

/// A file or folder.
pub const fn path(key: &'static str) -> Setting {
    of(key, Kind::Path)
}

const fn of(key: &'static str, kind: Kind) -> Setting {
    let argument = Argument {
        form: Form::Flag(None),
        value: "",
        short: None,
        alias: None,
        default: None,
        alone: None,
        commas: !matches!(kind, Kind::Text | Kind::Path),
        several: false,
        known: None,
        requires: None,
        conflicts: Conflicts::With(&[]),
        one_of: None,
    };
    Setting { key, kind, many: false, default: Missing::Unset, help: "", only: None, argument }
}

impl Setting {
    /// It may be given several values.
    pub const fn many(mut self) -> Self {
        self.many = true;
        self
    }

    /// It must be written.
    pub const fn required(mut self) -> Self {
        self.default = Missing::Required;
        self
    }

    /// Its default, as a literal.
    pub const fn or(mut self, literal: &'static str) -> Self {
        self.default = Missing::Literal(literal);
        self
    }

    /// What holds on the command line where it is left out there.
    pub const fn or_on_command_line(mut self, missing: Missing) -> Self {
        self.argument.default = Some(missing);
        self
    }

    /// What it means, in one sentence.
    pub const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    /// Only a configuration holds it.
    pub const fn in_configurations(mut self) -> Self {
        self.only = Some(Surface::Configuration);
        self
    }

    /// Only the command line takes it.
    pub const fn on_command_line(mut self) -> Self {
        self.only = Some(Surface::CommandLine);
        self
    }

    /// What its value is called in the help.
    pub const fn value(mut self, value: &'static str) -> Self {
        self.argument.value = value;
        self
    }

    /// Its flag, without dashes, where that is not the key.
    pub const fn named(mut self, flag: &'static str) -> Self {
        self.argument.form = Form::Flag(Some(flag));
        self
    }

    /// A letter that stands for its flag.
    pub const fn short(mut self, letter: char) -> Self {
        self.argument.short = Some(letter);
        self
    }

    /// Another spelling of its flag.
    pub const fn alias(mut self, flag: &'static str) -> Self {
        self.argument.alias = Some(flag);
        self
    }

    /// It is written without a flag; the help calls it so.
    pub const fn positional(mut self, value: &'static str) -> Self {
        self.argument.form = Form::Positional;
        self.value(value)
    }

    /// It is the words behind two dashes.
    pub const fn command(mut self) -> Self {
        self.argument.form = Form::Command;
        self.many().value("COMMAND")
    }

    /// What its flag says without a value.
    pub const fn alone(mut self, value: &'static str) -> Self {
        self.argument.alone = Some(value);
        self
    }

    /// Commas part its values.
    pub const fn commas(mut self) -> Self {
        self.argument.commas = true;
        self
    }

    /// Several words may follow its flag.
    pub const fn several(mut self) -> Self {
        self.argument.several = true;
        self.many()
    }

    /// Words that a shell may complete it with.
    pub const fn known(mut self, words: fn() -> Vec<&'static str>) -> Self {
        self.argument.known = Some(words);
        self
    }

    /// The setting without which it means nothing.
    pub const fn requires(mut self, key: &'static str) -> Self {
        self.argument.requires = Some(key);
        self
    }

    /// Settings that contradict it.
    pub const fn conflicts(mut self, conflicts: Conflicts) -> Self {
        self.argument.conflicts = conflicts;
        self
    }

    /// The group of settings of which exactly one must be written.
    pub const fn one_of(mut self, group: &'static str) -> Self {
        self.argument.one_of = Some(group);
        self
    }

    /// Whether it may be written there.
    pub fn is_on(&self, surface: Surface) -> bool {
        self.only.is_none_or(|only| only == surface)
    }

    /// What holds where it is not written there.
    pub fn missing(&self, surface: Surface) -> Missing {
        match surface {
            Surface::Configuration => self.default,
            Surface::CommandLine => self.argument.default.unwrap_or(self.default),
        }
    }

    /// The word of its flag; none where it is written without one.
    pub fn flag(&self) -> Option<String> {
        match self.argument.form {
            Form::Flag(named) => Some(named.map_or_else(|| self.key.replace('_', "-"), str::to_owned)),
            Form::Positional | Form::Command => None,
        }
    }

    /// How people find it on the command line: its flag, or what the help calls it.
    pub fn spelled(&self) -> String {
        self.flag().map_or_else(|| self.argument.value.to_owned(), |flag| format!("--{flag}"))
    }

    /// What is expected, for people.
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

    /// Whether an empty list says something: that there are no values, as the default does, or no folders to look into.
    pub(super) fn may_be_empty(&self) -> bool {
        let unset = matches!(self.default, Missing::Unset | Missing::Literal("[]"));
        unset || (self.many && matches!(self.kind, Kind::Path))
    }

    /// What of a value does not fit: the first wrong item of a list, else the value.
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

    /// What a word of the command line says; a list of numbers may also be written as in a configuration: `[1,8]`.
    ///
    /// # Errors
    /// What is wrong with it, in a sentence.
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
