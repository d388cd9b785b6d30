//! The ranks of a job: their traces, and the steps of each.

mod cycle;
mod doubts;
pub(crate) mod hosts;
pub(crate) mod launches;
mod steps;
mod work;

pub(crate) use cycle::StepCycle;
pub use launches::LaunchKnowledge;
pub use steps::TrainingStep;
pub(crate) use steps::unnumbered;

use crate::graph::recorded::UnlikeSteps;
use crate::inputs;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::list_text;
use perf4sight_traces::{RankTrace, Trace, TrackId, rank_list};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use steps::StepMarks;

/// A training job as its ranks recorded it.
#[derive(Debug, Clone)]
pub struct TrainingJob {
    /// The ranks whose traces are given, in order.
    pub ranks: Vec<JobRank>,
    /// The number of ranks of the job; none if no trace contains it.
    pub world_size: Option<u32>,
    /// The steps that all ranks have, in the order of the first rank.
    pub steps: Vec<JobStep>,
    /// The numbers of steps that all ranks have and that are left out, with the reason.
    left_out: BTreeMap<ExcludedSteps, usize>,
    /// By how many steps those of some ranks are later than those of the same name on the others, by index of the rank.
    pub(crate) renumbered: BTreeMap<usize, i64>,
    /// How many recorded steps each of [`TrainingJob::steps`] joins: those from one exchange of gradients to the next.
    pub cycle: usize,
    /// The ranks whose traces are of no use, and why, in sentences.
    unusable: Vec<String>,
}

/// A rank of a job.
#[derive(Debug, Clone)]
pub struct JobRank {
    /// Its number.
    pub number: u32,
    /// Its trace.
    pub trace: Trace,
    /// Its steps, in order.
    pub steps: Vec<TrainingStep>,
    /// The thread that marks the steps, else the one that began its process.
    pub main: Option<TrackId>,
    /// What its trace knows of the launches of kernels.
    pub launches: LaunchKnowledge,
    /// What marks the steps of all ranks.
    marks: StepMarks,
}

/// A step of all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStep {
    /// Its name.
    pub name: String,
    /// Its index in [`JobRank::steps`] of each rank, in the order of [`TrainingJob::ranks`].
    pub of: Vec<usize>,
}

/// Why steps that all ranks have are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExcludedSteps {
    /// Exchanges in them are not in the traces of all ranks.
    Incomplete,
    /// A clock was set in them.
    ClockSet,
    /// Kernels that were launched in them are not in the traces.
    LostKernels,
    /// They are the first, and far longer than all others.
    WarmUp,
}

/// Steps that a warning names at most.
const NAMED_STEPS: usize = 4;
/// Steps of a warm-up are this many times as long as the longest of the others.
const WARM_UP: i64 = 2;
/// Steps after it, at least.
const WARM: usize = 3;

/// Why nothing can be compared with the trace of a rank, if that is so: it has no events, or what was left of its events ends before
/// the first step that others have.
fn unusable(rank: &JobRank, others_have_marks: bool) -> Option<String> {
    let damage = &rank.trace.damage;
    let reasons = damage.of_trace().join("; ");
    match rank.steps.is_empty() {
        true if !damage.events.is_empty() => Some(format!("has no event left that takes time: {reasons}")),
        true => Some("has no event that takes time".to_owned()),
        false => (others_have_marks && damage.truncated.is_some() && !steps::are_marked(&rank.steps))
            .then(|| format!("has no whole step: {reasons}")),
    }
}

impl TrainingJob {
    /// Reads the traces of a job: files, or folders of them, one trace for each rank.
    ///
    /// # Errors
    /// A file that is no trace, two traces of one rank, traces of jobs with different numbers of ranks, ranks without a
    /// step in common.
    pub fn read(paths: &[PathBuf]) -> Result<Self> {
        TrainingJob::from_traces(inputs::read(paths)?.ranks)
    }

    /// The GPUs that ranks were recorded on: each different list of a rank, without repetitions.
    pub fn gpus(&self) -> Vec<Vec<String>> {
        let of_rank = |rank: &JobRank| rank.trace.header.devices.iter().cloned().collect::<BTreeSet<String>>();
        let lists: BTreeSet<BTreeSet<String>> = self.ranks.iter().map(of_rank).filter(|own| !own.is_empty()).collect();
        lists.into_iter().map(|own| own.into_iter().collect()).collect()
    }

