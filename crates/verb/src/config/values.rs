//! The checked values of one section, defaults filled in, handed out as Rust types.

use super::document::{ConfigDocument, ConfigEntry, SectionText, ValueOrigin};
use super::from_value::FromValue;
use super::literal::Value;
use super::setting::{ArgumentForm, DefaultValue, Setting, Surface};
use super::table::SettingTable;
use perf4sight_base::error::{Error, Result, suggestion};
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

/// The values of one section, or of the arguments of a verb, by the settings of its table.
///
/// ```
/// use perf4sight_verb::config::{ConfigDocument, SettingTable, SettingValues, integer, path, text};
/// static PROFILE: SettingTable = SettingTable {
///     section: "profile",
///     about: "measures",
///     groups: &[&[
///         integer("bs", 1, 64).many_values().required().help("sizes"),
///         text("device").or_default("cpu").help("device"),
///         path("log_dir").or_default("logs/{device}").help("folder"),
///     ]],
/// };
/// let document = ConfigDocument::parse("[profile]\nbs= [2, 8]\n", "config.ini").unwrap();
/// let values = SettingValues::check(&document, &document.sections()[0], &PROFILE, &[]).unwrap();
/// assert_eq!(values.get::<Vec<usize>>("bs").unwrap(), [2, 8]);
/// assert_eq!(values.get::<String>("log_dir").unwrap(), "logs/cpu");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct SettingValues<'a> {
    pub(super) document: &'a ConfigDocument,
    pub(super) section: Option<&'a SectionText>,
    pub(super) table: &'a SettingTable,
    pub(super) others: &'a [&'a SettingTable],
    /// A key that is taken for unwritten.
    pub(super) without: Option<&'static str>,
}

