//! Reads pickles as data: numbers, texts, lists, tuples and dictionaries become JSON. Whatever would call a function or
//! make an object is refused, and nothing is ever run. Crates for pickles copy a shared value at each use, so that a file
//! of a few hundred bytes can fill the memory of any machine.

use perf4sight_base::error::{Error, Result};
use serde_json::{Map, Number, Value};
use std::collections::HashMap;

/// The first byte of a pickle of protocol 2 or later.
pub(super) const PROTOCOL: u8 = 0x80;
/// Values in a file at most, shared ones counted at each use: a full recorder of 2,000 calls with stacks has half a million.
const VALUES: usize = 5_000_000;
/// Lists within lists at most.
const DEPTH: usize = 64;

/// A value, whose items are indices of other values: several may share one.
#[derive(Debug)]
enum PickleNode {
    Plain(Value),
    List(Vec<usize>),
    Dict(Vec<[usize; 2]>),
}

struct PickleReader<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<PickleNode>,
    stack: Vec<usize>,
    /// The height of the stack at each mark.
    marks: Vec<usize>,
    memo: HashMap<u64, usize>,
}

/// The value of a pickle.
///
/// # Errors
/// Bytes that are no pickle or end too early, one that would run code, and one that contains itself or takes too much memory.
pub(super) fn read(bytes: &[u8]) -> Result<Value> {
    let mut reader =
        PickleReader { bytes, at: 0, nodes: Vec::new(), stack: Vec::new(), marks: Vec::new(), memo: HashMap::new() };
    loop {
        let at = reader.at;
        let code = reader.byte()?;
        if code == b'.' {
            let last = reader.pop()?;
            return reader.value(last, 0, &mut VALUES.clone());
        }
        reader.step(code).map_err(|error| error.help(format!("the problem is at byte {at}")))?;
    }
}

fn damaged_error(problem: &str) -> Error {
    Error::input(format!("is not a complete pickle: {problem}")).expected("a dump of PyTorch's flight recorder")
}

