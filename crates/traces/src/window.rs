//! A window of a file in memory, decompressed if necessary, that moves on as JSON values are read from it.

use crate::scan::{JsonScan, JsonShape, ScanStop};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::unzipped::{is_gzipped, unzipped};
use std::cell::Cell;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;
use std::rc::Rc;

/// Bytes read at a time.
pub(crate) const STRIDE: usize = 1 << 18;
/// No profiler writes a longer value; names of a megabyte are read.
const LONGEST: usize = 32 << 20;

/// The limits for decompression. Gzip reduces traces to no less than a twenty-sixth (`docs/traces.md`), because the
/// digits of their times differ. A file that exceeds both this factor and this size in bytes was made to fill memory.
const UNPACKED: (u64, u64) = (50, 100_000_000);

/// The byte order mark in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

pub(crate) enum ParsedValue<T> {
    Value(T),
    /// The value has another type or a syntax error at this byte.
    Wrong(usize),
    /// The file ends within the value.
    Cut,
    /// The value is unreasonably long.
    Endless,
}

pub(crate) struct JsonWindow {
    source: Box<dyn Read>,
    /// The data read from the file, up to `end`; the part before `start` has been used.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    stride: usize,
    /// Memory that is reused by [`JsonScan`].
    nesting: Vec<u8>,
    /// The number of bytes of the JSON before the buffer.
    before: u64,
    ended: bool,
    /// The number of bytes read from the file, if it is gzipped.
    packed: Option<Rc<Cell<u64>>>,
    /// The error that ended reading.
    pub broken: Option<String>,
}

impl JsonWindow {
    /// Opens a file that is read `stride` bytes at a time, or more for a longer value.
    pub fn open(file: &Path, stride: usize) -> Result<Self> {
        const DOING: &str = "read the trace";
        let packed = Rc::new(Cell::new(0));
        let counted = CountedReader { file: input_file::open(file, DOING)?, read: Rc::clone(&packed) };
        let mut input = BufReader::with_capacity(STRIDE, counted);
        let failed = |cause: io::Error| Error::io(file, DOING, &cause);
        let packed = is_gzipped(&mut input).map_err(failed)?.then_some(packed);
        let source = unzipped(input).map_err(failed)?;
        Ok(JsonWindow {
            source,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            stride,
            nesting: Vec::new(),
            before: 0,
            ended: false,
            packed,
            broken: None,
        })
    }

    /// The current position in the JSON, in bytes.
    pub fn position(&self) -> u64 {
        self.before + self.start as u64
    }

    /// Skips the byte order mark that some editors put before UTF-8 text.
    pub fn skip_mark(&mut self) {
        while self.unread().len() < MARK.len() && !self.ended {
            self.fill();
        }
        if self.unread().starts_with(MARK) {
            self.skip(MARK.len());
        }
    }

    /// Skips white space and returns the next byte without moving past it; none at the end.
    pub fn peek(&mut self) -> Option<u8> {
        loop {
            let blank = self.unread().iter().position(|byte| !byte.is_ascii_whitespace());
            match blank {
                Some(blanks) => {
                    self.start += blanks;
                    return Some(self.buffer[self.start]);
                }
                None if self.ended => return None,
                None => {
                    self.abandon();
                    self.fill();
                }
            }
        }
    }

    pub fn skip(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
    }

    /// Moves to the next opening brace and returns the last byte before it that is not white space; none at the end.
    pub fn next_object(&mut self) -> Option<u8> {
        let mut before = b' ';
        loop {
            while let Some(&byte) = self.unread().first() {
                match byte {
                    b'{' => return Some(before),
                    _ if byte.is_ascii_whitespace() => {}
                    _ => before = byte,
                }
                self.start += 1;
            }
            if self.ended {
                return None;
            }
            self.fill();
        }
    }

    /// Reads the JSON value at the position, passes it to `take` and moves past it; does not move if it has another
    /// type.
    pub fn value<S: JsonShape, R>(&mut self, take: impl FnOnce(&S::Of<'_>) -> R) -> ParsedValue<R> {
        loop {
            let text = &self.buffer[self.start..self.end];
            let size = text.len();
            {
                let (mut scan, mut value) = (JsonScan::new(text, &mut self.nesting), S::Of::default());
                match S::read(&mut scan, &mut value) {
                    // A number at the end of the data may continue.
                    Ok(()) if scan.position() < size || self.ended => {
                        self.start += scan.position();
                        return ParsedValue::Value(take(&value));
                    }
                    Err(ScanStop::Wrong) => return ParsedValue::Wrong(scan.position().max(1)),
                    Ok(()) | Err(ScanStop::End) => {}
                }
            }
            match size {
                _ if self.ended => return ParsedValue::Cut,
                LONGEST.. => return ParsedValue::Endless,
                _ => self.fill(),
            }
        }
    }

    /// Whether a value of this type is at the position; does not move.
    pub fn looks_like<S: JsonShape>(&mut self) -> ParsedValue<()> {
        let at = self.position();
        let parsed = self.value::<S, _>(|_| ());
        self.start = (at - self.before) as usize;
        parsed
    }

    /// Skips all data in memory.
    pub fn abandon(&mut self) {
        self.start = self.end;
    }

    fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads more data: as much as is in memory, so that a long value is not scanned over and over.
    fn fill(&mut self) {
        self.before += self.start as u64;
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let full = self.end + self.end.max(self.stride);
        if self.buffer.len() < full {
            self.buffer.resize(full, 0);
        }
        while self.end < full && !self.ended {
            match self.source.read(&mut self.buffer[self.end..full]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.end += read,
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) => self.stop(cause.to_string()),
            }
        }
        let (unpacked, (times, most)) = (self.before + self.end as u64, UNPACKED);
        if self.packed.as_ref().is_some_and(|packed| unpacked > most.max(times * packed.get())) {
            self.stop(format!("it unpacks to more than {times} times its size, which no trace does"));
        }
    }

    fn stop(&mut self, why: String) {
        self.ended = true;
        self.broken = Some(why);
    }
}

/// A file that counts the bytes read.
struct CountedReader<R> {
    file: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read.set(self.read.get() + read as u64);
        Ok(read)
    }
}