impl<'a> SettingValues<'a> {
    /// Checks a section against its table. Defaults may refer to the keys of the `others` tables.
    ///
    /// # Errors
    /// A key the table does not name (the nearest is suggested), a value of another kind, an empty list where the default is none, a
    /// required key that is missing, keys that contradict each other; each with file and line.
    pub fn check(
        document: &'a ConfigDocument,
        section: &'a SectionText,
        table: &'a SettingTable,
        others: &'a [&'a SettingTable],
    ) -> Result<SettingValues<'a>> {
        let values = SettingValues { document, section: Some(section), table, others, without: None };
        values.check_each(section)?;
        values.settings_here().try_for_each(|setting| values.check_needed(setting))?;
        Ok(values)
    }

    fn check_each(&self, section: &SectionText) -> Result<()> {
        section.entries.iter().try_for_each(|entry| self.check_entry(entry))?;
        self.settings_here().try_for_each(|setting| self.check_present(setting))?;
        self.settings_here().try_for_each(|setting| self.check_contradictions(setting))
    }

    /// The same values, but for a key that takes its default.
    #[must_use]
    pub fn without(self, key: &'static str) -> Self {
        SettingValues { without: Some(key), ..self }
    }

    /// The checked arguments of a verb. One without the one that it is about is refused where arguments are parsed, or by the verb.
    ///
    /// # Errors
    /// See [`SettingValues::check`].
    pub fn of_arguments(document: &'a ConfigDocument, table: &'a SettingTable) -> Result<SettingValues<'a>> {
        let section = &document.sections[0];
        let values = SettingValues { document, section: Some(section), table, others: &[], without: None };
        values.check_each(section)?;
        Ok(values)
    }

    /// The settings that may be written here.
    fn settings_here(&self) -> impl Iterator<Item = &'static Setting> + Clone {
        self.table.for_surface(self.document.surface)
    }

    fn check_entry(&self, entry: &ConfigEntry) -> Result<()> {
        let Some(setting) = self.settings_here().find(|setting| setting.key == entry.key) else {
            let help = suggestion(&entry.key, self.settings_here().map(|setting| setting.key));
            return Err(self.error(&entry.key, "no such key in this section").help(help));
        };
        if entry.value == Value::List(Vec::new()) && !setting.may_be_empty() {
            let none = self.error(setting.key, "the list is empty");
            let none = none.expected(format!("at least one value: {}", setting.expected()));
            return Err(none.help(format!("{}: {}", setting.key, setting.help)));
        }
        if entry.value == Value::None || setting.admits(&entry.value) {
            return Ok(());
        }
        let wrong = setting.wrong_part(&entry.value);
        let problem = match &entry.value {
            list @ Value::List(_) if !setting.many => format!("{list} is a list"),
            _ => format!("{wrong} does not fit"),
        };
        let error = self.error(setting.key, problem).expected(setting.expected());
        Err(match setting.kind.remedy(wrong) {
            Some(remedy) => error.help(remedy),
            None => error,
        })
    }

    fn check_present(&self, setting: &Setting) -> Result<()> {
        if self.writes(setting.key) || setting.missing(self.document.surface) != DefaultValue::Required {
            return Ok(());
        }
        let error = self.error(setting.key, "this key is required").expected(setting.expected());
        Err(error.help(format!("{}: {}", setting.key, setting.help)))
    }

    /// Whether a key is written and says something: a flag that is off does not.
    pub fn is_set(&self, key: &str) -> bool {
        self.written(key).is_some_and(|value| *value != Value::Flag(false))
    }

    /// Refuses a key without the one that it is about.
    fn check_needed(&self, setting: &Setting) -> Result<()> {
        let key = setting.key;
        match setting.argument.requires.filter(|needed| self.is_set(key) && !self.is_set(needed)) {
            Some(needed) => {
                let error = self.error(key, format!("it means nothing without {needed}"));
                Err(error.help(format!("write {needed}, too, or leave {key} out")))
            }
            None => Ok(()),
        }
    }

    /// Refuses a key with one that contradicts it.
    fn check_contradictions(&self, setting: &Setting) -> Result<()> {
        let is_said = |other: &Setting| self.is_set(other.key) && setting.contradicts(other);
        match self.settings_here().find(|other| self.is_set(setting.key) && is_said(other)) {
            Some(other) => {
                let problem = format!("{} is given, too, and contradicts it", self.spelling(other.key));
                Err(self.error(setting.key, problem).expected("one of both"))
            }
            None => Ok(()),
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
            let expected = self.table.setting(key).map_or(String::new(), Setting::expected);
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

    /// The word of a key, parsed into the item of that name: `values.named("stage", Stage::parse)`.
    ///
    /// # Errors
    /// The error of `parse`, with the place of the key.
    pub fn parse_word<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T>) -> Result<T> {
        parse(&self.get::<String>(key)?).map_err(|error| self.with_place(key, error))
    }

    /// The same of a key that may be unset.
    ///
    /// # Errors
    /// See [`SettingValues::parse_word`].
    pub fn named_if_set<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T>) -> Result<Option<T>> {
        let set = self.get::<Option<String>>(key)?.is_some();
        set.then(|| self.parse_word(key, parse)).transpose()
    }

    /// A number of seconds.
    ///
    /// # Errors
    /// More of them than a clock counts; see [`SettingValues::get`].
    pub fn seconds(&self, key: &str) -> Result<Duration> {
        let seconds: f64 = self.get(key)?;
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| self.error(key, format!("{seconds} s is too long to wait")).expected("seconds"))
    }

    /// A command as its words: on the command line as they are, in a configuration one value is split at blanks and a list taken as it is,
    /// so that words may hold blanks; none where it is unset.
    ///
    /// # Errors
    /// A first word that is no program, as a script or all words in one; see [`SettingValues::get`].
    pub fn command(&self, key: &str) -> Result<Vec<String>> {
        let command: Vec<String> = self.get::<Option<Vec<String>>>(key)?.unwrap_or_default();
        let command: Vec<String> = match command.as_slice() {
            [line] if !self.is_behind_dashes(key) && !self.is_list(key) => {
                line.split_whitespace().map(str::to_owned).collect()
            }
            _ => command,
        };
        if command.first().is_some_and(String::is_empty) {
            return Err(self
                .error(key, "the first word of the command is empty")
                .expected("a program and its arguments"));
        }
        match no_program(&command) {
            Some((problem, repaired)) => Err(self.error(key, problem).help(format!("write {repaired}"))),
            None => Ok(command),
        }
    }

    fn is_list(&self, key: &str) -> bool {
        let entry = self.section.and_then(|section| section.entry(key));
        // An argument or override is read as one of several, whether or not it is written as a list.
        let is_of_file = |entry: &&ConfigEntry| matches!(entry.origin, ValueOrigin::Line(_));
        entry.filter(is_of_file).is_some_and(|entry| matches!(entry.value, Value::List(_)))
    }

    fn is_behind_dashes(&self, key: &str) -> bool {
        let form = self.table.setting(key).map(|setting| setting.argument.form);
        self.document.surface == Surface::CommandLine && form == Some(ArgumentForm::Command)
    }

    /// The words of a list, each parsed into the item of that name.
    ///
    /// # Errors
    /// The error of `parse`, with the place of the key.
    pub fn parse_words<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
        let words: Vec<String> = self.get(key)?;
        words.iter().map(|word| parse(word).map_err(|error| self.with_place(key, error))).collect()
    }

    /// An error about a setting, with its place.
    pub fn error(&self, key: &str, problem: impl Display) -> Error {
        match self.is_argument(key) {
            true => self.with_place(key, Error::usage(problem.to_string())),
            false => self.with_place(key, Error::config(format!("[{}] {key}: {problem}", self.table.section))),
        }
    }

    /// Any error, placed where a setting is written, or at its section where it is not.
    pub fn with_place(&self, key: &str, error: Error) -> Error {
        self.located(key, if self.is_argument(key) { error.as_usage_error() } else { error })
    }

    /// An error of what a setting names, such as a file that cannot be read, placed where a configuration sets it.
    pub fn refused(&self, key: &str, error: Error) -> Error {
        if self.is_argument(key) {
            return error;
        }
        self.located(key, error.about(&format!("[{}] {key}", self.table.section)))
    }

    /// The same; on the command line it keeps the exit code of the error, because unknown devices have one of their
    /// own.
    pub fn located(&self, key: &str, error: Error) -> Error {
        if self.is_argument(key) {
            let flag = self.table.setting(key).and_then(Setting::flag);
            return flag.into_iter().fold(error, |error, flag| error.file(format!("--{flag}")));
        }
        let error = error.as_config_error();
        match self.section.and_then(|section| section.entry(key)).map(|entry| &entry.origin) {
            Some(ValueOrigin::Override(text) | ValueOrigin::Argument(text)) => error.file(text),
            Some(ValueOrigin::Line(line)) => error.file(self.document.file()).line(*line),
            None => self.at_section(error),
        }
    }

    /// An error about a section of a configuration, placed there unless it has a place.
    pub fn at_section(&self, error: Error) -> Error {
        if error.has_place() {
            return error;
        }
        let error = error.file(self.document.file());
        self.section.map(|section| section.line).into_iter().fold(error, Error::line)
    }

    /// How people find a setting here: its key, or its flag.
    pub fn spelling(&self, key: &str) -> String {
        let setting = self.table.setting(key).filter(|_| self.is_argument(key));
        setting.map_or_else(|| key.to_owned(), Setting::spelling)
    }

    /// How people write a value of a setting here: `stage = training`, or `--stage training`.
    pub fn written_as(&self, key: &str, value: &str) -> String {
        let equals = if self.is_argument(key) { "" } else { "= " };
        format!("{} {equals}{value}", self.spelling(key))
    }

    /// Whether a setting is, or would be, written on the command line.
    fn is_argument(&self, key: &str) -> bool {
        match self.section.and_then(|section| section.entry(key)).map(|entry| &entry.origin) {
            Some(ValueOrigin::Argument(_)) => true,
            Some(ValueOrigin::Override(_) | ValueOrigin::Line(_)) => false,
            None => self.document.surface == Surface::CommandLine,
        }
    }

    /// The configuration.
    pub fn file(&self) -> &'a Path {
        self.document.file()
    }

    /// The written entries, in order.
    pub fn entries(&self) -> &'a [ConfigEntry] {
        self.section.map_or(&[], |section| &section.entries)
    }

    /// Whether the configuration gives a key a value, instead of leaving it to the default.
    pub fn writes(&self, key: &str) -> bool {
        self.written(key).is_some()
    }

    pub(super) fn written(&self, key: &str) -> Option<&Value> {
        if self.without == Some(key) {
            return None;
        }
        let written = self.section.and_then(|section| section.entry(key)).map(|entry| &entry.value);
        written.filter(|value| **value != Value::None)
    }
}

