//! What is asked of a replay: scenarios, and what else than the traces they rest on.

use crate::Analysis;
use crate::collectives::CollectiveOperation;
use crate::communication::{CollectiveAlgorithm, CommunicationCosts, GroupCost, cost_of_table, fit};
use crate::graph::recorded::RecordedSteps;
use crate::plain_step::PlainStep;
use crate::ranks::TrainingJob;
use crate::simulate::simulate;
use crate::what_if::{
    HalfPrecisionShares, StepChange, WhatIfFacts, depends_on_step, no_model, parse_with, rank_as_others,
};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::stats::mean;
use perf4sight_base::units::Milliseconds;
use perf4sight_verb::config::SettingValues;
use perf4sight_verb::{KeyedPath, Outline};
use std::path::PathBuf;
use std::sync::Arc;

/// What to replay.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ReplayRequest {
    /// Scenarios: each one or several changes, with semicolons between them.
    pub what_ifs: Vec<String>,
    /// How collective operations are done.
    pub algorithm: CollectiveAlgorithm,
    /// Nanoseconds of a recorded step without the profiler, the mean of many, if given; else it is read from what `record` wrote next to the traces.
    pub plain: Option<u64>,
    /// What `all_reduce_perf` of nccl-tests printed, whose costs are taken instead of fitted ones.
    pub nccl_tests: Option<PathBuf>,
    /// A model of operations, for changes of the GPU.
    pub cost_model: Option<PathBuf>,
}

impl ReplayRequest {
    /// What the keys of a section or command line ask for.
    ///
    /// # Errors
    /// A value of the wrong kind.
    pub fn parse(values: &SettingValues<'_>, what_ifs: Vec<String>) -> Result<Self> {
        Ok(ReplayRequest {
            what_ifs,
            algorithm: values.parse_word("algorithm", CollectiveAlgorithm::parse)?,
            plain: values.get::<Option<f64>>("plain_step_ms")?.map(|milliseconds| (milliseconds * 1e6) as u64),
            nccl_tests: values.get("nccl_tests")?,
            cost_model: values.get("cost_model")?,
        })
    }

    /// The files that it names.
    fn reads(&self) -> impl Iterator<Item = KeyedPath> {
        let named = [("nccl_tests", &self.nccl_tests), ("cost_model", &self.cost_model)];
        named.into_iter().filter_map(|(key, path)| Some(KeyedPath::new(key, path.as_ref()?)))
    }

    /// A job's step without the profiler: as given, else as it was timed next to the traces; none if it is not known. Both are of all steps:
    /// where some alone are replayed, these are taken to be as much longer or shorter than all as they were recorded.
    pub fn plain_step(&self, analysis: &Analysis, replayed: &[usize]) -> Option<PlainStep> {
        let given = self.plain.map(|time| time.saturating_mul(analysis.job.cycle as u64));
        let plain = given.map(PlainStep::from_mean).or(analysis.plain.clone().ok().flatten())?;
        let lengths = analysis.job.lengths();
        let own: Vec<f64> = replayed.iter().filter_map(|step| lengths.get(*step).copied()).collect();
        Some(match own.len() < lengths.len() && !own.is_empty() {
            true => PlainStep::from_mean((plain.mean as f64 * mean(&own) / mean(&lengths)) as u64),
            false => plain,
        })
    }

    /// Checks a scenario, before any trace is read.
    ///
    /// # Errors
    /// A change of no known form; a model of operations that cannot be read.
    pub fn check_what_if(&self, text: &str) -> Result<()> {
        changes(text, &self.load_known()?).map(drop)
    }

    /// Checks the model and the table, before any trace is read.
    ///
    /// # Errors
    /// One that cannot be read.
    pub fn check(&self) -> Result<()> {
        self.check_model()?;
        self.check_table()
    }

    /// Checks the model alone.
    ///
    /// # Errors
    /// A file that is no model of operations.
    pub fn check_model(&self) -> Result<()> {
        self.load_known().map(drop)
    }

    /// Checks the table alone.
    ///
    /// # Errors
    /// A table that cannot be read.
    pub fn check_table(&self) -> Result<()> {
        // Whether it can be read does not depend on the number of ranks.
        self.table()?.map_or(Ok(()), |cost| cost(2).map(drop))
    }

    /// Refuses another GPU without a model of operations: it would be the one scenario without an answer.
    fn check_has_model(&self) -> Result<()> {
        let mut all = self.what_ifs.iter().flat_map(|text| text.split(';'));
        match self.cost_model.is_none() && all.any(|change| subject(change) == ("gpu", true)) {
            true => Err(no_model()),
            false => Ok(()),
        }
    }

    /// Adds its files to an outline, with their checks.
    pub fn outline<'a>(&'a self, mut outline: Outline<'a>) -> Outline<'a> {
        outline.reads.extend(self.reads());
        outline
            .check_value("what_if", || self.check_has_model())
            .check("nccl_tests", &self.nccl_tests, |_| self.check_table())
            .check("cost_model", &self.cost_model, |_| self.check_model())
    }

    /// What changes may rest on besides the traces.
    ///
    /// # Errors
    /// A file that is no model of operations.
    fn load_known(&self) -> Result<WhatIfFacts> {
        let operations = self.cost_model.as_deref().map(perf4sight_operations::load).transpose()?;
        Ok(WhatIfFacts { operations: operations.map(Arc::new), ..WhatIfFacts::default() })
    }

    /// What changes may rest on, with what the traces say of their job.
    ///
    /// # Errors
    /// A file that is no model of operations.
    pub fn known_of(&self, job: &TrainingJob) -> Result<WhatIfFacts> {
        Ok(WhatIfFacts { gpus: job.gpus(), in_half: HalfPrecisionShares::from_job(job), ..self.load_known()? })
    }

