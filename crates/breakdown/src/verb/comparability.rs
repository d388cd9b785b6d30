//! Warnings about recordings that are hard to compare. All recordings of both sides are checked: a single different one
//! shifts the mean of its side and widens the noise.

use super::run::TracedRun;
use crate::{IterationMarkers, TrainingOperation};
use perf4sight_base::error::{Error, Result};
use std::collections::BTreeSet;

pub(super) struct ComparedSides<'a>(pub [Vec<&'a TracedRun>; 2]);

const NAMES: [&str; 2] = ["before", "after"];

impl ComparedSides<'_> {
    pub fn differences(&self) -> Vec<String> {
        let parts = [
            self.same_recording_warning(),
            self.python(),
            self.accelerators(),
            self.devices(),
            self.origins(),
            self.ranks(),
            self.markers(),
        ];
        parts.into_iter().flatten().chain(self.passes()).collect()
    }

    /// Checks that no recording is given twice on one side, where it would count as two.
    ///
    /// # Errors
    /// A recording that is given twice.
    pub fn check_unique(&self) -> Result<()> {
        let earlier = |side: &[&TracedRun], at: usize| side[..at].iter().any(|earlier| earlier.is_same_as(side[at]));
        let again = self.0.iter().find_map(|side| (0..side.len()).find(|at| earlier(side, *at)).map(|at| side[at]));
        match again.and_then(|run| run.traces.first()) {
            Some(ranked) => Err(Error::usage("holds the same events as another recording of its side")
                .file(&ranked.trace.file)
                .expected("distinct recordings")
                .help("name it once")),
            None => Ok(()),
        }
    }

    fn same_recording_warning(&self) -> Option<String> {
        let [before, after] = &self.0;
        let same = before.iter().find(|run| after.iter().any(|other| other.is_same_as(run)))?;
        let file = same.traces.first()?.trace.file.display();
        Some(format!("the same recording is given before and after: {file}"))
    }

    fn python(&self) -> Option<String> {
        let held = |run: &TracedRun| run.breakdown.ranks.iter().map(|rank| rank.recorded.python).collect::<Vec<_>>();
        self.only_some(held).map(|only| {
            format!(
                "calls of Python are only in {only}: Python and C++ cannot be compared, and recording such calls makes iterations longer; record all alike"
            )
        })
    }

    fn accelerators(&self) -> Option<String> {
        self.only_some(|run| [run.has_accelerators()]).map(|only| format!("GPUs are only in {only}"))
    }

    fn devices(&self) -> Option<String> {
        let named = |run: &TracedRun| single_value(run.devices().into_iter().map(str::to_owned).collect());
        self.differing_values(named).map(|sides| format!("the runs had different GPUs: {sides}"))
    }

    fn origins(&self) -> Option<String> {
        self.differing_values(|run| single_value(run.origins.iter().cloned().collect()))
            .map(|sides| format!("the runs had {sides}"))
    }

    fn ranks(&self) -> Option<String> {
        let ranks = |run: &TracedRun| Some(run.traces.len().to_string());
        self.differing_values(ranks).map(|sides| format!("the runs have different numbers of ranks: {sides}"))
    }

    fn markers(&self) -> Option<String> {
        let marked = |run: &TracedRun| {
            single_value(run.breakdown.ranks.iter().map(|rank| markers_text(&rank.markers)).collect())
        };
        self.differing_values(marked).map(|sides| format!("iterations are marked differently: {sides}"))
    }

    /// Warnings about training compared with inference, detected by their backward passes and optimizer steps.
    fn passes(&self) -> Vec<String> {
        let has = |wanted: TrainingOperation| {
            self.only_some(move |run| {
                let mut iterations = run.breakdown.ranks.iter().flat_map(|rank| rank.counted_iterations());
                [iterations.any(|iteration| iteration.operations.contains_key(&wanted))]
            })
        };
        let passes =
            [("a backward pass", TrainingOperation::Backward), ("an optimizer's step", TrainingOperation::Optimizer)];
        let different = passes.map(|(name, operation)| has(operation).map(|only| (name, only)));
        let sentence = |(name, only)| format!("{name} is only in {only}: the iterations do not do the same");
        different.into_iter().flatten().map(sentence).collect()
    }

    /// The values of each side, if they are not the same in all recordings; a recording without a value matches any.
    fn differing_values(&self, value: impl Fn(&TracedRun) -> Option<String>) -> Option<String> {
        let sides = self.values(value);
        let all: BTreeSet<&String> = sides.iter().flatten().collect();
        let side = |(values, name): (&BTreeSet<String>, &str)| {
            let values = values.iter().cloned().collect::<Vec<_>>().join(" or ");
            (!values.is_empty()).then(|| format!("{values} {name}"))
        };
        (all.len() > 1).then(|| sides.iter().zip(NAMES).filter_map(side).collect::<Vec<_>>().join(" and "))
    }

    /// The traces that have a property, if not all or none of them have it.
    fn only_some<I: IntoIterator<Item = bool>>(&self, has: impl Fn(&TracedRun) -> I) -> Option<&'static str> {
        let everywhere = [true].into();
        let nowhere = [false].into();
        match self.values(has) {
            [before, after] if before == everywhere && after == nowhere => Some("the traces before"),
            [before, after] if before == nowhere && after == everywhere => Some("the traces after"),
            [before, after] if before == after && before.len() == 1 => None,
            _ => Some("some of the traces"),
        }
    }

    fn values<T: Ord, I: IntoIterator<Item = T>>(&self, value: impl Fn(&TracedRun) -> I) -> [BTreeSet<T>; 2] {
        [0, 1].map(|side: usize| self.0[side].iter().flat_map(|run| value(run)).collect())
    }
}

/// One value for all ranks of a recording, because ranks may differ from each other; none if there are no values.
fn single_value(values: BTreeSet<String>) -> Option<String> {
    let all = values.into_iter().collect::<Vec<_>>().join(", ");
    (!all.is_empty()).then_some(all)
}

fn markers_text(markers: &IterationMarkers) -> String {
    match markers {
        IterationMarkers::Named(name) => format!("{name:?}"),
        IterationMarkers::ProfilerSteps => "steps of the profiler".to_owned(),
        IterationMarkers::OptimizerSteps(_) => "from one step of an optimizer to the next".to_owned(),
        IterationMarkers::Period { event, .. } => format!("what begins with {event:?}"),
        IterationMarkers::WholeTrace => "whole traces".to_owned(),
    }
}