    /// A job of traces that were read.
    ///
    /// # Errors
    /// Traces of jobs with different numbers of ranks, ranks without a step in common.
    pub fn from_traces(mut traces: Vec<RankTrace>) -> Result<Self> {
        if traces.is_empty() {
            return Err(Error::input("there is no trace with times, as in these dumps of flight recorders")
                .help("perf4sight replay says what they show of ranks that wait for each other"));
        }
        traces.iter().try_for_each(check_number)?;
        traces.iter_mut().for_each(leave_out_size);
        let world_size = world_size(&traces)?;
        let marks = StepMarks::choose(traces.iter().map(|ranked| &ranked.trace));
        let all: Vec<JobRank> = traces.into_iter().map(|ranked| JobRank::from_trace(ranked, marks)).collect();
        let have_marks = all.iter().any(|rank| steps::are_marked(&rank.steps));
        let (ranks, useless): (Vec<JobRank>, Vec<JobRank>) =
            all.into_iter().partition(|rank| unusable(rank, have_marks).is_none());
        let why = |rank: &JobRank| unusable(rank, have_marks).unwrap_or_default();
        if let (true, Some(first)) = (ranks.is_empty(), useless.first()) {
            let error = Error::input(why(first)).file(&first.trace.file);
            return Err(error.help("leave it out, or record it again"));
        }
        let steps = common(&ranks.iter().collect::<Vec<_>>());
        if steps.is_empty() {
            return Err(nothing_in_common(&ranks));
        }
        // The ranks with a trace of no use are known to be there.
        let last = useless.iter().map(|rank| rank.number + 1).max();
        let is_known = last.is_some() || has_gaps(&ranks);
        let world_size =
            world_size.or_else(|| last.max(ranks.iter().map(|rank| rank.number + 1).max()).filter(|_| is_known));
        let sentence = |rank: &JobRank| {
            let (number, file) = (rank.number, rank.trace.file.display());
            match world_size.is_some_and(|size| number >= size) {
                true => format!("skipped: {file} {}", why(rank)),
                false => format!("rank {number} counts as missing: {file} {}", why(rank)),
            }
        };
        Ok(TrainingJob {
            unusable: useless.iter().map(sentence).collect(),
            ranks,
            world_size,
            steps,
            left_out: BTreeMap::new(),
            renumbered: BTreeMap::new(),
            cycle: 1,
        })
    }

    /// The error of a job of which one rank alone is there: what it waits for others counts as transfer.
    pub fn single_rank_error(&self) -> Option<Error> {
        let [alone] = self.ranks.as_slice() else { return None };
        let size = self.world_size.filter(|size| *size > 1)?;
        let reasons: String = self.unusable.iter().map(|reason| format!("; {reason}")).collect();
        let error = Error::input(format!("is rank {} of {size}, alone{reasons}", alone.number)).file(&alone.trace.file);
        Some(error.expected("traces of all ranks"))
    }

    /// The other rank of a job of two.
    pub(crate) fn other_of_two(&self, rank: usize) -> Option<u32> {
        let number = self.ranks[rank].number;
        (self.world_size == Some(2) && number < 2).then(|| 1 - number)
    }

    /// Leaves steps out, by their index in [`TrainingJob::steps`], if others remain.
    pub(crate) fn leave_out(&mut self, steps: &BTreeSet<usize>, why: ExcludedSteps) {
        if steps.is_empty() || steps.len() >= self.steps.len() {
            return;
        }
        let all = std::mem::take(&mut self.steps).into_iter().enumerate();
        self.steps = all.filter(|(index, _)| !steps.contains(index)).map(|(_, step)| step).collect();
        *self.left_out.entry(why).or_default() += steps.len();
    }