    /// What communication costs: read from the table, else fitted.
    ///
    /// # Errors
    /// A table that cannot be read.
    pub fn communication(&self, recorded: &RecordedSteps) -> Result<CommunicationCosts> {
        let mut communication = fit(recorded, self.algorithm);
        if let Some(costs) = self.table()? {
            for (cost, group) in communication.groups.iter_mut().zip(&recorded.typical.groups) {
                *cost = Some(costs(group.size)?);
            }
            // Nothing is left that is not known.
            communication.alternatives.clear();
            communication.slower_messages.clear();
        }
        Ok(communication)
    }

    /// Refuses the time of a plain step that is of another unit: recording makes steps longer, but not by so much.
    ///
    /// # Errors
    /// A given time far from that of the recorded steps.
    pub fn check_plain(&self, recorded: &RecordedSteps) -> Result<()> {
        let Some(plain) = self.plain else { return Ok(()) };
        let step = recorded.typical.time(&simulate(&recorded.typical.graph));
        let times = plain as f64 / step.max(1) as f64;
        if (1.0 / MOST_TIMES..=MOST_TIMES).contains(&times) {
            return Ok(());
        }
        let [plain, step] = [plain, step].map(|time| Milliseconds(time as f64 / 1e6));
        Err(Error::usage(format!("plain_step_ms is {plain}, and the recorded step takes {step}"))
            .expected("milliseconds of a step of the same job without the profiler"))
    }

    /// Of each of some scenarios whether it brings something else to the typical step than to all recorded ones. One that cannot be asked is refused
    /// later.
    pub(crate) fn depend_on_step(
        &self,
        what_ifs: &[String],
        recorded: &RecordedSteps,
        known: &WhatIfFacts,
    ) -> Result<Vec<bool>> {
        let communication = self.communication(recorded)?;
        let depends = |text: &String| {
            changes(text, known)
                .and_then(|changes| depends_on_step(recorded, &communication, &changes))
                .unwrap_or(false)
        };
        let has_typical = !recorded.varies && recorded.steps.len() > 1;
        Ok(what_ifs.iter().map(|text| has_typical && depends(text)).collect())
    }

    /// What an all-reduce of so many ranks costs by the table, if there is one.
    fn table(&self) -> Result<Option<impl Fn(u32) -> Result<GroupCost>>> {
        let Some(file) = &self.nccl_tests else { return Ok(None) };
        let text = input_file::text(file, READ_TABLE)?;
        Ok(Some(move |ranks| {
            cost_of_table(&text, CollectiveOperation::AllReduce, self.algorithm, ranks)
                .map_err(|error| error.file(file))
        }))
    }
}

const READ_TABLE: &str = "read what nccl-tests measured";
/// Recorded steps are at most this many times as long as plain ones, or as short.
const MOST_TIMES: f64 = 10.0;

/// What a change is of, by its first word, and whether it sets that (`gpu = H100`).
fn subject(change: &str) -> (&str, bool) {
    let change = change.trim();
    let end = change.find(|letter: char| letter.is_whitespace() || letter == '=').unwrap_or(change.len());
    (&change[..end], change[end..].trim_start().starts_with('='))
}

/// The changes of a scenario, each with what is known after those before it.
pub(crate) fn changes(text: &str, known: &WhatIfFacts) -> Result<Vec<Box<dyn StepChange>>> {
    let subjects: Vec<(&str, bool)> = text.split(';').map(subject).collect();
    let is_set_besides = |(place, (own, is_set)): (usize, &(&str, bool))| {
        *is_set && subjects.iter().enumerate().any(|(other, (name, _))| other != place && name == own)
    };
    if let Some(twice) = subjects.iter().enumerate().find(|one| is_set_besides(*one)).map(|(_, (own, _))| own) {
        return Err(Error::usage(format!("what-if \"{text}\" says twice what {twice} is"))
            .expected(format!("one \"{twice} = ...\", and nothing else of it")));
    }
    let as_others = text.split(';').filter_map(rank_as_others).collect();
    let mut known = WhatIfFacts { as_others, ..known.clone() };
    let mut next = |text: &str| {
        let change = parse_with(text.trim(), &known)?;
        known = change.known_after(std::mem::take(&mut known));
        Ok(change)
    };
    text.split(';').map(&mut next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_set_is_set_once() {
        for (text, subject) in [
            ("gpu = H100; bandwidth x 2; gpu=B200", "gpu"),
            ("gpu x 2; gpu = H100", "gpu"),
            ("ranks = 2; ranks = 4", "ranks"),
        ] {
            let refused = changes(text, &WhatIfFacts::default()).map(drop).unwrap_err().to_string();
            assert!(refused.contains(&format!("says twice what {subject} is")), "{refused}");
        }
        assert_eq!(changes("bandwidth x 2; bandwidth x 3", &WhatIfFacts::default()).map(|both| both.len()), Ok(2));
    }

    #[test]
    fn a_table_that_cannot_be_read_is_refused_before_any_trace() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("table.txt");
        let damaged: &[u8] = b"1024 256 float sum -1 fast 1 1 0\n";
        for (contents, code) in [(None, 6), (Some(b"\xe9t\xe9 ".as_slice()), 4), (Some(damaged), 4)] {
            contents.iter().for_each(|contents| fs::write(&file, contents).unwrap());
            let nccl_tests = Some(file.clone());
            let request = ReplayRequest { nccl_tests, ..ReplayRequest::default() };
            let refused = request.check().unwrap_err();
            assert_eq!(refused.kind().exit_code(), code, "{refused}");
            assert!(refused.to_string().starts_with(&file.display().to_string()), "{refused}");
        }
    }
}
