//! `[optimize]` and `perf4sight optimize`: the fastest of some plans that fits into memory.

use super::plan_table;
use crate::memory;
use crate::model_file;
use crate::plan::Plan;
use crate::plans_csv;
use crate::step::PredictedStep;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::overwrite;
use perf4sight_base::units::{Bytes, counted};
use perf4sight_report::{Cell, Column, Table, significant};
use perf4sight_verb::config::{Setting, Table as Settings, Values, flag, memory as amount, path};
use perf4sight_verb::{Context, Finding, Foreseen, KeyedPath, Noun, Outline, Section, Spec, Summary, Verb, VerbSpec};
use serde_json::json;
use std::path::PathBuf;

/// The section `[optimize]`.
pub static SPEC: Spec = Spec {
    table: Settings { section: "optimize", about: ABOUT, groups: &[SETTINGS] },
    subject: Noun { one: "plan", several: "plans" },
    parse: |values| Ok(Box::new(Optimize::parse(values)?)),
};

/// `perf4sight optimize`.
pub static VERB: VerbSpec = VerbSpec {
    table: Settings { section: "optimize", about: ABOUT, groups: &[SETTINGS] },
    after_help: AFTER_HELP,
    parse: |values| Ok(Box::new(Optimize::parse(values)?)),
};

const ABOUT: &str = "finds the fastest plan of parallel training that fits into memory";

const AFTER_HELP: &str = "\
Examples:
  perf4sight optimize --plans candidates.csv --model model.json --memory-budget 40GiB";

const SETTINGS: &[Setting] = &[
    path("plans").required().value("FILE.csv").help("The plans to choose from, one a row, as cost-model reads them."),
    path("model")
        .or("{cost_model.out}")
        .or_on_command_line(perf4sight_verb::config::Missing::Required)
        .value("MODEL.json")
        .help("The model that predicts their steps; cost-model train fits one."),
    amount("memory_budget", "GiB").value("SIZE").help("Memory of a GPU that a step may take, such as 40GiB."),
    path("out").value("FILE.csv").help("Where to write all plans, the best first, as CSV."),
    flag("overwrite").help("Replace files that perf4sight did not write."),
];

/// Numbers that say which network a plan trains.
const NETWORK: [&str; 5] = ["hidden", "heads", "layers", "sequence", "vocabulary"];

/// The request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Optimize {
    plans: PathBuf,
    model: PathBuf,
    memory_budget: Option<Bytes>,
    out: Option<PathBuf>,
    overwrite: bool,
}

/// A plan with what is expected of it.
#[derive(Debug, Clone)]
struct Candidate {
    plan: Plan,
    step: PredictedStep,
    peak: Bytes,
    fit: Fit,
}

/// Whether a plan fits into the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// Even if the formulas are as far off as assumed.
    Fits,
    /// Only if they are not.
    Uncertain,
    Exceeds,
}

impl Fit {
    fn new(peak: Bytes, budget: Option<Bytes>) -> Self {
        let Some(Bytes(budget)) = budget else { return Fit::Fits };
        let (peak, budget) = (peak.0 as f64, budget as f64);
        match () {
            () if peak * (1.0 + memory::ASSUMED_ERROR) <= budget => Fit::Fits,
            () if peak * (1.0 - memory::ASSUMED_ERROR) <= budget => Fit::Uncertain,
            () => Fit::Exceeds,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Fit::Fits => "yes",
            Fit::Uncertain => "perhaps",
            Fit::Exceeds => "no",
        }
    }
}

impl Candidate {
    fn samples_per_second(&self) -> f64 {
        1e3 * self.plan.global_batch as f64 / self.step.step_ms
    }

    /// The rate at the slow end of its interval.
    fn slowest(&self) -> f64 {
        1e3 * self.plan.global_batch as f64 / self.step.interval_ms.1
    }

    /// The rate at the fast end of its interval.
    fn fastest(&self) -> f64 {
        1e3 * self.plan.global_batch as f64 / self.step.interval_ms.0
    }
}

impl Optimize {
    fn parse(values: &Values<'_>) -> Result<Self> {
        Ok(Optimize {
            plans: values.get("plans")?,
            model: values.get("model")?,
            memory_budget: values.get("memory_budget")?,
            out: values.get("out")?,
            overwrite: values.get("overwrite")?,
        })
    }

    /// The plans with their predictions, the fastest first, those that do not fit last.
    fn candidates(&self, context: &mut Context) -> Result<Vec<Candidate>> {
        let model = model_file::load(&self.model)?;
        let plans: Vec<Plan> = plans_csv::read(&self.plans)?.iter().map(|row| row.plan).collect();
        check_network(&plans).map_err(|error| error.file(&self.plans))?;
        let steps: Vec<PredictedStep> = plans.iter().map(|plan| model.predict(plan)).collect();
        plan_table::warn_of_unmeasured(&steps, context);
        let candidates = plans.into_iter().zip(steps).map(|(plan, step)| {
            let peak = memory::peak(&plan);
            Candidate { plan, step, peak, fit: Fit::new(peak, self.memory_budget) }
        });
        let mut candidates: Vec<Candidate> = candidates.collect();
        candidates.sort_by(|one, other| {
            let rates = other.samples_per_second().total_cmp(&one.samples_per_second());
            (one.fit == Fit::Exceeds).cmp(&(other.fit == Fit::Exceeds)).then(rates)
        });
        Ok(candidates)
    }