    /// The steps in which kernels were launched that are not in the traces, by their index in [`TrainingJob::steps`].
    pub(crate) fn steps_with_lost_kernels(&self) -> BTreeSet<usize> {
        let loses = |step: &JobStep| {
            self.ranks.iter().zip(&step.of).any(|(rank, index)| {
                let (begin, end) = rank.steps[*index].window;
                rank.launches.lost_at().iter().any(|moment| (begin..end).contains(moment))
            })
        };
        (0..self.steps.len()).filter(|step| loses(&self.steps[*step])).collect()
    }

    /// The first steps that are far longer than all others, by their index in [`TrainingJob::steps`]: a third of all at most, and two at least, for one alone is in no median.
    pub(crate) fn warm_up(&self) -> BTreeSet<usize> {
        let length = |step: &JobStep| {
            let windows = self.ranks.iter().zip(&step.of).map(|(rank, index)| rank.steps[*index].window);
            windows.map(|(begin, end)| end - begin).max().unwrap_or(0)
        };
        let lengths: Vec<i64> = self.steps.iter().map(length).collect();
        let is_apart = |count: &usize| {
            let (first, others) = lengths.split_at(*count);
            let longest = others.iter().max().copied().unwrap_or(0);
            others.len() >= WARM && first.iter().all(|length| *length > WARM_UP * longest)
        };
        let count = (2..=lengths.len() / 3).rev().find(is_apart).unwrap_or(0);
        (0..count).collect()
    }

    /// Why what changes bring is not known, if it is not known of what threads launched on GPUs, or when.
    pub(crate) fn doubtful_launches(&self) -> Option<Error> {
        let doubtful = self.ranks.iter().filter(|rank| rank.launches.are_doubtful()).map(|rank| rank.number);
        let ranks: BTreeSet<u32> = doubtful.collect();
        (!ranks.is_empty()).then(|| {
            Error::usage(format!(
                "which operations launched the kernels of {}, or when, is not known",
                rank_list(&ranks)
            ))
            .expected(
                "traces with the calls that launch kernels, which PyTorch's profiler records of CPU and CUDA together",
            )
        })
    }

    /// The indices of the steps that two ranks have, by their names, in the order of the first one.
    pub(crate) fn steps_of_both(&self, ranks: [usize; 2]) -> impl Iterator<Item = [usize; 2]> {
        common(&ranks.map(|rank| &self.ranks[rank])).into_iter().map(|step| [step.of[0], step.of[1]])
    }

    /// Compares the steps of some ranks, by index, with so many later ones than those of the same name, if steps in common remain.
    pub(crate) fn renumber(&mut self, ranks: BTreeMap<usize, i64>) {
        let moved = |step: &JobStep| {
            let of = step
                .of
                .iter()
                .enumerate()
                .map(|(rank, index)| self.ranks[rank].earlier_step(*index, ranks.get(&rank).copied().unwrap_or(0)));
            Some(JobStep { name: step.name.clone(), of: of.collect::<Option<_>>()? })
        };
        let steps: Vec<JobStep> = self.steps.iter().filter_map(moved).collect();
        if !steps.is_empty() {
            (self.steps, self.renumbered) = (steps, ranks);
        }
    }

    /// Warnings about what is missing: ranks, steps, parts of files.
    pub fn warnings(&self) -> Vec<String> {
        let damage = |rank: &JobRank| {
            let number = rank.number;
            rank.trace.damage.of_trace().into_iter().map(move |warning| format!("rank {number}: {warning}"))
        };
        let of_others = self.ranks.iter().flat_map(|rank| rank.trace.damage.of_other_files.iter().cloned());
        let damage = self.ranks.iter().flat_map(damage);
        let doubts = self.ranks.iter().flat_map(doubts::find_doubts);
        let launches = self.ranks.iter().flat_map(|rank| rank.launches.warnings(rank.number, &rank.trace));
        let shifted = self.renumbered.iter().map(|(rank, by)| {
            let more = if *by < 0 { "more" } else { "less" };
            let number = self.ranks[*rank].number;
            format!(
                "rank {number} numbers its steps by {} {more} than the others, as the exchanges show: its steps are compared by these",
                by.unsigned_abs()
            )
        });
        let joined = (self.cycle > 1).then(|| {
            format!(
                "what the ranks exchange repeats every {0} steps, as where gradients are accumulated: {0} are taken as one step, and all times of a step are of that; a plain_step_ms is of one of the {0}, on average",
                self.cycle
            )
        });
        let unmarked = self.ranks.first().is_some_and(|rank| !steps::are_marked(&rank.steps)).then(|| {
            "the traces mark no steps, and count as one step as a whole: prof.step() of PyTorch's profiler marks them, or ranges such as record_function(f\"step {number}\")".to_owned()
        });
        let steps = self
            .missing_steps()
            .into_iter()
            .chain(self.lost_steps())
            .chain(self.ran_out())
            .chain(self.steps_left_out())
            .chain(shifted);
        let steps = steps.chain(joined).chain(unmarked);
        self.unusable
            .iter()
            .cloned()
            .chain(self.missing_ranks())
            .chain(steps)
            .chain(of_others)
            .chain(damage)
            .chain(doubts::copies(&self.ranks))
            .chain(doubts)
            .chain(launches)
            .collect()
    }

