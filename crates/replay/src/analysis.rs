//! Everything that is found in the traces of a job.

use crate::clocks::RankClocks;
use crate::collectives::{GroupKnowledge, RankExchanges};
use crate::contradictions;
use crate::exposed::{RankCommunication, exposed_communication};
use crate::plain_step::{self, PlainStep};
use crate::ranks::{ExcludedSteps, TrainingJob};
use crate::waiting::{JobWaiting, Straggler, WaitingMatrix, activities, stragglers};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::median;
use perf4sight_base::summary::ValueSummary;
use perf4sight_base::units::count_text;
use perf4sight_traces::rank_list;
use std::collections::BTreeSet;

/// What is found in the traces of a job.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// The job.
    pub job: TrainingJob,
    /// The exchanges between its ranks.
    pub exchanges: RankExchanges,
    /// The clocks of its ranks.
    pub clocks: RankClocks,
    /// Who waits for whom.
    pub waiting: JobWaiting,
    /// The ranks, the one that the others wait for longest first.
    pub stragglers: Vec<Straggler>,
    /// Exposed and hidden communication.
    pub exposed: Vec<RankCommunication>,
    /// The step without the profiler, if it was timed next to the traces; or why what is stored there is of no use.
    pub plain: std::result::Result<Option<PlainStep>, String>,
}

impl Analysis {
    /// Analyses a job.
    pub fn new(mut job: TrainingJob) -> Self {
        let lost = job.steps_with_lost_kernels();
        job.leave_out(&lost, ExcludedSteps::LostKernels);
        let mut exchanges = RankExchanges::find(&job);
        if !exchanges.shifts.steps.is_empty() {
            job.renumber(std::mem::take(&mut exchanges.shifts.steps));
            exchanges = RankExchanges::find(&job);
        }
        let incomplete = exchanges.incomplete_steps(&job);
        if !incomplete.is_empty() {
            job.leave_out(&incomplete, ExcludedSteps::Incomplete);
            exchanges = RankExchanges::find(&job);
        }
        let joined = exchanges.cycle(&job).and_then(|cycle| job.join_cycles(cycle));
        let plain = plain_step::from_recording(&job, joined.as_ref().map_or(1, |joined| joined.length));
        if let Some(joined) = joined {
            job.join(joined);
            exchanges = RankExchanges::find(&job);
        }
        let warm_up = job.warm_up();
        if !warm_up.is_empty() {
            job.leave_out(&warm_up, ExcludedSteps::WarmUp);
            exchanges = RankExchanges::find(&job);
        }
        let mut clocks = RankClocks::estimate(&job, &exchanges);
        let set = clocks.set_during(&job);
        if !set.is_empty() {
            job.leave_out(&set, ExcludedSteps::ClockSet);
            exchanges = RankExchanges::find(&job);
            clocks = RankClocks::estimate(&job, &exchanges);
        }
        let is_known = clocks.strangers.is_empty() && exchanges.groups != GroupKnowledge::Unknown;
        let waiting =
            if is_known { JobWaiting::compute(&job, &exchanges, &clocks) } else { JobWaiting::unknown(&job, &clocks) };
        let stragglers = stragglers(&job, &waiting, &activities(&job, &exchanges, &clocks));
        let exposed = exposed_communication(&job, &exchanges, &waiting);
        Analysis { job, exchanges, clocks, waiting, stragglers, exposed, plain }
    }

    /// Refuses ranks that do not seem to be of one job: most of their exchanges in common steps have no counterpart or other sizes, or
    /// other times pass between them.
    ///
    /// # Errors
    /// Ranks of different jobs.
    pub fn check_one_job(&self) -> Result<()> {
        let refused = |problem: String| Error::input(problem).expected("traces of one job, of the same run");
        if let Some(strange) = self.clocks.strangers.first() {
            return Err(refused(strange.clone()));
        }
        if let Some(sizes) = contradictions::of_most_steps(&self.job, &self.exchanges) {
            return Err(refused(format!("{sizes}, which cannot be of one job")));
        }
        let in_steps = || self.exchanges.all.iter().filter(|exchange| exchange.step.is_some());
        let calls = in_steps().map(|exchange| exchange.parts.len()).sum::<usize>();
        let lonely = in_steps().filter(|exchange| !exchange.whole).map(|exchange| exchange.parts.len()).sum::<usize>();
        if self.job.ranks.len() == 1 || 2 * lonely <= calls {
            return Ok(());
        }
        let error = refused(format!(
            "{lonely} of {calls} exchanges in the steps of these ranks have no counterpart on the others"
        ));
        let cut = self.job.ranks.iter().find(|rank| rank.trace.damage.lacks_events());
        let missing = self.job.missing();
        Err(match cut {
            Some(rank) => error.help(format!("the trace of rank {} is not whole: record it again", rank.number)),
            None if !missing.is_empty() => error.help(format!("add the traces of {}", rank_list(&missing))),
            None => error,
        })
    }

    /// The error of [`Analysis::check_one_job`] if no trace is missing: what ranks exchange with those without a trace is told of in
    /// warnings.
    pub fn several_jobs(&self) -> Option<Error> {
        self.check_one_job().err().filter(|_| self.job.missing().is_empty())
    }

