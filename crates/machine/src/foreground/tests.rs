//! Tests of `foreground`.

use super::*;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// Runs a shell script with the variable `FOLDER` set to a folder; `done` may look into it. A shell cannot trap a signal
/// that is ignored when it starts, as SIGINT is for background commands of a script.
fn run(lines: &str, limit: Option<Duration>, done: impl Fn(&Path) -> bool) -> (ForegroundEnd, TempDir) {
    run_until(&AtomicBool::new(false), lines, limit, done)
}

/// The same, until it is cancelled.
fn run_until(
    cancel: &AtomicBool,
    lines: &str,
    limit: Option<Duration>,
    done: impl Fn(&Path) -> bool,
) -> (ForegroundEnd, TempDir) {
    let folder = TempDir::new().unwrap();
    let words = ["/usr/bin/env", "--default-signal", "/bin/sh", "-c", lines].map(str::to_owned);
    let environment = [("FOLDER", folder.path().as_os_str().to_owned())];
    let command = ForegroundCommand {
        words: &words,
        environment: &environment,
        first_folder: ("PERF4SIGHT_TEST_PATH", folder.path()),
        quiet: true,
        limit,
    };
    let ended = command
        .run(&RunWatch::quiet(cancel), || match done(folder.path()) {
            true => CommandProgress::Done,
            false if folder.path().join("writing").exists() => CommandProgress::Writing,
            false => CommandProgress::Running,
        })
        .unwrap();
    (ended, folder)
}

fn runs(process: &str) -> bool {
    fs::read_to_string(format!("/proc/{}/stat", process.trim())).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn its_own_exit_code_and_signal_are_told() {
    let (ended, _) = run("exit 7", None, |_| false);
    assert_eq!((ended.status.unwrap().code(), ended.asked), (Some(7), None));
    let (ended, _) = run("kill -TERM $$", None, |_| false);
    assert_eq!((ended.status.unwrap().signal(), ended.asked), (Some(15), None));
}

#[test]
fn a_folder_is_put_first() {
    let (_, folder) = run("echo \"$PERF4SIGHT_TEST_PATH\" > \"$FOLDER/path\"", None, |_| false);
    assert_eq!(fs::read_to_string(folder.path().join("path")).unwrap(), format!("{}\n", folder.path().display()));
}

#[test]
fn it_is_interrupted_as_by_the_keyboard_when_its_time_is_up() {
    let lines = "trap 'exit 3' INT; while :; do sleep 0.02; done";
    let (ended, _) = run(lines, Some(Duration::from_secs(1)), |_| false);
    assert_eq!((ended.status.unwrap().code(), ended.asked), (Some(3), Some(EndReason::TimeUp)));
    let (ended, _) = run(lines, None, |_| true);
    assert_eq!(ended.asked, Some(EndReason::Done));
}

#[test]
fn what_it_started_ends_with_it_though_it_left_the_group() {
    let lines = "setsid sleep 60 & echo $! > \"$FOLDER/stray\"; sleep 0.2; exit 0";
    let (ended, folder) = run(lines, None, |_| false);
    assert!(ended.status.unwrap().success());
    let stray = fs::read_to_string(folder.path().join("stray")).unwrap();
    // On a busy machine, a killed process takes a while to disappear.
    let until = Instant::now() + Duration::from_secs(10);
    while runs(&stray) {
        assert!(Instant::now() < until, "it goes on");
        thread::sleep(LOOK);
    }
}

#[test]
fn what_does_not_listen_to_ctrl_c_is_killed() {
    let lines = "trap '' INT; echo $$ > \"$FOLDER/process\"; while :; do sleep 0.02; done";
    let (cancel, begun) = (AtomicBool::new(false), Instant::now());
    // Cancelled once it ignores the interrupt.
    let (ended, folder) = run_until(&cancel, lines, None, |folder| {
        cancel.fetch_or(folder.join("process").exists(), Ordering::Relaxed);
        false
    });
    assert_eq!(ended, ForegroundEnd { status: None, asked: Some(EndReason::Cancelled) });
    assert!(begun.elapsed() >= GRACE);
    assert!(!runs(&fs::read_to_string(folder.path().join("process")).unwrap()));
}

#[test]
fn a_limit_is_kept_though_nothing_listens() {
    let lines = "trap '' INT TERM; while :; do sleep 0.02; done";
    let begun = Instant::now();
    let (ended, _) = run(lines, Some(Duration::from_secs(1)), |_| false);
    assert_eq!(ended, ForegroundEnd { status: None, asked: Some(EndReason::TimeUp) });
    assert!(begun.elapsed() < Duration::from_secs(1) + 2 * GRACE, "{:?}", begun.elapsed());
}

#[test]
fn what_is_written_at_the_time_limit_is_waited_for() {
    let lines = "trap 'touch \"$FOLDER/writing\"; sleep 6; exit 3' INT; while :; do sleep 0.02; done";
    let (ended, _) = run(lines, Some(Duration::from_secs(1)), |_| false);
    assert_eq!((ended.status.unwrap().code(), ended.asked), (Some(3), Some(EndReason::TimeUp)));
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let words = ["no-such-program".to_owned()];
    let folder = ("PERF4SIGHT_TEST_PATH", Path::new("/"));
    let command =
        ForegroundCommand { words: &words, environment: &[], first_folder: folder, quiet: false, limit: None };
    let error =
        command.run(&RunWatch::quiet(&AtomicBool::new(false)), || CommandProgress::Running).unwrap_err().to_string();
    assert!(error.contains("no-such-program: cannot start this command"), "{error}");
}
