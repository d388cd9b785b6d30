//! Work that Ctrl-C ends at once: it writes nothing, so that it may be left where it is.

use perf4sight_base::error::{Error, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often it is looked whether Ctrl-C was pressed.
const LOOKS: Duration = Duration::from_millis(100);
/// The stack of the main thread of Linux.
const STACK: usize = 8 << 20;

/// Does work on another thread; none after Ctrl-C.
///
/// # Errors
/// Those of the work, and a thread that the system refuses.
pub(super) fn interruptible<T: Send + 'static>(
    cancel: &AtomicBool,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<Option<T>> {
    let (done, result) = channel();
    // Nobody may wait for the result any more.
    let worker = thread::Builder::new().stack_size(STACK).spawn(move || drop(done.send(work())));
    let worker = worker.map_err(|cause| Error::io(Path::new("thread"), "begin to read traces", &cause))?;
    loop {
        let found = result.recv_timeout(LOOKS);
        if cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match found {
            Ok(found) => return found.map(Some),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => return Ok(None),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Instant;

    #[test]
    fn work_is_left_at_once() {
        let begun = Instant::now();
        let cancel = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&cancel);
        let left = interruptible(&cancel, move || {
            own.store(true, Ordering::Relaxed);
            thread::sleep(Duration::from_secs(20));
            Ok(1)
        });
        assert!(left.unwrap().is_none() && begun.elapsed() < Duration::from_secs(5));
        assert_eq!(interruptible(&AtomicBool::new(false), || Ok(2)).unwrap(), Some(2));
        let failed = interruptible(&AtomicBool::new(false), || Err::<(), Error>(Error::input("is not a trace")));
        assert!(failed.unwrap_err().to_string().contains("is not a trace"));
    }
}