/// Why the first word of a command is no program, and the command that is meant.
fn no_program(command: &[String]) -> Option<(String, String)> {
    let (first, others) = command.split_first()?;
    let inner: Vec<&str> = match Path::new(first).exists() {
        true => vec![first],
        false => first.split_whitespace().collect(),
    };
    let head = inner.first()?;
    let sets_variable = head.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    });
    let (problem, before) = match (sets_variable, head.ends_with(".py") && !head.contains('/'), inner.len()) {
        (true, ..) => (format!("{head} sets a variable, as shells do, and is not a program"), "env "),
        (false, true, _) => (format!("{head} is a script of Python, not a program"), "python3 "),
        (false, false, 2..) => {
            (format!("\"{first}\" is one word, not a program and its arguments"), "its words apart: ")
        }
        (false, false, _) => return None,
    };
    let words: Vec<&str> = inner.iter().copied().chain(others.iter().map(String::as_str)).collect();
    Some((problem, format!("{before}{}", words.join(" "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The meant commands are what bash and env(1) run.
    #[test]
    fn a_first_word_that_is_no_program_is_refused_with_the_command_that_is_meant() {
        let meant = |words: &[&str]| no_program(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        for (words, repaired) in [
            (&["python3 train.py"][..], "its words apart: python3 train.py"),
            (&["train.py", "--lr", "1"], "python3 train.py --lr 1"),
            (&["PYTHONPATH=x python3 train.py"], "env PYTHONPATH=x python3 train.py"),
            (&["CUDA_VISIBLE_DEVICES=0", "python3", "train.py"], "env CUDA_VISIBLE_DEVICES=0 python3 train.py"),
            (&["./run.sh --fast"], "its words apart: ./run.sh --fast"),
        ] {
            assert_eq!(meant(words).map(|(_, repaired)| repaired).as_deref(), Some(repaired), "{words:?}");
        }
        for words in [&["python3", "train.py", "a=b"][..], &["./train.py"], &["sh", "-c", "a b"]] {
            assert_eq!(meant(words), None, "{words:?}");
        }
    }
}
