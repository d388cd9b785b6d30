//! The system's ssh: one connection to a machine that many commands share, each of them a fixed script of this program.
//!
//! Variable values are never part of a command line that a shell parses: they are sent over the standard input, as
//! lines.

use super::failure::RemoteFailure;
use super::host::SshHost;
use crate::RunWatch;
use crate::process::{self, ProcessBounds, ProcessCall, ProcessEnd, ProcessOutput};
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
pub(super) enum RemoteScript {
    HostInfo,
    Put,
    Run,
}

impl RemoteScript {
    /// The command for the user's shell on the machine, whichever it is: a literal.
    fn command(self) -> &'static str {
        match self {
            RemoteScript::HostInfo => concat!("exec sh -c '", include_str!("host_info.sh"), "'"),
            RemoteScript::Put => concat!("exec sh -c '", include_str!("put.sh"), "'"),
            RemoteScript::Run => concat!("exec sh -c '", include_str!("run.sh"), "'"),
        }
    }

    /// The first line of its answer; output of the shell's start-up files comes before it.
    fn greeting(self) -> &'static str {
        match self {
            RemoteScript::HostInfo => "\nperf4sight board\n",
            RemoteScript::Put => "\nperf4sight stored\n",
            RemoteScript::Run => "\nperf4sight worker\n",
        }
    }
}

/// The answer of a script and its standard error.
#[derive(Debug)]
pub(super) struct ScriptReply {
    /// The output after the mark; none where the mark is missing.
    pub answer: Option<String>,
    /// The end of its error output.
    pub stderr: String,
}

#[derive(Debug)]
pub(super) struct SshConnection {
    host: SshHost,
    config: Option<PathBuf>,
    /// A user who can write to the socket in it acts as the user on the machine.
    folder: TemporaryFolder,
}

impl SshConnection {
    /// A connection that is not opened yet. `config` replaces the user's own ssh configuration.
    pub fn new(host: SshHost, config: Option<PathBuf>) -> Result<Self> {
        Ok(SshConnection { host, config, folder: TemporaryFolder::new(Path::new(SHORT))? })
    }

    pub fn host(&self) -> &SshHost {
        &self.host
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a script; none after Ctrl-C.
    ///
    /// # Errors
    /// ssh failed, or the script did not complete.
    pub fn run(
        &self,
        script: RemoteScript,
        input: ScriptInput,
        watch: &RunWatch<'_>,
    ) -> std::result::Result<Option<ScriptReply>, RemoteFailure> {
        let call = ProcessCall {
            input: input.bytes,
            keeps_input: input.held,
            one_line: false,
            timeout: input.timeout,
            bounds: ProcessBounds::default(),
        };
        let mut command = self.ssh();
        command.args(self.host.arguments()).arg(script.command());
        let output = process::run(&mut command, call, watch).map_err(|cause| RemoteFailure::no_ssh(&cause))?;
        output.map(|output| self.reply(script, output)).transpose()
    }

    fn reply(&self, script: RemoteScript, output: ProcessOutput) -> std::result::Result<ScriptReply, RemoteFailure> {
        let answer = output.stdout.split_once(script.greeting()).map(|(_, answer)| answer.to_owned());
        match output.end {
            ProcessEnd::Exited(status) if status.code() == Some(SSH_FAILED) => {
                Err(RemoteFailure::of_ssh(&self.host, &output.stderr))
            }
            ProcessEnd::Exited(_) => Ok(ScriptReply { answer, stderr: output.stderr }),
            ProcessEnd::TimedOut | ProcessEnd::Lost(_) => {
                Err(RemoteFailure::Lost("the machine does not answer".to_owned()))
            }
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

impl Drop for SshConnection {
    fn drop(&mut self) {
        let mut command = self.ssh();
        command.args(["-O", "exit"]).args(self.host.arguments());
        // If this fails, the connection closes by itself in a minute.
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// The input of a script, and its time limit.
pub(super) struct ScriptInput {
    bytes: Box<dyn Read + Send>,
    held: bool,
    timeout: Duration,
}

impl ScriptInput {
    /// Lines, followed by the end of the input.
    pub fn lines(lines: &[&str], timeout: Duration) -> Self {
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        ScriptInput { bytes: Box::new(Cursor::new(text)), held: false, timeout }
    }

    /// The same, followed by the content of a file.
    pub fn followed_by(self, content: impl Read + Send + 'static) -> Self {
        ScriptInput { bytes: Box::new(self.bytes.chain(content)), ..self }
    }

    /// The same, but the input stays open until the answer is complete.
    pub fn kept_open(self) -> Self {
        ScriptInput { held: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_survive_being_quoted_and_are_shell() {
        for script in [RemoteScript::HostInfo, RemoteScript::Put, RemoteScript::Run] {
            let text = script.command().strip_prefix("exec sh -c '").unwrap().strip_suffix('\'').unwrap();
            assert!(!text.contains('\''), "{script:?}");
            // A csh expands these within quotes too.
            assert!(!text.contains("!!"), "{script:?}");
            let checked = Command::new("sh").args(["-n", "-c", text]).output().unwrap();
            assert!(checked.status.success(), "{script:?}: {checked:?}");
            assert!(text.contains(script.greeting().trim()), "{script:?}");
        }
    }
}
