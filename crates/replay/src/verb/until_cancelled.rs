//! A target that refuses to be written to after Ctrl-C, so that a file that takes long to write is left.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) struct UntilCancelled<W> {
    pub target: W,
    pub cancel: Arc<AtomicBool>,
}

impl<W: Write> Write for UntilCancelled<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.cancel.load(Ordering::Relaxed) {
            true => Err(io::Error::other("interrupted")),
            false => self.target.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}
