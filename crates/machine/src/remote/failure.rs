//! Why a command did not reach its machine, and whether another attempt can help.

use super::host::SshHost;
use perf4sight_base::error::Error;
use std::io;

#[derive(Debug)]
pub(super) enum RemoteFailure {
    /// The connection is lost or unavailable for now, with the reason.
    Lost(String),
    /// Another attempt cannot help.
    Refused(Error),
}

impl RemoteFailure {
    /// ssh cannot be started.
    pub fn no_ssh(cause: &io::Error) -> Self {
        RemoteFailure::Refused(
            Error::device(format!("ssh cannot be started: {cause}")).help("apt-get install openssh-client"),
        )
    }

    /// Classifies the error output of ssh. (Its messages are the same in every version since 3.0, and in every
    /// language.)
    pub fn of_ssh(host: &SshHost, stderr: &str) -> Self {
        let has = |words: &str| stderr.contains(words);
        let last =
            stderr.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("ssh failed without a message");
        let (by_hand, known_as) = (host.command(), host.known_as());
        let refused = |problem: &str, help: String| {
            RemoteFailure::Refused(Error::device(format!("{host}: {problem}")).help(help))
        };
        if has("IDENTIFICATION HAS CHANGED") || has("REVOKED HOST KEY") {
            return refused(
                "its host key has changed: it is another machine, or was reinstalled, or somebody intercepts the connection",
                format!(
                    "if you know why it changed: ssh-keygen -R \"{known_as}\", then {by_hand} once, and compare the key"
                ),
            );
        }
        if has("Host key verification failed") || has("host key is known") {
            return refused(
                "its host key is not known here",
                format!("{by_hand} once, compare the key it shows with the machine's, and say yes"),
            );
        }
        if has("Permission denied") || has("Too many authentication failures") {
            return refused(
                &format!("it does not let you in without asking something ({last})"),
                format!("ssh-copy-id installs your key; {by_hand} -o BatchMode=yes true must work"),
            );
        }
        if has("command-line line") || has("onfiguration option") || has("Bad owner or permissions") {
            return refused(&format!("ssh cannot use its configuration ({last})"), format!("{by_hand} must work"));
        }
        RemoteFailure::Lost(last.to_owned())
    }

    pub fn into_error(self, host: &SshHost) -> Error {
        match self {
            RemoteFailure::Refused(error) => error,
            RemoteFailure::Lost(why) => Error::device(format!("{host} cannot be reached: {why}"))
                .help(format!("check that the machine is on and the address right: {} must work", host.command())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of OpenSSH 9.2.
    #[test]
    fn what_ssh_says_is_told_with_a_remedy() {
        let host = SshHost::parse("me@board:2222").unwrap();
        let cases = [
            (
                "@@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
                "another machine",
                "-R \"[board]:2222\"",
            ),
            (
                "No ED25519 host key is known for [board]:2222 and you have requested strict checking.\nHost key verification failed.",
                "not known here",
                "say yes",
            ),
            ("me@board: Permission denied (publickey,password).", "does not let you in", "ssh-copy-id"),
            (
                "ssh: connect to host board port 2222: Connection refused",
                "cannot be reached: ssh: connect to host",
                "ssh -p 2222 me@board",
            ),
            (
                "ssh: Could not resolve hostname board: Name or service not known\n",
                "Could not resolve",
                "address right",
            ),
            ("", "failed without a message", "must work"),
        ];
        for (stderr, problem, help) in cases {
            let error = RemoteFailure::of_ssh(&host, stderr).into_error(&host).to_string();
            assert!(error.contains(problem) && error.contains(help), "{stderr}: {error}");
        }
    }
}
