//! The Python module, by its own tests, where a Python has PyTorch: `tests/python`.

use crate::conformance::python;
use std::env;
use std::path::Path;
use std::process::Command;

#[test]
fn the_python_module_answers() {
    let Some(python) = python() else { return };
    let program = Path::new(env!("CARGO_BIN_EXE_perf4sight")).parent().unwrap();
    let path =
        env::join_paths(std::iter::once(program.to_owned()).chain(env::split_paths(&env::var_os("PATH").unwrap())));
    let output = Command::new(python)
        .args(["-W", "ignore", "-m", "unittest", "discover", "--start-directory", "tests/python"])
        .current_dir(crate::ROOT)
        .env("PATH", path.unwrap())
        .env("PYTHONPATH", "python")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
