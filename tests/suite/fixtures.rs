//! What several topics need: where the development-only data lies, and a folder to run the real program in.
#![allow(dead_code)] // Not every topic uses every word of the test language.

use crate::ROOT;
use perf4sight_report::{Console, ConsoleSettings, OutputMode};
use perf4sight_verb::Context;
use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// A folder of the development-only data beside the checkout; `None`, said aloud, where it is absent.
pub fn shared(name: &str) -> Option<PathBuf> {
    let path = Path::new(crate::ROOT).join("../shared").join(name);
    if !path.exists() {
        eprintln!("skipped: this test reads ../shared/{name}, which is absent here");
        return None;
    }
    Some(path)
}

/// Longer than anything takes that a test waits for.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until something is so.
#[track_caller]
pub fn within_patience(what: &str, done: impl Fn() -> bool) {
    within(PATIENCE, what, done);
}

/// Waits for so long at most until something is so.
#[track_caller]
pub fn within(patience: Duration, what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + patience;
    while !done() {
        assert!(Instant::now() < deadline, "{what} does not come about");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process is there, and not only its exit status.
pub fn runs(process: i32) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// A temporary folder in which the real program runs.
///
/// `Scene::new().file("config.ini", "[profle]\n").run("--config-file config.ini").fails(3).says("did you mean")`
pub struct Scene {
    folder: TempDir,
}

/// What one run of the program left behind; every check panics with all of its output.
pub struct Outcome {
    command: String,
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Scene {
    /// The program under way with the scene's configuration.
    pub fn start(&self) -> Child {
        let mut command = self.command();
        command.args(["--config-file", "config.ini"]).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::piped()).spawn().unwrap()
    }

    pub fn new() -> Self {
        Scene { folder: TempDir::new().expect("a temporary folder") }
    }

    /// The same on the disk that the program lies on.
    pub fn in_target() -> Self {
        Scene { folder: TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder") }
    }

    /// Writes a file, with the folders above it.
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a writable folder");
        fs::write(path, content).expect("a writable file");
        self
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Where a file of this folder lies.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The text of a file of this folder.
    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|cause| panic!("{name}: {cause}"))
    }

    /// The program in this folder, ready for arguments, its signals as a terminal leaves them: what a script runs in the background
    /// ignores SIGINT and SIGQUIT, these tests and all that they start included.
    pub fn command(&self) -> Command {
        let mut command = Command::new("/usr/bin/env");
        command.arg("--default-signal").arg(crate::program()).current_dir(self.folder.path());
        command
    }

    /// Runs the program with these arguments, split at blanks.
    pub fn run(&self, arguments: &str) -> Outcome {
        let output = self.command().args(arguments.split_whitespace()).output().expect("the program starts");
        Outcome::of(arguments, output)
    }
}

impl Outcome {
    pub fn of(arguments: &str, output: Output) -> Self {
        Outcome {
            command: format!("perf4sight {arguments}"),
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("results are UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("messages are UTF-8"),
        }
    }

    /// The run did what was asked for.
    #[track_caller]
    pub fn succeeds(self) -> Self {
        self.fails(0)
    }

    /// The run ended with this exit code, without a panic.
    #[track_caller]
    pub fn fails(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "exit code of {self}");
        assert!(!self.stderr.contains("panicked"), "a panic in {self}");
        self
    }

    /// The text stands on standard error.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "{text:?} is not said by {self}");
        self
    }

    /// The text stands on standard output.
    #[track_caller]
    pub fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "{text:?} is not printed by {self}");
        self
    }

    /// The JSON on standard output, which holds nothing else.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|cause| panic!("{cause} in {self}"))
    }

    /// Standard error.
    pub fn stderr(&self) -> &str {
        &self.stderr
    }

    /// Standard output.
    pub fn stdout(&self) -> &str {
        &self.stdout
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Outcome { command, code, stdout, stderr } = self;
        write!(f, "{command} (exit code {code:?})\n--- stdout\n{stdout}--- stderr\n{stderr}")
    }
}

