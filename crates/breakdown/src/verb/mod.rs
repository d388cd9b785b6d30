//! `[breakdown]` and `perf4sight breakdown`: where training iterations spend their time, from traces.

mod bars;
mod comparability;
mod csv;
mod data_rows;
mod differences;
mod files;
mod folded_stacks;
mod headline;
mod json;
mod page;
mod published;
mod run;
mod settings;
mod tables;
mod time_breakdown;
mod waiting;
mod warnings;

use crate::{BreakdownOptions, Comparison, Iteration, RankBreakdown, TimeCategory};
use comparability::ComparedSides;
use folded_stacks::FoldedStacks;
use perf4sight_base::error::Result;
use perf4sight_base::result_files::ResultFiles;
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_report::{Cell, Progress, TableColumn};
use perf4sight_traces::check;
use perf4sight_verb::config::SettingValues;
use perf4sight_verb::{
    Context, CountedNoun, KeyedPath, Outline, PlannedFiles, Section, Spec, Summary, TableFinding, Verb, VerbSpec,
};
use run::TracedRun;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

pub static SPEC: Spec = Spec {
    table: settings::TABLE,
    subject: CountedNoun { one: "rank", several: "ranks" },
    parse: |values| Ok(Box::new(BreakdownVerb::parse(values)?)),
};

/// `perf4sight breakdown`.
pub static VERB: VerbSpec = VerbSpec {
    table: settings::TABLE,
    after_help: settings::AFTER_HELP,
    parse: |values| Ok(Box::new(BreakdownVerb::parse(values)?)),
};

#[derive(Debug, Clone, PartialEq, Eq)]
struct BreakdownVerb {
    traces: Vec<PathBuf>,
    out: PathBuf,
    iteration: Option<String>,
    compare: Vec<PathBuf>,
}

struct BreakdownResults {
    run: TracedRun,
    after: Option<(TracedRun, Comparison)>,
    warnings: Vec<String>,
}

impl Verb for BreakdownVerb {
    /// Reads the traces, breaks them down, and writes the results.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let files = self.files()?;
        let runs = if self.compare.is_empty() { 1 } else { 2 };
        let progress = context.console.progress(READING * runs + 1, "breaking down");
        let mut shown = self.read(&progress)?;
        if context.cancelled() {
            return Ok(Summary { headline: "interrupted; nothing was written".to_owned(), ..Summary::default() });
        }
        progress.set_item("drawing");
        let json = write(files, &mut shown)?;
        progress.advance(1);
        drop(progress);
        shown.warnings.iter().for_each(|warning| context.warn(warning));
        Ok(Summary {
            answer: shown.after.as_ref().map_or(String::new(), |(_, comparison)| differences::answer_line(comparison)),
            tables: tables::console_tables(&shown),
            headline: headline::headline(&shown.run),
            findings: findings(&shown.run),
            files: vec![("report", self.out.join("report.html"))],
            json,
            ..Summary::default()
        })
    }
}

const READING: u64 = 2;

/// Traces are read before anything runs where they have at most so many bytes, gzipped or not.
const QUICK: u64 = 8 << 20;

/// Draws and writes all files; returns the contents of `breakdown.json`.
fn write(mut files: ResultFiles, shown: &mut BreakdownResults) -> Result<Value> {
    let folded = FoldedStacks::from_run(&shown.run);
    if folded.cut {
        shown.warnings.push("stacks.folded holds the first 64 MiB of the stacks; the rest is left out".to_owned());
    }
    files.add("stacks.folded", folded.text);
    for published in published::find_plots(shown) {
        published.files()?.into_iter().for_each(|(name, contents)| files.add(name, contents));
    }
    files.add("breakdown.csv", csv::to_table(shown).to_csv());
    files.add("report.html", page::build_page(shown).to_html());
    let json = json::to_json(shown);
    files.write_all(json.clone())?;
    Ok(json)
}

