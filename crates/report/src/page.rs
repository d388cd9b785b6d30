//! A page as data: a verdict, headline numbers and chapters of text, tables and charts.

use super::chart::Chart;
use super::table::{Cell, Table};

/// The contents of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Its name, also that of the browser's tab.
    pub title: String,
    /// One line below the title: the subject of the page.
    pub subtitle: String,
    /// Its parts, in reading order; each is listed in the table of contents.
    pub chapters: Vec<Chapter>,
}

/// A heading and what is below it.
#[derive(Debug, Clone, PartialEq)]
pub struct Chapter {
    /// The heading.
    pub title: String,
    /// Its contents, in reading order.
    pub blocks: Vec<Block>,
}

/// What a chapter consists of.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A paragraph in plain text.
    Text(String),
    /// The answer the reader came for, in plain words.
    Verdict(AnswerTone, String),
    /// A few numbers in large type.
    Headline(Vec<Fact>),
    /// Names and values, one below the other.
    Facts(Vec<Fact>),
    /// Short lines, such as skipped items.
    List(Vec<String>),
    /// With all rows and columns.
    Table(Table),
    /// A table that most readers skip: closed on the screen, open in print.
    Folded(Table),
    /// A chart; neighbours are side by side where there is room.
    Chart(Chart),
    /// A title, and text to be shown as it is, such as a file: closed on the screen, open in print.
    Source(String, String),
}

/// The quality of the answer; a better one is smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnswerTone {
    /// Nothing to be done.
    Good,
    /// Read on before relying on it.
    Caution,
    /// Do not rely on it.
    Bad,
}

/// A named value, with a remark if necessary.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    /// What the value is of.
    pub name: String,
    /// Formatted as in a table.
    pub value: Cell,
    /// A remark on the value; may be empty.
    pub remark: String,
}

impl Page {
    /// A page with nothing below its title.
    pub fn new(title: impl Into<String>, subtitle: impl Into<String>) -> Self {
        Page { title: title.into(), subtitle: subtitle.into(), chapters: Vec::new() }
    }

    /// Appends a chapter, also one without blocks.
    pub fn chapter(&mut self, title: impl Into<String>, blocks: impl IntoIterator<Item = Block>) {
        self.chapters.push(Chapter { title: title.into(), blocks: blocks.into_iter().collect() });
    }
}

impl Fact {
    /// A fact without explanation.
    pub fn new(name: impl Into<String>, value: impl Into<Cell>) -> Self {
        Fact { name: name.into(), value: value.into(), remark: String::new() }
    }

    /// Adds a remark on the value.
    #[must_use]
    pub fn remark(mut self, remark: impl Into<String>) -> Self {
        self.remark = remark.into();
        self
    }
}

/// Words as a sentence of a page: a capital first, unless they begin with a name of a program, and a full stop last.
///
/// ```
/// use perf4sight_report::sentence;
/// assert_eq!(sentence("it fits"), "It fits.");
/// assert_eq!(sentence("torch.compile(model): fuses two"), "torch.compile(model): fuses two.");
/// ```
pub fn sentence(words: &str) -> String {
    let first = words.split([' ', ':', ',']).next().unwrap_or_default();
    let mut letters = words.chars();
    let capital = match letters.next() {
        Some(letter) if !first.contains(['.', '_', '=', '(']) => letter.to_uppercase().collect(),
        letter => letter.map(String::from).unwrap_or_default(),
    };
    let end = if words.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{capital}{}{end}", letters.as_str())
}
