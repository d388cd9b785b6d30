//! Measures the overhead of recording: iterations with the profiler compared with those without it.

use crate::change::ChangedIterations;
use crate::doubts;
use crate::long_iterations::LongIterations;
use crate::ordinary::OrdinaryIterations;
use crate::recording::{PeriodTimes, Recording};
use crate::warm_up::WarmUp;
use perf4sight_base::stats::mean;
use perf4sight_base::summary::{MISSES, ValueSummary, quantile};
use std::iter;

/// The overhead of recording per iteration of a script.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordingOverhead {
    /// Mean nanoseconds of an iteration without the profiler, by wall-clock time.
    pub plain: f64,
    /// Mean nanoseconds of an iteration with the profiler, by wall-clock time.
    pub recorded: f64,
    /// The mean of all iterations without the profiler, by wall-clock time, including the [long ones](RecordingOverhead::long) that are excluded from
    /// the other numbers: what a run of many iterations takes for each.
    pub measured: WithoutRecording,
    /// Nanoseconds that recording adds, by [`RecordingOverhead::clock`].
    pub added: f64,
    /// The 95 % confidence interval of [`RecordingOverhead::added`].
    pub interval: [f64; 2],
    /// The clock that `added` is measured with.
    pub clock: OverheadClock,
    /// Mean nanoseconds of an iteration without and with the profiler, by [`RecordingOverhead::clock`].
    pub by_clock: [f64; 2],
    /// For a script that waits, nanoseconds of processor time that recording adds: what works takes no longer than that. None for
    /// other scripts, or if processor time was not measured.
    pub work: Option<ProcessorWork>,
    /// Calibration error: one half of the plain iterations gives the correction, which is applied to the recorded
    /// iterations and compared with the mean of the other half, in percent; the larger of both directions. If recorded
    /// and plain iterations [contradict each other](RecordingOverhead::contradiction), the difference without a correction. None
    /// if there are too few iterations.
    pub off: Option<f64>,
    /// Whether each recorded iteration counts for these numbers: all do except the warm-up and those that took much
    /// longer than their neighbours.
    pub ordinary: Vec<bool>,
    /// The shortest and the longest iteration without the profiler by wall-clock time, if some recorded one is between them: by chance a few
    /// recorded ones may then take less. None if recorded and plain iterations have no time in common.
    pub varies: Option<[f64; 2]>,
    /// None if no iteration took much longer than its neighbours.
    pub long: Option<LongIterations>,
    /// None if iterations took as long at the end as at the beginning.
    pub changed: Option<ChangedIterations>,
    /// Reasons to doubt these numbers, in sentences.
    pub doubts: Vec<String>,
}

/// The processor time that recording adds to an iteration, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProcessorWork {
    /// The most likely value.
    pub added: f64,
    /// Its 95 % confidence interval.
    pub interval: [f64; 2],
}

/// The time of an iteration without the overhead of recording.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WithoutRecording {
    /// Mean nanoseconds.
    pub mean: f64,
    /// The 95 % confidence interval of the mean over many more iterations. It covers the uncertainty of the overhead
    /// and of the frequency of long iterations, and includes the interval of the iterations measured without recording
    /// if that differs; none if the overhead is unknown ([`crate::RecordingOverhead::either_way`]).
    pub interval: Option<[f64; 2]>,
}

impl WithoutRecording {
    /// The mean of several recordings. They may have the same error, so their common interval is no narrower.
    pub fn of_several(all: &[WithoutRecording]) -> Self {
        let of = |number: fn(&WithoutRecording) -> Option<f64>| {
            all.iter().map(number).collect::<Option<Vec<f64>>>().map(|numbers| mean(&numbers))
        };
        let ends = of(|one| Some(one.interval?[0])).zip(of(|one| Some(one.interval?[1])));
        let means: Vec<f64> = all.iter().map(|one| one.mean).collect();
        WithoutRecording { mean: mean(&means), interval: ends.map(<[f64; 2]>::from) }
    }

