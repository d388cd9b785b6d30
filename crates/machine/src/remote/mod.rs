//! Machines that are reached over ssh: networks and the worker are uploaded once, and every measurement is one command
//! there.
//!
//! The system's ssh is used, with its configuration, keys and known hosts. It never prompts, and it only runs the
//! scripts in this folder: values from a configuration are sent over their standard input, line by line. Uploaded files
//! are stored in `~/.cache/perf4sight` on the machine, by the checksum of their content, and are not uploaded again.

mod bundle;
mod connection;
mod failure;
mod host;
mod host_info;
mod run_outcome;

pub use bundle::CommandBundle;
pub use host::SshHost;

use super::description::MachineDescription;
use super::{Machine, ProcessEnd, ProcessOutput, RunWatch, WorkerInvocation, differences};
use bundle::{StoredPath, Upload};
use connection::{RemoteScript, ScriptInput, SshConnection};
use failure::RemoteFailure;
use host_info::HostInfo;
use perf4sight_base::error::{Error, Result};
use run_outcome::RunOutcome;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time limit of a command that needs no waiting.
const PROMPTLY: Duration = Duration::from_secs(60);
/// Time limit of an upload: a library of 200 MB on a slow line.
const TRANSFER: Duration = Duration::from_secs(3600);
/// How long the machine waits for the measurement lock before the request is repeated.
const TURN: Duration = Duration::from_secs(10);
/// The most lost connections in a row for one configuration; one that loses it every time crashes the machine.
const LOSSES: usize = 3;
/// The longest wait between two attempts to reach a machine.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often a wait checks for Ctrl-C.
const POLL: Duration = Duration::from_millis(100);

type RemoteResult<T> = std::result::Result<Option<T>, RemoteFailure>;

/// The connection settings of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshRoute {
    /// As in the key `host`.
    pub host: SshHost,
    /// A file that replaces the user's own ssh configuration.
    pub config: Option<PathBuf>,
    /// How long to try to reopen a lost connection.
    pub patience: Duration,
}

/// A machine that is reached over ssh.
#[derive(Debug)]
pub struct RemoteMachine {
    connection: SshConnection,
    patience: Duration,
    state: Mutex<RemoteState>,
}

/// The properties of the machine, and the files uploaded there, by their path here.
#[derive(Debug, Clone)]
struct RemoteState {
    info: HostInfo,
    brought: BTreeMap<PathBuf, StoredPath>,
}

impl RemoteMachine {
    /// Connects to a machine and requests its properties.
    ///
    /// # Errors
    /// No route to it, or a missing tool that every machine needs.
    pub fn connect(route: &SshRoute) -> Result<Self> {
        let connection = SshConnection::new(route.host.clone(), route.config.clone())?;
        let info = host_info(&connection, &RunWatch::quiet(&AtomicBool::new(false)))
            .map_err(|failure| failure.into_error(&route.host))?
            .ok_or_else(|| Error::device("interrupted"))?;
        if !info.absent.is_empty() {
            return Err(Error::device(format!("{} lacks {}", route.host, info.absent.trim()))
                .help("on the machine: apt-get install coreutils util-linux"));
        }
        Ok(RemoteMachine {
            connection,
            patience: route.patience,
            state: Mutex::new(RemoteState { info, brought: BTreeMap::new() }),
        })
    }

    /// As in the key `host`.
    pub fn host(&self) -> &SshHost {
        self.connection.host()
    }

    /// Its architecture, as printed by `uname -m`.
    pub fn architecture(&self) -> String {
        self.state().info.architecture.clone()
    }

    /// The folder of uploaded files there.
    pub fn store(&self) -> String {
        self.state().info.store.clone()
    }

    /// Uploads the files of a command, and returns the command to run there.
    ///
    /// # Errors
    /// A file that cannot be read here or stored there.
    pub fn deliver(&self, bundle: CommandBundle) -> Result<Vec<String>> {
        let never = AtomicBool::new(false);
        let watch = RunWatch::quiet(&never);
        bundle.files.into_iter().try_for_each(|(file, path)| self.keep(&file, path, &watch).map(drop))?;
        Ok(bundle.command)
    }

