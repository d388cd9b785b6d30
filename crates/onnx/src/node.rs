//! Decodes a node without the notes that are not used: PyTorch's stack traces are most of a file of its default exporter.

use super::notes::is_asked_for;
use super::schema::{NodeProto, field};
use prost::encoding::{DecodeContext, decode_key, decode_varint, skip_field};
use prost::{DecodeError, Message};

/// Decodes a node. Its lists have no spare room: lists that grow have room for four, and large graphs have ten thousand lists of
/// one attribute.
///
/// # Errors
/// The bytes are no node.
pub(super) fn decode(bytes: &[u8]) -> Result<NodeProto, DecodeError> {
    let [mut inputs, mut outputs, mut attributes] = [0; 3];
    let mut unread = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let start = bytes.len() - rest.len();
        let (number, wire) = decode_key(&mut rest)?;
        let body = rest;
        skip_field(wire, number, &mut rest, DecodeContext::default())?;
        match number {
            field::NODE_INPUT => inputs += 1,
            field::NODE_OUTPUT => outputs += 1,
            field::NODE_ATTRIBUTE => attributes += 1,
            field::NODE_METADATA_PROPS if !is_read(body) => unread.push(start..bytes.len() - rest.len()),
            _ => {}
        }
    }
    let mut node = NodeProto {
        input: Vec::with_capacity(inputs),
        output: Vec::with_capacity(outputs),
        attribute: Vec::with_capacity(attributes),
        ..NodeProto::default()
    };
    let mut from = 0;
    for gap in unread {
        node.merge(&bytes[from..gap.start])?;
        from = gap.end;
    }
    node.merge(&bytes[from..])?;
    Ok(node)
}

/// Whether the note that begins here with its length is used.
fn is_read(note: &[u8]) -> bool {
    key(note).ok().flatten().is_some_and(is_asked_for)
}

fn key(mut note: &[u8]) -> Result<Option<&[u8]>, DecodeError> {
    let mut rest = delimited(&mut note)?;
    while !rest.is_empty() {
        let (number, wire) = decode_key(&mut rest)?;
        if number == field::KEY {
            return delimited(&mut rest).map(Some);
        }
        skip_field(wire, number, &mut rest, DecodeContext::default())?;
    }
    Ok(None)
}

/// Splits off bytes that follow their length.
fn delimited<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], DecodeError> {
    let length = usize::try_from(decode_varint(bytes)?).unwrap_or(usize::MAX);
    Ok(bytes.get(..length).unwrap_or_default())
}