    /// Of iterations that changed while they were recorded, more of them may take what the first ones did or what the last ones did.
    fn covering(self, changed: Option<&ChangedIterations>) -> Self {
        let interval = changed.map_or(self.interval, |changed| self.interval.map(|ends| both(ends, changed.range())));
        WithoutRecording { interval, ..self }
    }

    /// A mean and its confidence interval, which is given relative to it.
    pub fn from_mean(mean: f64, either_way: Option<[f64; 2]>) -> Self {
        WithoutRecording { mean, interval: either_way.map(|ends| ends.map(|end| (mean + end).max(0.0))) }
    }
}

/// The clock that times are measured with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverheadClock {
    /// Time that passed, also while other programs ran.
    Wall,
    /// Processor time of the process. If a script keeps one processor busy, this equals the time of its iterations
    /// without the time that other programs take from them.
    Processor,
}

/// A script keeps one processor busy if the ratio of its processor time to wall-clock time is in this range. The two
/// clocks are read at different moments, so the ratio may be above 1.
const ONE_PROCESSOR: std::ops::Range<f64> = 0.95..1.05;
/// From this share of a plain iteration on, a difference is reported as a doubt. It is the accuracy required of
/// corrected iterations.
pub const DOUBTFUL: f64 = 0.05;
/// Recording cannot slow an iteration down by more than this factor: a loop of built-in functions of Python, the
/// shortest events recorded, takes three times as long (`docs/accuracy/recording.md`).
const MOST_TIMES: f64 = 20.0;
/// With fewer recorded periods, the spread between periods cannot be estimated.
const PERIODS: usize = 3;
/// Neighbouring differences share a plain period, of which each has one half. The variance of their mean is therefore
/// `(1 + 1) / n` times that of a period; independent differences, with `1 + 1/2`, would give a smaller one.
const SHARED: f64 = 4.0 / 3.0;

impl RecordingOverhead {
    /// The overhead measured by a recording; none if it has no iterations with the profiler, or none without. Recorded
    /// [warm-up](WarmUp) iterations are left out, as they are from the results.
    pub fn from_recording(recording: &Recording) -> Option<Self> {
        let durations: Vec<i64> = recording.wall.recorded.iter().flatten().map(|&time| time.cast_signed()).collect();
        let warm_up = WarmUp::find(&durations).iterations;
        let recording = &recording.after_warm_up(warm_up);
        let ordinary = OrdinaryIterations::find(&recording.wall);
        let times = ordinary.select(&recording.wall);
        let wall = AddedOverhead::estimate(&times).filter(|wall| wall.plain > 0.0)?;
        let by_processor = |processor: &PeriodTimes| {
            let times = ordinary.select(processor);
            let added = AddedOverhead::estimate(&times).filter(|added| added.plain > 0.0 && added.recorded > 0.0)?;
            Some((times, added))
        };
        let processor = recording.processor.as_ref().and_then(by_processor);
        let (clock, by_clock, added) = match &processor {
            Some((own, added)) if busy(&times, own).is_some_and(|busy| ONE_PROCESSOR.contains(&busy)) => {
                (OverheadClock::Processor, own, added)
            }
            Some(_) | None => (OverheadClock::Wall, &times, &wall),
        };
        let clocks = processor.as_ref().filter(|(_, processor)| doubts::clocks_differ(&wall, processor, clock));
        let interval = match clocks {
            Some((_, processor)) if clock == OverheadClock::Wall => both(wall.interval, processor.interval),
            Some(_) | None => added.interval,
        };
        let waiting =
            processor.as_ref().filter(|(own, _)| busy(&times, own).is_some_and(|busy| busy < ONE_PROCESSOR.start));
        let long = LongIterations::find(&recording.wall, &ordinary, &recording.settled);
        let changed = ChangedIterations::find(&recording.wall, &recording.settled);
        let doubts = [
            long.filter(doubts::weighs).map(|long| long.warning()),
            clocks.map(|(_, processor)| doubts::clocks(&wall, processor, clock)),
            added.ends.and_then(doubts::speed),
            recording.faults.as_ref().and_then(|faults| doubts::memory(&ordinary.select(faults), wall.plain)),
        ];
        let mut overhead = RecordingOverhead {
            plain: wall.plain,
            recorded: wall.recorded,
            measured: measured(&times.plain, long.as_ref())?.covering(changed.as_ref()),
            added: added.mean,
            interval,
            clock,
            by_clock: [added.plain, added.recorded],
            work: waiting.map(|(_, added)| ProcessorWork { added: added.mean, interval: added.interval }),
            off: None,
            varies: varies(&times),
            ordinary: iter::repeat_n(false, warm_up).chain(ordinary.recorded.concat()).collect(),
            long,
            changed,
            doubts: doubts.into_iter().flatten().collect(),
        };
        let together = overhead.contradiction().is_none();
        overhead.off =
            if together { calibration_error(&times, by_clock) } else { Some(overhead.percent_off(overhead.recorded)) };
        let unsure = [
            doubts::cost(&overhead).filter(|_| together),
            overhead.off.and_then(|off| doubts::correction_doubt(off, together)),
        ];
        overhead.doubts.extend(unsure.into_iter().flatten());
        Some(overhead)
    }

