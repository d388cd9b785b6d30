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
use procfs::process::Process;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

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
/// The number of scans for processes that left the group, which may be starting others meanwhile.
const ROUNDS: usize = 5;
/// The time between scans where a process is in `execve`: longer than most take.
const EXECUTING: Duration = Duration::from_millis(5);
/// How long processes in `execve` are waited for; those that take longer wait for a disk, and the guard looks for them.
const LONGEST_EXECUTING: Duration = Duration::from_secs(1);

/// A process with its descendants; all of them end when this is dropped.
#[derive(Debug)]
pub struct GuardedProcess {
    /// Started in a process group of its own.
    pub child: Child,
    guard: Child,
    /// `name=value` in the environment of its descendants; none where those may live on.
    mark: Option<String>,
}

impl GuardedProcess {
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
            Ok(child) => Ok(GuardedProcess { child, guard, mark }),
            Err(cause) => {
                end(&mut guard);
                Err(cause)
            }
        }
    }
}

impl GuardedProcess {
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

impl Drop for GuardedProcess {
    fn drop(&mut self) {
        self.mark.as_deref().into_iter().for_each(kill_marked);
        // The group has members until the guard is waited for, so its id is not reused.
        end(&mut self.guard);
        let _ = self.child.wait();
    }
}

/// Kills all processes with a mark.
fn kill_marked(mark: &str) {
    let begin = Instant::now();
    let mut rounds = 0;
    while rounds < ROUNDS {
        let MarkedProcesses { processes, is_all } = MarkedProcesses::with(mark);
        if processes.is_empty() && is_all {
            break;
        }
        for stray in processes {
            // It may have ended by itself meanwhile.
            let _ = kill(stray, Signal::SIGKILL);
        }
        if is_all || begin.elapsed() > LONGEST_EXECUTING {
            rounds += 1;
        } else {
            thread::sleep(EXECUTING);
        }
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

struct MarkedProcesses {
    processes: Vec<Pid>,
    /// Whether the list is complete: false if a process showed no environment yet.
    is_all: bool,
}

impl MarkedProcesses {
    /// Finds them among the processes that this user may inspect.
    fn with(mark: &str) -> Self {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let id = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
        let mut marked = MarkedProcesses { processes: Vec::new(), is_all: true };
        for id in processes.filter_map(id) {
            match environment(id) {
                ProcessEnvironment::Entries(entries)
                    if entries.split(|&byte| byte == 0).any(|entry| entry == mark.as_bytes()) =>
                {
                    marked.processes.push(Pid::from_raw(id));
                }
                ProcessEnvironment::Entries(_) => {}
                ProcessEnvironment::NotYet => marked.is_all = false,
            }
        }
        marked
    }
}

enum ProcessEnvironment {
    /// All entries; empty where this user may not inspect it.
    Entries(Vec<u8>),
    /// None yet: it is in `execve`.
    NotYet,
}

fn environment(id: i32) -> ProcessEnvironment {
    match fs::read(format!("/proc/{id}/environ")) {
        Ok(entries) if !entries.is_empty() => ProcessEnvironment::Entries(entries),
        Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => ProcessEnvironment::Entries(Vec::new()),
        _ if is_executing(id) => ProcessEnvironment::NotYet,
        _ => ProcessEnvironment::Entries(Vec::new()),
    }
}

/// Whether a process whose environment was empty is in `execve`, or was just now. The kernel fills in the addresses of
/// its new memory one after the other: the code's when all arguments are copied, the environment's in between, where it
/// looks empty for a moment (`create_elf_tables` in Linux's fs/binfmt_elf.c). Ended processes and kernel threads have no
/// memory.
fn is_executing(id: i32) -> bool {
    let stat = Process::new(id).and_then(|process| process.stat());
    stat.is_ok_and(|stat| stat.vsize > 0 && (stat.startcode == 0 || stat.env_start != stat.env_end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address of its environment is that of its end for a moment in each `execve`: one in 250 readings hit it.
    #[test]
    fn a_process_that_executes_programs_is_never_taken_for_one_without_environment() {
        let again = "[ $1 = 0 ] || exec sh -c \"$0\" \"$0\" $(($1 - 1))";
        let mut read = 0;
        while read < 20_000 {
            let mut process = Command::new("sh").args(["-c", again, again, "200"]).spawn().unwrap();
            let id = process.id() as i32;
            while process.try_wait().unwrap().is_none() {
                let environment = environment(id);
                let looks_empty = matches!(&environment, ProcessEnvironment::Entries(entries) if entries.is_empty());
                let is_ending = || !Process::new(id).and_then(|one| one.stat()).is_ok_and(|stat| stat.vsize > 0);
                assert!(!looks_empty || is_ending(), "after {read} readings");
                read += 1;
            }
        }
    }
}
