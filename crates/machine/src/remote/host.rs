//! The address of a machine: `user@address:port`, only with characters that have no special meaning to a shell.

use perf4sight_base::error::{Error, Result};
use std::fmt::{self, Display, Formatter};

/// An address for ssh: a name, an IP address or an alias of the user's `~/.ssh/config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshHost {
    user: Option<String>,
    address: String,
    port: Option<u16>,
}

impl SshHost {
    /// Parses `address`, `user@address` or either with `:port`; an IPv6 address with a port needs brackets.
    ///
    /// ```
    /// use perf4sight_machine::remote::SshHost;
    /// assert_eq!(SshHost::parse("nvidia@tx2.local:2222")?.to_string(), "nvidia@tx2.local:2222");
    /// assert!(SshHost::parse("-oProxyCommand=reboot").is_err());
    /// # Ok::<(), perf4sight_base::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Text that ssh could take for an option, or a shell for more than a name.
    pub fn parse(text: &str) -> Result<Self> {
        Self::read(text).ok_or_else(|| {
            Error::config(format!("\"{text}\" is not an address of a machine"))
                .expected("user@address, user@address:port or an alias from ~/.ssh/config")
        })
    }

    fn read(text: &str) -> Option<Self> {
        let (user, place) = text.rsplit_once('@').map_or((None, text), |(user, place)| (Some(user), place));
        let (address, port) = split_port(place)?;
        let port = port.map(str::parse).transpose().ok()?;
        let named = |word: &str, others: &str| {
            let known = |letter: char| letter.is_ascii_alphanumeric() || others.contains(letter);
            word.starts_with(|first: char| first != '-') && word.chars().all(known)
        };
        let sound = user.is_none_or(|user| named(user, "._-")) && named(address, "._-:%");
        sound.then(|| SshHost { user: user.map(str::to_owned), address: address.to_owned(), port })
    }

    /// The arguments of ssh for this address; they come last.
    pub(super) fn arguments(&self) -> Vec<String> {
        let user = self.user.iter().flat_map(|user| ["-l".to_owned(), user.clone()]);
        let port = self.port.iter().flat_map(|port| ["-p".to_owned(), port.to_string()]);
        user.chain(port).chain(["--".to_owned(), self.address.clone()]).collect()
    }

    /// The equivalent ssh command, for messages.
    pub(super) fn command(&self) -> String {
        let port = self.port.map(|port| format!("-p {port} ")).unwrap_or_default();
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        format!("ssh {port}{user}{}", self.address)
    }

    pub(super) fn known_as(&self) -> String {
        self.port.map_or_else(|| self.address.clone(), |port| format!("[{}]:{port}", self.address))
    }
}

/// Address and port; more than one colon belongs to an IPv6 address.
fn split_port(place: &str) -> Option<(&str, Option<&str>)> {
    if let Some(bracketed) = place.strip_prefix('[') {
        let (address, rest) = bracketed.split_once(']')?;
        return match rest {
            "" => Some((address, None)),
            _ => Some((address, Some(rest.strip_prefix(':')?))),
        };
    }
    match place.split_once(':') {
        Some((address, port)) if !port.contains(':') => Some((address, Some(port))),
        _ => Some((place, None)),
    }
}

impl Display for SshHost {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        match self.port {
            Some(port) if self.address.contains(':') => write!(f, "[{}]:{port}", self.address),
            Some(port) => write!(f, "{}:{port}", self.address),
            None => f.write_str(&self.address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_arguments() {
        let cases: [(&str, &[&str]); 6] = [
            ("board", &["--", "board"]),
            ("nvidia@10.0.0.7", &["-l", "nvidia", "--", "10.0.0.7"]),
            ("a.b-c@tx2.local:2222", &["-l", "a.b-c", "-p", "2222", "--", "tx2.local"]),
            ("[fe80::1%eth0]:22", &["-p", "22", "--", "fe80::1%eth0"]),
            ("me@::1", &["-l", "me", "--", "::1"]),
            ("me@[::1]", &["-l", "me", "--", "::1"]),
        ];
        for (text, arguments) in cases {
            assert_eq!(SshHost::parse(text).unwrap().arguments(), arguments, "{text}");
        }
    }

    #[test]
    fn what_a_shell_or_ssh_could_take_for_more_is_refused() {
        let wrong = [
            "",
            "@",
            "a@",
            "@b",
            "-v",
            "-l@b",
            "me@-v",
            "a b",
            "a\nb",
            "a;b",
            "$(a)",
            "`a`",
            "a|b",
            "a&b",
            "a>b",
            "a'b",
            "a\"b",
            "a\\b",
            "a/b",
            "me@you@board",
            "board:",
            "board:ssh",
            "board:70000",
            "[::1",
            "[::1]22",
            "bürd",
            "~me@b",
        ];
        for text in wrong {
            assert!(SshHost::parse(text).is_err(), "{text:?}");
        }
    }
}
