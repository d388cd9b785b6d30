//! `[statistic]` and `perf4sight statistic`: how often every operation runs, how long, and its share of a step.

use super::interruptible::interruptible;
use super::traces::{self, TRACES};
use super::{PendingFile, interrupted_summary};
use crate::Analysis;
use crate::ranks::TrainingJob;
use crate::statistic::{OperationStatistic, StatisticKind, operations};
use perf4sight_base::error::Result;
use perf4sight_base::overwrite;
use perf4sight_base::units::{Milliseconds, Percent, count_text};
use perf4sight_report::{Table, TableColumn};
use perf4sight_traces::shortened::brief;
use perf4sight_verb::config::{self, SettingValues, flag, path};
use perf4sight_verb::{Context, CountedNoun, Outline, PlannedFiles, Section, Spec, Summary, Verb, VerbSpec};
use std::path::PathBuf;

const TABLE: config::SettingTable = config::SettingTable {
    section: "statistic",
    about: "lists how often every operation of a recorded job runs, how long, and its share of a step",
    groups: &[&[
        TRACES,
        path("out").or_default("statistic.csv").value("FILE").help("The table of all operations."),
        flag("overwrite").or_default("False").help("Replace a file that perf4sight did not write, too."),
    ]],
};

/// The section `[statistic]`.
pub static SPEC: Spec = Spec {
    table: TABLE,
    subject: CountedNoun { one: "kind", several: "kinds" },
    parse: |values| Ok(Box::new(StatisticVerb::parse(values)?)),
};

/// `perf4sight statistic`.
pub static VERB: VerbSpec = VerbSpec {
    table: TABLE,
    after_help: "Examples:\n  perf4sight statistic traces/\n  perf4sight statistic rank*.json.gz --out operations.csv",
    parse: |values| Ok(Box::new(StatisticVerb::parse(values)?)),
};

/// Rows of each kind on the console.
const SHOWN: usize = 6;

/// The settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StatisticVerb {
    traces: Vec<PathBuf>,
    out: PathBuf,
    overwrite: bool,
}

impl Verb for StatisticVerb {
    fn run(&self, context: &mut Context) -> Result<Summary> {
        self.count(context, |_| Ok(None))
    }
}

impl StatisticVerb {
    /// Refuses to replace a file of others, before traces are read.
    pub(super) fn check(&self) -> Result<()> {
        let header = table("", [].iter()).to_csv();
        traces::check_out(&self.traces, &self.out, || overwrite::check_contents(&self.out, &header, false))?;
        overwrite::check_contents(&self.out, header, self.overwrite)
    }

    /// Reads the traces, counts their operations and writes the table; `also` draws another file of the job.
    pub(super) fn count(
        &self,
        context: &mut Context,
        also: impl FnOnce(&TrainingJob) -> Result<Option<PendingFile>> + Send + 'static,
    ) -> Result<Summary> {
        self.check()?;
        let progress = context.console.progress(2, "reading traces");
        let traces = self.traces.clone();
        let counted_operations = interruptible(&context.cancel, move || {
            let job = TrainingJob::read(&traces)?;
            let (operations, other, warnings) = (operations(&job), also(&job)?, job.warnings());
            let counts = [(job.ranks.len(), "rank"), (job.steps.len(), "step")];
            // A rank alone is of one job.
            let failure = if job.ranks.len() > 1 { Analysis::new(job).several_jobs() } else { None };
            Ok((operations, other, warnings, counts, failure))
        });
        let Some((operations, other, warnings, counts, failure)) = counted_operations? else {
            return Ok(interrupted_summary());
        };
        progress.advance(1);
        let all = table("Operations", operations.iter());
        overwrite::save(&self.out, all.to_csv(), self.overwrite)?;
        let other = other.map(PendingFile::save).transpose()?;
        progress.advance(1);
        drop(progress);
        warnings.iter().for_each(|warning| context.warn(warning));
        let of_kind = |kind: StatisticKind| {
            let own = operations.iter().filter(move |one| one.kind == kind);
            table(&format!("Most time: {}", kind.label()), own.take(SHOWN))
        };
        let [ranks, steps] = counts.map(|(count, what)| count_text(count as u64, what));
        Ok(Summary {
            headline: format!("{} in {steps} of {ranks}", count_text(operations.len() as u64, "operation")),
            tables: StatisticKind::ALL.map(of_kind).into_iter().filter(|table| !table.is_empty()).collect(),
            files: [("table", self.out.clone())].into_iter().chain(other).collect(),
            json: all.to_json(),
            failure,
            ..Summary::default()
        })
    }
}

fn table<'a>(title: &str, operations: impl Iterator<Item = &'a OperationStatistic>) -> Table {
    let columns = [
        TableColumn::text("kind", "kind"),
        TableColumn::text("name", "name"),
        TableColumn::number("count", "per step"),
        TableColumn::number("mean_ms", "mean"),
        TableColumn::number("deviation_ms", "spread"),
        TableColumn::number("total_ms", "in a step"),
        TableColumn::number("share_percent", "share of a step"),
    ];
    let mut table = Table::new(title, columns);
    for one in operations {
        table.row([
            one.kind.label().into(),
            brief(&one.name).into(),
            one.count.into(),
            Milliseconds(one.mean).into(),
            one.deviation.map(Milliseconds).into(),
            Milliseconds(one.total).into(),
            Percent(100.0 * one.share).into(),
        ]);
    }
    table
}

impl Section for StatisticVerb {
    fn outline(&self, _: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        Ok(traces::outline("counts the operations in", &self.traces, &self.out, || self.check()))
    }
}

/// The verb that counts operations into a file.
pub(super) fn new(traces: Vec<PathBuf>, out: PathBuf) -> StatisticVerb {
    StatisticVerb { traces, out, overwrite: false }
}

impl StatisticVerb {
    fn parse(values: &SettingValues<'_>) -> Result<Self> {
        Ok(StatisticVerb {
            traces: traces::traces(values)?,
            out: values.get("out")?,
            overwrite: values.get("overwrite")?,
        })
    }
}
