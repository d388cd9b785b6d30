//! The commands of Slurm: `sbatch`, `squeue`, `scontrol`, `scancel`. No shell parses what is passed to them.

use super::complaint::command_error;
use super::queue::{self, QueuedTask};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getuid};
use perf4sight_base::error::{Error, Result};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// The default of `MaxArraySize` in Slurm.
const ARRAY_SIZE: usize = 1001;

/// Variables that would change what these commands list and cancel begin with this.
const FILTERS: [&str; 4] = ["SQUEUE_", "SCANCEL_", "SINFO_", "SCONTROL_"];

/// Options of sbatch in variables: the first would let it wait for the tasks, the second is set here.
const REPLACED: [&str; 2] = ["SBATCH_WAIT", "SBATCH_ARRAY_INX"];

/// How a task ended, by Slurm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskEnd {
    /// Such as "TIMEOUT, exit code 0:15".
    pub words: String,
    /// Where.
    pub node: Option<String>,
}

/// The cluster that the commands on the PATH talk to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlurmCluster;

impl SlurmCluster {
    /// Submits a job with these arguments of `sbatch` and returns its number.
    ///
    /// # Errors
    /// A job that Slurm refuses, a controller that does not answer; cancelled before either, so that nobody knows whether Slurm has the job.
    pub fn submit(self, arguments: &[String], is_cancelled: &dyn Fn() -> bool) -> Result<u64> {
        let printed = call_until("sbatch", arguments, is_cancelled)?;
        // "12", or "12;cluster" where there are several; the site may greet before it.
        let number = |line: &str| line.trim().split(';').next().and_then(|number| number.parse().ok());
        let number = printed.lines().rev().find_map(number);
        let line = printed.lines().next().unwrap_or_default().to_owned();
        number.ok_or_else(|| {
            Error::device(format!("sbatch printed {line:?}"))
                .expected("the number of a job")
                .help("correct extra in [slurm]")
        })
    }

    /// The jobs of this user that wait, run or end.
    ///
    /// # Errors
    /// A controller that does not answer.
    pub fn queue(self) -> Result<Vec<QueuedTask>> {
        let user = format!("--user={}", getuid());
        let format = format!("--format={}", queue::FORMAT);
        queue::parse(&call("squeue", &["--noheader".into(), "--array".into(), user, format])?)
    }

    /// Cancels jobs.
    ///
    /// # Errors
    /// A controller that does not answer.
    pub fn cancel(self, jobs: &[u64]) -> Result<()> {
        let jobs: Vec<String> = jobs.iter().map(u64::to_string).collect();
        if jobs.is_empty() { Ok(()) } else { call("scancel", &jobs).map(drop) }
    }

    /// How many tasks an array can have.
    ///
    /// # Errors
    /// A controller that does not answer.
    pub fn array_size(self) -> Result<usize> {
        let printed = call("scontrol", &["show".into(), "config".into()])?;
        let line = printed.lines().find_map(|line| line.trim().strip_prefix("MaxArraySize"));
        let size = line.and_then(|rest| rest.trim_start_matches([' ', '=']).trim().parse().ok());
        // Indices go from 0 to MaxArraySize - 1; 0 forbids arrays.
        match size.unwrap_or(ARRAY_SIZE) {
            0 => Err(Error::device("this cluster allows no job arrays (MaxArraySize is 0)")
                .help("let its administrator allow them")),
            size => Ok(size),
        }
    }

    /// How Slurm says that a task ended; none where it no longer knows.
    pub fn fate(self, job: u64, index: usize) -> Option<TaskEnd> {
        let words = ["show".to_owned(), "job".to_owned(), "--oneliner".to_owned(), format!("{job}_{index}")];
        let printed = call("scontrol", &words).ok()?;
        let field = |name: &str| printed.split_whitespace().find_map(|word| word.strip_prefix(name)).map(str::to_owned);
        let state = field("JobState=")?;
        let code = field("ExitCode=").map_or(String::new(), |code| format!(", exit code {code}"));
        Some(TaskEnd { words: format!("{state}{code}"), node: field("NodeList=").filter(|node| node != "(null)") })
    }

