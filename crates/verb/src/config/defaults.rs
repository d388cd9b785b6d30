//! Default values, and references to the values of other settings.

use super::from_value::FromValue;
use super::literal::Value;
use super::setting::DefaultValue;
use super::values::SettingValues;
use perf4sight_base::error::{Error, Result};

impl SettingValues<'_> {
    /// The value as written, or its default with everything it refers to filled in.
    pub(super) fn value(&self, name: &str) -> Result<Value> {
        let unknown = || Error::config(format!("no table has the key [{}] {name}", self.table.section));
        let setting = self.table.setting(name).ok_or_else(unknown)?;
        if let Some(value) = self.written(name) {
            return Ok(setting.canonical(value.clone()));
        }
        match setting.missing(self.document.surface) {
            DefaultValue::Required | DefaultValue::Unset => Ok(Value::None),
            // A bare value that starts with a reference would read as a dictionary.
            DefaultValue::Literal(text) if text.starts_with('{') => self.filled_in(Value::from(text)),
            DefaultValue::Literal(literal) => self.filled_in(Value::parse(literal)?),
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

    /// The word for a `{key}`, with a hyphen before it where it is written `{-key}`; empty where there is no value.
    fn word_of(&self, reference: &str) -> Result<String> {
        let (before, key) = reference.strip_prefix('-').map_or(("", reference), |key| ("-", key));
        let word = String::from_value(&self.referred(key)?);
        Ok(word.map_or(String::new(), |word| format!("{before}{word}")))
    }

    /// The value of a `{key}` or `{section.key}`.
    fn referred(&self, reference: &str) -> Result<Value> {
        let Some((name, key)) = reference.split_once('.') else {
            return self.value(reference);
        };
        let unknown = || Error::config(format!("no table describes the section [{name}]"));
        let table = self.others.iter().find(|table| table.section == name).ok_or_else(unknown)?;
        SettingValues { section: self.document.section(name), table, ..*self }.value(key)
    }
}