    /// The rank that the others wait for longest; none if nothing tells, for no exchanges of several ranks match.
    pub fn first_straggler(&self) -> Option<&Straggler> {
        self.stragglers.first().filter(|_| self.is_waiting_known())
    }

    /// Whether it is known who waits for whom.
    pub fn is_waiting_known(&self) -> bool {
        self.job.ranks.len() > 1 && !self.waiting.exchanges.is_empty()
    }

    /// Milliseconds of a step that a rank waits for others, over the steps.
    pub fn waiting_summary(&self, rank: usize) -> Option<ValueSummary> {
        let ranks = 0..self.job.ranks.len();
        let of_step =
            |step: &WaitingMatrix| ranks.clone().map(|other| step.waiting_time(rank, other)).sum::<i64>() as f64;
        self.waiting.over_steps(of_step)
    }

    /// Of which ranks it is not known whether they wait for others, or others for them; none if that is known of all, or there is one alone.
    pub fn unknown_waiting(&self) -> Option<BTreeSet<u32>> {
        let is_unknown = |rank: &usize| !self.is_waiting_known() || self.clocks.ranks[*rank].exchanges == 0;
        let ranks: BTreeSet<u32> =
            (0..self.job.ranks.len()).filter(is_unknown).map(|rank| self.job.ranks[rank].number).collect();
        Some(ranks).filter(|ranks| !ranks.is_empty() && self.job.ranks.len() > 1)
    }

    /// Milliseconds of a rank's steps, over the steps that all ranks have.
    pub fn steps(&self, rank: usize) -> Vec<f64> {
        let own = &self.job.ranks[rank];
        let window = |step: &crate::ranks::JobStep| own.steps[step.of[rank]].window;
        self.job.steps.iter().map(window).map(|(begin, end)| (end - begin) as f64 / 1e6).collect()
    }

    /// Milliseconds of a step, over the steps: of the rank whose steps take longest together.
    pub fn step(&self) -> Option<ValueSummary> {
        ValueSummary::compute(&self.waiting.steps.iter().map(|step| step.length as f64 / 1e6).collect::<Vec<_>>())
    }

    /// The index of the step of median length in [`TrainingJob::steps`].
    pub fn typical(&self) -> usize {
        let lengths: Vec<f64> = self.waiting.steps.iter().map(|step| step.length as f64).collect();
        let middle = median(&lengths);
        let off = |step: &usize| (lengths[*step] - middle).abs();
        (0..lengths.len()).min_by(|one, other| off(one).total_cmp(&off(other))).unwrap_or(0)
    }

    /// Warnings, in sentences: what is missing, what matches nowhere, what is uncertain.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.job.warnings();
        warnings.extend(self.exchanges.shifts.warnings(&self.job));
        warnings.extend(self.unmatched_warnings());
        warnings.extend(contradictions::find_contradictions(&self.job, &self.exchanges));
        warnings.extend(self.groups().map(str::to_owned));
        warnings.extend(self.unrelated_ranks_warning());
        warnings.extend(self.clocks.warnings(&self.job));
        warnings.extend(self.plain.as_ref().err().map(|why| format!("the step without recording is not known: {why}")));
        warnings
    }

    fn groups(&self) -> Option<&'static str> {
        match self.exchanges.groups {
            GroupKnowledge::Known => None,
            GroupKnowledge::Assumed => Some(
                "there are several process groups, and the traces do not say which one an exchange is of, as those of gloo never do: each was taken for one of the group whose ranks end it together",
            ),
            GroupKnowledge::Unknown => Some(
                "there are several process groups, and neither the traces, as those of gloo never do, nor the clocks say which one an exchange is of: they are taken for exchanges of all ranks, and who waits for whom is not known",
            ),
        }
    }

    /// Ranks that never exchange with the first one by the groups that were assumed.
    fn unrelated_ranks_warning(&self) -> Option<String> {
        let ranks = &self.job.ranks;
        let islands = self.exchanges.islands(ranks.len());
        let others = ranks.iter().zip(&islands).filter(|(_, island)| **island != 0).map(|(rank, _)| rank.number);
        let others: BTreeSet<u32> = others.collect();
        (self.exchanges.groups == GroupKnowledge::Assumed && !others.is_empty()).then(|| {
            format!(
                "by the clocks as they were recorded, rank {} never exchanges with {}; if clocks of different hosts are off, that may be wrong",
                ranks[0].number,
                rank_list(&others)
            )
        })
    }

    fn unmatched_warnings(&self) -> Vec<String> {
        if self.job.ranks.len() == 1 {
            return Vec::new();
        }
        let sentence = |((rank, operation), count): ((u32, crate::collectives::CollectiveOperation), usize)| {
            let calls = count_text(count as u64, "call");
            let are = if count == 1 { "has" } else { "have" };
            format!("rank {rank}: {calls} of {operation} {are} no counterpart on all other ranks, and count nowhere")
        };
        self.exchanges.unmatched(&self.job).into_iter().map(sentence).collect()
    }
}
