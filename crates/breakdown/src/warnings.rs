//! Warnings about a breakdown, in sentences.

use crate::breakdown::{Breakdown, RankBreakdown};
use crate::calls::label;
use crate::categories::recorded::{RecordedKinds, is_cut_off};
use crate::gpu::device::GpuActivity;
use crate::iterations;
use crate::iterations::marks::{self, FoundIterations, IterationMarkers};
use crate::threads::ThreadTimeline;
use perf4sight_base::stats::{mean, median};
use perf4sight_base::units::{Milliseconds, count_text};
use perf4sight_record::WarmUp;
use perf4sight_traces::intervals::{Interval, clipped};
use perf4sight_traces::{RankTrace, Trace};

/// Names of doubted kernels and copies in a warning.
const DOUBTED: usize = 4;
/// The events of the main thread cover at least this share of the iterations in a useful trace.
const COVERED: f64 = 0.01;
/// An iteration without recorded events has less than this share of as many as the median iteration with events.
const FEW: f64 = 0.5;
/// Iterations longer than this many times the median are reported if the mean differs from the median by more than
/// [`FAR`].
const LONGER: f64 = 1.5;
/// The relative difference between mean and median that is reported.
const FAR: f64 = 0.1;

/// The data that the warnings of a rank are derived from.
pub(crate) struct WarningEvidence<'a> {
    pub trace: &'a Trace,
    pub found: &'a FoundIterations,
    pub threads: &'a [ThreadTimeline],
    pub main: Option<usize>,
    pub recorded: RecordedKinds,
    /// Names of ranges that were merged into "other".
    pub merged: usize,
    pub device: &'a GpuActivity,
}