    /// Why recorded and plain iterations contradict each other, so that nothing may be subtracted; none if they do not. That recorded ones
    /// took less on the mean is no contradiction while some took as long as plain ones: iterations may vary by as much.
    pub fn contradiction(&self) -> Option<String> {
        let [low, high] = self.interval.map(|nanoseconds| self.percent(nanoseconds));
        if high < 0.0 && low < -100.0 * DOUBTFUL && self.varies.is_none() {
            return Some(format!("{}: they do not belong together", doubts::faster([low, high])));
        }
        (self.recorded > MOST_TIMES * self.plain).then(|| {
            format!(
                "recorded iterations took more than {MOST_TIMES} times as long as those without recording: they do not belong together, or \
                 recording hides what they are without it"
            )
        })
    }

    /// Nanoseconds of wall-clock time to subtract from the mean recorded iteration: the most likely overhead, or 0 if
    /// that is negative, because recording makes no script faster.
    pub fn subtracted(&self) -> f64 {
        if self.contradiction().is_some() { 0.0 } else { self.on_the_wall(self.added.max(0.0)) }
    }

    /// The part of [`RecordingOverhead::subtracted`] that is work, and its 95 % confidence interval: all of it, except for a script that waits,
    /// where it is at most the processor time that recording adds. The rest is waiting.
    pub fn worked(&self) -> (f64, [f64; 2]) {
        let taken = self.subtracted();
        match self.work {
            Some(work) => (taken.min(work.added.max(0.0)), work.interval.map(|end| end.max(0.0))),
            None => (taken, self.interval.map(|end| self.on_the_wall(end.max(0.0)))),
        }
    }

    /// Converts nanoseconds of a recorded iteration from [`RecordingOverhead::clock`] to wall-clock time. Other programs that
    /// use the processor stretch the overhead like the rest of the iteration.
    fn on_the_wall(&self, nanoseconds: f64) -> f64 {
        match self.clock {
            OverheadClock::Wall => nanoseconds,
            OverheadClock::Processor => nanoseconds * self.recorded / self.by_clock[1],
        }
    }

    /// The 95 % confidence interval of a corrected iteration, in nanoseconds relative to it. It follows from the
    /// interval of the overhead, and a corrected iteration is at most as long as recorded. None if the overhead is
    /// certainly negative, which has another cause. It does not cover how often long iterations occur
    /// ([`RecordingOverhead::long`]).
    pub fn either_way(&self) -> Option<[f64; 2]> {
        let [low, high] = self.interval.map(|nanoseconds| self.on_the_wall(nanoseconds.max(0.0)));
        let possible = self.interval[1] >= 0.0 && self.contradiction().is_none();
        possible.then(|| [self.subtracted() - high, self.subtracted() - low])
    }

    /// Nanoseconds by [`RecordingOverhead::clock`] as percent of a plain iteration by the same clock.
    pub fn percent(&self, nanoseconds: f64) -> f64 {
        100.0 * nanoseconds / self.by_clock[0]
    }

