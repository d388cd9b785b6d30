//! A table as data: named columns, typed cells, and its machine-readable forms (CSV and JSON).

use super::printable::one_line;
use perf4sight_base::units::{Bytes, Milliseconds, Percent, grouped_digits};
use serde_json::{Map, Value};
use std::fmt;

/// A typed value, so that people read `1.2 GiB` and programs read `1288490189`.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Words: names, paths, reasons.
    Text(String),
    /// A count; written with thousands separators.
    Count(u64),
    /// A number without a unit; written with three significant digits.
    Float(f64),
    /// Formatted as ms, s or h for people, in ms for programs.
    Milliseconds(Milliseconds),
    /// An amount of memory.
    Bytes(Bytes),
    /// Formatted with the sign for people, as a number for programs.
    Percent(Percent),
    /// `yes` or `no` for people.
    Bool(bool),
    /// No value; different from zero.
    Missing,
}

/// To which edge of a column its cells go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// For words.
    Left,
    /// Numbers, so that their digits line up.
    Right,
}

/// The head of a column: a key for programs, a heading for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    /// CSV header and JSON key, with the unit if there is one: `peak_bytes`, `latency_ms`.
    pub key: String,
    /// What people read above it.
    pub heading: String,
    /// Left for words, right for numbers.
    pub align: Align,
}

/// Rows of typed cells under named columns.
///
/// ```
/// use perf4sight_report::{TableColumn, Table};
/// use perf4sight_base::units::Percent;
///
/// let mut table = Table::new("Pruned networks", [
///     TableColumn::text("variant", "variant"),
///     TableColumn::number("parameters", "parameters"),
///     TableColumn::number("reached_percent", "reached"),
/// ]);
/// table.row(["resnet18_30".into(), 8_182_758u64.into(), Percent(30.0).into()]);
/// assert_eq!(table.to_text(None), "\
/// Pruned networks
/// variant      parameters  reached
/// ───────────  ──────────  ───────
/// resnet18_30   8,182,758   30.0 %
/// ");
/// assert_eq!(table.to_csv(), "variant,parameters,reached_percent\nresnet18_30,8182758,30\n");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What people read above the table; may be empty.
    pub title: String,
    /// From the left.
    pub columns: Vec<TableColumn>,
    /// Each as long as the columns.
    pub rows: Vec<Vec<Cell>>,
}

impl TableColumn {
    /// A column that is aligned to the left.
    pub fn text(key: impl Into<String>, heading: impl Into<String>) -> Self {
        TableColumn { key: key.into(), heading: heading.into(), align: Align::Left }
    }

    /// A column that is aligned to the right and never cut.
    pub fn number(key: impl Into<String>, heading: impl Into<String>) -> Self {
        TableColumn { key: key.into(), heading: heading.into(), align: Align::Right }
    }
}

impl Table {
    /// A table that rows are added to.
    pub fn new(title: impl Into<String>, columns: impl IntoIterator<Item = TableColumn>) -> Self {
        Table { title: title.into(), columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Appends a row.
    ///
    /// # Panics
    /// If the row has more or fewer cells than the table has columns, which is a bug in the caller.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "a row of table {:?} does not match its columns", self.title);
        self.rows.push(cells);
    }

    /// Whether there are only headings.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Comma-separated values with a header; numbers in full precision and in the unit of the column's key, empty for a
    /// missing value.
    pub fn to_csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let header = self.columns.iter().map(|column| column.key.clone()).collect();
        let rows = self.rows.iter().map(|row| row.iter().map(Cell::plain).collect());
        for record in std::iter::once(header).chain(rows) {
            let record: Vec<String> = record;
            writer.write_record(&record).expect("a vector takes every write, and rows are as long as the header");
        }
        let bytes = writer.into_inner().expect("flushing into a vector cannot fail");
        String::from_utf8(bytes).expect("cells are UTF-8")
    }

    /// An array with one object per row under the column keys; numbers stay numbers, a missing value is `null`.
    pub fn to_json(&self) -> Value {
        let object = |row: &Vec<Cell>| -> Map<String, Value> {
            self.columns.iter().zip(row).map(|(column, cell)| (column.key.clone(), cell.to_json())).collect()
        };
        self.rows.iter().map(object).collect()
    }
}

/// A table under construction with a row for each item: every column is declared together with its cells.
///
/// ```
/// use perf4sight_report::TableBuilder;
///
/// let networks = [("resnet18", 11_689_512u64), ("mobilenet_v2", 3_504_872)];
/// let table = TableBuilder::new("Networks", networks)
///     .text("network", "network", |(name, _)| *name)
///     .number("parameters", "parameters", |(_, parameters)| *parameters)
///     .table();
/// assert_eq!(table.to_csv(), "network,parameters\nresnet18,11689512\nmobilenet_v2,3504872\n");
/// ```
pub struct TableBuilder<T> {
    items: Vec<T>,
    table: Table,
}

