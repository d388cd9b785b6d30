//! Jobs can be interrupted, although this program ignores interrupts, as one does that a script started in the background.

use nix::libc::{SIGINT, SIGQUIT};
use procfs::process::Process;
use signal_hook::flag;
use std::sync::{Arc, Once};

/// Handles each ignored interrupt in this program by doing nothing. It goes on as before, but what it starts from now on has the signal's default:
/// `execve` keeps signals ignored, and resets those that have a handler (signal(7)). A job that ignores SIGINT does not end when asked to.
pub(super) fn let_jobs_be_interrupted() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [SIGINT, SIGQUIT].into_iter().filter(|signal| is_ignored(*signal)) {
            // A job that still ignores it is killed in the end.
            let _ = flag::register(signal, Arc::default());
        }
    });
}

/// Whether this program ignores a signal. Unknown: no.
fn is_ignored(signal: i32) -> bool {
    let status = Process::myself().and_then(|own| own.status());
    status.is_ok_and(|status| status.sigign & 1 << (signal - 1) != 0)
}