    /// Difference between an iteration of this wall-clock time in nanoseconds and a plain one, in percent of the
    /// plain one.
    pub fn percent_off(&self, nanoseconds: f64) -> f64 {
        100.0 * (nanoseconds / self.plain - 1.0)
    }
}

pub(crate) struct AddedOverhead {
    pub plain: f64,
    pub recorded: f64,
    pub mean: f64,
    interval: [f64; 2],
    /// Means of the first and the last plain period, if there are too few periods to estimate how the speed changed.
    ends: Option<[f64; 2]>,
}

impl AddedOverhead {
    fn estimate(times: &PeriodTimes) -> Option<Self> {
        let periods: Vec<[f64; 2]> = (0..times.recorded.len()).filter_map(|at| period(times, at)).collect();
        let added =
            ValueSummary::compute(&periods.iter().map(|[plain, recorded]| recorded - plain).collect::<Vec<_>>())?;
        let [plain, recorded] = [0, 1].map(|side| mean(&periods.iter().map(|period| period[side]).collect::<Vec<_>>()));
        let among = half_width(&added);
        let ends = ends(times).filter(|_| among.is_none());
        // The speed may change at any moment between two plain periods, so the recorded period between them may be as
        // fast as either.
        let unsure =
            among.unwrap_or_else(|| scatter(times) + ends.map_or(0.0, |[first, last]| (last - first).abs()) / 2.0);
        Some(AddedOverhead {
            plain,
            recorded,
            mean: added.mean,
            interval: [added.mean - unsure, added.mean + unsure],
            ends,
        })
    }
}

/// Half-width of the confidence interval of the mean difference between periods, assuming independent periods; none if
/// there are too few.
fn half_width(differences: &ValueSummary) -> Option<f64> {
    let count = differences.count as f64;
    let enough = differences.spread.filter(|_| differences.count >= PERIODS)?;
    Some(quantile(count - 1.0, MISSES)? * enough * (SHARED / count).sqrt())
}

/// The mean of the plain periods next to a recorded period, and the mean of that period; none if either is missing.
fn period(times: &PeriodTimes, at: usize) -> Option<[f64; 2]> {
    let recorded = average(times.recorded.get(at)?)?;
    let around: Vec<f64> = times.plain.iter().skip(at).take(2).filter_map(|plain| average(plain)).collect();
    (!around.is_empty()).then(|| [mean(&around), recorded])
}

/// The mean of times in nanoseconds; none of no times.
pub fn average(times: &[u64]) -> Option<f64> {
    (!times.is_empty()).then(|| mean(&floats(times)))
}

fn floats<'a>(times: impl IntoIterator<Item = &'a u64>) -> Vec<f64> {
    times.into_iter().map(|&time| time as f64).collect()
}

fn ends(times: &PeriodTimes) -> Option<[f64; 2]> {
    let means: Vec<f64> = times.plain.iter().filter_map(|plain| average(plain)).collect();
    match means.as_slice() {
        [first, .., last] => Some([*first, *last]),
        _ => None,
    }
}

/// Half-width of the confidence interval of the difference, assuming that the iterations of a period are independent.
fn scatter(times: &PeriodTimes) -> f64 {
    let half = |period: &Vec<u64>| {
        // A single value has no spread: its error may be as large as the value.
        let half = |summary: ValueSummary| summary.interval.map_or(summary.mean, |[low, high]| (high - low) / 2.0);
        ValueSummary::compute(&floats(period)).map(half)
    };
    let of_mean = |periods: &[Vec<u64>]| {
        let halves: Vec<f64> = periods.iter().filter_map(half).collect();
        halves.iter().fold(0.0, |sum: f64, half| sum.hypot(*half)) / halves.len().max(1) as f64
    };
    of_mean(&times.plain).hypot(of_mean(&times.recorded))
}

fn varies(times: &PeriodTimes) -> Option<[f64; 2]> {
    let plain = floats(times.plain.iter().flatten());
    let (least, most) = (plain.iter().copied().reduce(f64::min)?, plain.iter().copied().reduce(f64::max)?);
    let between = floats(times.recorded.iter().flatten()).into_iter().any(|time| (least..=most).contains(&time));
    between.then_some([least, most])
}