impl<'a> PickleReader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let taken = self.at.checked_add(count).and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| damaged_error("it ends in the middle"))?;
        self.at += count;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    /// A number of so many bytes, the lowest first.
    fn length(&mut self, bytes: usize) -> Result<usize> {
        let number = self.take(bytes)?.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        usize::try_from(number).map_err(|_| damaged_error("it has a length that no memory has"))
    }

    /// A line of text, as protocol 0 has it.
    fn line(&mut self) -> Result<&'a str> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(|| damaged_error("it ends in the middle"))?;
        self.at += end + 1;
        str::from_utf8(&rest[..end]).map_err(|_| damaged_error("it has a line that is no text"))
    }

    fn pop(&mut self) -> Result<usize> {
        let above = self.marks.last().is_none_or(|mark| *mark < self.stack.len());
        let top = self.stack.pop().filter(|_| above);
        top.ok_or_else(|| damaged_error("it takes a value that is not there"))
    }

    /// All values since the last mark.
    fn pop_to_mark(&mut self) -> Result<Vec<usize>> {
        let mark = self.marks.pop().ok_or_else(|| damaged_error("it ends a list that did not begin"))?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn push(&mut self, node: PickleNode) {
        self.nodes.push(node);
        self.stack.push(self.nodes.len() - 1);
    }

    fn push_plain(&mut self, value: impl Into<Value>) {
        self.push(PickleNode::Plain(value.into()));
    }

    /// A text behind its length, which has so many bytes.
    fn text(&mut self, bytes: usize) -> Result<()> {
        let length = self.length(bytes)?;
        let text = String::from_utf8_lossy(self.take(length)?).into_owned();
        self.push_plain(text);
        Ok(())
    }

    fn tuple(&mut self, items: usize) -> Result<()> {
        let mut taken = (0..items).map(|_| self.pop()).collect::<Result<Vec<usize>>>()?;
        taken.reverse();
        self.push(PickleNode::List(taken));
        Ok(())
    }

    /// A whole number of so many bytes with a sign, the lowest first.
    fn long(&mut self, length: usize) -> Result<()> {
        let bytes = self.take(length)?;
        if bytes.len() > 8 {
            return Err(damaged_error("it has a number of more than 64 bits"));
        }
        let sign = if bytes.last().is_some_and(|byte| *byte >= 0x80) { -1i64 } else { 0 };
        self.push_plain(bytes.iter().rev().fold(sign, |number, byte| number << 8 | i64::from(*byte)));
        Ok(())
    }

    fn number(&mut self) -> Result<()> {
        let text = self.line()?.trim_end_matches('L');
        let value = match text {
            "00" => Value::Bool(false),
            "01" => Value::Bool(true),
            text => text.parse::<i64>().map(Value::from).map_err(|_| damaged_error("it has a number that is none"))?,
        };
        self.push(PickleNode::Plain(value));
        Ok(())
    }

    fn float(&mut self, number: f64) {
        self.push_plain(Number::from_f64(number).map_or(Value::Null, Value::Number));
    }

    fn remember(&mut self, place: u64) -> Result<()> {
        let top = *self.stack.last().ok_or_else(|| damaged_error("it remembers a value that is not there"))?;
        self.memo.insert(place, top);
        Ok(())
    }

    fn recall(&mut self, place: u64) -> Result<()> {
        let known = self.memo.get(&place).copied();
        self.stack.push(known.ok_or_else(|| damaged_error("it recalls a value that it did not remember"))?);
        Ok(())
    }

    fn add_items(&mut self, items: Vec<usize>) -> Result<()> {
        let Some(PickleNode::List(list)) = self.stack.last().map(|top| &mut self.nodes[*top]) else {
            return Err(damaged_error("it adds items to what is no list"));
        };
        list.extend(items);
        Ok(())
    }

    fn add_pairs(&mut self, items: Vec<usize>) -> Result<()> {
        let (pairs, rest) = items.as_chunks::<2>();
        match self.stack.last().map(|top| &mut self.nodes[*top]) {
            Some(PickleNode::Dict(dict)) if rest.is_empty() => dict.extend(pairs),
            Some(PickleNode::Dict(_) | PickleNode::List(_) | PickleNode::Plain(_)) | None => {
                return Err(damaged_error("it adds pairs to what is no dictionary"));
            }
        }
        Ok(())
    }

    /// What one instruction does (Python's pickletools lists them all).
    fn step(&mut self, code: u8) -> Result<()> {
        match code {
            PROTOCOL => _ = self.byte()?,
            0x95 => _ = self.take(8)?,
            b'(' => self.marks.push(self.stack.len()),
            b'0' => _ = self.pop()?,
            b'1' => _ = self.pop_to_mark()?,
            b'2' => {
                let top = self.pop()?;
                self.stack.extend([top, top]);
            }
            b'q' | b'r' | b'p' | 0x94 | b'h' | b'j' | b'g' => self.memory(code)?,
            b'X' | b'T' | b'B' => self.text(4)?,
            0x8c | b'U' | b'C' => self.text(1)?,
            0x8d | 0x8e => self.text(8)?,
            b'V' | b'S' => {
                let text = self.line()?.trim_matches('\'').to_owned();
                self.push_plain(text);
            }
            b'N' => self.push_plain(Value::Null),
            0x88 => self.push_plain(true),
            0x89 => self.push_plain(false),
            b'J' | b'K' | b'M' | 0x8a | b'I' | b'L' | b'G' | b'F' => self.any_number(code)?,
            _ => self.container(code)?,
        }
        Ok(())
    }

    fn any_number(&mut self, code: u8) -> Result<()> {
        match code {
            b'J' => self.long(4),
            b'K' | b'M' => {
                let number = self.length(if code == b'K' { 1 } else { 2 })?;
                self.push_plain(number);
                Ok(())
            }
            0x8a => {
                let length = self.length(1)?;
                self.long(length)
            }
            b'G' => {
                let bits = self.take(8)?.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
                self.float(f64::from_bits(bits));
                Ok(())
            }
            b'F' => {
                let number = self.line()?.parse().map_err(|_| damaged_error("it has a number that is none"))?;
                self.float(number);
                Ok(())
            }
            _ => self.number(),
        }
    }

    /// Lists, tuples, sets and dictionaries, and what is added to them.
    fn container(&mut self, code: u8) -> Result<()> {
        match code {
            b']' | b')' | 0x8f => self.push(PickleNode::List(Vec::new())),
            b'}' => self.push(PickleNode::Dict(Vec::new())),
            0x85..=0x87 => self.tuple(usize::from(code - 0x84))?,
            b't' | b'l' | 0x91 => {
                let items = self.pop_to_mark()?;
                self.push(PickleNode::List(items));
            }
            b'd' => {
                let items = self.pop_to_mark()?;
                self.push(PickleNode::Dict(Vec::new()));
                self.add_pairs(items)?;
            }
            b'a' => {
                let item = self.pop()?;
                self.add_items(vec![item])?;
            }
            b'e' | 0x90 => {
                let items = self.pop_to_mark()?;
                self.add_items(items)?;
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.add_pairs(vec![key, value])?;
            }
            b'u' => {
                let items = self.pop_to_mark()?;
                self.add_pairs(items)?;
            }
            other => return Err(refused_error(other)),
        }
        Ok(())
    }

    /// Remembers the last value, or recalls one.
    fn memory(&mut self, code: u8) -> Result<()> {
        let place = match code {
            b'q' | b'h' => self.length(1)? as u64,
            b'r' | b'j' => self.length(4)? as u64,
            0x94 => self.memo.len() as u64,
            _ => self.line()?.parse().map_err(|_| damaged_error("it has a number that is none"))?,
        };
        if matches!(code, b'h' | b'j' | b'g') { self.recall(place) } else { self.remember(place) }
    }

    /// A value with all that it contains. What contains itself is deeper than any limit.
    fn value(&self, node: usize, depth: usize, left: &mut usize) -> Result<Value> {
        *left = left.checked_sub(1).ok_or_else(|| {
            Error::input(format!("is a pickle of more than {VALUES} values"))
                .expected("a dump of PyTorch's flight recorder")
        })?;
        if depth > DEPTH {
            return Err(damaged_error("its lists contain themselves, or each other too deeply"));
        }
        match &self.nodes[node] {
            PickleNode::Plain(value) => Ok(value.clone()),
            PickleNode::List(items) => items.iter().map(|item| self.value(*item, depth + 1, left)).collect(),
            PickleNode::Dict(pairs) => {
                let mut map = Map::new();
                for [key, value] in pairs {
                    let key = match self.value(*key, depth + 1, left)? {
                        Value::String(key) => key,
                        other => other.to_string(),
                    };
                    map.insert(key, self.value(*value, depth + 1, left)?);
                }
                Ok(Value::Object(map))
            }
        }
    }
}