    /// Nanoseconds of each step as its longest rank marked it, at least one.
    pub fn lengths(&self) -> Vec<f64> {
        let of_rank = |(rank, step): (&JobRank, &usize)| rank.steps[*step].window.1 - rank.steps[*step].window.0;
        let longest = |step: &JobStep| self.ranks.iter().zip(&step.of).map(of_rank).max().unwrap_or(0);
        self.steps.iter().map(|step| longest(step).max(1) as f64).collect()
    }

    /// Nanoseconds of each step on the rank whose steps have the largest sum. The longest rank of each single step changes where ranks are ahead of each
    /// other by different times, and the sum of these steps is longer than the job.
    pub(crate) fn own_lengths(&self) -> Vec<i64> {
        let of_rank = |rank: usize| -> Vec<i64> {
            let work = |step: &JobStep| self.ranks[rank].steps[step.of[rank]].work;
            self.steps.iter().map(work).map(|(begin, end)| end - begin).collect()
        };
        let longest = (0..self.ranks.len()).map(of_rank).rev().max_by_key(|lengths| lengths.iter().sum::<i64>());
        longest.unwrap_or_default()
    }

    /// Says which steps are not replayed, by their index in [`TrainingJob::steps`], why, and that `answers` are of the others alone; none if all are.
    pub fn not_replayed_warning(
        &self,
        replayed: &[usize],
        unlike: Option<&UnlikeSteps>,
        answers: &str,
    ) -> Option<String> {
        let why = unlike.map_or_else(UnlikeSteps::of_all_ranks, |unlike| unlike.reason(self.ranks.len()));
        let (all, alike) = (self.steps.len(), replayed.len());
        let others = self.steps.iter().enumerate().filter(|(index, _)| !replayed.contains(index));
        let mut names: Vec<String> = others.map(|(_, step)| step.name.clone()).collect();
        let more = names.len().saturating_sub(NAMED_STEPS);
        names.truncate(NAMED_STEPS);
        names.extend((more > 0).then(|| format!("{more} more")));
        (!names.is_empty()).then(|| {
            format!(
                "{alike} of {all} steps are replayed, and {answers} are of these alone: {why} ({})",
                names.join(", ")
            )
        })
    }

    /// The ranks that are not given; empty if the number of ranks is not known.
    pub fn missing(&self) -> BTreeSet<u32> {
        let given: BTreeSet<u32> = self.ranks.iter().map(|rank| rank.number).collect();
        (0..self.world_size.unwrap_or(0)).filter(|rank| !given.contains(rank)).collect()
    }

    fn missing_ranks(&self) -> Option<String> {
        let missing = self.missing();
        let size = self.world_size.filter(|_| !missing.is_empty())?;
        let are = if missing.len() == 1 { "is" } else { "are" };
        Some(format!("{} of {size} {are} missing: waiting for them is not known", rank_list(&missing)))
    }

    fn missing_steps(&self) -> Option<String> {
        let most = self.ranks.iter().map(|rank| rank.steps.len()).max()?;
        let common = self.all_common();
        let more = |rank: &&JobRank| rank.steps.len() > common;
        let others: BTreeSet<u32> = self.ranks.iter().filter(more).map(|rank| rank.number).collect();
        // Where all recorded more, they recorded others.
        let more = match others.len() == self.ranks.len() {
            true => "all of them recorded others, too".to_owned(),
            false => format!("{} recorded more", rank_list(&others)),
        };
        (most > common).then(|| format!("only {common} of up to {most} steps are on all ranks: {more}"))
    }

