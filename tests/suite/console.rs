//! The console: what is written where.

use crate::fixtures::{Sink, settings};
use perf4sight_report::{Console, OutputMode, Table, TableColumn};
use std::io::{self, Write};
use std::time::Duration;

struct Broken(io::ErrorKind);

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(self.0.into())
    }
}

fn say_everything(mode: OutputMode) -> (String, String) {
    let (out, err) = (Sink::default(), Sink::default());
    let console = Console::writing_to(settings(mode), out.clone(), err.clone());
    let mut table = Table::new("", [TableColumn::number("n", "n")]);
    table.row([3u64.into()]);
    console.line("line");
    console.table(&table);
    console.note("note");
    console.warn("careful");
    console.json(&serde_json::json!({ "rows": 3 }));
    let progress = console.patient_progress(40, "runs", Duration::ZERO);
    (0..40).for_each(|_| progress.advance(1));
    drop(progress);
    console.finish().unwrap();
    (out.text(), err.text())
}

#[test]
fn results_go_to_stdout_and_the_rest_to_stderr() {
    let (out, err) = say_everything(OutputMode::Normal);
    assert_eq!(out, "line\n\nn\n─\n3\n");
    assert!(err.starts_with("note\nwarning: careful\nruns: 4/40 after 0s, "), "{err}");
    assert!(err.ends_with("runs: 40/40 after 0s, done\n"), "{err}");
    assert_eq!(err.lines().filter(|line| line.starts_with("runs:")).count(), 10);
}

#[test]
fn progress_never_runs_past_its_end() {
    let err = Sink::default();
    let console = Console::writing_to(settings(OutputMode::Normal), Sink::default(), err.clone());
    let progress = console.patient_progress(2, "runs", Duration::ZERO);
    (0..3).for_each(|_| progress.advance(1));
    progress.expect(7);
    progress.advance(7);
    let lines: Vec<String> = err.text().lines().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(lines, ["1/2", "2/2", "10/10"]);
}

#[test]
fn quiet_keeps_results_and_warnings() {
    let (out, err) = say_everything(OutputMode::Quiet);
    assert_eq!((out.as_str(), err.as_str()), ("line\n\nn\n─\n3\n", "warning: careful\n"));
}

#[test]
fn json_mode_puts_one_document_on_stdout() {
    for (mode, said) in
        [(OutputMode::Json, "note\nwarning: careful\nruns: "), (OutputMode::QuietJson, "warning: careful\n")]
    {
        let (out, err) = say_everything(mode);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&out).unwrap(), serde_json::json!({ "rows": 3 }));
        assert!(err.starts_with(said) && (err == said) == (mode == OutputMode::QuietJson), "{err}");
    }
}

#[test]
fn a_reader_that_went_away_is_no_failure_but_a_full_disk_is() {
    for (kind, fine) in [(io::ErrorKind::BrokenPipe, true), (io::ErrorKind::StorageFull, false)] {
        let console = Console::writing_to(settings(OutputMode::Normal), Broken(kind), Sink::default());
        console.line("result");
        assert_eq!(console.finish().is_ok(), fine, "{kind:?}");
    }
}
