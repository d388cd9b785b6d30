//! What a guarded process starts dies with it, and it dies with this program, however either ends.
//!
//! A shell guards each process from before it is started. It waits for the end of a pipe whose other end only this program has, which
//! the kernel closes after SIGKILL too, and then kills the process group that it shares with the process. A parent-death signal would
//! come too late: a process can ask for one only when its libraries are loaded, and one in another language may never do so.
//!
//! What left the group (a daemon, `setsid`) is known by a mark in its environment, which children inherit. A process that is executing
//! another program shows none for a moment, so that who looks once may miss it.

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Waits for the end of its input, also when the group is interrupted; then ends whatever carries the mark, runs the command that was
/// left to it, looks for the mark some times more, and ends the group.
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
/// The variable that marks what a guarded process starts.
const MARK: &str = "PERF4SIGHT_WORKER";
/// How often what left the group is looked for: it may be starting more of itself, or show no environment yet. Where some process has none at all,
/// every look is taken.
const ROUNDS: usize = 5;
/// Between looks, where a process may be executing another program: longer than most take.
const EXECUTING: Duration = Duration::from_millis(5);

/// A process with everything it starts; all of it ends when this is dropped.
#[derive(Debug)]
pub struct Guarded {
    /// The process.
    pub child: Child,
    guard: Child,
    /// `name=value` in the environment of what it starts; none where that may live on.
    mark: Option<String>,
}

impl Guarded {
    /// Starts a process in a group of its own, so that Ctrl-C reaches only us. With `whole`, nothing that it starts outlives it; else
    /// what leaves the group does.
    pub fn start(command: &mut Command, whole: bool) -> io::Result<Self> {
        Self::start_with_cleanup(command, whole, &[])
    }

    /// The same, where something else is to be ended too: by this command, when we die. When we do not, that is left to us.
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
    /// The process id of the guard, which leads the group.
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
        // The group has members as long as the guard is not waited for, so its number is nobody else's.
        end(&mut self.guard);
        let _ = self.child.wait();
    }
}

/// A mark that no other guarded process has.
fn mark() -> String {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    format!("{MARK}={}.{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed))
}

/// A process's group, which it leads. Process ids are positive and fit.
fn group(leader: &Child) -> Pid {
    Pid::from_raw(leader.id() as i32)
}

/// Kills a guard's group.
fn end(guard: &mut Child) {
    let _ = killpg(group(guard), Signal::SIGKILL);
    let _ = guard.wait();
}

/// The processes whose environment has an entry.
struct Marked {
    processes: Vec<Pid>,
    /// Whether these are all: not where one showed no environment yet.
    is_all: bool,
}

impl Marked {
    fn none() -> Self {
        Marked { processes: Vec::new(), is_all: true }
    }

    /// As far as we may look.
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

/// What a process shows of its environment.
enum Environment {
    /// All, as far as we may look.
    Entries(Vec<u8>),
    /// None, though it has memory: it is executing another program, or was given none.
    NotYet,
}

fn environment(id: i32) -> Environment {
    let read = |what: &str| fs::read(format!("/proc/{id}/{what}"));
    match read("environ") {
        Ok(entries) if !entries.is_empty() => Environment::Entries(entries),
        Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => Environment::Entries(Vec::new()),
        // What has ended has no memory, nor have threads of the kernel.
        _ if read("statm").is_ok_and(|pages| !pages.starts_with(b"0 ")) => Environment::NotYet,
        _ => Environment::Entries(Vec::new()),
    }
}
