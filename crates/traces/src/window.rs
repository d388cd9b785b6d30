//! A part of a file, gunzipped if need be, that moves on as JSON values are read from it.

use crate::scan::{Scan, Shape, Stop};
use flate2::bufread::MultiGzDecoder;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use std::cell::Cell;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::rc::Rc;

/// Bytes read at once.
pub(crate) const STRIDE: usize = 1 << 18;
/// A longer value is none that a profiler writes; names of a megabyte are read.
const LONGEST: usize = 32 << 20;

/// Traces are gzipped to a twenty-sixth at the least (`docs/traces.md`), as times have digits that differ. What unpacks to so many times its size, and to so many
/// bytes, was made to fill memory.
const UNPACKED: (u64, u64) = (50, 100_000_000);

/// The byte order mark in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// What reading a value gave.
pub(crate) enum Parsed<T> {
    Value(T),
    /// It is none of that kind, as so many bytes say.
    Wrong(usize),
    /// The file ends in it.
    Cut,
    /// It has no end within any reason.
    Endless,
}

/// The part of a file that is in memory.
pub(crate) struct Window {
    source: Box<dyn Read>,
    /// What was read lies in it up to `end`, and was handed on up to `start`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    stride: usize,
    /// Room for what a scan notes.
    nesting: Vec<u8>,
    /// Bytes of the JSON before the buffer.
    before: u64,
    ended: bool,
    /// Bytes of the file that were read, where it is gzipped.
    packed: Option<Rc<Cell<u64>>>,
    /// Why the file could not be read on.
    pub broken: Option<String>,
}

impl Window {
    /// A file that is read so many bytes at a time, more where a value is longer.
    pub fn open(file: &Path, stride: usize) -> Result<Self> {
        const DOING: &str = "read the trace";
        let packed = Rc::new(Cell::new(0));
        let counted = Counted { file: input_file::open(file, DOING)?, read: Rc::clone(&packed) };
        let mut input = BufReader::with_capacity(STRIDE, counted);
        let head = input.fill_buf().map_err(|cause| Error::io(file, DOING, &cause))?;
        let gzipped = head.starts_with(&[0x1f, 0x8b]);
        let source: Box<dyn Read> = if gzipped { Box::new(MultiGzDecoder::new(input)) } else { Box::new(input) };
        let packed = gzipped.then_some(packed);
        Ok(Window {
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

    /// The byte of the JSON it has come to.
    pub fn at(&self) -> u64 {
        self.before + self.start as u64
    }

    /// Moves past the mark that some editors put before a text in UTF-8.
    pub fn skip_mark(&mut self) {
        while self.rest().len() < MARK.len() && !self.ended {
            self.fill();
        }
        if self.rest().starts_with(MARK) {
            self.skip(MARK.len());
        }
    }

    /// The next byte that is no white space; none at the end.
    pub fn peek(&mut self) -> Option<u8> {
        loop {
            let blank = self.rest().iter().position(|byte| !byte.is_ascii_whitespace());
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

    /// Moves past so many bytes that are in memory.
    pub fn skip(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
    }

    /// Moves to the next brace that opens; the byte before it that is no white space, or none at the end.
    pub fn next_object(&mut self) -> Option<u8> {
        let mut before = b' ';
        loop {
            while let Some(&byte) = self.rest().first() {
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

    /// Reads the JSON value that begins here, hands it on and moves behind it; stays where it is if it is none of that kind.
    pub fn value<S: Shape, R>(&mut self, take: impl FnOnce(&S::Of<'_>) -> R) -> Parsed<R> {
        loop {
            let text = &self.buffer[self.start..self.end];
            let size = text.len();
            {
                let (mut scan, mut value) = (Scan::new(text, &mut self.nesting), S::Of::default());
                match S::read(&mut scan, &mut value) {
                    // A number that reaches to the end of what is there may go on.
                    Ok(()) if scan.at() < size || self.ended => {
                        self.start += scan.at();
                        return Parsed::Value(take(&value));
                    }
                    Err(Stop::Wrong) => return Parsed::Wrong(scan.at().max(1)),
                    Ok(()) | Err(Stop::End) => {}
                }
            }
            match size {
                _ if self.ended => return Parsed::Cut,
                LONGEST.. => return Parsed::Endless,
                _ => self.fill(),
            }
        }
    }

    /// Whether a value of that kind begins here; stays where it is.
    pub fn looks_like<S: Shape>(&mut self) -> Parsed<()> {
        let at = self.at();
        let parsed = self.value::<S, _>(|_| ());
        self.start = (at - self.before) as usize;
        parsed
    }

    /// Leaves out all that is in memory.
    pub fn abandon(&mut self) {
        self.start = self.end;
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Reads on: as much again as there is, so that a long value is not read over and over.
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

/// A file that counts what is read of it.
struct Counted<R> {
    file: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read.set(self.read.get() + read as u64);
        Ok(read)
    }
}
