//! What the pipeline does with sections, whatever they are: two sections of our own, one that writes a file and one that
//! reads it.

use crate::fixtures::{Scene, Sink, context};
use perf4sight::pipeline::{self, RunEnding, RunOptions};
use perf4sight_base::error::{Error, Result};
use perf4sight_report::{OutputMode, TableColumn};
use perf4sight_verb::config::{Setting, SettingTable, SettingValues, path, text};
use perf4sight_verb::{
    Context, CountedNoun, KeyedPath, Outline, PlannedFiles, Section, Spec, Summary, TableFinding, Verb,
};
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

static WRITE: Spec = Spec {
    table: SettingTable { section: "write", about: "writes a file", groups: &[&[FILE, TEXT]] },
    subject: NETWORKS,
    parse: |values| Ok(Box::new(Write { file: file(values)?, text: values.get("text")? })),
};

static READ: Spec = Spec {
    table: SettingTable { section: "read", about: "reads a file", groups: &[&[FILE]] },
    subject: NETWORKS,
    parse: |values| Ok(Box::new(Read { file: file(values)? })),
};

/// The same about something else than networks.
static CHECK: Spec = Spec {
    table: SettingTable { section: "check", about: "checks a file", groups: &[&[FILE]] },
    subject: CountedNoun { one: "job", several: "jobs" },
    parse: READ.parse,
};

const NETWORKS: CountedNoun = CountedNoun { one: "network", several: "networks" };
const FILE: Setting = path("file").required().help("the file");
const TEXT: Setting = text("text").or_default("written").help("what to write");

/// Tests must not change the current directory, so the file comes with the folder of its scene in front.
fn file(values: &SettingValues) -> Result<PathBuf> {
    values.get("file")
}

struct Write {
    file: PathBuf,
    text: String,
}

struct Read {
    file: PathBuf,
}

impl Section for Write {
    fn outline(&self, _: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        Ok(Outline {
            steps: vec![format!("write {}", self.text)],
            runs: 90,
            time: Some(Duration::from_secs(90)),
            writes: vec![KeyedPath { key: "file", path: self.file.clone() }],
            ..Outline::default()
        })
    }
}

impl Verb for Write {
    fn run(&self, context: &mut Context) -> Result<Summary> {
        fs::write(&self.file, &self.text).map_err(|cause| Error::io(&self.file, "write", &cause))?;
        context.warn("ink is low");
        if self.text == "interrupt" {
            context.cancel.store(true, Ordering::Relaxed);
        }
        Ok(Summary { findings: vec![finding("rows", self.text.len())], json: json!(self.text), ..Summary::default() })
    }
}

impl Section for Read {
    fn outline(&self, _: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        Ok(Outline { reads: vec![KeyedPath { key: "file", path: self.file.clone() }], ..Outline::default() })
    }
}

impl Verb for Read {
    fn run(&self, _: &mut Context) -> Result<Summary> {
        let read = fs::read_to_string(&self.file).map_err(|cause| Error::io(&self.file, "read", &cause))?;
        Ok(Summary {
            headline: format!("read {read}"),
            findings: vec![finding("errors", 0)],
            files: vec![("copy", self.file.clone())],
            json: json!(read),
            ..Summary::default()
        })
    }
}

fn finding(key: &str, count: usize) -> TableFinding {
    TableFinding { about: "net".to_string(), column: TableColumn::number(key, key), cell: count.into() }
}

struct Run {
    scene: Scene,
    options: RunOptions,
    out: Sink,
    err: Sink,
}

/// `@` in the configuration stands for the folder of the scene.
fn config(text: &str) -> Run {
    let scene = Scene::new();
    let here = scene.folder().display().to_string();
    let scene = scene.file("config.ini", text.replace('@', &here));
    let options = RunOptions { config_file: scene.path("config.ini"), ..RunOptions::default() };
    Run { scene, options, out: Sink::default(), err: Sink::default() }
}

impl Run {
    fn go(&self, mode: OutputMode) -> Result<RunEnding> {
        pipeline::run(&[&WRITE, &READ, &CHECK], &self.options, &mut context(mode, &self.out, &self.err))
    }

    fn refusal(&self) -> String {
        let refusal = self.go(OutputMode::Normal).unwrap_err().to_string();
        assert_eq!(self.out.text(), "", "something ran before {refusal}");
        refusal.replace(&self.scene.folder().display().to_string(), "@")
    }
}

const BOTH: &str = "[write]\nfile = @/deep\n[read]\nfile = @/deep\n";

#[test]
fn sections_run_in_order_and_end_in_one_table() {
    let run = config(BOTH);
    assert_eq!(run.go(OutputMode::Normal).unwrap(), RunEnding::Finished);
    let expected = "read written\n\nResult\nnetwork  rows  errors\n───────  ────  ──────\nnet         7       0\n";
    let copy = format!("copy: {}\n", run.scene.path("deep").display());
    assert_eq!(run.out.text(), format!("{expected}{copy}"));
    assert!(run.err.text().contains("[write] writes a file\nwarning: ink is low\n\n[read]"), "{}", run.err.text());
}

