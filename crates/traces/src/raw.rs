//! The fields of an event as the JSON has them, borrowed from it.

use crate::window::Shape;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Text that is copied only where it holds escapes. What is no text, as half of a surrogate pair that a name was cut behind, is replaced.
pub(crate) struct Text<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(TextVisitor)
    }
}

/// Takes a string as the bytes it is made of, which need not be text.
struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Text<'de>, E> {
        Ok(Text(String::from_utf8_lossy(bytes)))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(String::from_utf8_lossy(bytes).into_owned())))
    }
}

/// An element of `traceEvents`. Numbers are kept as their text: `pid` and `tid` may be strings, and a float loses nanoseconds.
#[derive(Deserialize)]
pub(crate) struct RawEvent<'a> {
    #[serde(borrow)]
    pub ph: Text<'a>,
    #[serde(borrow, default)]
    pub cat: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub name: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub pid: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub tid: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub ts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub dur: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub args: Option<Args<'a>>,
}

/// What is read of an event's arguments.
#[derive(Deserialize)]
pub(crate) struct Args<'a> {
    #[serde(borrow, default)]
    pub correlation: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "External id")]
    pub external: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "external id")]
    pub external_of_old: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "Collective name")]
    pub collective: Option<Text<'a>>,
    #[serde(borrow, default, rename = "In msg nelems")]
    pub sent: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "Out msg nelems")]
    pub received: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "dtype")]
    pub element_type: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "Group size")]
    pub group_size: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "Process Group Name")]
    pub group: Option<&'a RawValue>,
}

/// Reads events.
pub(crate) struct Events;

impl Shape for Events {
    type Of<'a> = RawEvent<'a>;
}

/// Reads what borrows nothing.
pub(crate) struct Owned<T>(std::marker::PhantomData<T>);

impl<T: serde::de::DeserializeOwned> Shape for Owned<T> {
    type Of<'a> = T;
}

/// A whole number, bare or in quotes, where it may have sixteen digits behind `0x`; 0 where it is none.
pub(crate) fn whole(number: Option<&RawValue>) -> u64 {
    let number = number.map_or("", |number| number.get().trim_matches('"'));
    let whole = number.strip_prefix("0x").map_or_else(|| number.parse(), |digits| u64::from_str_radix(digits, 16));
    whole.unwrap_or(0)
}

/// A number or a string as text.
pub(crate) fn text(value: Option<&RawValue>) -> String {
    let Some(value) = value.map(RawValue::get) else { return String::new() };
    serde_json::from_str(value).unwrap_or_else(|_| value.to_owned())
}