impl<T> TableBuilder<T> {
    /// No columns yet.
    pub fn new(title: impl Into<String>, items: impl IntoIterator<Item = T>) -> Self {
        let items: Vec<T> = items.into_iter().collect();
        let rows = vec![Vec::new(); items.len()];
        TableBuilder { items, table: Table { title: title.into(), columns: Vec::new(), rows } }
    }

    /// Adds a column of words.
    #[must_use]
    pub fn text<C: Into<Cell>>(self, key: &str, heading: impl Into<String>, cell: impl Fn(&T) -> C) -> Self {
        self.column(TableColumn::text(key, heading), cell)
    }

    /// Adds a column of numbers.
    #[must_use]
    pub fn number<C: Into<Cell>>(self, key: &str, heading: impl Into<String>, cell: impl Fn(&T) -> C) -> Self {
        self.column(TableColumn::number(key, heading), cell)
    }

    fn column<C: Into<Cell>>(mut self, column: TableColumn, cell: impl Fn(&T) -> C) -> Self {
        self.table.columns.push(column);
        self.table.rows.iter_mut().zip(&self.items).for_each(|(row, item)| row.push(cell(item).into()));
        self
    }

    /// All rows with their columns.
    pub fn table(self) -> Table {
        self.table
    }
}

impl Cell {
    /// The value as a JSON number, string, boolean or `null` (also for a number that is not finite).
    pub fn to_json(&self) -> Value {
        match self {
            Cell::Text(text) => text.as_str().into(),
            Cell::Count(count) => (*count).into(),
            Cell::Bytes(bytes) => bytes.0.into(),
            Cell::Float(value) | Cell::Milliseconds(Milliseconds(value)) | Cell::Percent(Percent(value)) => {
                without_sign_of_zero(*value).into()
            }
            Cell::Bool(value) => (*value).into(),
            Cell::Missing => Value::Null,
        }
    }

    /// The value without its unit, as a program reads it.
    fn plain(&self) -> String {
        match self {
            // A spreadsheet would execute it as a formula, and names of networks or layers may come from anyone (OWASP,
            // "CSV Injection").
            Cell::Text(text) if text.starts_with(['=', '+', '-', '@', '\t', '\r']) => format!("'{}", one_line(text)),
            Cell::Text(text) => one_line(text),
            Cell::Count(count) => count.to_string(),
            Cell::Bytes(bytes) => bytes.0.to_string(),
            Cell::Float(value) | Cell::Milliseconds(Milliseconds(value)) | Cell::Percent(Percent(value)) => {
                without_sign_of_zero(*value).to_string()
            }
            Cell::Bool(value) => value.to_string(),
            Cell::Missing => String::new(),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Text(text) => f.write_str(text),
            Cell::Count(count) => f.write_str(&grouped_digits(*count)),
            Cell::Float(value) => f.write_str(&significant(*value)),
            Cell::Milliseconds(value) => value.fmt(f),
            Cell::Bytes(value) => value.fmt(f),
            Cell::Percent(value) => value.fmt(f),
            Cell::Bool(value) => f.write_str(if *value { "yes" } else { "no" }),
            Cell::Missing => f.write_str("–"),
        }
    }
}

/// The same number, but 0 for -0.
fn without_sign_of_zero(value: f64) -> f64 {
    value + 0.0
}

/// From here on a number has too many digits to be read.
const UNREADABLE: f64 = 1e15;

/// Three significant digits, at most six decimals and no scientific notation: `0.00123`, `1.23`, `12.3`, `123`,
/// `12,345`; but `1.00e15` for what no digits make readable.
pub fn significant(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        return "–".to_string();
    }
    if magnitude >= UNREADABLE {
        return format!("{value:.2e}");
    }
    if magnitude >= 999.5 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", grouped_digits(magnitude.round() as u64));
    }
    if magnitude > 0.0 && magnitude < 0.5e-6 {
        // Only zeros would look like no value at all.
        return if value < 0.0 { "> -0.000001" } else { "< 0.000001" }.to_string();
    }
    let leading = if magnitude > 0.0 { magnitude.log10().floor() as i32 } else { 0 };
    let decimals = usize::try_from(2 - leading).unwrap_or(0).min(6);
    format!("{:.decimals$}", without_sign_of_zero(value))
}

macro_rules! cells {
    ($($Value:ty => $cell:expr;)+) => {$(
        impl From<$Value> for Cell {
            fn from(value: $Value) -> Self {
                ($cell)(value)
            }
        }
    )+};
}

cells! {
    &str => |text: &str| Cell::Text(text.to_owned());
    String => Cell::Text;
    u64 => Cell::Count;
    usize => |count| Cell::Count(count as u64);
    f64 => Cell::Float;
    bool => Cell::Bool;
    Milliseconds => Cell::Milliseconds;
    Bytes => Cell::Bytes;
    Percent => Cell::Percent;
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::Missing, Into::into)
    }
}

#[cfg(test)]
mod tests;
