//! `[collect]` and `perf4sight collect`: the traces of all ranks as one file, on one clock.

use super::interrupted_summary;
use super::interruptible::interruptible;
use super::traces::{self, TRACES};
use super::until_cancelled::UntilCancelled;
use crate::ranks::TrainingJob;
use crate::{Analysis, timeline};
use flate2::Compression;
use flate2::write::GzEncoder;
use perf4sight_base::atomic_write;
use perf4sight_base::error::Result;
use perf4sight_base::overwrite;
use perf4sight_base::units::count_text;
use perf4sight_traces::is_own_timeline;
use perf4sight_verb::config::{self, SettingValues, flag, path};
use perf4sight_verb::{Context, CountedNoun, Outline, PlannedFiles, Section, Spec, Summary, Verb, VerbSpec};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const TABLE: config::SettingTable = config::SettingTable {
    section: "collect",
    about: "joins the traces of all ranks into one file on one clock, which Perfetto and Chrome's viewer open",
    groups: &[&[
        TRACES,
        path("out")
            .or_default("collected.json.gz")
            .value("FILE")
            .help("The joined trace, gzipped if its name ends in .gz."),
        flag("overwrite").or_default("False").help("Replace a file that perf4sight did not write, too."),
    ]],
};

/// The section `[collect]`.
pub static SPEC: Spec = Spec {
    table: TABLE,
    subject: CountedNoun { one: "rank", several: "ranks" },
    parse: |values| Ok(Box::new(Collect::parse(values)?)),
};

/// `perf4sight collect`.
pub static VERB: VerbSpec = VerbSpec {
    table: TABLE,
    after_help: "Examples:\n  perf4sight collect traces/\n  perf4sight collect rank*.json.gz --out all.json.gz",
    parse: |values| Ok(Box::new(Collect::parse(values)?)),
};

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Collect {
    traces: Vec<PathBuf>,
    out: PathBuf,
    overwrite: bool,
}

impl Verb for Collect {
    fn run(&self, context: &mut Context) -> Result<Summary> {
        self.check()?;
        let progress = context.console.progress(2, "reading traces");
        let traces = self.traces.clone();
        let analysis = interruptible(&context.cancel, move || TrainingJob::read(&traces).map(Analysis::new))?;
        let Some(analysis) = analysis else { return Ok(interrupted_summary()) };
        progress.advance(1);
        progress.set_item("writing");
        match self.write(&analysis, &context.cancel) {
            Err(_) if context.cancelled() => return Ok(interrupted_summary()),
            written => written?,
        }
        progress.advance(1);
        drop(progress);
        analysis.warnings().iter().for_each(|warning| context.warn(warning));
        let ranks = analysis.job.ranks.len();
        Ok(Summary {
            headline: format!("{} on one clock", count_text(ranks as u64, "rank")),
            files: vec![("trace", self.out.clone())],
            json: json!({"ranks": ranks, "file": self.out.display().to_string()}),
            failure: analysis.several_jobs(),
            ..Summary::default()
        })
    }
}

impl Collect {
    fn parse(values: &SettingValues<'_>) -> Result<Self> {
        Ok(Collect { traces: traces::traces(values)?, out: values.get("out")?, overwrite: values.get("overwrite")? })
    }

    /// Refuses to replace a file of others, before traces are read.
    fn check(&self) -> Result<()> {
        traces::check_out(&self.traces, &self.out, || overwrite::check(&self.out, false, is_own_timeline))?;
        overwrite::check(&self.out, self.overwrite, is_own_timeline)
    }

    fn write(&self, analysis: &Analysis, cancel: &Arc<AtomicBool>) -> Result<()> {
        let is_zipped = self.out.extension().is_some_and(|ending| ending == "gz");
        atomic_write::save_stream(&self.out, |target| {
            let mut target = UntilCancelled { target, cancel: Arc::clone(cancel) };
            if !is_zipped {
                return timeline::write(analysis, None, None, target);
            }
            let mut zipped = GzEncoder::new(&mut target, Compression::fast());
            timeline::write(analysis, None, None, &mut zipped)?;
            zipped.finish().map(drop)
        })
    }
}

/// The verb that joins traces into a file.
pub(super) fn verb(traces: Vec<PathBuf>, out: PathBuf) -> Box<dyn Verb> {
    Box::new(Collect { traces, out, overwrite: false })
}

impl Section for Collect {
    fn outline(&self, _: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        Ok(traces::outline("joins the traces in", &self.traces, &self.out, || self.check()))
    }
}
