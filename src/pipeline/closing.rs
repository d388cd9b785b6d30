//! The last lines of a run: the findings of the sections, and the files worth opening.

use super::RunEnding;
use super::findings::Findings;
use perf4sight_base::atomic_write;
use perf4sight_report::Console;
use perf4sight_verb::{Context, CountedNoun, Summary};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// The parts of the finished sections that the closing lines show.
pub(super) struct Closing {
    findings: Vec<Findings>,
    files: Vec<(&'static str, PathBuf)>,
    sections: Map<String, Value>,
}

impl Closing {
    /// No findings yet, for sections with these subjects.
    pub fn new(subjects: impl Iterator<Item = CountedNoun>) -> Self {
        let mut findings: Vec<Findings> = Vec::new();
        for subject in subjects {
            if findings.iter().all(|findings| findings.subject != subject) {
                findings.push(Findings { subject, all: Vec::new() });
            }
        }
        Closing { findings, files: Vec::new(), sections: Map::new() }
    }

    pub fn add(&mut self, section: &str, subject: CountedNoun, summary: Summary) {
        let own = self.findings.iter_mut().filter(|findings| findings.subject == subject);
        own.for_each(|findings| findings.all.extend(summary.findings.iter().cloned()));
        self.sections.insert(section.to_string(), summary.to_json());
        self.files.extend(summary.files);
    }

    /// Shows them; `is_left` where tasks of Slurm still run.
    pub fn show(&self, ending: RunEnding, is_left: bool, context: &Context) {
        let console = &context.console;
        if ending == RunEnding::Interrupted {
            console.warn("interrupted; what was written, if anything, is whole, and the same command does the rest");
        }
        self.findings.iter().filter_map(Findings::table).for_each(|table| console.table(&table));
        show_files(&self.files, console);
        let mut json = json!({
            "finished": ending == RunEnding::Finished && !is_left,
            "sections": self.sections,
            "files": self.files.iter().map(|(what, path)| json!({ "what": what, "path": path.to_string_lossy() })).collect::<Value>(),
            "warnings": context.warnings(),
        });
        self.findings.iter().for_each(|findings| json[findings.subject.several] = findings.json());
        console.json(&json);
    }
}

pub(super) fn show_files(files: &[(&'static str, PathBuf)], console: &Console) {
    let named = |path: &Path| atomic_write::display_name(path).display().to_string();
    files.iter().for_each(|(what, path)| console.line(format_args!("{what}: {}", named(path))));
}
