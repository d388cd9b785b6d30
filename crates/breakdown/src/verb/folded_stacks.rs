//! Writes `stacks.folded`: call stacks for viewers of flame graphs.

use super::run::TracedRun;
use std::io::{self, Write};

/// The largest size of the file in bytes; viewers would not open a larger one.
const MOST: usize = 64 << 20;

/// The stacks of all ranks, and whether they were cut at the size limit.
pub(super) struct FoldedStacks {
    pub text: Vec<u8>,
    pub cut: bool,
}

impl FoldedStacks {
    /// The stacks of a run; if it has several ranks, each rank is a root frame.
    pub fn from_run(run: &TracedRun) -> Self {
        let mut all = LimitedText { text: Vec::new(), root: String::new(), begins: true };
        let mut cut = false;
        for (rank, stacks) in run.stacks() {
            if run.traces.len() > 1 {
                all.root = format!("rank {};", rank.rank);
            }
            cut |= stacks.write_folded(&mut all).is_err();
        }
        let whole_lines = all.text.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        all.text.truncate(whole_lines);
        FoldedStacks { text: all.text, cut }
    }
}

/// A writer with a size limit that puts the root frame before each line.
struct LimitedText {
    text: Vec<u8>,
    root: String,
    begins: bool,
}

impl Write for LimitedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            if self.begins {
                self.text.extend_from_slice(self.root.as_bytes());
            }
            self.text.extend_from_slice(line);
            self.begins = line.ends_with(b"\n");
        }
        if self.text.len() > MOST { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