    fn state(&self) -> MutexGuard<'_, RemoteState> {
        // A thread that panicked while it held the lock left the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uploads a file now, and again whenever the connection is reopened without it.
    fn keep(&self, file: &Path, path: StoredPath, watch: &RunWatch<'_>) -> Result<Option<()>> {
        let gone = |why: String| Err(RemoteFailure::Lost(why).into_error(self.connection.host()));
        let stored = self.persist(watch, || self.upload_file(file, &path, watch), gone)?;
        self.state().brought.insert(file.to_owned(), path);
        Ok(stored)
    }

    fn upload_file(&self, file: &Path, path: &StoredPath, watch: &RunWatch<'_>) -> RemoteResult<()> {
        let Upload { content, size, mode } = Upload::open(file).map_err(RemoteFailure::Refused)?;
        let input = ScriptInput::lines(&[&path.to_string(), &size.to_string(), mode], TRANSFER).followed_by(content);
        let Some(reply) = self.connection.run(RemoteScript::Put, input, watch)? else { return Ok(None) };
        reply.answer.map(|_| Some(())).ok_or_else(|| {
            let (host, store) = (self.connection.host(), self.state().info.store.clone());
            let problem = format!("{host} cannot keep {}: {}", file.display(), reply.stderr.trim());
            RemoteFailure::Refused(
                Error::device(problem)
                    .help(format!("make room on the machine; what earlier sweeps left in {store} can be deleted")),
            )
        })
    }

    /// Tries until there is a result, an error, or Ctrl-C; reopens lost connections, at most `LOSSES` times in a row.
    fn persist<T>(
        &self,
        watch: &RunWatch<'_>,
        attempt: impl Fn() -> RemoteResult<T>,
        gone: impl FnOnce(String) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut reason = String::new();
        for _ in 0..LOSSES {
            match attempt() {
                Ok(result) => return Ok(result),
                Err(RemoteFailure::Refused(error)) => return Err(error),
                Err(RemoteFailure::Lost(why)) => reason = why,
            }
            if self.reconnect(&reason, watch)?.is_none() {
                return Ok(None);
            }
        }
        gone(reason).map(Some)
    }

    /// Reopens a lost connection with increasing pauses, until `patience` is over.
    fn reconnect(&self, reason: &str, watch: &RunWatch<'_>) -> Result<Option<()>> {
        let (host, patience) = (self.connection.host(), humantime::format_duration(self.patience));
        (watch.waiting)(&format!("the connection to {host} was lost ({reason}); trying again for {patience}"));
        let (lost, mut pause) = (Instant::now(), Duration::from_millis(500));
        loop {
            if !sleep(pause, watch) {
                return Ok(None);
            }
            match self.renew(watch) {
                Ok(renewed) => {
                    (watch.waited)(lost.elapsed());
                    return Ok(renewed);
                }
                Err(RemoteFailure::Refused(error)) => return Err(error),
                Err(RemoteFailure::Lost(why)) if lost.elapsed() >= self.patience => {
                    return Err(Error::device(format!(
                        "the connection to {host} was lost and could not be restored within {patience}: {why}"
                    ))
                    .help("what was measured is kept; the same command goes on from there when the machine is back"));
                }
                Err(RemoteFailure::Lost(_)) => pause = (pause * 2).min(LONGEST_PAUSE),
            }
        }
    }

