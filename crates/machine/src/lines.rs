//! The output of a process as lines, read on separate threads and kept in bounded memory: a process with endless output
//! neither blocks nor fills memory.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The most bytes that are kept of a line.
const LONGEST: usize = 64 << 10;
/// The most bytes of unread lines; a process that writes more between two polls loses the oldest of them.
const UNSEEN: usize = 4 << 20;
const EACH: usize = size_of::<OutputLine>();
const LAST: usize = 20;
const SHOWN: usize = 400;
/// A line with this share of invalid characters is not text.
const RUBBISH: f64 = 0.1;

/// A line that a process wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputLine {
    /// Time since the start of the process.
    pub after: Duration,
    /// Where the process wrote it.
    pub stream: OutputStream,
    /// Its text, without the line end; truncated where it is very long.
    pub text: String,
}

/// Where a process writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    /// stdout
    Output,
    /// stderr
    Error,
}

/// What a process writes, line by line, without blocking it.
#[derive(Debug)]
pub struct OutputLines {
    begun: Instant,
    kept: Arc<Mutex<KeptLines>>,
    readers: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct KeptLines {
    unseen: VecDeque<OutputLine>,
    /// Memory of the unread lines.
    bytes: usize,
    last: VecDeque<String>,
}

impl OutputLines {
    /// No lines yet; `begun` is the start time of the process.
    pub fn new(begun: Instant) -> Self {
        OutputLines { begun, kept: Arc::default(), readers: Vec::new() }
    }

    /// Starts a thread that reads a stream to its end.
    pub fn listen(&mut self, pipe: impl Read + Send + 'static, stream: OutputStream) {
        let (kept, begun) = (Arc::clone(&self.kept), self.begun);
        self.readers.push(thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            while let Some(text) = next(&mut pipe) {
                let line = OutputLine { after: begun.elapsed(), stream, text };
                kept.lock().unwrap_or_else(PoisonError::into_inner).keep(line);
            }
        }));
    }

    /// The new lines since the last call.
    pub fn take(&self) -> Vec<OutputLine> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes = 0;
        kept.unseen.drain(..).collect()
    }

    /// Waits for the ends of all streams, at most for this time: another process may hold a pipe open.
    pub fn finish(&self, patience: Duration) {
        let until = Instant::now() + patience;
        while self.readers.iter().any(|reader| !reader.is_finished()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The last 20 lines as they are, for a report.
    pub fn last(&self) -> Vec<String> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).last.iter().cloned().collect()
    }
}

impl KeptLines {
    fn keep(&mut self, line: OutputLine) {
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(line.text.clone());
        self.bytes += line.text.len() + EACH;
        self.unseen.push_back(line);
        while self.bytes > UNSEEN {
            let gone = self.unseen.pop_front();
            self.bytes -= gone.map_or(self.bytes, |gone| gone.text.len() + EACH);
        }
    }
}

/// A line made readable for a terminal: without control sequences, truncated where it is long.
pub fn readable(line: &str) -> String {
    let line = without_sequences(line);
    let is_none =
        |character: &char| *character == char::REPLACEMENT_CHARACTER || character.is_control() && *character != '\t';
    let (all, none) = (line.chars().count(), line.chars().filter(is_none).count());
    if none as f64 > RUBBISH * all as f64 && all > 1 {
        return format!("({} bytes that are no text)", line.len());
    }
    let text: String = line.chars().filter(|character| !is_none(character)).take(SHOWN).collect();
    if all - none > SHOWN { text + " ..." } else { text }
}

/// Removes colours and cursor movements: ECMA-48, 5.4, control sequences that start with `ESC [`.
fn without_sequences(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().unwrap_or_default();
    // Parameters and intermediate bytes, then one final byte.
    let behind = |part: &'_ str| {
        let end = part.find(|character| !(' '..='?').contains(&character));
        let last = end.and_then(|end| part[end..].chars().next().filter(|last| ('@'..='~').contains(last)));
        end.map_or("", |end| &part[end + last.map_or(0, char::len_utf8)..]).to_owned()
    };
    parts.fold(first.to_owned(), |text, part| text + &behind(part))
}

/// The next non-empty line, truncated where it is too long; none at the end of the stream. Each state of a progress
/// bar, after a carriage return, is a line too.
fn next(pipe: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    loop {
        let read = pipe.fill_buf().ok()?;
        let end = read.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let part = &read[..end.unwrap_or(read.len())];
        line.extend_from_slice(&part[..part.len().min(LONGEST - line.len())]);
        let (over, consumed) = (read.is_empty(), end.map_or(part.len(), |end| end + 1));
        pipe.consume(consumed);
        match line.is_empty() {
            true if over => return None,
            false if over || end.is_some() => return Some(String::from_utf8_lossy(&line).into_owned()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn long_lines_are_cut_and_the_next_one_is_whole() {
        let mut pipe = Cursor::new([vec![b'x'; 3 * LONGEST], b"\nstep 1\r\n 10%\r 20%\r\n\nrest".to_vec()].concat());
        assert_eq!(next(&mut pipe).unwrap().len(), LONGEST);
        let others: Vec<String> = std::iter::from_fn(|| next(&mut pipe)).collect();
        assert_eq!(others, ["step 1", " 10%", " 20%", "rest"]);
    }

    #[test]
    fn what_is_no_text_is_not_shown_and_what_is_long_is_cut() {
        assert_eq!(
            readable("\u{1b}[31merror:\tout of reach and far away\u{1b}[0m"),
            "error:\tout of reach and far away"
        );
        assert_eq!(readable("\u{1b}[91mCUDA error\u{1b}[0m"), "CUDA error");
        assert_eq!(readable("\u{1b}[2K\u{1b}[1;38;5;9m7 \u{e9}\u{1b}["), "7 \u{e9}");
        assert_eq!(readable("a\u{fffd}\u{1}\u{fffd}"), "(8 bytes that are no text)");
        assert_eq!(readable(&"x".repeat(5000)), "x".repeat(SHOWN) + " ...");
        assert_eq!(readable(&"x".repeat(SHOWN)), "x".repeat(SHOWN));
    }

    #[test]
    fn the_last_lines_stay_when_all_were_seen() {
        let mut lines = OutputLines::new(Instant::now());
        let text: String = (0..100).map(|number| format!("line {number}\n")).collect();
        lines.listen(Cursor::new(text), OutputStream::Error);
        lines.finish(Duration::from_secs(5));
        assert_eq!(lines.take().len(), 100);
        assert!(lines.take().is_empty());
        assert_eq!((lines.last().len(), lines.last()[0].as_str()), (LAST, "line 80"));
    }

    /// 64 MiB in lines of 64 KiB, which are never read: less than 4 MiB is kept, including the newest line.
    #[test]
    fn a_flood_is_kept_in_bounded_memory() {
        let mut lines = OutputLines::new(Instant::now());
        let line = [vec![b'x'; LONGEST - 1], b"\n".to_vec()].concat();
        lines.listen(Cursor::new([line.repeat(1024), b"the end\n".to_vec()].concat()), OutputStream::Error);
        lines.finish(Duration::from_secs(60));
        let kept = lines.take();
        assert!(kept.iter().map(|line| line.text.len()).sum::<usize>() <= UNSEEN);
        assert_eq!(kept.last().unwrap().text, "the end");
    }
}
