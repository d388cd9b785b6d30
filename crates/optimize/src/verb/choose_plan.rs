//! The fastest of some plans that fits into memory.

use super::candidates::{self, BudgetFit, CandidatePlan};
use crate::model_file;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::overwrite;
use perf4sight_base::units::{Bytes, count_text};
use perf4sight_report::{TableColumn, significant};
use perf4sight_verb::{Context, KeyedPath, Outline, Summary, TableFinding};
use serde_json::json;
use std::path::PathBuf;

/// The request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChoosePlan {
    pub plans: PathBuf,
    pub model: PathBuf,
    pub memory_budget: Option<Bytes>,
    pub out: Option<PathBuf>,
    pub overwrite: bool,
}

impl ChoosePlan {
    /// Ranks the plans by samples a second, and names the fastest that fits.
    ///
    /// # Errors
    /// Files that cannot be read; plans of several networks; no plan that fits.
    pub fn run(&self, context: &mut Context) -> Result<Summary> {
        let candidates = self.candidates(context)?;
        let best = candidates.first().filter(|best| best.fit != BudgetFit::Exceeds);
        let best = best.ok_or_else(|| self.nothing_fits(&candidates))?;
        let whole = candidates::table(&candidates, |one| &one.numbers);
        if let Some(out) = &self.out {
            overwrite::save(out, whole.to_csv(), self.overwrite)?;
        }
        Ok(Summary {
            answer: answer_text(best, &candidates),
            tables: vec![candidates::table(&candidates, |one| &one.differing)],
            findings: vec![TableFinding {
                about: best.name.clone(),
                column: TableColumn::number("predicted_ms", "step (ms)"),
                cell: best.step_ms.into(),
            }],
            files: self.out.iter().map(|out| ("plans", out.clone())).collect(),
            json: json!({ "best": best.name, "plans": whole.to_json(), "warnings": context.warnings() }),
            ..Summary::default()
        })
    }

    fn candidates(&self, context: &mut Context) -> Result<Vec<CandidatePlan>> {
        let inputs = || [self.plans.as_path(), self.model.as_path()].into_iter();
        self.out.iter().try_for_each(|out| overwrite::check_inputs(out, inputs()))?;
        candidates::rank(&self.plans, &self.model, self.memory_budget, context)
    }

    /// Refuses to replace files of others.
    fn check_replaced(&self, context: &mut Context) -> Result<()> {
        let table = candidates::table(&self.candidates(context)?, |one| &one.numbers).to_csv();
        self.out.iter().try_for_each(|out| overwrite::check_contents(out, &table, self.overwrite))
    }

    pub fn outline(&self) -> Outline<'_> {
        let read = |key, path: &PathBuf| KeyedPath { key, path: path.clone() };
        let inputs = [&self.plans, &self.model];
        Outline {
            steps: vec![format!("ranks the plans of {}", self.plans.display())],
            reads: vec![read("plans", &self.plans), read("model", &self.model)],
            writes: self.out.iter().map(|out| read("out", out)).collect(),
            ..Outline::default()
        }
        .check("model", [&self.model], |_| model_file::load(&self.model).map(drop))
        .check("plans", inputs, |context| self.candidates(context).map(drop))
        .check("out", inputs, |context| self.check_replaced(context))
    }

    fn nothing_fits(&self, candidates: &[CandidatePlan]) -> Error {
        let leanest = candidates.iter().min_by_key(|one| one.peak);
        let leanest =
            leanest.map_or(String::new(), |one| format!("; the leanest takes about {}: {}", one.peak, one.name));
        let budget = self.memory_budget.map_or(String::new(), |budget| format!(" into {budget}"));
        Error::unfit(format!("none of {} fits{budget}{leanest}", count_text(candidates.len() as u64, "plan")))
            .help("more tensor or pipeline parallelism, a smaller micro-batch, or more memory (memory_budget)")
    }
}

fn answer_text(best: &CandidatePlan, candidates: &[CandidatePlan]) -> String {
    let step = [best.step_ms, best.interval_ms.0, best.interval_ms.1].map(significant);
    format!(
        "The fastest plan{} is {}: {} ms a step ({} to {}), {} samples/s, about {} of memory. {}{}",
        if best.fit == BudgetFit::Uncertain { " that may fit (none surely does)" } else { "" },
        best.name,
        step[0],
        step[1],
        step[2],
        significant(best.rate_at(best.step_ms)),
        best.peak,
        rivals(best, candidates),
        faster_that_may_fit(best, candidates)
    )
}

/// How many others that fit as surely may be as fast.
fn rivals(best: &CandidatePlan, candidates: &[CandidatePlan]) -> String {
    if candidates.len() == 1 {
        return "It is the only plan.".to_owned();
    }
    if !best.unmeasured.is_empty() {
        return format!(
            "Nothing like it was measured ({}), so that others may be as fast.{}",
            best.unmeasured,
            fastest_known(best, candidates)
        );
    }
    let others = candidates.iter().skip(1).filter(|one| one.fit == best.fit);
    let may_fit = best.fit == BudgetFit::Fits && candidates.iter().any(|one| one.fit == BudgetFit::Uncertain);
    match others.filter(|one| one.rate_at(one.interval_ms.0) >= best.rate_at(best.interval_ms.1)).count() {
        0 if may_fit => "No other one that surely fits can be as fast, by the intervals.".to_owned(),
        0 => "No other one can be as fast, by the intervals.".to_owned(),
        count => format!("{} may be as fast, by the intervals.", count_text(count as u64, "other plan")),
    }
}

/// The fastest plan whose degrees and sizes were measured, of those that fit as surely.
fn fastest_known(best: &CandidatePlan, candidates: &[CandidatePlan]) -> String {
    let known = candidates.iter().find(|one| one.fit == best.fit && one.unmeasured.is_empty());
    known.map_or(String::new(), |one| {
        format!(
            " Of the plans like measured ones {} is the fastest: {} samples/s.",
            one.name,
            significant(one.rate_at(one.step_ms))
        )
    })
}

/// The fastest plan that may fit, where it is faster than the best that surely does.
fn faster_that_may_fit(best: &CandidatePlan, candidates: &[CandidatePlan]) -> String {
    let rate = |one: &CandidatePlan| one.rate_at(one.step_ms);
    let uncertain = candidates.iter().find(|one| one.fit == BudgetFit::Uncertain);
    match uncertain.filter(|one| best.fit == BudgetFit::Fits && rate(one) > rate(best)) {
        None => String::new(),
        Some(one) => format!(" {} is faster ({} samples/s) and may fit.", one.name, significant(rate(one))),
    }
}
