//! TOML files as documents, for configurations that were published so.

use super::document::{ConfigDocument, ConfigEntry, SectionText, ValueOrigin, source};
use super::literal::Value;
use super::setting::Surface;
use perf4sight_base::error::{Error, Result};
use std::ops::Range;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

impl ConfigDocument {
    /// Reads a TOML file: its tables as sections, one deep.
    ///
    /// ```
    /// # let folder = tempfile::TempDir::new()?;
    /// use perf4sight_verb::config::{ConfigDocument, Value};
    /// let file = folder.path().join("train.toml");
    /// std::fs::write(&file, "[training]\nbatch_size = [2, 4]\ndevice = \"cuda:0\"\n")?;
    /// let document = ConfigDocument::load_toml(&file).unwrap();
    /// assert_eq!(document.section("training").unwrap().entry("device").unwrap().value, Value::Text("cuda:0".to_owned()));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// A file that cannot be read or is no TOML; keys outside of a table, or in a nested one; each with its line.
    pub fn load_toml(file: impl AsRef<Path>) -> Result<ConfigDocument> {
        let file = file.as_ref();
        let text = source(file, "a TOML file with the table [training]")?;
        let line = |place: Range<usize>| 1 + text[..place.start].matches('\n').count();
        let table = DeTable::parse(&text).map_err(|error| {
            let at = line(error.span().unwrap_or_default());
            Error::config(format!("this is not TOML: {}", error.message())).file(file).line(at)
        })?;
        let sections = table.into_inner().into_iter().map(|(name, value)| {
            let at = line(name.span());
            let DeValue::Table(entries) = value.into_inner() else {
                return Err(Error::config(format!("{} stands in no table", name.get_ref()))
                    .line(at)
                    .expected("[training]"));
            };
            let entries = entries.into_iter().map(|(key, value)| {
                let at = line(key.span());
                let value =
                    read(value).map_err(|problem| Error::config(format!("{}: {problem}", key.get_ref())).line(at))?;
                Ok(ConfigEntry { key: key.into_inner().into_owned(), value, origin: ValueOrigin::Line(at) })
            });
            Ok(SectionText { name: name.into_inner().into_owned(), line: at, entries: entries.collect::<Result<_>>()? })
        });
        let sections = sections.collect::<Result<_>>().map_err(|error: Error| error.file(file))?;
        Ok(ConfigDocument { surface: Surface::Configuration, file: file.to_path_buf(), sections })
    }
}

fn read(value: Spanned<DeValue<'_>>) -> std::result::Result<Value, String> {
    let number = |text: &str| text.replace('_', "");
    match value.into_inner() {
        DeValue::String(text) => Ok(Value::Text(text.into_owned())),
        DeValue::Integer(integer) => i64::from_str_radix(&number(integer.as_str()), integer.radix())
            .map(Value::Integer)
            .map_err(|_| format!("{integer} is too large")),
        DeValue::Float(float) => {
            number(float.as_str()).parse().map(Value::Number).map_err(|_| format!("{float} is not a number"))
        }
        DeValue::Boolean(flag) => Ok(Value::Flag(flag)),
        DeValue::Array(values) => values.into_iter().map(read).collect::<std::result::Result<_, _>>().map(Value::List),
        DeValue::Datetime(_) => Err("a date is not a value here".to_owned()),
        DeValue::Table(_) => Err("a table below another one has no meaning here".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn read(text: &str) -> Result<ConfigDocument> {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("train.toml");
        std::fs::write(&file, text).unwrap();
        ConfigDocument::load_toml(&file)
    }

    #[test]
    fn values_and_lines_are_those_of_the_file() {
        let document =
            read("# published\n[training]\nnum_epochs = 1_0\nrate = 1e-4\npin = true\nsizes = [\n 2,\n 4]\n").unwrap();
        let training = document.section("training").unwrap();
        let value = |key: &str| training.entry(key).unwrap().value.clone();
        assert_eq!(
            (value("num_epochs"), value("rate"), value("pin")),
            (Value::Integer(10), Value::Number(1e-4), Value::Flag(true))
        );
        assert_eq!(value("sizes"), [2, 4].into_iter().collect());
        assert_eq!(training.entry("sizes").unwrap().origin, ValueOrigin::Line(6));
    }

    #[test]
    fn what_is_no_configuration_is_refused_with_its_line() {
        for (text, message) in [
            ("[training]\nnum_epochs = \n", "train.toml:2: this is not TOML"),
            ("num_epochs = 1\n", "train.toml:1: num_epochs stands in no table"),
            ("[training]\n[training.more]\na = 1\n", "more: a table below another one"),
            ("[training]\nnum_epochs = 99999999999999999999\n", "num_epochs: 99999999999999999999 is too large"),
            ("[training]\nsince = 2021-10-11\n", "a date"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
