//! Ends a guarded process with all its descendants, and with this program, however either ends.
//!
//! A shell guards each process from before its start. It waits for the end of a pipe whose other end only this program
//! has, which the kernel closes even after SIGKILL, and then kills the process group that it shares with the process. A
//! parent-death signal would come too late: a process can request one only when its libraries are loaded, and one in
//! another language may never do so.
//!
//! Processes that left the group (a daemon, `setsid`) are found by a marker variable in their environment, which
//! children inherit. A process in `execve` shows no environment for a moment, so a single scan may miss it.

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Waits for the end of its input, even if the group is interrupted. Then it kills all processes with the mark, runs
/// the cleanup command, scans for the mark some more times, and kills the group.
const GUARD: &str = r#"trap '' INT
read -r _
mark=$1
shift
end() {
    for file in $(grep -lsxzF "$mark" /proc/[0-9]*/environ); do
        process=${file#/proc/}
        kill -KILL "${process%/environ}"
    done
}
[ -z "$mark" ] || end
"$@"
[ -z "$mark" ] || for round in 1 2 3 4; do
    sleep 1
    end
done
kill -KILL 0"#;
/// The environment variable that marks the descendants of a guarded process.
const MARK: &str = "PERF4SIGHT_WORKER";
/// The number of scans for processes that left the group: they may be starting others, or show no environment yet. If
/// some process has no environment at all, all scans are used.
const ROUNDS: usize = 5;
/// The time between scans where a process may be in `execve`: longer than most take.
const EXECUTING: Duration = Duration::from_millis(5);

/// A process with its descendants; all of them end when this is dropped.
#[derive(Debug)]
pub struct Guarded {
    /// Started in a process group of its own.
    pub child: Child,
    guard: Child,
    /// `name=value` in the environment of its descendants; none where those may live on.
    mark: Option<String>,
}

impl Guarded {
    /// Starts a process in a group of its own, so that Ctrl-C reaches only us. With `whole`, no descendant outlives it;
    /// otherwise those that leave the group do.
    pub fn start(command: &mut Command, whole: bool) -> io::Result<Self> {
        Self::start_with_cleanup(command, whole, &[])
    }

    /// The same, with a command that the guard runs if this process dies. If it does not die, the caller has to clean
    /// up.
    pub fn start_with_cleanup(command: &mut Command, whole: bool, cleanup: &[String]) -> io::Result<Self> {
        let mark = whole.then(mark);
        let mut guard = Command::new("/bin/sh");
        guard.args(["-c", GUARD, "guard", mark.as_deref().unwrap_or_default()]);
        guard.args(cleanup);
        guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut guard = guard.spawn()?;
        if let Some((name, value)) = mark.as_deref().and_then(|mark| mark.split_once('=')) {
            command.env(name, value);
        }
        match command.process_group(group(&guard).as_raw()).spawn() {
            Ok(child) => Ok(Guarded { child, guard, mark }),
            Err(cause) => {
                end(&mut guard);
                Err(cause)
            }
        }
    }
}

impl Guarded {
    /// The process id of the guard, which is the leader of the group.
    pub fn guard(&self) -> i32 {
        group(&self.guard).as_raw()
    }

    /// Interrupts the group, as Ctrl-C would.
    pub fn interrupt(&self) {
        // It may have ended by itself meanwhile.
        let _ = killpg(group(&self.guard), Signal::SIGINT);
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        for _ in 0..ROUNDS {
            let Marked { processes, is_all } = self.mark.as_deref().map_or(Marked::none(), Marked::with);
            if processes.is_empty() && is_all {
                break;
            }
            for stray in processes {
                // It may have ended by itself meanwhile.
                let _ = kill(stray, Signal::SIGKILL);
            }
            if !is_all {
                thread::sleep(EXECUTING);
            }
        }
        // The group has members until the guard is waited for, so its id is not reused.
        end(&mut self.guard);
        let _ = self.child.wait();
    }
}

fn mark() -> String {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    format!("{MARK}={}.{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed))
}

/// The process group that a process leads. Process ids are positive and fit.
fn group(leader: &Child) -> Pid {
    Pid::from_raw(leader.id() as i32)
}

fn end(guard: &mut Child) {
    let _ = killpg(group(guard), Signal::SIGKILL);
    let _ = guard.wait();
}

struct Marked {
    processes: Vec<Pid>,
    /// Whether the list is complete: false if a process showed no environment yet.
    is_all: bool,
}

impl Marked {
    fn none() -> Self {
        Marked { processes: Vec::new(), is_all: true }
    }

    /// Finds them among the processes that this user may inspect.
    fn with(mark: &str) -> Self {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let id = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
        let mut marked = Marked::none();
        for id in processes.filter_map(id) {
            match environment(id) {
                Environment::Entries(entries)
                    if entries.split(|&byte| byte == 0).any(|entry| entry == mark.as_bytes()) =>
                {
                    marked.processes.push(Pid::from_raw(id));
                }
                Environment::Entries(_) => {}
                Environment::NotYet => marked.is_all = false,
            }
        }
        marked
    }
}

enum Environment {
    /// All entries; empty where this user may not inspect it.
    Entries(Vec<u8>),
    /// None, although it has memory: it is in `execve`, or has an empty environment.
    NotYet,
}

fn environment(id: i32) -> Environment {
    let read = |what: &str| fs::read(format!("/proc/{id}/{what}"));
    match read("environ") {
        Ok(entries) if !entries.is_empty() => Environment::Entries(entries),
        Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => Environment::Entries(Vec::new()),
        // Ended processes and kernel threads have no memory.
        _ if read("statm").is_ok_and(|pages| !pages.starts_with(b"0 ")) => Environment::NotYet,
        _ => Environment::Entries(Vec::new()),
    }
}
