//! `[breakdown]` and `perf4sight breakdown`: where the iterations of a training script spend their time, from traces of it.

mod answer;
mod files;
mod json;
mod keys;
mod page;
mod run;
mod tables;

use crate::breakdown::Options;
use crate::config::Values;
use crate::error::Result;
use crate::frame::{Context, Foreseen, KeyedPath, Noun, Outline, Section, Spec, Summary, Verb};
use files::Files;
use run::Run;
use std::path::PathBuf;

/// The section `[breakdown]`.
pub static SPEC: Spec = Spec {
    table: keys::TABLE,
    subject: Noun { one: "rank", several: "ranks" },
    parse: |values| Ok(Box::new(Breakdown::parse(values)?)),
};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breakdown {
    /// Traces of one run, or folders of them.
    pub traces: Vec<PathBuf>,
    /// Folder for the report and its data.
    pub out: PathBuf,
    /// The name of the events that are the iterations.
    pub iteration: Option<String>,
    /// Traces of another run; none where nothing is compared.
    pub compare: Vec<PathBuf>,
}

/// All that is shown.
struct Shown {
    /// What was asked for.
    run: Run,
    /// What it is compared with: the run after it.
    after: Option<Run>,
    /// What a reader should know, in sentences.
    warnings: Vec<String>,
}

impl Verb for Breakdown {
    /// Reads the traces, breaks them down, and writes what it found.
    ///
    /// # Errors
    /// A file that is no trace, an iteration that none has, a folder that cannot be written to or holds what is not a breakdown's.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let files = Files::new(&self.out)?;
        let shown = self.read(context)?;
        shown.warnings.iter().for_each(|warning| context.warn(warning));
        let (json, page) = (json::of(&shown), page::of(&shown));
        files.with("report.html", page.to_html()).with("breakdown.json", format!("{json:#}\n")).place()?;
        Ok(Summary {
            tables: tables::of(&shown),
            headline: answer::of(&shown.run),
            files: vec![("report", self.out.join("report.html"))],
            json,
            ..Summary::default()
        })
    }
}

impl Section for Breakdown {
    fn outline(&self, _: &Foreseen, _: &Context) -> Result<Outline> {
        Files::new(&self.out).map_err(crate::error::Error::configured)?;
        let read = |key| move |path: &PathBuf| KeyedPath { key, path: path.clone() };
        let traces: Vec<String> = self.traces.iter().map(|path| path.display().to_string()).collect();
        Ok(Outline {
            steps: vec![format!("breaks the iterations in {} down", traces.join(", "))],
            reads: self.traces.iter().map(read("traces")).chain(self.compare.iter().map(read("compare"))).collect(),
            writes: vec![KeyedPath { key: "out", path: self.out.clone() }],
            ..Outline::default()
        })
    }
}

impl Breakdown {
    fn parse(values: &Values<'_>) -> Result<Self> {
        let traces: Vec<PathBuf> = values.get("traces")?;
        if traces.is_empty() {
            return Err(values.error("traces", "there are none").expected("files or folders"));
        }
        Ok(Breakdown {
            traces,
            out: values.get("out")?,
            iteration: values.get("iteration")?,
            compare: values.get::<Option<Vec<PathBuf>>>("compare")?.unwrap_or_default(),
        })
    }

    fn read(&self, context: &Context) -> Result<Shown> {
        let options = Options { iteration: self.iteration.clone() };
        let runs = 1 + u64::from(!self.compare.is_empty());
        let progress = context.console.progress(2 * runs, "breaking down");
        let run = Run::read(&self.traces, &options, &progress)?;
        let after = match self.compare.is_empty() {
            true => None,
            false => Some(Run::read(&self.compare, &options, &progress)?),
        };
        let warnings = run.warnings().into_iter().chain(
            after.iter().flat_map(|after| after.warnings().into_iter().map(|warning| format!("after: {warning}"))),
        );
        let warnings = warnings.collect();
        Ok(Shown { warnings, run, after })
    }
}