/// The findings about each rank for the closing table of a configuration.
fn findings(run: &TracedRun) -> Vec<TableFinding> {
    let of_rank = |rank: &RankBreakdown| {
        let total = rank.summary(|one| Some(one.sets.total() as f64)).map(|total| Milliseconds(total.mean / 1e6));
        let mean = |time: &dyn Fn(&Iteration) -> Option<i64>| Some(rank.summary(|one| Some(time(one)? as f64))?.mean);
        // From the two means, as in the table above it.
        let python = mean(&|one| one.sets.category(TimeCategory::Python)).zip(mean(&|one| Some(one.sets.total())));
        let python = python.map(|(python, total)| Percent(100.0 * python / total));
        let columns = [
            (TableColumn::number("iteration_ms", "iteration"), Cell::from(total)),
            (TableColumn::number("python_percent", "in Python"), python.into()),
        ];
        let about = format!("rank {}", rank.rank);
        columns.map(|(column, cell)| TableFinding { about: about.clone(), column, cell })
    };
    run.breakdown.ranks.iter().flat_map(of_rank).collect()
}

impl Section for BreakdownVerb {
    fn outline(&self, _: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        let read = |key| move |path: &PathBuf| KeyedPath { key, path: path.clone() };
        let traces: Vec<String> = self.traces.iter().map(|path| path.display().to_string()).collect();
        Ok(Outline {
            steps: vec![format!("breaks the iterations in {} down", traces.join(", "))],
            reads: self.traces.iter().map(read("traces")).chain(self.compare.iter().map(read("compare"))).collect(),
            ..Outline::default()
        }
        .results("out", &self.out, files::names())
        .check_value("out", || self.files().map(drop))
        .check("traces", &self.traces, |_| check(&self.traces))
        .check("compare", &self.compare, |_| check(&self.compare))
        .check("iteration", self.traces.iter().chain(&self.compare), |_| self.check_iteration()))
    }
}

impl BreakdownVerb {
    fn parse(values: &SettingValues<'_>) -> Result<Self> {
        let traces: Vec<PathBuf> = values.get("traces")?;
        if traces.is_empty() {
            return Err(values.error("traces", "there are none").expected("files or folders"));
        }
        Ok(BreakdownVerb {
            traces,
            out: values.get("out")?,
            iteration: values.get("iteration")?,
            compare: values.get::<Option<Vec<PathBuf>>>("compare")?.unwrap_or_default(),
        })
    }

    fn files(&self) -> Result<ResultFiles> {
        files::new(&self.out, self.traces.iter().chain(&self.compare).map(PathBuf::as_path))
    }

    /// Refuses a name that marks no iterations, where traces are read in seconds.
    fn check_iteration(&self) -> Result<()> {
        let files = self.traces.iter().chain(&self.compare).flat_map(|path| match path.is_dir() {
            true => fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect(),
            false => vec![path.clone()],
        });
        let bytes: u64 = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
        match self.iteration.is_some() && bytes <= QUICK {
            true => self.read(&Progress::silent(2 * READING)).map(drop),
            false => Ok(()),
        }
    }

    fn read(&self, progress: &Progress) -> Result<BreakdownResults> {
        let options = BreakdownOptions { iteration: self.iteration.clone() };
        if self.compare.is_empty() {
            let run = TracedRun::read(&self.traces, &options, progress)?;
            return Ok(BreakdownResults { warnings: run.warnings(), run, after: None });
        }
        let before = TracedRun::read_recordings(&self.traces, &options, progress)?;
        let after = TracedRun::read_recordings(&self.compare, &options, progress)?;
        // Warnings about comparability come first.
        let sides = ComparedSides([&before, &after].map(|side| side.all().collect()));
        sides.check_unique()?;
        let mut warnings = sides.differences();
        let of_sides = [("before", &before), ("after", &after)].into_iter().flat_map(|(name, recordings)| {
            recordings.all().flat_map(TracedRun::warnings).map(move |warning| (name, warning))
        });
        warnings.extend(warnings::of_runs(of_sides));
        let [own, others] = sides.0.map(|side| side.into_iter().map(|run| &run.breakdown).collect::<Vec<_>>());
        let comparison = Comparison::compare(&own, &others);
        Ok(BreakdownResults { run: before.first, after: Some((after.first, comparison)), warnings })
    }
}
