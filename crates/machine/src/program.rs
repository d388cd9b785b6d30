//! Finds the program of a command before it is started.

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::path_name::display_path;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Finds the program of a job as a shell would, from its working folder.
///
/// # Errors
/// A program that does not exist or is not executable.
pub fn find(program: &str, folder: Option<&Path>) -> Result<()> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "command -v \"$1\"", "find", program]);
    command.current_dir(folder.unwrap_or(Path::new(".")));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let found = command.status().is_ok_and(|status| status.success());
    if !found {
        return Err(missing(program, &Errno::ENOENT.into()));
    }
    // Some shells accept any existing path, executable or not.
    let path = folder.unwrap_or(Path::new(".")).join(program);
    if program.contains('/') { runnable(program, &path) } else { Ok(()) }
}

/// The same of a command, whose first word is the program: where that is Python, its script must be there, too.
///
/// # Errors
/// As [`find`]; a script that does not exist.
pub fn find_with_script(command: &[String], folder: Option<&Path>) -> Result<()> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    find(program, folder)?;
    let is_python =
        Path::new(program).file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("python"));
    // The first word that is no option: python3 [option] ... [-c cmd | -m mod | file | -] [arg] ...
    let script = arguments.first().filter(|word| is_python && !word.starts_with('-'));
    match script.map(|script| folder.unwrap_or(Path::new(".")).join(script)).filter(|script| !script.exists()) {
        None => Ok(()),
        Some(script) => {
            Err(Error::usage(format!("{program} would run {}, which does not exist", display_path(script)))
                .expected("a script, relative to the folder that the command runs in"))
        }
    }
}

/// The files that a command names, such as its script.
pub fn files_of(command: &[String]) -> impl Iterator<Item = &Path> {
    command.iter().map(Path::new).filter(|word| word.is_file())
}

/// Checks that a file is executable.
fn runnable(program: &str, path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(missing(program, &Errno::EISDIR.into()));
    }
    access(path, AccessFlags::X_OK).map_err(|cause| {
        Error::io(program, "start this command", &cause.into())
            .help("let it be executable (chmod +x), or name what runs it: sh train.sh")
    })
}

/// The error of a program that cannot be started.
pub fn missing(program: &str, cause: &io::Error) -> Error {
    Error::io(program, "start this command", cause).help("name a program on the path, or a file with its folder")
}
