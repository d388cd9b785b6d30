//! Commands as a user can paste them into a shell.

use std::borrow::Borrow;

/// The words of a command as a POSIX shell reads them back: those with spaces or other characters that a shell changes are quoted.
///
/// ```
/// use perf4sight_base::shell::command_text;
/// assert_eq!(command_text(&["python3", "train.py", "--name", "a b"]), "python3 train.py --name 'a b'");
/// assert_eq!(command_text(&["echo", ""]), "echo ''");
/// ```
pub fn command_text<S: Borrow<str>>(words: &[S]) -> String {
    let words = || words.iter().map(Borrow::borrow);
    // No shell can pass a NUL byte on, nor can any command have one: such a word was refused before.
    shlex::try_join(words()).unwrap_or_else(|_| words().collect::<Vec<&str>>().join(" "))
}
