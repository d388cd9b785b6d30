//! Reads a file's messages without its weights: of large payloads only the position is kept, and unused fields are skipped.

use super::functions;
use super::line_breaks;
use super::node;
use super::schema::{GraphProto, ModelProto, NodeProto, TensorProto, field};
use prost::Message;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::Range;

/// Payloads up to this many bytes are kept: shapes, axes and scalars are smaller; larger ones are weights.
const KEPT: u64 = 64 * 1024;

const ROOM: usize = 128 * 1024;

pub(super) struct OnnxFile {
    /// Its producer, opsets, and the graph without initializers.
    pub model: ModelProto,
    pub initializers: Vec<Initializer>,
}

/// One initializer and the position of its payload in the file, if it was left out.
pub(super) struct Initializer {
    pub tensor: TensorProto,
    pub payload: Option<Range<u64>>,
}

/// Reads the messages of an ONNX file of `length` bytes.
///
/// # Errors
/// `InvalidData` if the bytes are no ONNX file or end too early, `Unsupported` if its functions have no end; otherwise the
/// operating system's error.
pub(super) fn read(input: impl Read + Seek, length: u64) -> io::Result<OnnxFile> {
    let mut wire = WireReader { input: BufReader::with_capacity(ROOM, input), position: 0, node: Vec::new() };
    let (mut graph, mut model_fields) = (GraphFields::default(), Vec::new());
    while wire.position < length {
        let field = wire.field(length)?;
        match (field.number, field.body.clone()) {
            (field::GRAPH, Some(body)) => wire.graph(body, &mut graph)?,
            (field::PRODUCER_NAME | field::OPSET_IMPORT | field::METADATA_PROPS | field::FUNCTIONS, _) => {
                wire.keep(&field, &mut model_fields)?
            }
            (_, body) => wire.skip(body)?,
        }
    }
    let mut model = ModelProto::decode(model_fields.as_slice()).map_err(garbage)?;
    let GraphFields { fields, nodes, mut initializers } = graph;
    model.graph = Some(GraphProto { node: nodes, ..GraphProto::decode(fields.as_slice()).map_err(garbage)? });
    line_breaks::escape(&mut model);
    line_breaks::names(initializers.iter_mut().filter_map(|initializer| initializer.tensor.name.as_mut()));
    let graph = model.graph.take().unwrap_or_default();
    model.graph = Some(functions::inline_functions(&model, graph).map_err(nested_error)?);
    Ok(OnnxFile { model, initializers })
}

#[derive(Default)]
struct GraphFields {
    /// The bytes of the kept fields, without nodes and initializers.
    fields: Vec<u8>,
    nodes: Vec<NodeProto>,
    initializers: Vec<Initializer>,
}

fn garbage(problem: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem.to_string())
}

fn nested_error(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, problem)
}

struct WireReader<R> {
    input: BufReader<R>,
    position: u64,
    node: Vec<u8>,
}

/// One field: its number, its key and value as written, and the position of a length-delimited body.
struct WireField {
    number: u64,
    /// The bytes up to the body, or of the whole field if it has none.
    head: FieldHeader,
    body: Option<Range<u64>>,
}

/// A key and a number as written, of at most ten bytes each. They are stored in place, because a graph of 20 MB has two hundred
/// thousand of them.
#[derive(Clone, Copy, Default)]
struct FieldHeader {
    bytes: [u8; 20],
    length: usize,
}

