//! The kinds of values of settings, and their parsing from words of the command line.

use super::from_value::FromValue;
use super::literal::{Value, parse_bare};
use perf4sight_base::error::nearest;
use perf4sight_base::units::Bytes;
use std::time::Duration;

/// The kind of value of a setting.
#[derive(Debug, Clone, Copy)]
pub enum ValueKind {
    /// `True` or `False`; on the command line a flag without a value.
    Flag,
    /// A whole number between the two, both included.
    Integer(i64, i64),
    /// A number that is at least the given one.
    Number(f64),
    /// An amount of memory, at least a MiB. In a configuration a number alone has the given unit, as published; the command line refuses one.
    Memory(&'static str),
    /// A time above 0 such as `90s`; a number alone is seconds.
    Time,
    /// Any word.
    Text,
    /// One of these words, in small or capital letters.
    Word(fn() -> Vec<&'static str>),
    /// A file or folder, relative to the current directory; a leading `~` is refused, for nothing would expand it.
    Path,
}

impl ValueKind {
    /// A description of the expected value, for people.
    pub fn expected(&self) -> String {
        match self {
            ValueKind::Flag => "True or False".to_string(),
            ValueKind::Integer(low, i64::MAX) => format!("a whole number, {low} or more"),
            ValueKind::Integer(low, high) => format!("a whole number from {low} to {high}"),
            ValueKind::Number(low) if *low < 1e-6 && *low > 0.0 => "a number above 0".to_string(),
            ValueKind::Number(low) => format!("a number, {low} or more"),
            ValueKind::Memory(unit) => {
                format!("an amount of memory such as 8GiB or '1300 MiB'; a number alone is {unit}")
            }
            ValueKind::Time => "a time such as 90s or 10min; a number alone is seconds".to_string(),
            ValueKind::Text => "a word".to_string(),
            ValueKind::Word(words) => words().join(" or "),
            ValueKind::Path => "a path".to_string(),
        }
    }

    /// Whether one value is of this kind.
    pub fn admits(&self, value: &Value) -> bool {
        match (self, value) {
            (ValueKind::Flag, Value::Flag(_)) => true,
            (ValueKind::Integer(low, high), Value::Integer(integer)) => (low..=high).contains(&integer),
            (ValueKind::Number(low), Value::Integer(integer)) => *integer as f64 >= *low,
            (ValueKind::Number(low), Value::Number(number)) => number >= low && number.is_finite(),
            (ValueKind::Memory(_), value) => Bytes::from_value(&self.canonical(value.clone())).is_some(),
            (ValueKind::Time, value) => Duration::from_value(value).is_some(),
            (ValueKind::Word(words), Value::Text(word)) => words().iter().any(|known| known.eq_ignore_ascii_case(word)),
            (ValueKind::Path, Value::Text(path)) => !path.starts_with('~') && !path.is_empty(),
            (ValueKind::Path, Value::Path(_)) => true,
            // A device may be called 2080: a number is accepted where a word is expected.
            (ValueKind::Text | ValueKind::Path, Value::Text(_) | Value::Integer(_) | Value::Number(_)) => true,
            _ => false,
        }
    }

    /// A value as the program reads it: words as they are listed, amounts of memory with their unit.
    pub(super) fn canonical(&self, value: Value) -> Value {
        match (self, &value) {
            (ValueKind::Word(words), Value::Text(word)) => {
                let listed = words().into_iter().find(|known| known.eq_ignore_ascii_case(word));
                listed.map_or(value, Value::from)
            }
            (ValueKind::Memory(unit), _) => match String::from_value(&value).and_then(|word| number(&word)) {
                Some(number) => Value::Text(format!("{number}{unit}")),
                None => value,
            },
            _ => value,
        }
    }

    /// An example of a right value close to a wrong one.
    pub(super) fn remedy(&self, wrong: &Value) -> Option<String> {
        match (self, wrong) {
            (ValueKind::Path, Value::Text(path)) if path.starts_with('~') => {
                Some("write the folder in full".to_string())
            }
            (ValueKind::Flag, Value::Text(word)) => suggest(word, &["True", "False"]),
            (ValueKind::Word(words), Value::Text(word)) => {
                abbreviated(word, &words()).or_else(|| suggest(word, &words()))
            }
            // Percentages are whole numbers up to 99 or 100.
            (&ValueKind::Integer(low, high @ (99 | 100)), &Value::Number(share)) if (0.01..1.0).contains(&share) => {
                let percent = (100.0 * share).round() as i64;
                (low..=high).contains(&percent).then(|| format!("did you mean {percent}?"))
            }
            (of, Value::List(items)) => {
                items.first().filter(|item| of.admits(item)).map(|item| format!("write one value such as {item}"))
            }
            _ => None,
        }
    }

    /// Parses a word of the command line.
    ///
    /// # Errors
    /// The problem, in a sentence.
    pub fn read(&self, word: &str) -> Result<Value, String> {
        let value = match self {
            ValueKind::Integer(..) | ValueKind::Number(_) => parse_bare(word.trim()),
            ValueKind::Memory(_) if number(word).is_some_and(|number| number > 0.0) => return Err(unitless(word)),
            ValueKind::Flag
            | ValueKind::Memory(_)
            | ValueKind::Time
            | ValueKind::Text
            | ValueKind::Word(_)
            | ValueKind::Path => Value::from(word),
        };
        match self.admits(&value) {
            true => Ok(value),
            false => {
                let remedy = self.remedy(&value).map_or(String::new(), |remedy| format!("; {remedy}"));
                let is_memory = matches!(self, ValueKind::Memory(_));
                let expected = if is_memory { AMOUNT.to_owned() } else { self.expected() };
                Err(format!("\"{word}\" is not {expected}{remedy}"))
            }
        }
    }
}

/// The description of an amount of memory on the command line.
const AMOUNT: &str = "an amount of memory of at least 1 MiB, such as 8GiB";

fn number(word: &str) -> Option<f64> {
    f64::from_value(&parse_bare(word.trim()))
}

fn unitless(word: &str) -> String {
    let word = word.trim();
    format!("{word} has no unit; write {word}GiB or {word}MiB (of 1024), {word}GB or {word}MB (of 1000)")
}

/// The listed words whose last part abbreviates a word: bf16 is bfloat16. Of numbers in floating point the usual abbreviation is fp.
fn abbreviated(word: &str, known: &[&str]) -> Option<String> {
    let word = word.to_ascii_lowercase().replace("float", "fp");
    let abbreviates = |short: &str| {
        let mut letters = word.chars();
        short.len() > 2
            && word.starts_with(&short[..1])
            && short.chars().all(|wanted| letters.any(|letter| letter.eq_ignore_ascii_case(&wanted)))
    };
    let meant = known.iter().copied().filter(|name| name.rsplit('_').next().is_some_and(abbreviates));
    let meant: Vec<&str> = meant.collect();
    (!meant.is_empty()).then(|| format!("did you mean {}?", meant.join(" or ")))
}

fn suggest(word: &str, known: &[&str]) -> Option<String> {
    nearest(word, known.iter().copied()).map(|name| format!("did you mean {name}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_suggested() {
        let precisions = ValueKind::Word(|| vec!["fp32", "amp_bf16", "amp_fp16", "bf16"]);
        let remedy = |kind: ValueKind, wrong: Value| kind.remedy(&wrong).unwrap_or_default();
        assert_eq!(remedy(precisions, Value::from("bfloat16")), "did you mean amp_bf16 or bf16?");
        for half in ["fp16", "float16", "FP16"] {
            assert_eq!(remedy(precisions, Value::from(half)), "did you mean amp_fp16?");
        }
        assert_eq!(remedy(precisions, Value::from("float32")), "did you mean fp32?");
        assert_eq!(remedy(precisions, Value::from("amp_bf61")), "did you mean amp_bf16?");
        assert_eq!(remedy(precisions, Value::from("double")), "");
        // Levels are percentages.
        assert_eq!(remedy(ValueKind::Integer(0, 99), Value::Number(0.5)), "did you mean 50?");
        assert_eq!(remedy(ValueKind::Integer(0, i64::MAX), Value::Number(0.5)), "");
    }

    #[test]
    fn a_unit_is_proposed_for_an_amount_that_may_be_meant() {
        let refused = |word| ValueKind::Memory("MiB").read(word).unwrap_err();
        assert!(refused("8").contains("write 8GiB"), "{}", refused("8"));
        for word in ["-8", "0"] {
            assert!(
                refused(word).contains("at least 1 MiB") && !refused(word).contains("no unit"),
                "{}",
                refused(word)
            );
        }
    }
}