    /// Whether a job with these options could run if these nodes were left out.
    ///
    /// # Errors
    /// There is no such node, or the controller does not answer.
    pub fn check_without(self, options: &[String], nodes: &str) -> Result<()> {
        let without = [format!("--exclude={nodes}"), "--test-only".to_owned(), "--wrap=true".to_owned()];
        call("sbatch", &[options, &without].concat()).map(drop)
    }

    /// The nodes that a task must not run on, as Slurm writes lists; empty where there are none.
    ///
    /// # Errors
    /// A task that Slurm does not know.
    pub fn excluded(self, job: &str) -> Result<String> {
        let printed = call("scontrol", &["show".into(), "job".into(), "--oneliner".into(), job.to_owned()])?;
        let list = printed.split_whitespace().find_map(|word| word.strip_prefix("ExcNodeList="));
        Ok(list.filter(|list| *list != "(null)").unwrap_or_default().to_owned())
    }

    /// Keeps a task that waits, or those of an array, away from these nodes.
    ///
    /// # Errors
    /// A task that does not wait; the others of its array are kept away all the same.
    pub fn exclude(self, job: &str, nodes: &str) -> Result<()> {
        let words = ["update".to_owned(), format!("JobId={job}"), format!("ExcNodeList={nodes}")];
        call("scontrol", &words).map(drop)
    }

    /// Whether Slurm lets a task go on. One that somebody cancelled gets the same signal as one at its time limit.
    pub fn goes_on(self, job: &str) -> bool {
        let words = ["show".to_owned(), "job".to_owned(), "--oneliner".to_owned(), job.to_owned()];
        call("scontrol", &words).is_ok_and(|printed| printed.split_whitespace().any(|word| word == "JobState=RUNNING"))
    }

    /// Puts a task back into the queue.
    ///
    /// # Errors
    /// A task that Slurm does not requeue.
    pub fn requeue(self, job: &str) -> Result<()> {
        call("scontrol", &["requeue".to_owned(), job.to_owned()]).map(drop)
    }
}

/// The output of a command.
fn call(program: &str, arguments: &[String]) -> Result<String> {
    call_until(program, arguments, &|| false)
}

/// The same, but the command is killed when this is cancelled: sbatch tries for minutes where a cluster is full.
fn call_until(program: &str, arguments: &[String], is_cancelled: &dyn Fn() -> bool) -> Result<String> {
    let mut command = Command::new(program);
    let foreign = |name: &str| FILTERS.iter().any(|filter| name.starts_with(filter)) || REPLACED.contains(&name);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(foreign)) {
        command.env_remove(name);
    }
    // In a process group of its own, so that Ctrl-C does not end it between submitting and reporting the number.
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).process_group(0);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|cause| match cause.kind() {
        ErrorKind::NotFound => Error::device(format!("there is no Slurm here: {program} was not found"))
            .help("start this where sbatch works, as on the login node of a cluster; boards without a scheduler are measured over ssh (hosts)"),
        _ => Error::device(format!("{program} cannot be started: {cause}")),
    })?;
    let output = output_of(child, is_cancelled)
        .ok_or_else(|| Error::device(format!("{program} was interrupted, or its output lost")))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(command_error(program, arguments, errors.trim(), output.status)),
    }
}

/// What a command printed; none where it was cancelled before it ended.
fn output_of(child: Child, is_cancelled: &dyn Fn() -> bool) -> Option<Output> {
    let group = Pid::from_raw(i32::try_from(child.id()).ok()?);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    loop {
        match receiver.recv_timeout(BLINK) {
            Ok(output) => return output.ok(),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if is_cancelled() => {
                // Fails where it has just ended.
                let _ = killpg(group, Signal::SIGKILL);
                return None;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// How often Ctrl-C is looked for.
const BLINK: Duration = Duration::from_millis(50);

/// The names of the partitions.
pub(crate) fn partitions() -> Vec<String> {
    let printed = call("sinfo", &["--noheader".into(), "--format=%R".into()]).unwrap_or_default();
    printed.lines().map(|line| line.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}