impl FieldHeader {
    fn push(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl<R: Read + Seek> WireReader<R> {
    fn byte(&mut self) -> io::Result<u8> {
        let byte = *self.input.fill_buf()?.first().ok_or_else(|| garbage("ends in the middle of a field"))?;
        self.input.consume(1);
        self.position += 1;
        Ok(byte)
    }

    /// A variable-length integer; its bytes are appended to `head`.
    fn varint(&mut self, head: &mut FieldHeader) -> io::Result<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            head.push(byte);
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(garbage("holds a number of more than 64 bits"))
    }

    /// The next field of a message that ends at `end`; a body is left unread.
    fn field(&mut self, end: u64) -> io::Result<WireField> {
        let mut head = FieldHeader::default();
        let key = self.varint(&mut head)?;
        let number = key >> 3;
        let mut body = None;
        match key & 7 {
            0 => drop(self.varint(&mut head)?),
            1 => self.number::<8>(&mut head)?,
            5 => self.number::<4>(&mut head)?,
            2 => {
                let length = self.varint(&mut head)?;
                body = Some(self.position..self.position.saturating_add(length));
            }
            other => return Err(garbage(format!("holds a field of wire type {other}"))),
        }
        if number == 0 || body.as_ref().map_or(self.position, |body| body.end) > end {
            return Err(garbage("holds a field that reaches past its end"));
        }
        Ok(WireField { number, head, body })
    }

    fn number<const BYTES: usize>(&mut self, head: &mut FieldHeader) -> io::Result<()> {
        (0..BYTES).try_for_each(|_| self.byte().map(|byte| head.push(byte)))
    }

    /// Copies `length` bytes, which exist if the length given for the file is right.
    fn copy(&mut self, length: u64, out: &mut Vec<u8>) -> io::Result<()> {
        let start = out.len();
        out.resize(start + length as usize, 0);
        self.input.read_exact(&mut out[start..]).map_err(|cause| match cause.kind() {
            io::ErrorKind::UnexpectedEof => garbage("ends in the middle of a field"),
            _ => cause,
        })?;
        self.position += length;
        Ok(())
    }

    fn keep(&mut self, field: &WireField, out: &mut Vec<u8>) -> io::Result<()> {
        out.extend(field.head.as_slice());
        match &field.body {
            Some(body) => self.copy(body.end - body.start, out),
            None => Ok(()),
        }
    }

    /// Skips the body of a field, which must be within the file.
    fn skip(&mut self, body: Option<Range<u64>>) -> io::Result<()> {
        let Some(body) = body else { return Ok(()) };
        match i64::try_from(body.end - body.start) {
            Ok(length) => self.input.seek_relative(length)?,
            Err(_) => drop(self.input.seek(SeekFrom::Start(body.end))?),
        }
        self.position = body.end;
        Ok(())
    }

    fn graph(&mut self, body: Range<u64>, graph: &mut GraphFields) -> io::Result<()> {
        while self.position < body.end {
            let field = self.field(body.end)?;
            match (field.number, field.body.clone()) {
                (field::INITIALIZER, Some(body)) => graph.initializers.push(self.initializer(body)?),
                (field::NODE, Some(body)) => graph.nodes.push(self.node(body)?),
                (number, _) if field::KEPT_OF_GRAPH.contains(&number) => self.keep(&field, &mut graph.fields)?,
                (_, body) => self.skip(body)?,
            }
        }
        Ok(())
    }

    fn node(&mut self, body: Range<u64>) -> io::Result<NodeProto> {
        let mut bytes = std::mem::take(&mut self.node);
        bytes.clear();
        self.copy(body.end - body.start, &mut bytes)?;
        let node = node::decode(&bytes).map_err(garbage)?;
        self.node = bytes;
        Ok(node)
    }

    fn initializer(&mut self, body: Range<u64>) -> io::Result<Initializer> {
        let (mut kept, mut payload) = (Vec::new(), None);
        while self.position < body.end {
            let field = self.field(body.end)?;
            match (field.number, field.body.clone()) {
                (field::RAW_DATA | field::FLOAT_DATA, Some(body)) if body.end - body.start > KEPT => {
                    self.skip(Some(body.clone()))?;
                    payload = Some(body);
                }
                _ => self.keep(&field, &mut kept)?,
            }
        }
        Ok(Initializer { tensor: TensorProto::decode(kept.as_slice()).map_err(garbage)?, payload })
    }
}