    /// Ranks that have fewer steps than others, and exchange more after their last one than in it.
    fn ran_out(&self) -> Option<String> {
        let most = self.ranks.iter().map(|rank| rank.steps.len()).max()?;
        let goes_on = |rank: &&JobRank| {
            let Some((begin, end)) = rank.steps.last().map(|step| step.window) else { return false };
            let exchanges = |from: i64, to: i64| {
                let began = rank.trace.events.iter().filter(|event| (from..to).contains(&event.start));
                began.filter(|event| rank.trace.is_exchange(event)).count()
            };
            // Of a damaged trace, marks of steps may be missing.
            !rank.trace.damage.lacks_events()
                && rank.steps.len() < most
                && exchanges(end, i64::MAX) > exchanges(begin, end)
        };
        let ranks: BTreeSet<u32> = self.ranks.iter().filter(goes_on).map(|rank| rank.number).collect();
        (!ranks.is_empty()).then(|| {
            format!(
                "{} ran out of steps and exchanged on for the others, as DistributedDataParallel.join() does with uneven inputs: only the steps that all ranks have are compared",
                rank_list(&ranks)
            )
        })
    }

    /// The ranks that lack steps of others between their own.
    fn lost_steps(&self) -> impl Iterator<Item = String> {
        let lost = |rank: &JobRank| steps::lost(&rank.steps, self.ranks.iter().flat_map(|other| &other.steps));
        let lost = self.ranks.iter().map(move |rank| (rank.number, lost(rank))).filter(|(_, lost)| !lost.is_empty());
        lost.map(|(rank, lost)| {
            let are = if lost.len() == 1 { "event is" } else { "events are" };
            let lost = list_text(lost, NAMED_STEPS);
            format!("rank {rank} lacks steps of the others between its own, whose {are} missing: {lost}; what it did then counts to no step")
        })
    }

    /// The number of steps that all ranks have, with those that are left out.
    fn all_common(&self) -> usize {
        self.steps.len() + self.left_out.values().sum::<usize>()
    }

    fn steps_left_out(&self) -> impl Iterator<Item = String> {
        let all = self.all_common();
        self.left_out.iter().map(move |(why, count)| {
            let are = if *count == 1 { "is" } else { "are" };
            let why = match why {
                ExcludedSteps::Incomplete => "exchanges in them are not in the traces of all ranks",
                ExcludedSteps::ClockSet => "a clock was set in them",
                ExcludedSteps::LostKernels => "kernels that were launched in them are not in the traces",
                ExcludedSteps::WarmUp => {
                    "they are the first, and more than twice as long as any other, as while a job warms up"
                }
            };
            format!("{count} of {all} steps {are} left out: {why}")
        })
    }
}

impl JobRank {
    /// Whether times in its trace cannot be true.
    pub(crate) fn is_doubtful(&self) -> bool {
        !doubts::find_doubts(self).is_empty()
    }

    fn from_trace(ranked: RankTrace, marks: StepMarks) -> Self {
        let mut trace = ranked.trace;
        let launches = LaunchKnowledge::read(&mut trace);
        let (mut steps, marking) = marks.read(&trace);
        work::set(&mut steps, &trace);
        let began = || {
            trace.track_ids().find(|id| {
                let track = &trace.tracks[id.index()];
                track.process == track.thread
            })
        };
        JobRank { number: ranked.rank, steps, main: marking.or_else(began), trace, launches, marks }
    }

    /// The index of the step that is so many earlier than another one by their numbers, for between them some may be lost.
    pub(crate) fn earlier_step(&self, index: usize, by: i64) -> Option<usize> {
        let number = self.steps[index].number.checked_sub(by)?;
        self.steps.binary_search_by_key(&number, |step| step.number).ok()
    }

    /// Whether a range with such a name is a step, and nothing else.
    pub(crate) fn is_step(&self, range: &str) -> bool {
        self.marks.are(range)
    }
}