/// The shipped configuration on a device without hardware, so that it takes seconds.
pub fn shipped() -> Scene {
    // The simulated device needs more memory for a step: with these every network has rows that pass and rows that do not.
    let changes =
        [("device= cpu", "device= simulated"), ("bs= [1,2,4]", "bs= [2,4,6,8]"), ("mem_limit= 300", "mem_limit= 512")];
    let simulated = changes.iter().fold(include_str!("../../config.ini").to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "config.ini no longer says {from}");
        text.replace(from, to)
    });
    Scene::new().file("config.ini", simulated)
}

/// The folder of the fingerprints that the shipped configuration fits on the simulated device, made once for all tests.
pub fn simulated_fingerprint() -> PathBuf {
    static MADE: OnceLock<Scene> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        // A static is never dropped; what it leaves behind lies where `cargo clean` finds it.
        let scene = Scene::in_target().file("config.ini", shipped().read("config.ini"));
        scene.run("--config-file config.ini").succeeds();
        scene
    });
    made.path("fingerprinting/simulated/imagenet")
}

/// A sink that can be read afterwards.
#[derive(Clone, Default)]
pub struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// A console without terminal: no colours, no bars, no limit of width.
pub fn settings(mode: OutputMode) -> ConsoleSettings {
    ConsoleSettings { mode, colour: false, bars: false, width: None }
}

/// The context of a stage that runs inside a test; it prints into `out` and `err`, and the date is always the same.
pub fn context(mode: OutputMode, out: &Sink, err: &Sink) -> Context {
    Context::new(
        Console::writing_to(settings(mode), out.clone(), err.clone()),
        || SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000),
        Arc::default(),
        crate::program(),
        String::new(),
    )
}

/// One length-delimited field of a protobuf message.
pub fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 127 {
        bytes.push(length as u8 | 128);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend(content);
    bytes
}

/// The words of a command line; words between single quotes are one.
fn words(line: &str) -> Vec<&str> {
    let part = |(number, part)| -> Vec<&str> {
        let part: &str = part;
        if number % 2 == 1 { vec![part] } else { part.split_whitespace().collect() }
    };
    line.split('\'').enumerate().flat_map(part).collect()
}

/// Compares the output of the first command of a verb that a page shows with what the verb prints, of which `...` leaves
/// lines out; with UPDATE_DOCS, a page that shows all of it is rewritten.
pub fn shows_what_is_printed(page: &str, verb: &str, scene: fn() -> Scene) {
    let file = Path::new(ROOT).join(page);
    let text = fs::read_to_string(&file).unwrap();
    let begin = text.find(&format!("$ perf4sight {verb} ")).unwrap();
    let end = begin + text[begin..].find("```").unwrap();
    let (command, shown) = text[begin..end].split_once('\n').unwrap();
    let arguments = command.trim_start_matches("$ perf4sight ");
    let output = scene().command().args(words(arguments)).output().expect("the program starts");
    let printed = Outcome::of(arguments, output).succeeds();
    if shown.lines().any(|line| line == "...") {
        return shows_parts(page, shown, printed.stdout());
    }
    // As on a terminal, where warnings are among the output; how long it took is of no interest.
    let warnings: String =
        printed.stderr().lines().filter(|line| line.starts_with("warning: ")).map(|line| format!("{line}\n")).collect();
    let now = format!("{command}\n{warnings}{}", printed.stdout().trim_start());
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(file, format!("{}{now}{}", &text[..begin], &text[end..])).unwrap();
        return;
    }
    assert_eq!(text[begin..end], now, "{page} is out of date; run UPDATE_DOCS=1 cargo test --test suite {verb}");
}

/// The parts between lines of `...`, in their order.
fn shows_parts(page: &str, shown: &str, mut printed: &str) {
    for part in shown.split("...\n").filter(|part| !part.is_empty()) {
        let at = printed.find(part).unwrap_or_else(|| panic!("{page} shows\n{part}which is not printed:\n{printed}"));
        printed = &printed[at + part.len()..];
    }
}
