//! The real program: arguments, exit codes, help, and messages for what cannot work.

use crate::fixtures::Scene;
use std::io::Read;
use std::process::Stdio;

#[test]
fn nothing_asked_is_answered_with_what_to_type() {
    Scene::new().run("").fails(2).says("nothing to do").says("--config-file FILE");
    Scene::new().file("config.ini", "").run("").fails(2).says("perf4sight --config-file config.ini");
}

#[test]
fn help_shows_examples_and_every_exit_code() {
    let help = Scene::new().run("--help").succeeds().prints("Examples:").prints("--set profile.bs=[1,8]");
    for code in ["0 ", "2 ", "3 ", "4 ", "5 ", "6 ", "130 "] {
        assert!(help.stdout().contains(&format!("\n  {code}")), "exit code {code} is undocumented in {help}");
    }
}

#[test]
fn the_version_tells_whether_libtorch_is_in() {
    let libtorch = if cfg!(feature = "torch") { "yes" } else { "no" };
    let version = format!("perf4sight {} (libtorch: {libtorch})\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(Scene::new().run("--version").succeeds().stdout(), version);
}

#[test]
fn completions_know_the_arguments() {
    for shell in ["bash", "zsh", "fish"] {
        Scene::new().run(&format!("completions {shell}")).succeeds().prints("config-file");
    }
    Scene::new().run("completions tcsh").fails(2).says("possible values");
}

#[test]
fn unknown_arguments_are_refused_with_the_nearest_one() {
    Scene::new().run("--config-fil config.ini").fails(2).says("--config-file");
    Scene::new().run("--check").fails(2).says("--config-file");
    Scene::new().run("--only profile completions bash").fails(2);
}

#[test]
fn a_missing_configuration_is_named() {
    Scene::new().run("--config-file absent.ini").fails(6).says("absent.ini: cannot read this file");
    Scene::new().run("--config-file .").fails(6).says("cannot read this file");
}

#[test]
fn an_empty_configuration_has_nothing_to_run() {
    let scene = Scene::new().file("config.ini", "# nothing\n");
    scene.run("--config-file config.ini").fails(3).says("config.ini: no section to run");
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_line() {
    let scene = Scene::new().file("config.ini", b"[profile]\n\xff\xfe = 1\n");
    scene.run("--config-file config.ini").fails(3).says("config.ini:2: ");
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let scene = Scene::new();
    let mut child = scene.command().args(["completions", "zsh"]).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    assert!(child.wait().unwrap().success());
}