/// The instruction that is not followed.
fn refused_error(code: u8) -> Error {
    let what = match code {
        b'c' | 0x93 | b'i' => "names a function or class of Python (GLOBAL)",
        b'R' => "calls a function (REDUCE)",
        b'b' | b'o' | 0x81 | 0x92 => "makes an object (BUILD, NEWOBJ)",
        b'P' | b'Q' | 0x82..=0x84 => "refers to an object outside of it",
        _ => return damaged_error(&format!("byte {code:#04x} is not an instruction of one")),
    };
    Error::input(format!("is a pickle that {what}: pickles are read as data and never run"))
        .expected("a dump of PyTorch's flight recorder, which is numbers, texts, lists and dictionaries")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Made by `pickle.dumps({"a": [1, -2, 300, 1 << 40], "t": (True, None, 1.5), "s": s, "again": s}, protocol)`
    /// of Python 3.11 with `s = ["x"]`.
    #[test]
    fn pickles_of_all_protocols_are_the_same_data() {
        let expected = json!({"a": [1, -2, 300, 1u64 << 40], "t": [true, null, 1.5], "s": ["x"], "again": ["x"]});
        let pickles: [&[u8]; 4] = [
            b"(dp0\nVa\np1\n(lp2\nI1\naI-2\naI300\naL1099511627776L\nasVt\np3\n(I01\nNF1.5\ntp4\nsVs\np5\n(lp6\nVx\np7\nasVagain\np8\ng6\ns.",
            b"}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xffM,\x01L1099511627776L\neX\x01\x00\x00\x00tq\x03(I01\nNG?\xf8\x00\x00\x00\x00\x00\x00tq\x04X\x01\x00\x00\x00sq\x05]q\x06X\x01\x00\x00\x00xq\x07aX\x05\x00\x00\x00againq\x08h\x06u.",
            b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01J\xfe\xff\xff\xffM,\x01\x8a\x06\x00\x00\x00\x00\x00\x01eX\x01\x00\x00\x00tq\x03\x88NG?\xf8\x00\x00\x00\x00\x00\x00\x87q\x04X\x01\x00\x00\x00sq\x05]q\x06X\x01\x00\x00\x00xq\x07aX\x05\x00\x00\x00againq\x08h\x06u.",
            b"\x80\x04\x95J\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01J\xfe\xff\xff\xffM,\x01\x8a\x06\x00\x00\x00\x00\x00\x01e\x8c\x01t\x94\x88NG?\xf8\x00\x00\x00\x00\x00\x00\x87\x94\x8c\x01s\x94]\x94\x8c\x01x\x94a\x8c\x05again\x94h\x06u.",
        ];
        for pickle in pickles {
            assert_eq!(read(pickle).unwrap(), expected);
        }
    }

    /// `pickle.dumps` of an object whose `__reduce__` returns `(os.system, ("touch /tmp/x",))`, protocols 2 and 4.
    #[test]
    fn code_is_refused_in_words() {
        for pickle in [
            b"\x80\x02cposix\nsystem\nq\x00X\x0c\x00\x00\x00touch /tmp/xq\x01\x85q\x02Rq\x03.".as_slice(),
            b"\x80\x04\x95'\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x0ctouch /tmp/x\x94\x85\x94R\x94.",
        ] {
            let error = read(pickle).unwrap_err().to_string();
            assert!(error.contains("never run") && error.contains("GLOBAL"), "{error}");
        }
    }

    /// Twenty lists, each of ten times the one before: 10^20 values in 500 bytes. And one that contains itself.
    #[test]
    fn pickles_that_would_fill_the_memory_are_refused() {
        let mut bomb = b"\x80\x02]q\x00".to_vec();
        for level in 0..20u8 {
            bomb.extend([b']', b'q', level + 1, b'(']);
            bomb.extend([b'h', level].repeat(10));
            bomb.push(b'e');
        }
        bomb.push(b'.');
        assert!(read(&bomb).unwrap_err().to_string().contains("values"));
        assert!(read(b"\x80\x02]q\x00h\x00a.").unwrap_err().to_string().contains("contain themselves"));
        let deep: Vec<u8> = b"\x80\x02"
            .iter()
            .copied()
            .chain([b']'].repeat(100_000))
            .chain([b'a'].repeat(99_999))
            .chain(*b".")
            .collect();
        assert!(read(&deep).unwrap_err().to_string().contains("too deeply"));
    }

    /// Any beginning of a pickle, and any with a byte changed, is read or refused.
    #[test]
    fn damaged_pickles_are_refused_without_a_panic() {
        let whole = b"\x80\x02}q\x00(X\x01\x00\x00\x00aq\x01]q\x02(K\x01M,\x01\x8a\x06\x00\x00\x00\x00\x00\x01eu.";
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).is_err());
            for byte in 0..=255 {
                let mut changed = whole.to_vec();
                changed[end] = byte;
                let _ = read(&changed);
            }
        }
    }
}