impl WarningEvidence<'_> {
    /// All warnings, the ones that change the figures most first.
    pub fn warnings(&self, warm_up: &WarmUp) -> Vec<String> {
        let mut warnings = self.trace.damage.warnings();
        warnings.extend(self.uncertain_markers());
        warnings.extend(self.bare_iterations());
        warnings.extend(self.longer(warm_up));
        warnings.extend(self.missing_events());
        warnings.extend(self.overlapping());
        warnings.extend(self.clipped_calls());
        warnings.extend(self.impossible_durations());
        if self.found.behind > 0 {
            warnings.push(format!(
                "left out: {} behind the first {}",
                count_text(self.found.behind as u64, "iteration"),
                marks::MOST
            ));
        }
        if self.merged > 0 {
            warnings.push(format!(
                "in \"other\" are {} of ranges, of those that take least",
                count_text(self.merged as u64, "name")
            ));
        }
        warnings
    }

    /// GPU work whose recorded duration is impossible.
    fn impossible_durations(&self) -> Option<String> {
        let doubted = &self.device.doubted;
        let longest = doubted.iter().max_by_key(|one| one.duration)?;
        let milliseconds = |nanoseconds: i64| Milliseconds(nanoseconds as f64 / 1e6);
        let mut names: Vec<&str> = doubted.iter().map(|one| self.trace.names.get(one.name)).collect();
        names.sort_unstable();
        names.dedup();
        let more = names.len().saturating_sub(DOUBTED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more names") };
        let shown: Vec<String> = names.iter().take(DOUBTED).map(|name| format!("{:?}", label(name))).collect();
        let count = match doubted.len() {
            1 => "1 kernel or copy".to_owned(),
            count => format!("{count} kernels or copies"),
        };
        Some(format!(
            "{count} of a GPU with a time that cannot be, for it goes on long after the next one on the stream began ({}{more}): they count up \
             to there. The longest, {:?}, is recorded with {}, and the next one began after {}",
            shown.join(", "),
            label(self.trace.names.get(longest.name)),
            milliseconds(longest.duration),
            milliseconds(longest.next)
        ))
    }

    fn clipped_calls(&self) -> Option<String> {
        let clipped = self.threads.iter().map(|thread| thread.clipped).sum::<u64>();
        (clipped > 0)
            .then(|| format!("events that end after the one they began in, and are taken to end with it: {clipped}"))
    }

    fn overlapping(&self) -> Vec<String> {
        let FoundIterations { overlapping, inside, .. } = *self.found;
        let cut = (overlapping > 0).then(|| match overlapping {
            1 => "1 iteration begins before the one before it ends, which is cut there".to_owned(),
            _ => format!("{overlapping} iterations begin before the one before them ends, which is cut there"),
        });
        let left_out = (inside > 0).then(|| match inside {
            1 => "1 iteration is inside another one and is left out".to_owned(),
            _ => format!("{inside} iterations are inside another one and are left out"),
        });
        cut.into_iter().chain(left_out).chain(self.unsettled_iterations()).chain(self.marks_elsewhere()).collect()
    }

    /// Marks that were ignored.
    fn marks_elsewhere(&self) -> Option<String> {
        let marks = count_text(self.found.elsewhere as u64, "mark");
        (self.found.elsewhere > 0).then(|| {
            format!("left out: {marks} of iterations on other threads than the one that has most, or without length")
        })
    }

    fn unsettled_iterations(&self) -> Option<String> {
        let one = self.found.unsettled == 1;
        let (lies, is) = if one { ("lies", "is") } else { ("lie", "are") };
        (self.found.unsettled > 0).then(|| {
            format!(
                "{} {lies} outside of the recorded ones or across the end of them, where the profiler had just been started or stopped, and {is} left out",
                count_text(self.found.unsettled as u64, "iteration")
            )
        })
    }

    /// How iterations were found, if that is uncertain.
    fn uncertain_markers(&self) -> Option<String> {
        if self.found.marks.is_empty() {
            return Some(
                "nothing of threads or accelerators is in the trace, so that there is no time to break down".to_owned(),
            );
        }
        match &self.found.markers {
            IterationMarkers::WholeTrace => {
                let likely =
                    self.found.likely.as_ref().map(|name| format!(" (--iteration {name:?} repeats most regularly)"));
                Some(format!(
                    "no iterations are marked and no repetition is certain, so that the whole trace counts as one; name a range, a function \
                     or an operator{}",
                    likely.unwrap_or_default()
                ))
            }
            IterationMarkers::Period { event, certainty } => {
                let percent = (100.0 * certainty).floor();
                Some(format!(
                    "no iterations are marked; they are taken to begin with {event:?}, with a certainty of {percent:.0} %"
                ))
            }
            IterationMarkers::Named(_) | IterationMarkers::ProfilerSteps | IterationMarkers::OptimizerSteps(_) => None,
        }
    }

    /// Kinds of events that are missing in the trace, so that their times are unknown.
    fn missing_events(&self) -> Vec<String> {
        let RecordedKinds { python, cpp, cuda_api, gpu } = self.recorded;
        let cut_off = is_cut_off(self.trace);
        let kinds = [
            (
                python,
                "calls of Python are not in the trace (the profiler's with_stack=True records them): Python and waiting are unknown",
            ),
            (cpp, "operators are not in the trace: C++ is unknown"),
            (cuda_api || cut_off, "calls of the accelerator's runtime are not in the trace: the CUDA API is unknown"),
            (gpu || cut_off, "what the GPU works on is not in the trace: when it is busy is unknown"),
            (
                gpu || !cut_off,
                "the trace is cut off, and its GPU work comes last: it is unknown how much is missing, and so when the CUDA API and the GPU are busy",
            ),
        ];
        let unknown = kinds.into_iter().filter(|(recorded, _)| !recorded && !self.found.marks.is_empty());
        unknown.map(|(_, sentence)| sentence.to_owned()).collect()
    }

    /// Iterations with hardly any recorded events of the main thread: they cover little of its time, and are few compared with those of
    /// other iterations. An iteration that waits longer than others has as many events as they.
    fn bare_iterations(&self) -> Option<String> {
        let length = |(begin, end): Interval| (end - begin) as f64;
        let total: f64 = self.found.marks.iter().map(|mark| length(mark.window)).sum();
        let spans = &self.threads.get(self.main?)?.spans;
        let within = |window| {
            let parts = clipped(spans, window);
            parts.fold((0.0, 0), |(sum, count), (part, _)| (sum + length(part), count + 1))
        };
        let of_all: Vec<((f64, usize), f64)> =
            self.found.marks.iter().map(|mark| (within(mark.window), length(mark.window))).collect();
        // The sum of an empty list is negative zero.
        let share = (of_all.iter().map(|((covered, _), _)| covered).sum::<f64>() / total).abs();
        let counts: Vec<f64> =
            of_all.iter().map(|((_, count), _)| *count as f64).filter(|count| *count > 0.0).collect();
        let few = if counts.is_empty() { 0.0 } else { FEW * median(&counts) };
        let is_bare =
            |((covered, count), length): &&((f64, usize), f64)| covered / length < COVERED && (*count as f64) < few;
        match of_all.iter().filter(is_bare).count() {
            _ if share < COVERED => Some(format!(
                "events of the main thread cover {:.2} % of the iterations: it waited in the rest, or what it did there is not in this trace",
                100.0 * share
            )),
            0 => None,
            bare => Some(format!(
                "{bare} of {} hold hardly any events of the main thread, as if nothing had been recorded: its work there is unknown, but its time is counted",
                count_text(of_all.len() as u64, "iteration")
            )),
        }
    }

    /// Iterations that take much longer than others, for example because of an evaluation.
    fn longer(&self, warm_up: &WarmUp) -> Option<String> {
        let counted = self.found.marks.get(warm_up.iterations..)?;
        let times: Vec<f64> = counted.iter().map(|mark| (mark.window.1 - mark.window.0) as f64).collect();
        let (mean_of_all, middle) = (mean(&times), median(&times));
        let longer: Vec<f64> = times.iter().copied().filter(|time| *time > LONGER * middle).collect();
        (!longer.is_empty() && (mean_of_all / middle - 1.0).abs() > FAR).then(|| {
            format!(
                "the mean iteration takes {:.2} times the median one: {} of {} take {:.1} times it on average, perhaps because of something else in them, such as an evaluation",
                mean_of_all / middle,
                longer.len(),
                times.len(),
                mean(&longer) / middle
            )
        })
    }
}