#[test]
fn each_kind_of_subject_has_a_table_of_its_own() {
    let run = config(&BOTH.replace("[read]", "[check]"));
    run.go(OutputMode::Normal).unwrap();
    let expected =
        "\nResult\nnetwork  rows\n───────  ────\nnet         7\n\nResult\njob  errors\n───  ──────\nnet       0\n";
    assert!(run.out.text().contains(expected), "{}", run.out.text());
    let run = config(&BOTH.replace("[read]", "[check]"));
    run.go(OutputMode::Json).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&run.out.text()).unwrap();
    assert_eq!(summary["networks"], json!({ "net": { "rows": 7 } }));
    assert_eq!(summary["jobs"], json!({ "net": { "errors": 0 } }));
}

#[test]
fn json_holds_what_the_tables_show() {
    let run = config(BOTH);
    run.go(OutputMode::Json).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&run.out.text()).unwrap();
    assert_eq!(summary["finished"], true);
    assert_eq!(summary["sections"], json!({ "write": "written", "read": "written" }));
    assert_eq!(summary["networks"], json!({ "net": { "rows": 7, "errors": 0 } }));
    assert_eq!(summary["warnings"], json!(["ink is low"]));
    assert_eq!(summary["files"][0]["what"], "copy");
}

#[test]
fn a_check_shows_the_plan_and_runs_nothing() {
    let mut run = config(BOTH);
    run.options.check = true;
    assert_eq!(run.go(OutputMode::Normal).unwrap(), RunEnding::Finished);
    let expected = "[write] 90 runs, about 1m 30s\n  write written\n[read] no runs on a device\n\
                    In all 90 runs, about 1m 30s. Nothing was run.\n";
    assert_eq!(run.out.text(), expected);
    assert!(!run.scene.path("deep").exists());
}

#[test]
fn only_and_set_choose_and_change_sections() {
    let mut run = config(BOTH);
    run.options.only = vec!["write".to_string()];
    run.options.set = vec!["write.text=other".to_string()];
    run.go(OutputMode::Normal).unwrap();
    assert_eq!(run.scene.read("deep"), "other");
    assert!(!run.out.text().contains("read"), "{}", run.out.text());
    run.options.only = vec!["wirte".to_string()];
    let refusal = run.go(OutputMode::Normal).unwrap_err().to_string();
    assert!(refusal.contains("--only wirte") && refusal.contains("did you mean \"write\"?"), "{refusal}");
}

#[test]
fn nothing_runs_where_any_section_is_wrong() {
    for (text, messages) in [
        ("[write]\nfile = @/a\n[raed]\n", ["@/config.ini:3: there is no section [raed]", "did you mean \"read\"?"]),
        ("[write]\nfile = @/a\n[read]\nfil = @/a\n", ["@/config.ini:4: [read] fil: no such key", "\"file\""]),
        ("[write]\nfile = @/a\n[read]\nfile = @/b\n", ["@/config.ini:4: [read] file: @/b does not exist", "earlier"]),
        ("[read]\nfile = @/a\n[write]\nfile = @/a\n", ["@/config.ini:2: [read] file: @/a does not exist", "earlier"]),
        ("[read]\nfile = @/a\n[write]\nfile = @/a\n", ["order of the file", "[write] stands below [read]"]),
        ("[write]\nfile = @/config.ini/a\n", ["@/config.ini:2: [write] file: cannot write", "config.ini is a file"]),
    ] {
        let refusal = config(text).refusal();
        assert!(messages.iter().all(|message| refusal.contains(message)), "{text:?} was refused with {refusal}");
    }
}

#[test]
fn what_is_read_before_it_is_written_anew_is_warned_of() {
    let run = config("[read]\nfile = @/deep\n[write]\nfile = @/deep\n");
    fs::write(run.scene.path("deep"), "old").unwrap();
    assert_eq!(run.go(OutputMode::Normal).unwrap(), RunEnding::Finished);
    assert!(
        run.err.text().contains("warning: [read] reads what [write] writes, and runs before it"),
        "{}",
        run.err.text()
    );
    let run = config(BOTH);
    run.go(OutputMode::Normal).unwrap();
    assert!(!run.err.text().contains("runs before it"), "{}", run.err.text());
}

#[test]
fn an_interrupted_run_keeps_what_it_has_and_stops() {
    let run = config(&BOTH.replace("[read]", "text = interrupt\n[read]"));
    assert_eq!(run.go(OutputMode::Normal).unwrap(), RunEnding::Interrupted);
    assert!(run.err.text().contains("interrupted"), "{}", run.err.text());
    assert!(run.out.text().contains("Result") && !run.out.text().contains("copy"), "{}", run.out.text());
}
