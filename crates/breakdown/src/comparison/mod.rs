//! Comparison of two runs: what changed, and whether iterations of one run differ by as much anyway.

use crate::breakdown::{Breakdown, Iteration, RankBreakdown};
use crate::categories::TimeCategory;
use crate::categories::metrics::{Metric, MetricUnit};
use crate::correction::result::RecordingDrift;
use perf4sight_base::stats::mean;
use perf4sight_base::summary::{MISSES, MeanUncertainty, ValueSummary, is_rounding, quantile};
use perf4sight_record::{LongIterations, WithoutRecording};
use std::collections::BTreeSet;

/// The share of false alarms left to the other numbers if the iteration time did not change.
const UNASKED: f64 = 0.1;

/// Of events that were not seen, so many are possible with 95 % (Garwood, Biometrika 28, 1936; two-sided).
const UNSEEN: f64 = 3.689;

/// Iterations that are longer than others by at most this share of what those of the other side are longer by are no such ones.
const UNLIKE: f64 = 0.25;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ComparedMeasure {
    /// Nanoseconds of one category while the GPU is busy or idle.
    Set {
        category: TimeCategory,
        gpu_busy: bool,
    },
    /// Nanoseconds of processor time, which excludes other programs on the machine.
    Processor,
    Metric(Metric),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasureDifference {
    pub of: ComparedMeasure,
    /// Summary of the first run: of its iterations, or of the means of several recordings.
    pub before: ValueSummary,
    pub after: ValueSummary,
    /// The mean after minus the mean before.
    pub change: f64,
    /// The confidence interval of the change over many more iterations or recordings of both ([`Comparison::compare`]). None
    /// if a run has a single iteration, or if there is a change but no variation at all, so that the uncertainty is
    /// unknown.
    pub interval: Option<[f64; 2]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DifferenceVerdict {
    Less,
    More,
    /// The difference cannot be distinguished from noise.
    Noise,
}

impl DifferenceVerdict {
    /// From the interval of a change.
    pub fn of_interval(interval: Option<[f64; 2]>) -> Self {
        match interval {
            Some([low, _]) if low > 0.0 => DifferenceVerdict::More,
            Some([_, high]) if high < 0.0 => DifferenceVerdict::Less,
            _ => DifferenceVerdict::Noise,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    pub differences: Vec<MeasureDifference>,
    /// The number of recordings before and after. With one recording each, the intervals do not cover the variation
    /// between starts of the script.
    pub recordings: [usize; 2],
    /// An iteration before and after, without the overhead of recording; none if any recording lacks it.
    pub without_recording: Option<[WithoutRecording; 2]>,
    /// Whether the means of these are reliable, before and after ([`Breakdown::correction_holds`]).
    pub correction_holds: [bool; 2],
    /// The mean of all iterations before and after; none if no long iterations make it another than that of the others, or if it is unknown.
    pub mean_of_all: Option<MeanOfAll>,
}

/// The mean of all iterations that were timed, long ones included, without recording: what a whole run takes follows from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanOfAll {
    pub before: WithoutRecording,
    pub after: WithoutRecording,
    /// The 95 % confidence interval of the change.
    pub interval: Option<[f64; 2]>,
    /// Of the recording with the largest share of them, before and after.
    pub long: [Option<LongIterations>; 2],
}

/// The side of a comparison on which other programs used the machine more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusierSide {
    Before,
    After,
}

/// A part explains a change if it is at least this share of it.
const EXPLAINS: f64 = 0.5;

impl ComparedMeasure {
    /// All of them: the sets, then the metrics.
    pub fn all() -> impl Iterator<Item = Self> {
        let sets = TimeCategory::ALL
            .into_iter()
            .flat_map(|category| [true, false].map(|gpu_busy| ComparedMeasure::Set { category, gpu_busy }));
        sets.chain([ComparedMeasure::Processor]).chain(Metric::ALL.map(ComparedMeasure::Metric))
    }

    /// Whether it means the same with and without recorded Python calls. Without them, built-in functions are not
    /// recorded either.
    fn is_known_without_python(self) -> bool {
        match self {
            ComparedMeasure::Set { category, .. } => category == TimeCategory::CudaApi,
            ComparedMeasure::Processor => true,
            ComparedMeasure::Metric(metric) => match metric {
                Metric::TotalTimeSec | Metric::GPUTimeSec | Metric::CudaCppTimeSec | Metric::GPUAndCudaCppTimeSec => {
                    true
                }
                Metric::CppAndGPUTimeSec
                | Metric::CppTimeSec
                | Metric::FrameworkCppTimeSec
                | Metric::TheoreticalSpeedup
                | Metric::PercentTimeInPython
                | Metric::PythonTimeSec
                | Metric::PythonOverheadPercent => false,
            },
        }
    }

    /// Whether it is a wall-clock time, which other programs on the machine make longer.
    pub fn is_on_the_wall(self) -> bool {
        match self {
            ComparedMeasure::Set { .. } => true,
            ComparedMeasure::Processor => false,
            ComparedMeasure::Metric(metric) => metric.unit() == MetricUnit::Seconds,
        }
    }

    /// The variation of the number on a rank in addition to the variation of its iterations.
    fn drift(self, rank: &RankBreakdown) -> Option<RecordingDrift> {
        match self {
            ComparedMeasure::Processor => rank.correction.processor_drift,
            ComparedMeasure::Set { .. } | ComparedMeasure::Metric(_) => {
                rank.correction.drift.filter(|_| self.is_on_the_wall())
            }
        }
    }

    /// Its value in an iteration; none if the trace lacks it.
    pub fn value_in(self, rank: &RankBreakdown, iteration: &Iteration) -> Option<f64> {
        match self {
            ComparedMeasure::Set { category, gpu_busy } => {
                iteration.sets.get(category, gpu_busy).map(|time| time as f64)
            }
            ComparedMeasure::Processor => rank.processor(iteration).map(|time| time as f64),
            ComparedMeasure::Metric(metric) => metric.compute(&iteration.sets),
        }
    }
}

impl Comparison {
    /// Compares two runs, each recorded once or several times, by the iterations that count on all ranks of each
    /// recording.
    ///
    /// The intervals are Welch's (Biometrika 34, 1947). Several recordings give one value each, their mean. A single
    /// recording gives one value per iteration; its uncertainty is larger if neighbouring iterations are correlated
    /// ([`ValueSummary::interval`]) and includes the variation between periods without the profiler. Whether an iteration
    /// takes longer is tested first and alone. The intervals of the other numbers are wide enough that all of them hold
    /// together (Bonferroni), because one of twenty numbers may deviate by chance; identical numbers with two names
    /// count once. If the iteration time did not change, the others get a tenth of the false alarms (0.5 % instead of
    /// 5 %). If only some ranks of some recordings have Python calls, numbers that depend on them are left out.
    pub fn compare(before: &[&Breakdown], after: &[&Breakdown]) -> Self {
        let alike = are_alike(before.iter().chain(after));
        let measures = ComparedMeasure::all().filter(|measure| alike || measure.is_known_without_python());
        let both = |measure| {
            Some((
                measure,
                [MeasureSample::from_recordings(before, measure)?, MeasureSample::from_recordings(after, measure)?],
            ))
        };
        let compared: Vec<(ComparedMeasure, [MeasureSample; 2])> = measures.filter_map(both).collect();
        let is_total = |of: ComparedMeasure| of == ComparedMeasure::Metric(Metric::TotalTimeSec);
        let total = compared.iter().find(|(of, _)| is_total(*of));
        let alike = total.and_then(|(_, samples)| shape(samples));
        let changed = total
            .and_then(|(_, [before, after])| welch(before, after, MISSES))
            .is_some_and(|[low, high]| low > 0.0 || high < 0.0);
        let distinct: BTreeSet<Vec<i64>> = compared.iter().filter_map(|(_, samples)| shape(samples)).collect();
        let others = distinct.iter().filter(|shape| Some(*shape) != alike.as_ref()).count().max(1) as f64;
        let among_others = if changed { MISSES / others } else { UNASKED * MISSES / others };
        let difference = |(of, samples): &(ComparedMeasure, [MeasureSample; 2])| {
            let [before, after] = samples;
            let interval = welch(before, after, if shape(samples) == alike { MISSES } else { among_others });
            let (before, after) = (before.summary, after.summary);
            MeasureDifference { of: *of, before, after, change: change(&before, &after), interval }
        };
        let differences = compared.iter().map(difference).collect();
        let without = |side: &[&Breakdown]| {
            let all = side.iter().map(|run| run.without_recording());
            all.collect::<Option<Vec<_>>>().map(|all| WithoutRecording::of_several(&all))
        };
        let without_recording = without(before).zip(without(after)).map(<[WithoutRecording; 2]>::from);
        let correction_holds = [before, after].map(|side| side.iter().all(|run| run.correction_holds()));
        let recordings = [before.len(), after.len()];
        let mean_of_all = MeanOfAll::compare(before, after);
        Comparison { differences, recordings, without_recording, correction_holds, mean_of_all }
    }

    /// Whether a GPU is ever busy in either run.
    pub fn has_gpu(&self) -> bool {
        let busy = self.get(ComparedMeasure::Metric(Metric::GPUTimeSec));
        busy.is_some_and(|busy| busy.before.mean > 0.0 || busy.after.mean > 0.0)
    }

    /// The change of a number; none if one of the runs lacks it.
    pub fn get(&self, measure: ComparedMeasure) -> Option<&MeasureDifference> {
        self.differences.iter().find(|difference| difference.of == measure)
    }

    /// The side on which other programs took the processor from the script, which makes its times longer without more
    /// work. The wall-clock time changed, and neither the change of processor time, anywhere in its interval, nor that
    /// of known waiting explains half of it. None if processor time was not recorded, or if there is a GPU, which the
    /// script waits for. Waiting for a disk in a call that is not known to wait looks the same; without recorded Python
    /// calls, so does all waiting.
    pub fn busier_side(&self) -> Option<BusierSide> {
        let total = self.get(ComparedMeasure::Metric(Metric::TotalTimeSec))?;
        let processor = self.get(ComparedMeasure::Processor)?.interval?;
        let busier = match total.verdict() {
            DifferenceVerdict::More => BusierSide::After,
            DifferenceVerdict::Less => BusierSide::Before,
            DifferenceVerdict::Noise => return None,
        };
        // The share of the change, positive for the same sign.
        let explained = |nanoseconds: f64| nanoseconds / (1e9 * total.change) >= EXPLAINS;
        let waits = self.get(ComparedMeasure::Set { category: TimeCategory::Wait, gpu_busy: false });
        let waits_more = waits.is_some_and(|waits| explained(waits.change));
        let works_more = processor.into_iter().any(explained);
        (!works_more && !waits_more && !self.has_gpu()).then_some(busier)
    }
}

impl MeanOfAll {
    fn compare(before: &[&Breakdown], after: &[&Breakdown]) -> Option<Self> {
        let sides = [before, after];
        let long = sides.map(weightiest);
        if long.iter().all(Option::is_none) {
            return None;
        }
        let means = |side: &[&Breakdown]| side.iter().map(|run| run.mean_of_all()).collect::<Option<Vec<_>>>();
        let (one, other) = (means(before)?, means(after)?);
        let interval = match sides.iter().all(|side| side.len() > 1) {
            true => {
                let sample = |side: &[WithoutRecording]| {
                    MeasureSample::of_recordings(side.iter().map(|recording| recording.mean).collect())
                };
                welch(&sample(&one)?, &sample(&other)?, MISSES)
            }
            false => {
                let single =
                    |side: &[WithoutRecording], own, others| unseen(WithoutRecording::of_several(side), own, others);
                of_change(single(&one, before, after), single(&other, after, before))
            }
        };
        let interval = interval.map(|interval| without_delays(interval, sides.map(delayed)));
        let [before, after] = [one, other].map(|side| WithoutRecording::of_several(&side));
        Some(MeanOfAll { before, after, interval, long })
    }
}

/// Nanoseconds of a mean iteration in which its thread was ready to run but had no processor; none where that was not measured.
fn delayed(side: &[&Breakdown]) -> Option<f64> {
    let ranks = side.iter().flat_map(|run| &run.ranks).map(|rank| rank.correction.delayed_plain);
    ranks.collect::<Option<Vec<f64>>>().filter(|delays| !delays.is_empty()).map(|delays| mean(&delays))
}

/// The interval of a change that may be less by as much as other programs took of one side more than of the other.
fn without_delays([low, high]: [f64; 2], delays: [Option<f64>; 2]) -> [f64; 2] {
    let [Some(before), Some(after)] = delays else { return [low, high] };
    let more = after - before;
    [low.min(low - more), high.max(high - more)]
}

/// The long iterations that take most, if they are weighty.
fn weightiest(side: &[&Breakdown]) -> Option<LongIterations> {
    let long = side.iter().filter_map(|run| run.weighty_long_iterations());
    long.max_by(|one, other| one.share().total_cmp(&other.share())).copied()
}

/// The mean of a side that had no iterations as long as those of the other side: so many as chance may have hidden.
fn unseen(mean: WithoutRecording, own: &[&Breakdown], others: &[&Breakdown]) -> WithoutRecording {
    let Some(long) = weightiest(others) else { return mean };
    let extra = long.longest.mean - long.others;
    if own.iter().any(|run| run.longest_extra() > UNLIKE * extra) {
        return mean;
    }
    let hidden = UNSEEN * extra / long.of as f64;
    let interval = mean.interval.map(|[low, high]| [low, mean.mean + hidden.hypot(high - mean.mean)]);
    WithoutRecording { interval, ..mean }
}

/// The interval of the second mean minus the first, from their own, which may be longer to one side (Zou and Donner, Statistics in Medicine 27, 2008).
fn of_change(before: WithoutRecording, after: WithoutRecording) -> Option<[f64; 2]> {
    let ([before_low, before_high], [after_low, after_high]) = (before.interval?, after.interval?);
    let change = after.mean - before.mean;
    let [down, up] = [
        (after.mean - after_low).hypot(before_high - before.mean),
        (after_high - after.mean).hypot(before.mean - before_low),
    ];
    Some([change - down, change + up])
}

/// Whether all ranks of all recordings have Python calls, or none has.
fn are_alike<'a>(recordings: impl Iterator<Item = &'a &'a Breakdown>) -> bool {
    let mut python = recordings.flat_map(|run| &run.ranks).map(|rank| rank.recorded.python);
    let first = python.next();
    python.all(|recorded| Some(recorded) == first)
}

impl MeasureDifference {
    pub fn verdict(&self) -> DifferenceVerdict {
        DifferenceVerdict::of_interval(self.interval)
    }

    /// The change in percent of the value before; none if that was zero.
    pub fn percent(&self) -> Option<f64> {
        (self.before.mean != 0.0).then(|| 100.0 * self.change / self.before.mean)
    }
}

struct MeasureSample {
    /// The value of each iteration, or the mean of each recording if there are several.
    values: Vec<f64>,
    summary: ValueSummary,
    /// The uncertainty of its mean; none for a single value.
    spread: Option<MeanUncertainty>,
}

impl MeasureSample {
    fn from_recordings(recordings: &[&Breakdown], measure: ComparedMeasure) -> Option<Self> {
        let values = |run: &Breakdown| run.values(|rank, iteration| measure.value_in(rank, iteration));
        match recordings {
            [run] => {
                let own = values(run)?;
                let drift = run.ranks.iter().filter_map(|rank| measure.drift(rank));
                Self::of_iterations(own, drift.max_by(|one, other| one.square.total_cmp(&other.square)))
            }
            _ => Self::of_recordings(
                recordings
                    .iter()
                    .map(|run| Some(ValueSummary::compute(&values(run)?)?.mean))
                    .collect::<Option<Vec<f64>>>()?,
            ),
        }
    }

    fn of_iterations(values: Vec<f64>, drift: Option<RecordingDrift>) -> Option<Self> {
        let summary = ValueSummary::compute(&values)?;
        let among = MeanUncertainty::of_mean(&values, summary.mean);
        let spread = among.map(|among| drift.map_or(among, |drift| among.plus(drift.of_mean(summary.mean))));
        Some(MeasureSample { values, summary, spread })
    }

    fn of_recordings(values: Vec<f64>) -> Option<Self> {
        let summary = ValueSummary::compute(&values)?;
        let count = values.len() as f64;
        let spread =
            summary.spread.map(|spread| MeanUncertainty { square: spread.powi(2) / count, freedom: count - 1.0 });
        Some(MeasureSample { values, summary, spread })
    }
}

impl RecordingDrift {
    fn of_mean(self, mean: f64) -> MeanUncertainty {
        MeanUncertainty { square: self.square * mean.powi(2), freedom: self.freedom }
    }
}

/// The values of two samples relative to their mean. They are equal for the same number under two names; none if all
/// values are zero.
fn shape(samples: &[MeasureSample; 2]) -> Option<Vec<i64>> {
    let [before, after] = samples;
    let scale = (before.summary.mean.abs() + after.summary.mean.abs()) / 1e9;
    (scale > 0.0)
        .then(|| before.values.iter().chain(&after.values).map(|value| (value / scale).round() as i64).collect())
}

/// The second mean minus the first; rounding errors count as no change.
fn change(before: &ValueSummary, after: &ValueSummary) -> f64 {
    let change = after.mean - before.mean;
    if is_rounding(change, before.mean) { 0.0 } else { change }
}

/// The confidence interval of the difference of the means, with the given probability of error.
fn welch(before: &MeasureSample, after: &MeasureSample, misses: f64) -> Option<[f64; 2]> {
    let change = change(&before.summary, &after.summary);
    let both = before.spread?.plus(after.spread?);
    if both.square == 0.0 {
        return (change == 0.0).then_some([0.0; 2]);
    }
    let half = quantile(both.freedom, misses)? * both.square.sqrt();
    Some([change - half, change + half])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_iterations(values: &[f64]) -> MeasureSample {
        MeasureSample::of_iterations(values.to_vec(), None).unwrap()
    }

    /// The 95 % interval for two samples of iterations.
    fn of_values(before: &[f64], after: &[f64]) -> Option<[f64; 2]> {
        welch(&of_iterations(before), &of_iterations(after), 0.05)
    }

    /// The reference is `scipy.stats.ttest_ind(after, before, equal_var=False).confidence_interval()`; neighbours are
    /// not correlated here.
    #[test]
    fn an_interval_is_welchs() {
        let before = [10.0, 12.0, 10.0, 12.0, 10.5, 12.5];
        let after = [15.0, 13.0, 16.0, 13.0, 15.5, 14.0];
        let [low, high] = of_values(&before, &after).unwrap();
        assert!((low - 1.695_222_268_9).abs() < 1e-6 && (high - 4.804_777_731_1).abs() < 1e-6, "{low} {high}");
        assert_eq!(of_values(&[1.0], &after), None);
        // Values without any variation do not show their uncertainty.
        assert_eq!(of_values(&[1.0, 1.0], &[3.0, 3.0]), None);
        assert_eq!(of_values(&[3.0, 3.0], &[3.0, 3.0]), Some([0.0, 0.0]));
        // Nor do rounding errors, and they are no difference.
        assert_eq!(of_values(&[0.1; 7], &[0.2; 7]), None);
        assert_eq!(of_values(&[0.3; 3], &[0.1 + 0.2; 7]), Some([0.0, 0.0]));
    }

    /// Each recording is one value. Two samples of two have means 10 and 20 and variances of 2, so the variance of each
    /// mean is 1. The half-width is scipy's `t.ppf(0.975, 2)`, 4.302653, times the root of 2.
    #[test]
    fn several_recordings_are_as_many_values() {
        let sample = |values: [f64; 2]| MeasureSample::of_recordings(values.to_vec()).unwrap();
        let [low, high] = welch(&sample([9.0, 11.0]), &sample([19.0, 21.0]), 0.05).unwrap();
        assert!((low - (10.0 - 6.084_870)).abs() < 1e-5 && (high - (10.0 + 6.084_870)).abs() < 1e-5, "{low} {high}");
    }

    /// Calculated by hand: the speed of a machine changes by a tenth between periods. Iterations of 100 with hardly any
    /// variation then give the mean only to within a tenth.
    #[test]
    fn what_a_machine_drifts_by_makes_intervals_wider() {
        let (before, after) = ([100.0, 100.1, 99.9, 100.0], [108.0, 108.1, 107.9, 108.0]);
        let drift = Some(RecordingDrift { square: 0.01, freedom: 8.0 });
        let with = |values: &[f64]| MeasureSample::of_iterations(values.to_vec(), drift).unwrap();
        assert!(of_values(&before, &after).unwrap()[0] > 7.0);
        let [low, high] = welch(&with(&before), &with(&after), 0.05).unwrap();
        // The root of 100 + 116.6 is 14.72, and t with 16 degrees of freedom is 2.12.
        assert!((high - low) / 2.0 > 31.0 && (high - low) / 2.0 < 31.4, "{low} {high}");
    }

    /// Two runs without any difference, in which each iteration is correlated with the one before: 95 % intervals
    /// contain 0 in 95 of 100 cases.
    #[test]
    fn intervals_hold_as_often_as_they_say_where_neighbours_are_alike() {
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        // The sum of twelve uniform draws is nearly normal.
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        for kept in [0.0, 0.3, 0.6] {
            let mut run = || -> Vec<f64> {
                let mut at = 0.0;
                let mut next = || {
                    at = kept * at + normal();
                    at
                };
                (0..50).for_each(|_| _ = next());
                (0..20).map(|_| next()).collect()
            };
            let holds = (0..2000)
                .filter(|_| matches!(of_values(&run(), &run()), Some([low, high]) if low <= 0.0 && high >= 0.0));
            let share = holds.count() as f64 / 2000.0;
            assert!((0.935..=0.985).contains(&share), "{kept}: {share}");
        }
    }
}