    fn nothing_fits(&self, candidates: &[Candidate]) -> Error {
        let leanest = candidates.iter().min_by_key(|one| one.peak);
        let leanest = leanest.map_or(String::new(), |one| {
            format!("; the leanest takes about {}: {}", one.peak, plan_table::words(&one.plan))
        });
        let budget = self.memory_budget.map_or(String::new(), |budget| format!(" into {budget}"));
        Error::unfit(format!("none of {} fits{budget}{leanest}", counted(candidates.len() as u64, "plan")))
            .help("more tensor or pipeline parallelism, a smaller micro-batch, or a larger --memory-budget")
    }
}

impl Verb for Optimize {
    /// Ranks the plans by samples a second, and names the fastest that fits.
    ///
    /// # Errors
    /// Files that cannot be read; plans of several networks; no plan that fits.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let candidates = self.candidates(context)?;
        let best = candidates.first().filter(|best| best.fit != Fit::Exceeds);
        let best = best.ok_or_else(|| self.nothing_fits(&candidates))?;
        if self.memory_budget.is_some() {
            context.warn("memory is computed from published formulas, nothing of it was measured: ± 20 % are assumed");
        }
        let plans: Vec<Plan> = candidates.iter().map(|one| one.plan).collect();
        let every: Vec<usize> = (0..best.plan.numbers().len()).collect();
        let whole = table(&candidates, &every);
        if let Some(out) = &self.out {
            overwrite::save(out, whole.to_csv(), self.overwrite)?;
        }
        Ok(Summary {
            answer: answer(best, &candidates),
            tables: vec![table(&candidates, &plan_table::differing(&plans))],
            findings: findings(best),
            files: self.out.iter().map(|out| ("plans", out.clone())).collect(),
            json: json!({ "best": best.plan, "plans": whole.to_json(), "warnings": context.warnings() }),
            ..Summary::default()
        })
    }
}

impl Section for Optimize {
    fn outline(&self, _: &Foreseen, _: &Context) -> Result<Outline> {
        let read = |key, path: &PathBuf| KeyedPath { key, path: path.clone() };
        Ok(Outline {
            steps: vec![format!("ranks the plans of {}", self.plans.display())],
            reads: vec![read("plans", &self.plans), read("model", &self.model)],
            writes: self.out.iter().map(|out| read("out", out)).collect(),
            ..Outline::default()
        })
    }
}

/// Plans of several networks have no common best.
fn check_network(plans: &[Plan]) -> Result<()> {
    let differing = plan_table::differing(plans);
    let names = plans.first().map(Plan::numbers);
    let named = names.iter().flat_map(|names| differing.iter().map(|place| names[*place].0));
    match named.into_iter().find(|name| NETWORK.contains(name)) {
        None => Ok(()),
        Some(name) => Err(Error::input(format!("the plans are of several networks: {name} differs"))
            .expected("plans that train the same network")),
    }
}

fn answer(best: &Candidate, candidates: &[Candidate]) -> String {
    let rate = significant(best.samples_per_second());
    let (low, high) = best.step.interval_ms;
    let step = [best.step.step_ms, low, high].map(significant);
    let perhaps = if best.fit == Fit::Uncertain { " It fits only if memory is estimated closely." } else { "" };
    let rivals = candidates.iter().filter(|one| one.fit != Fit::Exceeds).skip(1);
    let rivals = rivals.filter(|one| one.fastest() >= best.slowest()).count() as u64;
    let rivals = match rivals {
        0 => " No other plan that fits can be as fast, by the intervals.".to_owned(),
        count => format!(" {} may be as fast, by the intervals.", counted(count, "other plan")),
    };
    format!(
        "The fastest plan is {}: {} ms a step ({} to {}), {rate} samples/s, about {} of memory.{perhaps}{rivals}",
        plan_table::words(&best.plan),
        step[0],
        step[1],
        step[2],
        best.peak
    )
}

fn table(candidates: &[Candidate], places: &[usize]) -> Table {
    let Some(first) = candidates.first() else { return Table::new("Plans", []) };
    let mut columns = plan_table::columns(places, &first.plan);
    columns.extend([
        Column::number("samples_per_second", "samples/s"),
        Column::number("predicted_ms", "step (ms)"),
        Column::number("low_ms", "from (ms)"),
        Column::number("high_ms", "to (ms)"),
        Column::number("peak_bytes", "memory, about"),
        Column::text("fits", "fits"),
        Column::text("unmeasured", "never measured"),
    ]);
    let mut table = Table::new("Plans, the fastest first, those that do not fit last", columns);
    for one in candidates {
        let times = [one.samples_per_second(), one.step.step_ms, one.step.interval_ms.0, one.step.interval_ms.1];
        let mut cells = plan_table::cells(places, &one.plan);
        cells.extend(times.map(Cell::from));
        cells.extend([Cell::from(one.peak), one.fit.name().into(), plan_table::unmeasured(&one.step).into()]);
        table.row(cells);
    }
    table
}

fn findings(best: &Candidate) -> Vec<Finding> {
    let column = Column::number("predicted_ms", "step (ms)");
    vec![Finding { about: plan_table::words(&best.plan), column, cell: best.step.step_ms.into() }]
}
