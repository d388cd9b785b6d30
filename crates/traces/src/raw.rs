//! The fields of an event as the JSON has them, borrowed from it.

use crate::scan::{Quoted, Scan, Shape, Stop};
use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;

/// What stands between quotes, without escapes; copied only where it holds some. It need not be text: a name may be cut behind half of a
/// surrogate pair.
pub(crate) type Text<'a> = Cow<'a, [u8]>;

/// An element of `traceEvents`. Numbers are kept as the bytes they are written with: `pid` and `tid` may be strings, and a float loses
/// nanoseconds.
#[derive(Default)]
pub(crate) struct RawEvent<'a> {
    /// There is one.
    pub ph: Option<Text<'a>>,
    pub cat: Option<Text<'a>>,
    pub name: Option<Text<'a>>,
    pub pid: Option<&'a [u8]>,
    pub tid: Option<&'a [u8]>,
    pub ts: Option<&'a [u8]>,
    pub dur: Option<&'a [u8]>,
    pub id: Option<&'a [u8]>,
    pub args: Args<'a>,
}

/// What is read of an event's arguments.
#[derive(Default)]
pub(crate) struct Args<'a> {
    pub correlation: Option<&'a [u8]>,
    pub external: Option<&'a [u8]>,
    pub external_of_old: Option<&'a [u8]>,
    pub name: Option<&'a [u8]>,
    pub collective: Option<Text<'a>>,
    pub sent: Option<&'a [u8]>,
    pub received: Option<&'a [u8]>,
    /// `dtype`.
    pub element_type: Option<&'a [u8]>,
    pub group_size: Option<&'a [u8]>,
    pub group: Option<&'a [u8]>,
}

/// Reads events.
pub(crate) struct Events;

impl Shape for Events {
    type Of<'a> = RawEvent<'a>;

    fn read<'a>(scan: &mut Scan<'a, '_>, event: &mut RawEvent<'a>) -> Result<(), Stop> {
        scan.members(|scan, key| match key {
            b"ph" => put(scan, &mut event.ph, text),
            b"cat" => put(scan, &mut event.cat, text),
            b"name" => put(scan, &mut event.name, text),
            b"pid" => put(scan, &mut event.pid, value),
            b"tid" => put(scan, &mut event.tid, value),
            b"ts" => put(scan, &mut event.ts, value),
            b"dur" => put(scan, &mut event.dur, value),
            b"id" => put(scan, &mut event.id, value),
            b"args" => args(scan, &mut event.args),
            _ => scan.value().map(drop),
        })?;
        match event.ph {
            Some(_) => Ok(()),
            None => scan.wrong(),
        }
    }
}

fn args<'a>(scan: &mut Scan<'a, '_>, args: &mut Args<'a>) -> Result<(), Stop> {
    if scan.peek()? != b'{' {
        return value(scan).map(drop);
    }
    scan.members(|scan, key| match key {
        b"correlation" => put(scan, &mut args.correlation, value),
        b"External id" => put(scan, &mut args.external, value),
        b"external id" => put(scan, &mut args.external_of_old, value),
        b"name" => put(scan, &mut args.name, value),
        b"Collective name" => put(scan, &mut args.collective, text),
        b"In msg nelems" => put(scan, &mut args.sent, value),
        b"Out msg nelems" => put(scan, &mut args.received, value),
        b"dtype" => put(scan, &mut args.element_type, value),
        b"Group size" => put(scan, &mut args.group_size, value),
        b"Process Group Name" => put(scan, &mut args.group, value),
        _ => scan.value().map(drop),
    })
}

/// Reads a field that stands here, which is wrong where it was read before: two events that ran into each other are none.
fn put<'a, 'n, T>(
    scan: &mut Scan<'a, 'n>,
    field: &mut Option<T>,
    read: impl FnOnce(&mut Scan<'a, 'n>) -> Result<Option<T>, Stop>,
) -> Result<(), Stop> {
    if field.is_some() {
        return scan.wrong();
    }
    *field = read(scan)?;
    Ok(())
}

fn value<'a>(scan: &mut Scan<'a, '_>) -> Result<Option<&'a [u8]>, Stop> {
    scan.value().map(|value| Some(value).filter(|value| *value != b"null"))
}

fn text<'a>(scan: &mut Scan<'a, '_>) -> Result<Option<Text<'a>>, Stop> {
    match scan.peek()? {
        b'"' => scan.string().and_then(|string| unescaped(&string).map_or_else(|| scan.wrong(), |text| Ok(Some(text)))),
        b'n' => scan.value().map(|_| None),
        _ => scan.wrong(),
    }
}

fn unescaped<'a>(string: &Quoted<'a>) -> Option<Text<'a>> {
    match string.escaped {
        false => Some(Cow::Borrowed(string.bytes)),
        true => {
            let quoted = [b"\"", string.bytes, b"\""].concat();
            serde_json::from_slice::<Unescaped>(&quoted).ok().map(|text| Cow::Owned(text.0))
        }
    }
}

/// The bytes that a string with escapes stands for.
struct Unescaped(Vec<u8>);

impl<'de> Deserialize<'de> for Unescaped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(BytesVisitor).map(Unescaped)
    }
}

struct BytesVisitor;

impl Visitor<'_> for BytesVisitor {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }
}

/// Moves behind any value.
pub(crate) struct Anything;

impl Shape for Anything {
    type Of<'a> = ();

    fn read(scan: &mut Scan<'_, '_>, _: &mut ()) -> Result<(), Stop> {
        scan.value().map(drop)
    }
}

/// Reads what borrows nothing.
pub(crate) struct Owned<T>(std::marker::PhantomData<T>);

impl<T: DeserializeOwned + Default> Shape for Owned<T> {
    type Of<'a> = T;

    fn read(scan: &mut Scan<'_, '_>, value: &mut T) -> Result<(), Stop> {
        *value = serde_json::from_slice(scan.value()?).or_else(|_| scan.wrong())?;
        Ok(())
    }
}

/// A whole number, bare or in quotes, where it may have sixteen digits behind `0x`; 0 where it is none.
pub(crate) fn whole(number: Option<&[u8]>) -> u64 {
    let number = number.unwrap_or_default();
    let number = number.strip_prefix(b"\"").and_then(|number| number.strip_suffix(b"\"")).unwrap_or(number);
    let (digits, base) = number.strip_prefix(b"0x").map_or((number, 10), |digits| (digits, 16));
    let more = |value: u64, digit: &u8| {
        value.checked_mul(u64::from(base))?.checked_add(u64::from(char::from(*digit).to_digit(base)?))
    };
    digits.iter().try_fold(0, more).unwrap_or(0)
}

/// A number or a string as text.
pub(crate) fn as_written(value: Option<&[u8]>) -> String {
    let value = value.unwrap_or_default();
    serde_json::from_slice(value).unwrap_or_else(|_| String::from_utf8_lossy(value).into_owned())
}
