//! Tables, the console and the HTML page: what is written where, and that equal data give equal bytes.

use perf4sight::report::{Column, Console, Mode, Settings, Table};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// A sink that can be read afterwards.
#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

struct Broken(io::ErrorKind);

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(self.0.into())
    }
}

fn settings(mode: Mode) -> Settings {
    Settings { mode, colour: false, bars: false, width: None }
}

fn say_everything(mode: Mode) -> (String, String) {
    let (out, err) = (Sink::default(), Sink::default());
    let console = Console::writing_to(settings(mode), out.clone(), err.clone());
    let mut table = Table::new("", [Column::number("n", "n")]);
    table.row([3u64.into()]);
    console.line("line");
    console.table(&table);
    console.note("note");
    console.warn("careful");
    console.json(&serde_json::json!({ "rows": 3 }));
    let progress = console.progress(40, "runs");
    (0..40).for_each(|_| progress.advance(1));
    drop(progress);
    console.finish().unwrap();
    (out.text(), err.text())
}

#[test]
fn results_go_to_stdout_and_the_rest_to_stderr() {
    let (out, err) = say_everything(Mode::Normal);
    assert_eq!(out, "line\n\nn\n─\n3\n");
    assert!(err.starts_with("note\nwarning: careful\nruns: 4/40, "), "{err}");
    assert!(err.ends_with("runs: 40/40, done\n"), "{err}");
    assert_eq!(err.lines().filter(|line| line.starts_with("runs:")).count(), 10);
}

#[test]
fn quiet_keeps_results_and_warnings() {
    let (out, err) = say_everything(Mode::Quiet);
    assert_eq!((out.as_str(), err.as_str()), ("line\n\nn\n─\n3\n", "warning: careful\n"));
}

#[test]
fn json_mode_puts_one_document_on_stdout() {
    let (out, err) = say_everything(Mode::Json);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&out).unwrap(), serde_json::json!({ "rows": 3 }));
    assert!(err.contains("careful"));
}

#[test]
fn a_reader_that_went_away_is_no_failure_but_a_full_disk_is() {
    for (kind, fine) in [(io::ErrorKind::BrokenPipe, true), (io::ErrorKind::StorageFull, false)] {
        let console = Console::writing_to(settings(Mode::Normal), Broken(kind), Sink::default());
        console.line("result");
        assert_eq!(console.finish().is_ok(), fine, "{kind:?}");
    }
}
