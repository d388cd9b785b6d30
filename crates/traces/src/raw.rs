//! The fields of an event, borrowed from the JSON.

use crate::intern::printable;
use crate::scan::{JsonScan, JsonShape, ScanStop};
use serde::de::{DeserializeOwned, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;

/// The content of a string with escapes resolved; copied only if it has escapes. It need not be valid UTF-8: a name may
/// be cut in the middle of a surrogate pair.
pub(crate) type JsonText<'a> = Cow<'a, [u8]>;

/// An element of `traceEvents`. Numbers are kept as the bytes of the file: `pid` and `tid` may be strings, and a float
/// would lose nanoseconds.
#[derive(Default)]
pub(crate) struct RawEvent<'a> {
    /// Always present after a successful read.
    pub ph: Option<JsonText<'a>>,
    pub cat: Option<JsonText<'a>>,
    pub name: Option<JsonText<'a>>,
    pub pid: Option<&'a [u8]>,
    pub tid: Option<&'a [u8]>,
    pub ts: Option<&'a [u8]>,
    pub dur: Option<&'a [u8]>,
    pub id: Option<&'a [u8]>,
    pub args: RawArguments<'a>,
}

#[derive(Default)]
pub(crate) struct RawArguments<'a> {
    pub correlation: Option<&'a [u8]>,
    pub external: Option<&'a [u8]>,
    pub external_of_old: Option<&'a [u8]>,
    pub name: Option<&'a [u8]>,
    pub collective: Option<JsonText<'a>>,
    pub sent: Option<&'a [u8]>,
    pub received: Option<&'a [u8]>,
    pub element_type: Option<&'a [u8]>,
    pub group_size: Option<&'a [u8]>,
    pub group: Option<&'a [u8]>,
    pub ranks: Option<&'a [u8]>,
    pub sequence: Option<&'a [u8]>,
    pub comms_id: Option<&'a [u8]>,
    /// `Src Rank` and `Dst Rank`.
    pub source: Option<&'a [u8]>,
    pub destination: Option<&'a [u8]>,
    /// Of a stream that waits: the call that recorded the event, and on which stream.
    pub event_recorded_by: Option<&'a [u8]>,
    pub event_on_stream: Option<&'a [u8]>,
    /// `Input Dims` and `Input type` of any operator.
    pub dims: Option<&'a [u8]>,
    pub types: Option<&'a [u8]>,
    /// `Concrete Inputs` of any operator: the values of inputs that are no tensors.
    pub values: Option<&'a [u8]>,
}

pub(crate) struct EventsVisitor;

impl JsonShape for EventsVisitor {
    type Of<'a> = RawEvent<'a>;

    fn read<'a>(scan: &mut JsonScan<'a, '_>, event: &mut RawEvent<'a>) -> Result<(), ScanStop> {
        scan.members(|scan, key| {
            let number = match key {
                b"ph" => return read_field(scan, &mut event.ph, text),
                b"cat" => return read_field(scan, &mut event.cat, text),
                b"name" => return read_field(scan, &mut event.name, text),
                b"args" => return args(scan, &mut event.args),
                b"pid" => &mut event.pid,
                b"tid" => &mut event.tid,
                b"ts" => &mut event.ts,
                b"dur" => &mut event.dur,
                b"id" => &mut event.id,
                _ => return scan.value().map(drop),
            };
            read_field(scan, number, value)
        })?;
        match event.ph {
            Some(_) => Ok(()),
            None => scan.wrong(),
        }
    }
}

fn args<'a>(scan: &mut JsonScan<'a, '_>, args: &mut RawArguments<'a>) -> Result<(), ScanStop> {
    if scan.peek()? != b'{' {
        return value(scan).map(drop);
    }
    scan.members(|scan, key| {
        let field = match key {
            b"Collective name" => return read_field(scan, &mut args.collective, text),
            b"correlation" => &mut args.correlation,
            b"External id" => &mut args.external,
            b"external id" => &mut args.external_of_old,
            b"name" => &mut args.name,
            b"In msg nelems" => &mut args.sent,
            b"Out msg nelems" => &mut args.received,
            b"dtype" => &mut args.element_type,
            b"Group size" => &mut args.group_size,
            b"Process Group Name" => &mut args.group,
            b"Process Group Ranks" => &mut args.ranks,
            b"Seq" => &mut args.sequence,
            b"Comms Id" => &mut args.comms_id,
            b"Src Rank" => &mut args.source,
            b"Dst Rank" => &mut args.destination,
            b"wait_on_cuda_event_record_corr_id" => &mut args.event_recorded_by,
            b"wait_on_stream" => &mut args.event_on_stream,
            b"Input Dims" => &mut args.dims,
            b"Input type" => &mut args.types,
            b"Concrete Inputs" => &mut args.values,
            _ => return scan.value().map(drop),
        };
        read_field(scan, field, value)
    })
}

