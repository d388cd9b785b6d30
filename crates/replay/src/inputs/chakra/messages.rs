//! The messages of a Chakra trace, as far as they are used: a file is a `GlobalMetadata` and then one `Node` after the other,
//! each behind its length (<https://github.com/mlcommons/chakra>, schema/protobuf/et_def.proto).

use perf4sight_base::error::{Error, Result};
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct ChakraOperation {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    /// A `NodeType` of the schema.
    #[prost(int32, tag = "3")]
    pub kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    pub control: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    pub data: Vec<u64>,
    #[prost(uint64, tag = "6")]
    pub start_micros: u64,
    #[prost(uint64, tag = "7")]
    pub duration_micros: u64,
    #[prost(message, repeated, tag = "10")]
    pub attributes: Vec<ChakraAttribute>,
}

/// An attribute: one of the values is there. Lists and bytes are not used.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ChakraAttribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(double, optional, tag = "3")]
    pub double: Option<f64>,
    #[prost(float, optional, tag = "5")]
    pub float: Option<f32>,
    #[prost(int32, optional, tag = "7")]
    pub int32: Option<i32>,
    #[prost(int64, optional, tag = "9")]
    pub int64: Option<i64>,
    #[prost(uint32, optional, tag = "11")]
    pub uint32: Option<u32>,
    #[prost(uint64, optional, tag = "13")]
    pub uint64: Option<u64>,
    #[prost(sint32, optional, tag = "15")]
    pub sint32: Option<i32>,
    #[prost(sint64, optional, tag = "17")]
    pub sint64: Option<i64>,
    #[prost(bool, optional, tag = "27")]
    pub boolean: Option<bool>,
    #[prost(string, optional, tag = "29")]
    pub text: Option<String>,
}

impl ChakraAttribute {
    fn fraction(&self) -> Option<f64> {
        self.double.or(self.float.map(f64::from))
    }

    /// A whole number of a type with a sign, or one that is text.
    fn signed(&self) -> Option<i64> {
        let number = self.int64.or(self.sint64).or(self.int32.or(self.sint32).map(i64::from));
        number.or_else(|| self.text.as_deref()?.parse().ok())
    }
}

/// The values of [`ChakraOperation::kind`] that are used.
pub(super) const SEND: i32 = 5;
pub(super) const RECEIVE: i32 = 6;
pub(super) const COLLECTIVE: i32 = 7;

/// The kinds of collective operations, by the number in the attribute `comm_type`.
const COLLECTIVES: [&str; 10] = [
    "all_reduce",
    "reduce",
    "all_gather",
    "gather",
    "scatter",
    "broadcast",
    "all_to_all",
    "reduce_scatter",
    "reduce_scatter_block",
    "barrier",
];

impl ChakraOperation {
    fn attribute(&self, name: &str) -> Option<&ChakraAttribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// An attribute that is a whole number or a truth value, of any type.
    pub fn number(&self, name: &str) -> Option<u64> {
        let attribute = self.attribute(name)?;
        let unsigned = attribute.uint64.or(attribute.uint32.map(u64::from)).or(attribute.boolean.map(u64::from));
        let signed = || u64::try_from(attribute.signed()?).ok();
        unsigned.or_else(signed).or_else(|| attribute.text.as_deref()?.parse().ok())
    }

    /// An attribute that is text, or a number as text.
    pub fn text(&self, name: &str) -> Option<String> {
        let text = self.attribute(name)?.text.clone();
        text.or_else(|| self.number(name).map(|number| number.to_string()))
    }

    /// Nanoseconds; files from before there was a field for it have an attribute.
    pub fn duration(&self) -> u64 {
        let attribute = || {
            let attribute = self.runtime()?;
            let float = attribute.fraction().filter(|time| *time >= 0.0);
            float
                .map(|time| (time * 1e3) as u64)
                .or_else(|| self.number(&attribute.name).map(|time| time.saturating_mul(1000)))
        };
        match self.duration_micros {
            0 => attribute().unwrap_or(0),
            micros => micros.saturating_mul(1000),
        }
    }

    /// Whether its duration is a negative number, as no operation's is. The field for it has no sign.
    pub fn is_negative(&self) -> bool {
        let runtime = self.runtime().filter(|_| self.duration_micros == 0);
        runtime.is_some_and(|own| {
            own.fraction().is_some_and(|time| time < 0.0) || own.signed().is_some_and(|time| time < 0)
        })
    }

    fn runtime(&self) -> Option<&ChakraAttribute> {
        self.attribute("runtime").or_else(|| self.attribute("duration_micros"))
    }

    /// What it exchanges with other ranks, if it does.
    pub fn exchange(&self) -> Option<&'static str> {
        match self.kind {
            SEND => Some("send"),
            RECEIVE => Some("recv"),
            COLLECTIVE => {
                let kind = self.number("comm_type").and_then(|kind| COLLECTIVES.get(usize::try_from(kind).ok()?));
                Some(kind.copied().unwrap_or("other"))
            }
            _ => None,
        }
    }
}

/// The nodes of a file, and why it is not all of them, in words.
///
/// # Errors
/// A file without any node.
pub(super) fn nodes(mut bytes: &[u8]) -> Result<(Vec<ChakraOperation>, Option<String>)> {
    let (all, mut nodes) = (bytes.len(), Vec::new());
    let mut messages = 0u64;
    while !bytes.is_empty() {
        let at = all - bytes.len();
        let message = prost::decode_length_delimiter(&mut bytes).ok().and_then(|length| bytes.split_at_checked(length));
        let Some((message, rest)) = message else {
            return finish_reading(nodes, Some(format!("it ends in the middle of the message at byte {at}")));
        };
        bytes = rest;
        // The metadata of the file is no node.
        match ChakraOperation::decode(message) {
            Ok(node) if node.kind != 0 => nodes.push(node),
            Ok(_) | Err(_) if messages == 0 => {}
            Ok(_) => return finish_reading(nodes, Some(format!("the message at byte {at} is a node of no type"))),
            Err(cause) => {
                return finish_reading(nodes, Some(format!("the message at byte {at} is not a node: {cause}")));
            }
        }
        messages += 1;
    }
    finish_reading(nodes, None)
}

fn finish_reading(nodes: Vec<ChakraOperation>, cut: Option<String>) -> Result<(Vec<ChakraOperation>, Option<String>)> {
    match (nodes.is_empty(), cut) {
        (false, cut) => Ok((nodes, cut)),
        (true, cut) => {
            Err(Error::input(format!("is not a Chakra trace: {}", cut.unwrap_or_else(|| "it has no node".to_owned())))
                .expected("messages behind their lengths, as et_def.proto of mlcommons/chakra says"))
        }
    }
}