/// More ranks than any job has.
const MOST_RANKS: u32 = 1_000_000;

/// Refuses the number of a rank that no job has.
fn check_number(ranked: &RankTrace) -> Result<()> {
    match ranked.rank < MOST_RANKS {
        true => Ok(()),
        false => Err(Error::input(format!("the trace is of rank {}, which no job has", ranked.rank))
            .file(&ranked.trace.file)
            .help("give it the number of its rank (rank in distributedInfo)")),
    }
}

/// Leaves out a number of ranks that no job has.
fn leave_out_size(ranked: &mut RankTrace) {
    if let Some(size) = ranked.trace.header.world_size.take_if(|size| *size > MOST_RANKS) {
        let sentence = format!("the trace is of a job of {size} ranks, which no job has: their number is not known");
        ranked.trace.damage.others.push(sentence);
    }
}

/// The number of ranks in the traces.
fn world_size(traces: &[RankTrace]) -> Result<Option<u32>> {
    let mut sizes: BTreeMap<u32, &RankTrace> = BTreeMap::new();
    for ranked in traces {
        sizes.extend(ranked.trace.header.world_size.map(|size| (size, ranked)));
    }
    let numbers: Vec<String> = sizes.keys().map(ToString::to_string).collect();
    match sizes.first_key_value() {
        Some((_, ranked)) if sizes.len() > 1 => {
            Err(Error::input(format!("the traces are of jobs of {} ranks", numbers.join(" and ")))
                .file(&ranked.trace.file)
                .expected("traces of one job"))
        }
        // A trace without events may be of no rank at all.
        Some((&size, _)) => match traces.iter().find(|ranked| ranked.rank >= size && !ranked.trace.events.is_empty()) {
            Some(strange) => Err(Error::input(format!("rank {} cannot be of a job of {size} ranks", strange.rank))
                .file(&strange.trace.file)
                .expected("traces of one job")),
            None => Ok(Some(size)),
        },
        None => Ok(None),
    }
}

/// Whether numbers between those of the ranks are of none: there are more ranks than traces. What traces are numbered from is not known.
fn has_gaps(ranks: &[JobRank]) -> bool {
    let numbers = || ranks.iter().map(|rank| rank.number);
    let between = numbers().max().zip(numbers().min()).map_or(0, |(last, first)| last - first);
    between as usize >= ranks.len()
}

/// The steps that all ranks have: those of equal name, the first to the first if a name occurs several times.
fn common(ranks: &[&JobRank]) -> Vec<JobStep> {
    let mut steps: Vec<((&str, usize), Vec<usize>)> = Vec::new();
    let mut places: BTreeMap<(&str, usize), usize> = BTreeMap::new();
    for (nth, rank) in ranks.iter().enumerate() {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, step) in rank.steps.iter().enumerate() {
            let times = seen.entry(&step.name).or_default();
            let key = (step.name.as_str(), *times);
            *times += 1;
            if nth == 0 {
                places.insert(key, steps.len());
                steps.push((key, vec![index]));
            } else if let Some(&place) = places.get(&key) {
                steps[place].1.push(index);
            }
        }
    }
    let everywhere = steps.into_iter().filter(|(_, of)| of.len() == ranks.len());
    everywhere.map(|((name, _), of)| JobStep { name: name.to_owned(), of }).collect()
}

fn nothing_in_common(ranks: &[JobRank]) -> Error {
    let named = |rank: &JobRank| {
        let file = rank.trace.file.file_name().unwrap_or_default().to_string_lossy();
        format!("rank {} ({file}) has {}", rank.number, steps::range(&rank.steps))
    };
    let some: Vec<String> = ranks.iter().take(3).map(named).collect();
    let error = Error::input(format!("no step is on all ranks: {}", some.join(", ")));
    let error = error.expected("traces of the same steps of one job, one of each rank");
    let damaged = ranks.iter().find_map(|rank| Some((rank.number, rank.trace.damage.of_trace().into_iter().next()?)));
    let error = damaged.map_or(error.clone(), |(rank, damage)| error.help(format!("rank {rank}: {damage}")));
    ranks.first().map_or(error.clone(), |rank| error.file(&rank.trace.file))
}