/// The number of processors that a script keeps busy.
fn busy(wall: &PeriodTimes, processor: &PeriodTimes) -> Option<f64> {
    let share = |(wall, processor): (&Vec<u64>, &Vec<u64>)| {
        let [wall, processor] = [wall, processor].map(|times| floats(times).iter().sum::<f64>());
        (wall > 0.0).then(|| processor / wall)
    };
    // Other programs make the ratio smaller, and nothing makes it larger.
    let shares = wall.plain.iter().zip(&processor.plain).filter_map(share);
    shares.reduce(f64::max)
}

/// The larger error, in percent, of calibrating with one half of the plain iterations and testing on the other.
fn calibration_error(wall: &PeriodTimes, by_clock: &PeriodTimes) -> Option<f64> {
    let recorded = ValueSummary::compute(&floats(wall.recorded.iter().flatten()))?.mean;
    let with_profiler = ValueSummary::compute(&floats(by_clock.recorded.iter().flatten()))?.mean;
    let (calibrations, truths) = (halves(by_clock)?, halves(wall)?);
    // The share of recording in a recorded iteration, by the calibration's clock.
    let share = |calibration: f64| (1.0 - calibration / with_profiler).max(0.0);
    let error = |calibration: f64, truth: f64| 100.0 * (recorded * (1.0 - share(calibration)) / truth - 1.0);
    let errors = [error(calibrations[0], truths[1]), error(calibrations[1], truths[0])];
    errors.into_iter().max_by(|a, b| a.abs().total_cmp(&b.abs()))
}

/// The means of two halves of the plain iterations with the same average moment: alternating periods, or with two
/// periods, the iterations next to the recorded ones and those further away.
fn halves(times: &PeriodTimes) -> Option<[f64; 2]> {
    let [first, second]: [Vec<&[u64]>; 2] = match times.plain.as_slice() {
        [before, after] => {
            let (far_before, near_before) = before.split_at(before.len() / 2);
            let (near_after, far_after) = after.split_at(after.len().div_ceil(2));
            [vec![near_before, near_after], vec![far_before, far_after]]
        }
        periods => {
            // Alternating, or first-second-second-first if their number is even: a steady change of speed affects both
            // halves alike.
            let half = |at: usize| if periods.len() % 2 == 1 { at % 2 } else { at.div_ceil(2) % 2 };
            [0, 1].map(|wanted| {
                (0..periods.len()).filter(|at| half(*at) == wanted).map(|at| periods[at].as_slice()).collect()
            })
        }
    };
    Some([average(&first.concat())?, average(&second.concat())?])
}

/// The smallest interval that contains both intervals.
pub fn both([low, high]: [f64; 2], [other_low, other_high]: [f64; 2]) -> [f64; 2] {
    [low.min(other_low), high.max(other_high)]
}

/// The mean of all iterations without the profiler and its 95 % confidence interval. That of ordinary ones follows from the spread between periods
/// (Student's t), or between iterations if there are too few periods; that of long ones from how often they occur. The two are independent.
fn measured(ordinary: &[Vec<u64>], long: Option<&LongIterations>) -> Option<WithoutRecording> {
    let of_all = ValueSummary::compute(&floats(ordinary.iter().flatten()))?;
    let means: Vec<f64> = ordinary.iter().filter_map(|period| average(period)).collect();
    let between = ValueSummary::compute(&means).filter(|between| between.count >= PERIODS);
    let half = between.and_then(|between| {
        let count = between.count as f64;
        Some(quantile(count - 1.0, MISSES)? * between.spread? / count.sqrt())
    });
    let half = half.or(of_all.interval.map(|[low, high]| (high - low) / 2.0));
    let (adds, [fewest, most]) = long.map_or((0.0, [0.0; 2]), |long| (long.adds, long.interval));
    let mean = of_all.mean + adds;
    let interval = half.map(|half| [(mean - half.hypot(adds - fewest)).max(0.0), mean + half.hypot(most - adds)]);
    Some(WithoutRecording { mean, interval })
}