/// Warns if two ranks do not overlap in time, by the clocks of their traces.
pub(crate) fn clocks_apart(ranks: &[RankTrace]) -> Option<String> {
    let extent = |ranked: &RankTrace| -> Option<(u32, Interval)> {
        let (start, end) = iterations::extent(&ranked.trace)?;
        let base = ranked.trace.header.base;
        Some((ranked.rank, (start.saturating_add(base), end.saturating_add(base))))
    };
    let extents: Vec<(u32, Interval)> = ranks.iter().filter_map(extent).collect();
    let (last, (starts, _)) = extents.iter().max_by_key(|(_, (start, _))| *start)?;
    let (first, (_, ends)) = extents.iter().min_by_key(|(_, (_, end))| *end)?;
    (last != first && starts >= ends).then(|| {
        format!(
            "rank {last} begins after rank {first} has ended: they were not recorded together, or their clocks differ"
        )
    })
}

/// Warns if some rank has iterations that are not on all ranks.
pub(crate) fn uneven_iterations(run: &Breakdown) -> Option<String> {
    let together = run.iterations_on_all_ranks().len();
    let count = |rank: &RankBreakdown| (rank.counted_iterations().count(), rank.rank);
    let (most, rank) = run.ranks.iter().map(count).max_by_key(|(count, _)| *count)?;
    (together < most).then(|| {
        format!(
            "the run's figures are of {together} of the {} of rank {rank}, what counts on every rank",
            count_text(most as u64, "iteration")
        )
    })
}
