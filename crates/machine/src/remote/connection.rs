//! The system's ssh: one connection to a machine that many commands share, each of them a fixed script of this program.
//!
//! Variable values are never part of a command line that a shell parses: they are sent over the standard input, as
//! lines.

use super::failure::Failure;
use super::host::Host;
use crate::Watch;
use crate::process::{self, Bounds, Call, End, Output};
use perf4sight_base::error::Result;
use perf4sight_base::temporary_folder::TemporaryFolder;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// No prompts, no new host keys, no forwarding; a machine that is down is detected within a minute. These options
/// override the user's configuration. The connection stays open for a minute after its last command.
const OPTIONS: [&str; 12] = [
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",
    "ConnectTimeout=10",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "ControlMaster=auto",
    "ControlPersist=60",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "PermitLocalCommand=no",
    "LogLevel=ERROR",
];
/// The exit status of ssh when ssh itself failed.
const SSH_FAILED: i32 = 255;
/// A folder with a short name: the path of a socket has at most 108 bytes.
const SHORT: &str = "/tmp";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    HostInfo,
    Put,
    Run,
}

impl Script {
    /// The command for the user's shell on the machine, whichever it is: a literal.
    fn command(self) -> &'static str {
        match self {
            Script::HostInfo => concat!("exec sh -c '", include_str!("host_info.sh"), "'"),
            Script::Put => concat!("exec sh -c '", include_str!("put.sh"), "'"),
            Script::Run => concat!("exec sh -c '", include_str!("run.sh"), "'"),
        }
    }

    /// The first line of its answer; output of the shell's start-up files comes before it.
    fn answer(self) -> &'static str {
        match self {
            Script::HostInfo => "\nperf4sight board\n",
            Script::Put => "\nperf4sight stored\n",
            Script::Run => "\nperf4sight worker\n",
        }
    }
}

/// The answer of a script and its standard error.
#[derive(Debug)]
pub(super) struct Reply {
    /// The output after the mark; none where the mark is missing.
    pub answer: Option<String>,
    /// The end of its error output.
    pub stderr: String,
}

#[derive(Debug)]
pub(super) struct Connection {
    host: Host,
    config: Option<PathBuf>,
    /// A user who can write to the socket in it acts as the user on the machine.
    folder: TemporaryFolder,
}

impl Connection {
    /// A connection that is not opened yet. `config` replaces the user's own ssh configuration.
    pub fn new(host: Host, config: Option<PathBuf>) -> Result<Self> {
        Ok(Connection { host, config, folder: TemporaryFolder::new(Path::new(SHORT))? })
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a script; none after Ctrl-C.
    ///
    /// # Errors
    /// ssh failed, or the script did not complete.
    pub fn run(&self, script: Script, input: Input, watch: &Watch<'_>) -> std::result::Result<Option<Reply>, Failure> {
        let call = Call {
            input: input.bytes,
            keeps_input: input.held,
            one_line: false,
            timeout: input.timeout,
            bounds: Bounds::default(),
        };
        let mut command = self.ssh();
        command.args(self.host.arguments()).arg(script.command());
        let output = process::run(&mut command, call, watch).map_err(|cause| Failure::no_ssh(&cause))?;
        output.map(|output| self.reply(script, output)).transpose()
    }

    fn reply(&self, script: Script, output: Output) -> std::result::Result<Reply, Failure> {
        let answer = output.stdout.split_once(script.answer()).map(|(_, answer)| answer.to_owned());
        match output.end {
            End::Exited(status) if status.code() == Some(SSH_FAILED) => {
                Err(Failure::of_ssh(&self.host, &output.stderr))
            }
            End::Exited(_) => Ok(Reply { answer, stderr: output.stderr }),
            End::TimedOut | End::Lost(_) => Err(Failure::Lost("the machine does not answer".to_owned())),
        }
    }

    fn ssh(&self) -> Command {
        let mut command = Command::new("ssh");
        if let Some(config) = &self.config {
            command.arg("-F").arg(config);
        }
        command.args(["-T", "-S"]).arg(self.folder().join("ssh"));
        for option in OPTIONS {
            command.args(["-o", option]);
        }
        command
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut command = self.ssh();
        command.args(["-O", "exit"]).args(self.host.arguments());
        // If this fails, the connection closes by itself in a minute.
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// The input of a script, and its time limit.
pub(super) struct Input {
    bytes: Box<dyn Read + Send>,
    held: bool,
    timeout: Duration,
}

impl Input {
    /// Lines, followed by the end of the input.
    pub fn lines(lines: &[&str], timeout: Duration) -> Self {
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        Input { bytes: Box::new(Cursor::new(text)), held: false, timeout }
    }

    /// The same, followed by the content of a file.
    pub fn and(self, content: impl Read + Send + 'static) -> Self {
        Input { bytes: Box::new(self.bytes.chain(content)), ..self }
    }

    /// The same, but the input stays open until the answer is complete.
    pub fn held(self) -> Self {
        Input { held: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_survive_being_quoted_and_are_shell() {
        for script in [Script::HostInfo, Script::Put, Script::Run] {
            let text = script.command().strip_prefix("exec sh -c '").unwrap().strip_suffix('\'').unwrap();
            assert!(!text.contains('\''), "{script:?}");
            // A csh expands these within quotes too.
            assert!(!text.contains("!!"), "{script:?}");
            let checked = Command::new("sh").args(["-n", "-c", text]).output().unwrap();
            assert!(checked.status.success(), "{script:?}: {checked:?}");
            assert!(text.contains(script.answer().trim()), "{script:?}");
        }
    }
}