/// Reads a field. A field that was already read is an error: two events that ran into each other are not one.
#[inline]
fn read_field<'a, 'n, T>(
    scan: &mut JsonScan<'a, 'n>,
    field: &mut Option<T>,
    read: impl FnOnce(&mut JsonScan<'a, 'n>) -> Result<Option<T>, ScanStop>,
) -> Result<(), ScanStop> {
    if field.is_some() {
        return scan.wrong();
    }
    *field = read(scan)?;
    Ok(())
}

fn value<'a>(scan: &mut JsonScan<'a, '_>) -> Result<Option<&'a [u8]>, ScanStop> {
    scan.value().map(|value| Some(value).filter(|value| *value != b"null"))
}

fn text<'a>(scan: &mut JsonScan<'a, '_>) -> Result<Option<JsonText<'a>>, ScanStop> {
    match scan.peek()? {
        b'"' => scan.string().and_then(|string| unescaped(string).map_or_else(|| scan.wrong(), |text| Ok(Some(text)))),
        b'n' => scan.value().map(|_| None),
        _ => scan.wrong(),
    }
}

fn unescaped(string: &[u8]) -> Option<JsonText<'_>> {
    if !string.contains(&b'\\') || is_bare_path(string) {
        return Some(Cow::Borrowed(string));
    }
    let quoted = [b"\"", string, b"\""].concat();
    let text = serde_json::from_slice::<Unescaped>(&quoted).ok().map(|text| text.0);
    let is_path = string.windows(PYTHON_FILE.len()).any(|part| part == PYTHON_FILE);
    match text.filter(|text| !is_path || !text.iter().any(u8::is_ascii_control)) {
        Some(text) => Some(Cow::Owned(text)),
        None => is_path.then_some(Cow::Borrowed(string)),
    }
}

/// The text after the path of a Python file in the name of a function.
const PYTHON_FILE: &[u8] = b".py(";

/// Whether a string is a Windows path with unescaped backslashes, as PyTorch wrote them (pytorch#60187):
/// `C:\work\train.py(12): main`.
fn is_bare_path(string: &[u8]) -> bool {
    matches!(string, [drive, b':', b'\\', next, ..] if drive.is_ascii_alphabetic() && *next != b'\\')
}

/// The bytes of a string with its escapes resolved.
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

pub(crate) struct AnyValue;

impl JsonShape for AnyValue {
    type Of<'a> = ();

    fn read(scan: &mut JsonScan<'_, '_>, _: &mut ()) -> Result<(), ScanStop> {
        scan.value().map(drop)
    }
}

/// Reads a value that borrows nothing.
pub(crate) struct OwnedValue<T>(std::marker::PhantomData<T>);

impl<T: DeserializeOwned + Default> JsonShape for OwnedValue<T> {
    type Of<'a> = T;

    fn read(scan: &mut JsonScan<'_, '_>, value: &mut T) -> Result<(), ScanStop> {
        *value = serde_json::from_slice(scan.value()?).or_else(|_| scan.wrong())?;
        Ok(())
    }
}

/// A number without the quotes around it, if any.
pub(crate) fn unquoted(number: &[u8]) -> &[u8] {
    number.strip_prefix(b"\"").and_then(|number| number.strip_suffix(b"\"")).unwrap_or(number)
}

/// A whole number, bare or in quotes; in quotes it may be up to sixteen hexadecimal digits after `0x`. 0 if it is none.
pub(crate) fn whole_number(number: Option<&[u8]>) -> u64 {
    let number = unquoted(number.unwrap_or_default());
    let (digits, base) = number.strip_prefix(b"0x").map_or((number, 10), |digits| (digits, 16));
    let more = |value: u64, digit: &u8| {
        value.checked_mul(u64::from(base))?.checked_add(u64::from(char::from(*digit).to_digit(base)?))
    };
    digits.iter().try_fold(0, more).unwrap_or(0)
}

/// A number or a string as text.
pub(crate) fn as_written(value: Option<&[u8]>) -> String {
    let value = value.unwrap_or_default();
    printable(&serde_json::from_slice::<String>(value).unwrap_or_else(|_| String::from_utf8_lossy(value).into_owned()))
}
