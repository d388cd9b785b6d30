//! A whole INI file: sections of keys with their values and line numbers.

use super::layout::{self, ConfigStatement};
use super::literal::Value;
use super::setting::Surface;
use ini::{Ini, ParseOption};
use perf4sight_base::error::{Error, Result, suggestion};
use perf4sight_base::input_file;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueOrigin {
    /// On this line of the file, counted from 1.
    Line(usize),
    /// Given on the command line as this text, over the value of the file: `--set profile.bs=8`.
    Override(String),
    /// Given as an argument of a verb that begins with this: `--bs`.
    Argument(String),
}

/// One `key = value`.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigEntry {
    /// The key as written.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Where it was written.
    pub origin: ValueOrigin,
}

/// One `[section]` with its entries in the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct SectionText {
    /// The name between the brackets.
    pub name: String,
    /// The line of its header.
    pub line: usize,
    /// Its entries, each key once.
    pub entries: Vec<ConfigEntry>,
}

impl SectionText {
    /// The entry of that key.
    pub fn entry(&self, key: &str) -> Option<&ConfigEntry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Adds an entry, or replaces the one of its key.
    fn add_or_replace(&mut self, entry: ConfigEntry) {
        self.entries.retain(|known| known.key != entry.key);
        self.entries.push(entry);
    }
}

/// An INI file with Python-literal values.
///
/// ```
/// use perf4sight_verb::config::{ConfigDocument, Value};
/// let document = ConfigDocument::parse("[profile] #{{{\nbs= [2,\n     8]\n#}}}\n", "config.ini").unwrap();
/// let profile = document.section("profile").unwrap();
/// assert_eq!(profile.entry("bs").unwrap().value, [2, 8].into_iter().collect());
///
/// let twice = ConfigDocument::parse("[profile]\nbs = 1\nbs = 2\n", "config.ini").unwrap_err();
/// assert!(twice.to_string().starts_with("config.ini:3: bs is set twice in [profile], first on line 2"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigDocument {
    pub(super) surface: Surface,
    pub(super) file: PathBuf,
    pub(super) sections: Vec<SectionText>,
}

impl ConfigDocument {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or its text is refused by [`ConfigDocument::parse`].
    pub fn load(file: impl AsRef<Path>) -> Result<ConfigDocument> {
        let file = file.as_ref();
        let source = source(file, "an INI file such as the config.ini that perf4sight ships with")?;
        ConfigDocument::parse(&source, file)
    }

    /// Reads the text of `file`, whose name is only used in messages.
    ///
    /// # Errors
    /// A malformed line or value, or a section or key that occurs twice; each with file and line.
    pub fn parse(source: &str, file: impl AsRef<Path>) -> Result<ConfigDocument> {
        let file = file.as_ref();
        let sections = layout::statements(source).and_then(|statements| sections(&statements));
        let sections = sections.map_err(|error| error.file(file))?;
        Ok(ConfigDocument { surface: Surface::Configuration, file: file.to_path_buf(), sections })
    }

    /// The arguments of a verb as the one section of a document.
    pub fn of_arguments(verb: &str, entries: Vec<ConfigEntry>) -> ConfigDocument {
        let section = SectionText { name: verb.to_owned(), line: 0, entries };
        ConfigDocument { surface: Surface::CommandLine, file: PathBuf::new(), sections: vec![section] }
    }

    /// The entries of its first section, with others in the place of those of the same key.
    pub fn overlaid(mut self, entries: &[ConfigEntry]) -> ConfigDocument {
        self.sections
            .iter_mut()
            .take(1)
            .for_each(|section| entries.iter().cloned().for_each(|entry| section.add_or_replace(entry)));
        self
    }

    /// The file this was read from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The sections in the order of the file.
    pub fn sections(&self) -> &[SectionText] {
        &self.sections
    }

