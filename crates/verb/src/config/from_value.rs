//! Rust types that values can be read as.

use super::literal::Value;
use perf4sight_base::units::Bytes;
use std::path::PathBuf;
use std::time::Duration;

/// A Rust type that a value can be read as.
pub trait FromValue: Sized {
    /// The value as this type; `None` where it does not fit.
    fn from_value(value: &Value) -> Option<Self>;
}

impl FromValue for Value {
    fn from_value(value: &Value) -> Option<Self> {
        Some(value.clone())
    }
}

impl FromValue for bool {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        }
    }
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl FromValue for $type {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Integer(integer) => (*integer).try_into().ok(),
                    _ => None,
                }
            }
        }
    )*};
}
integers!(i64 u64 u32 usize u16 u8);

impl FromValue for f64 {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(integer) => Some(*integer as f64),
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// An amount of memory of at least a MiB.
impl FromValue for Bytes {
    fn from_value(value: &Value) -> Option<Self> {
        Bytes::parse(&String::from_value(value)?).filter(|bytes| bytes.mib() >= 1.0)
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            Value::Integer(_) | Value::Number(_) => Some(value.to_string()),
            _ => None,
        }
    }
}

impl FromValue for PathBuf {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Path(path) => Some(path.clone()),
            value => String::from_value(value).map(PathBuf::from),
        }
    }
}

/// A time above 0; a number without a unit is seconds.
impl FromValue for Duration {
    fn from_value(value: &Value) -> Option<Self> {
        let text = String::from_value(value)?;
        let time = match text.trim().parse() {
            Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            Err(_) => humantime::parse_duration(text.trim()).ok(),
        };
        time.filter(|time| !time.is_zero())
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::None => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::List(items) => items.iter().map(T::from_value).collect(),
            single => Some(vec![T::from_value(single)?]),
        }
    }
}