    /// Requests the machine's properties again, because it may have been restarted, and uploads missing files again.
    fn renew(&self, watch: &RunWatch<'_>) -> RemoteResult<()> {
        let Some(info) = host_info(&self.connection, watch)? else { return Ok(None) };
        let RemoteState { info: was, brought } = self.state().clone();
        let different = differences(&was.facts, &info.facts);
        if !different.is_empty() {
            let problem = format!("{} came back changed: {}", self.connection.host(), different.join("; "));
            return Err(RemoteFailure::Refused(
                Error::device(problem)
                    .help("bring it back to what it was, or start again with another device_name or log_dir"),
            ));
        }
        self.state().info = info;
        for (file, path) in &brought {
            if self.upload_file(file, path, watch)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// Waits for the measurement lock and runs a worker.
    fn in_turn(&self, invocation: &WorkerInvocation<'_>, watch: &RunWatch<'_>) -> RemoteResult<ProcessOutput> {
        // The first request does not wait, so that the reason for waiting can be reported.
        let (mut patience, mut since) = (Duration::ZERO, None);
        loop {
            match self.run_there(invocation, Some(patience), watch)? {
                Some(RunOutcome::Ended { output, took }) => {
                    let waited = |since: Instant| (watch.waited)(since.elapsed().saturating_sub(took));
                    since.into_iter().for_each(waited);
                    return Ok(Some(output));
                }
                Some(RunOutcome::Busy) if since.is_none() => {
                    let host = self.connection.host();
                    (watch.waiting)(&format!("another measurement is running on {host}"));
                    (patience, since) = (TURN, Some(Instant::now()));
                }
                Some(RunOutcome::Busy) => {}
                None => return Ok(None),
            }
        }
    }

    /// Runs a worker, if it gets the measurement lock within `turn`; with none, at once and without the lock.
    fn run_there(
        &self,
        invocation: &WorkerInvocation<'_>,
        turn: Option<Duration>,
        watch: &RunWatch<'_>,
    ) -> RemoteResult<RunOutcome> {
        let limit = invocation.timeout.as_secs_f64().to_string();
        let patience = turn.map_or("ask".to_owned(), |turn| turn.as_secs().to_string());
        let threads = invocation.threads.to_string();
        let before = [patience.as_str(), &limit, &threads];
        let words = invocation.words.iter().map(String::as_str);
        let lines: Vec<&str> = before.into_iter().chain(words).chain(["", invocation.line]).collect();
        let input = ScriptInput::lines(&lines, invocation.timeout + TURN + PROMPTLY).kept_open();
        let Some(reply) = self.connection.run(RemoteScript::Run, input, watch)? else { return Ok(None) };
        RunOutcome::read(&reply, invocation.timeout).map(Some)
    }
}

impl Machine for RemoteMachine {
    fn description(&self) -> MachineDescription {
        self.state().info.description.clone()
    }

    fn threads(&self) -> usize {
        self.state().info.threads
    }

    fn location(&self) -> String {
        format!(" on {}", self.connection.host())
    }

    fn upload(&self, file: &Path, watch: &RunWatch<'_>) -> Result<Option<PathBuf>> {
        let known = self.state().brought.get(file).cloned();
        let path = match known {
            Some(path) => path,
            None => {
                let path = StoredPath::for_file(file)?;
                if self.keep(file, path.clone(), watch)?.is_none() {
                    return Ok(None);
                }
                path
            }
        };
        Ok(Some(path.in_store(&self.store()).into()))
    }

    fn run_alone(&self, invocation: &WorkerInvocation<'_>, watch: &RunWatch<'_>) -> Result<Option<ProcessOutput>> {
        let gone = |why| Ok(ProcessOutput::new(ProcessEnd::Lost(LOSSES), String::new(), why));
        self.persist(watch, || self.in_turn(invocation, watch), gone)
    }

    fn run(&self, invocation: &WorkerInvocation<'_>, watch: &RunWatch<'_>) -> Result<Option<ProcessOutput>> {
        let ran =
            self.run_there(invocation, None, watch).map_err(|failure| failure.into_error(self.connection.host()))?;
        Ok(ran.and_then(|ran| match ran {
            RunOutcome::Ended { output, .. } => Some(output),
            RunOutcome::Busy => None,
        }))
    }
}

fn host_info(connection: &SshConnection, watch: &RunWatch<'_>) -> RemoteResult<HostInfo> {
    let Some(reply) = connection.run(RemoteScript::HostInfo, ScriptInput::lines(&[], PROMPTLY), watch)? else {
        return Ok(None);
    };
    let answer = reply.answer.ok_or_else(|| {
        let words = reply.stderr.trim();
        RemoteFailure::Lost(if words.is_empty() { "its shell printed nothing".to_owned() } else { words.to_owned() })
    })?;
    HostInfo::read(&answer, connection.folder()).map(Some).map_err(RemoteFailure::Refused)
}

/// Sleeps; false after Ctrl-C.
fn sleep(pause: Duration, watch: &RunWatch<'_>) -> bool {
    let end = Instant::now() + pause;
    while Instant::now() < end && !watch.cancelled() {
        thread::sleep(POLL.min(pause));
    }
    !watch.cancelled()
}
