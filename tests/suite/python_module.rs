//! The Python module, by its own tests where a Python has PyTorch (`tests/python`), and as a whole without PyTorch.

use crate::conformance::python;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn module(python: &str) -> Command {
    let mut command = Command::new(python);
    command.current_dir(crate::ROOT).env("PYTHONPATH", "python").env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_python_module_answers() {
    let Some(python) = python() else { return };
    let program = Path::new(env!("CARGO_BIN_EXE_perf4sight")).parent().unwrap();
    let path =
        env::join_paths(std::iter::once(program.to_owned()).chain(env::split_paths(&env::var_os("PATH").unwrap())));
    succeeds(
        module(python)
            .args(["-W", "ignore", "-m", "unittest", "discover", "--start-directory", "tests/python"])
            .env("PATH", path.unwrap()),
    );
}

/// The profiler of training scripts is a link to the recorder's own file: it once led nowhere, and no test without PyTorch noticed.
#[test]
fn the_python_module_can_be_imported_without_pytorch() {
    succeeds(module("python3").args(["-c", "import perf4sight; perf4sight.Profiler().enable_profiling()"]));
}

/// `sed -i` replaces a link with a copy, which then falls behind.
#[test]
fn files_that_the_python_module_shares_are_links() {
    for (link, file) in
        [("torch_worker.py", "workers/torch_worker.py"), ("_profiler.py", "crates/record/recorder/perf4sight.py")]
    {
        let link = Path::new(crate::ROOT).join("python/perf4sight").join(link);
        assert_eq!(fs::canonicalize(&link).unwrap(), fs::canonicalize(Path::new(crate::ROOT).join(file)).unwrap());
    }
}
