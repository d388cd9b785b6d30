//! Reads rows of a SQLite file, whose columns may be missing.

use perf4sight_base::error::{Error, Result};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

pub(super) struct SqliteDatabase {
    connection: Connection,
    file: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Nothing,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Value {
    pub fn number(&self) -> Option<i64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Nothing | Value::Text(_) | Value::Bytes(_) => None,
        }
    }
}

impl SqliteDatabase {
    pub fn open(file: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(file, flags).map_err(|cause| damaged(file, &cause))?;
        let database = SqliteDatabase { connection, file: file.to_owned() };
        // SQLite reads a file only at the first query.
        database.columns("sqlite_master").map(|_| database)
    }

    /// The columns of a table; empty if the table does not exist.
    ///
    /// # Errors
    /// A damaged file, or a view of that name, which may have endless rows.
    fn columns(&self, table: &str) -> Result<Vec<String>> {
        if self.is_view(table)? {
            return Err(self.wrong(format!("has {table} as a view, which may have no end")).expected("a table"));
        }
        let names = || -> rusqlite::Result<Vec<String>> {
            let mut statement = self.connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
            statement.query_map([table], |row| row.get(0))?.collect()
        };
        names().map_err(|cause| damaged(&self.file, &cause))
    }

    fn is_view(&self, table: &str) -> Result<bool> {
        let question = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'view' AND name = ?1 COLLATE NOCASE)";
        self.connection.query_row(question, [table], |row| row.get(0)).map_err(|cause| damaged(&self.file, &cause))
    }

    pub fn wrong(&self, problem: impl Into<String>) -> Error {
        Error::input(problem).file(&self.file)
    }

    pub fn has(&self, table: &str) -> Result<bool> {
        Ok(!self.columns(table)?.is_empty())
    }

    pub fn has_rows(&self, table: &str) -> Result<bool> {
        let question = format!("SELECT EXISTS (SELECT 1 FROM \"{table}\")");
        let some = || self.connection.query_row(&question, [], |row| row.get(0));
        if self.has(table)? { some().map_err(|cause| damaged(&self.file, &cause)) } else { Ok(false) }
    }

    /// The given columns that a table with rows lacks.
    pub fn lacking<'a>(&self, table: &str, columns: &[&'a str]) -> Result<Vec<&'a str>> {
        let there = if self.has_rows(table)? { self.columns(table)? } else { return Ok(Vec::new()) };
        Ok(columns.iter().filter(|column| !there.iter().any(|known| known == *column)).copied().collect())
    }

    /// Calls `each` for every row of a table, if it exists, with the requested columns, which may be missing.
    pub fn rows<const N: usize>(
        &self,
        table: &str,
        columns: [&str; N],
        mut each: impl FnMut([Value; N]),
    ) -> Result<()> {
        let there = self.columns(table)?;
        if there.is_empty() {
            return Ok(());
        }
        let column = |name: &&str| {
            if there.iter().any(|column| column == name) { format!("\"{name}\"") } else { "NULL".to_owned() }
        };
        let question = format!("SELECT {} FROM \"{table}\"", columns.iter().map(column).collect::<Vec<_>>().join(", "));
        let mut read = || -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare(&question)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                each(values(row)?);
            }
            Ok(())
        };
        read().map_err(|cause| damaged(&self.file, &cause))
    }

    pub fn texts(&self, table: &str, id: &str) -> Result<TextTable> {
        let mut texts = TextTable::default();
        self.rows(table, [id, "value"], |[id, value]| {
            if let (Value::Number(id), Value::Text(text)) = (id, value) {
                texts.places.insert(id, (texts.all.len(), text.len() as u32));
                texts.all.push_str(&text);
            }
        })?;
        Ok(texts)
    }
}

/// Texts by number, one after the other in memory: there may be millions of short ones.
#[derive(Default)]
pub(super) struct TextTable {
    all: String,
    /// The beginning of each text and its length in bytes.
    places: HashMap<i64, (usize, u32)>,
}

impl TextTable {
    /// The text with a number; empty if there is none.
    pub fn get(&self, id: i64) -> &str {
        self.places.get(&id).map_or("", |(begin, bytes)| &self.all[*begin..begin + *bytes as usize])
    }
}

fn values<const N: usize>(row: &Row) -> rusqlite::Result<[Value; N]> {
    let mut values = [const { Value::Nothing }; N];
    for (place, value) in values.iter_mut().enumerate() {
        *value = match row.get_ref(place)? {
            ValueRef::Null => Value::Nothing,
            ValueRef::Integer(number) => Value::Number(number),
            // No column of either format contains a float.
            ValueRef::Real(_) => Value::Nothing,
            ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(bytes) => Value::Bytes(bytes.to_owned()),
        };
    }
    Ok(values)
}

fn damaged(file: &Path, cause: &rusqlite::Error) -> Error {
    Error::input(format!("cannot be read as a SQLite file: {cause}")).file(file).help("export it again")
}
