//! One setting measured: the worker started in the user's Python, asked, and understood.

use super::{Detection, Setting};
use crate::device::protocol::{PROTOCOL, Request, Task};
use crate::error::{Error, Result};
use crate::machine::{End, Invocation, LocalMachine, Machine, Output, Watch};
use perf4sight_step::detection::{DetectionTask, Reply};

/// The worker, which goes into Python as it is: nothing has to lie anywhere.
const WORKER: &str = include_str!("../../../workers/detection_worker.py");

/// What the worker answered; none after Ctrl-C.
///
/// # Errors
/// A Python that cannot be started.
pub(super) fn measure(asked: &Detection, setting: Setting, watch: &Watch<'_>) -> Result<Option<Reply>> {
    let words = [asked.python.clone(), "-c".to_owned(), WORKER.to_owned()];
    let line = serde_json::to_string(&request(asked, setting))
        .map_err(|cause| Error::device(format!("the request cannot be written: {cause}")))?;
    let invocation = Invocation { words: &words, line: &line, threads: asked.threads, timeout: asked.timeout };
    Ok(LocalMachine.run_alone(&invocation, watch)?.map(|output| understood(asked, &output)))
}

fn request(asked: &Detection, setting: Setting) -> Request {
    Request {
        protocol: PROTOCOL,
        place: asked.place.clone(),
        threads: asked.threads,
        mem_limit: asked.mem_limit.map(|limit| limit.0),
        seed: asked.seed,
        task: Task::Detection(Box::new(DetectionTask {
            batch: setting.batch,
            num_workers: setting.num_workers,
            prefetch_factor: setting.prefetch_factor,
            ..asked.task.clone()
        })),
    }
}

/// The reply, or in its place why there is none.
fn understood(asked: &Detection, output: &Output) -> Reply {
    let failed = |reason: String| Reply::Failed { reason };
    let words = output.stderr.trim();
    match (serde_json::from_str(output.stdout.trim()), &output.end) {
        (Ok(reply), _) => reply,
        (Err(_), End::TimedOut) => {
            failed(format!("still running after {} (--timeout)", humantime::format_duration(asked.timeout)))
        }
        (Err(_), End::Exited(status)) if output.stdout.trim().is_empty() => {
            let memory = if output.killed_for_memory { "; the kernel killed for want of memory meanwhile" } else { "" };
            failed(format!("{} ended without an answer ({status}{memory}): {words}", asked.python))
        }
        (Err(cause), End::Exited(_) | End::Lost(_)) => {
            failed(format!("the worker's answer cannot be understood ({cause}): {words}"))
        }
    }
}
