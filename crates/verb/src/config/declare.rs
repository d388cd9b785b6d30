//! Declares settings: their kind of value first, then their other properties.
//!
//! ```
//! use perf4sight_verb::config::{Setting, integer, path};
//! static SETTINGS: &[Setting] = &[
//!     path("out").or_default("recording").value("DIR").help("Folder for the traces."),
//!     integer("batch_size", 1, 1024).many_values().required().short('b').help("Images of a step."),
//! ];
//! assert_eq!(SETTINGS.iter().map(Setting::spelling).collect::<Vec<_>>(), ["--out", "--batch-size"]);
//! ```

use super::kind::ValueKind;
use super::setting::{ArgumentForm, ArgumentSpec, Conflicts, DefaultValue, Setting, Surface};

/// `True` or `False`, by default `False`; on the command line a flag without a value.
pub const fn flag(key: &'static str) -> Setting {
    setting(key, ValueKind::Flag).or_default("False")
}

/// A whole number from `low` to `high`.
pub const fn integer(key: &'static str, low: i64, high: i64) -> Setting {
    setting(key, ValueKind::Integer(low, high))
}

/// A number that is at least `low`.
pub const fn number(key: &'static str, low: f64) -> Setting {
    setting(key, ValueKind::Number(low))
}

/// An amount of memory; in a configuration a number alone has that unit.
pub const fn memory(key: &'static str, unit: &'static str) -> Setting {
    setting(key, ValueKind::Memory(unit))
}

/// A time such as `90s`.
pub const fn time(key: &'static str) -> Setting {
    setting(key, ValueKind::Time).value("TIME")
}

/// Any word.
pub const fn text(key: &'static str) -> Setting {
    setting(key, ValueKind::Text)
}

/// One of some words.
pub const fn word(key: &'static str, words: fn() -> Vec<&'static str>) -> Setting {
    setting(key, ValueKind::Word(words))
}

/// A file or folder.
pub const fn path(key: &'static str) -> Setting {
    setting(key, ValueKind::Path)
}

const fn setting(key: &'static str, kind: ValueKind) -> Setting {
    let argument = ArgumentSpec {
        form: ArgumentForm::Flag(None),
        value: "",
        short: None,
        alias: None,
        default: None,
        alone: None,
        commas: !matches!(kind, ValueKind::Text | ValueKind::Path),
        several: false,
        known: None,
        requires: None,
        conflicts: Conflicts::With(&[]),
        one_of: None,
        environment: None,
    };
    Setting { key, kind, many: false, default: DefaultValue::Unset, help: "", only: None, argument }
}

impl Setting {
    /// A variable of the environment counts where the argument is not written.
    pub const fn environment(mut self, variable: &'static str) -> Self {
        self.argument.environment = Some(variable);
        self
    }

    /// It may be given several values.
    pub const fn many_values(mut self) -> Self {
        self.many = true;
        self
    }

    /// It must be written.
    pub const fn required(mut self) -> Self {
        self.default = DefaultValue::Required;
        self
    }

    /// Its default, as a literal.
    pub const fn or_default(mut self, literal: &'static str) -> Self {
        self.default = DefaultValue::Literal(literal);
        self
    }

    /// Sets the default on the command line.
    pub const fn or_on_command_line(mut self, missing: DefaultValue) -> Self {
        self.argument.default = Some(missing);
        self
    }

    /// Sets its meaning, in one sentence.
    pub const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    /// Only a configuration holds it.
    pub const fn in_configurations(mut self) -> Self {
        self.only = Some(Surface::Configuration);
        self
    }

    /// Marks it as a setting of the command line only.
    pub const fn on_command_line(mut self) -> Self {
        self.only = Some(Surface::CommandLine);
        self
    }

    /// Sets the name of its value in the help.
    pub const fn value(mut self, value: &'static str) -> Self {
        self.argument.value = value;
        self
    }

    /// Its flag, without dashes, where that is not the key.
    pub const fn with_flag(mut self, flag: &'static str) -> Self {
        self.argument.form = ArgumentForm::Flag(Some(flag));
        self
    }

    /// A short flag of one letter.
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
        self.argument.form = ArgumentForm::Positional;
        self.value(value)
    }

    /// Marks it as the words after two dashes.
    pub const fn command(mut self) -> Self {
        self.argument.form = ArgumentForm::Command;
        self.many_values().value("COMMAND")
    }

    /// The value of its flag where none is written.
    pub const fn value_if_bare(mut self, value: &'static str) -> Self {
        self.argument.alone = Some(value);
        self
    }

    /// Commas part its values.
    pub const fn commas(mut self) -> Self {
        self.argument.commas = true;
        self
    }

    /// Several words may follow its flag.
    pub const fn several_words(mut self) -> Self {
        self.argument.several = true;
        self.many_values()
    }

    /// Words that a shell may complete it with.
    pub const fn completed_by(mut self, words: fn() -> Vec<&'static str>) -> Self {
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

    /// Sets the group of settings, exactly one of which must be written.
    pub const fn one_of(mut self, group: &'static str) -> Self {
        self.argument.one_of = Some(group);
        self
    }
}