    /// The section of that name.
    pub fn section(&self, name: &str) -> Option<&SectionText> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Replaces or adds one value, given as `section.key=value` the way `--set` takes it.
    ///
    /// # Errors
    /// A text of another form, a section this document lacks, a malformed value.
    pub fn set(&mut self, assignment: &str) -> Result<()> {
        let malformed = || {
            Error::usage(format!("--set {assignment}"))
                .expected("section.key=value")
                .help("for example --set profile.bs=[1,8]")
        };
        let (path, value) = assignment.split_once('=').ok_or_else(malformed)?;
        let (name, key) = path.split_once('.').ok_or_else(malformed)?;
        let place = format!("--set {assignment}");
        let value = Value::parse(value).map_err(|error| error.file(&place))?;
        let known: Vec<String> = self.sections.iter().map(|section| section.name.clone()).collect();
        let Some(section) = self.sections.iter_mut().find(|section| section.name == name.trim()) else {
            return Err(Error::usage(format!("{} has no section [{}]", self.file.display(), name.trim()))
                .file(&place)
                .help(suggestion(name.trim(), known.iter().map(String::as_str))));
        };
        section.add_or_replace(ConfigEntry {
            key: key.trim().to_string(),
            value,
            origin: ValueOrigin::Override(place),
        });
        Ok(())
    }
}

pub(super) fn source(file: &Path, expected: &str) -> Result<String> {
    let bytes = input_file::bytes(file, "read this file")
        .map_err(|error| error.expected(expected).help("give its path as seen from the folder you are in"))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
        Error::config("bytes that are no text").file(file).line(line).expected("a text file in UTF-8")
    })
}

/// The sections that rust-ini finds in the statements, with the line numbers that it does not keep.
fn sections(statements: &[ConfigStatement]) -> Result<Vec<SectionText>> {
    if let Some(first) = statements.first().filter(|first| !first.text.starts_with('[')) {
        return Err(Error::config(format!("{} stands before the first section", first.text))
            .line(first.line)
            .expected("[section]"));
    }
    let mut sections: Vec<SectionText> = Vec::new();
    let mut lines = statements.iter().map(|statement| statement.line);
    for (name, properties) in parsed(statements)?.iter().filter_map(|(name, properties)| Some((name?, properties))) {
        let mut section =
            SectionText { name: name.trim().to_string(), line: lines.next().unwrap_or(0), entries: vec![] };
        for ((key, text), line) in properties.iter().zip(&mut lines) {
            add_entry(&mut section, key, text, line)?;
        }
        add_section(&mut sections, section)?;
    }
    Ok(sections)
}

fn parsed(statements: &[ConfigStatement]) -> Result<Ini> {
    let text: Vec<&str> = statements.iter().map(|statement| statement.text.as_str()).collect();
    // Quotes and backslashes belong to the literals inside the values.
    let options = ParseOption { enabled_quote: false, enabled_escape: false, ..ParseOption::default() };
    Ini::load_from_str_opt(&text.join("\n"), options).map_err(|error| {
        let line = statements.get(error.line.saturating_sub(1)).map_or(1, |statement| statement.line);
        Error::config(error.msg.to_string()).line(line)
    })
}

fn add_section(sections: &mut Vec<SectionText>, section: SectionText) -> Result<()> {
    if let Some(first) = sections.iter().find(|known| known.name == section.name) {
        return Err(Error::config(format!("[{}] occurs twice, first on line {}", section.name, first.line))
            .line(section.line)
            .help("move its keys into one section"));
    }
    sections.push(section);
    Ok(())
}

fn add_entry(section: &mut SectionText, key: &str, text: &str, line: usize) -> Result<()> {
    if let Some(ConfigEntry { origin: ValueOrigin::Line(first), .. }) = section.entry(key) {
        let problem = format!("{key} is set twice in [{}], first on line {first}", section.name);
        return Err(Error::config(problem).line(line).help("keep one of the two lines"));
    }
    let value = Value::parse(text).map_err(|error| error.line(line))?;
    section.entries.push(ConfigEntry { key: key.to_string(), value, origin: ValueOrigin::Line(line) });
    Ok(())
}

impl fmt::Display for ConfigDocument {
    /// The values in force, overrides included, as an INI file that reads back to the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for section in &self.sections {
            writeln!(f, "[{}]", section.name)?;
            for entry in &section.entries {
                writeln!(f, "{} = {}", entry.key, entry.value)?;
            }
        }
        Ok(())
    }
}
