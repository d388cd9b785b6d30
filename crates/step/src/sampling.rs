//! When enough steps were timed, and which of them count: rules over samples, without a clock of their own.

use super::protocol::{LatencyReading, StepRule};
use perf4sight_base::stats;
use std::time::Duration;

/// Share of a step's processor time that others may take before the step counts as disturbed. A quiet 2-core machine takes 0-4 %,
/// one other busy process 12-60 %.
const TOLERATED_LOSS: f64 = 0.05;

/// Processor time of a process, as the operating system counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessorLoad {
    /// Processor time of all threads.
    pub processor: Duration,
    /// How often a thread that had more to do was taken off its processor.
    pub preemptions: u64,
    /// How long threads stood ready while others had the processor, where the kernel counts that.
    pub waited: Option<Duration>,
}

/// One timed step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedSample {
    /// From its beginning to its end.
    pub wall: Duration,
    /// The processor time of the process during it.
    pub load: ProcessorLoad,
}

impl ProcessorLoad {
    /// The increase since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: ProcessorLoad) -> ProcessorLoad {
        ProcessorLoad {
            processor: self.processor.saturating_sub(earlier.processor),
            preemptions: self.preemptions.saturating_sub(earlier.preemptions),
            waited: self.waited.zip(earlier.waited).map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

impl TimedSample {
    /// Whether something else used the processors during this step.
    ///
    /// OpenMP's threads spin while they wait for each other, so an undisturbed step is charged with its wall time once for every
    /// thread. What is missing was taken by others if a thread was preempted, but never more than threads stood waiting:
    /// stretches that only one thread can work on leave the others asleep.
    pub fn is_disturbed(&self, threads: usize) -> bool {
        let whole = self.wall.as_secs_f64() * threads as f64;
        let missing = (whole - self.load.processor.as_secs_f64()).max(0.0);
        let lost = self.load.waited.map_or(missing, |waited| missing.min(waited.as_secs_f64()));
        self.load.preemptions > 0 && lost > TOLERATED_LOSS * whole
    }
}

/// Share of the quickest step so far by which the next must undercut it for steps to count as still getting quicker.
const STILL_WARMING: f64 = 0.05;

/// Runs steps until they do not get quicker any more, at least two and for at most the rule's time limit: heaps build up, caches
/// and tuned kernels fill, clocks rise.
///
/// # Errors
/// The first error of `take`.
pub fn warm_up<E>(rule: &StepRule, mut take: impl FnMut() -> Result<TimedSample, E>) -> Result<(), E> {
    let mut quickest = take()?.wall;
    let mut spent = quickest;
    while spent.as_secs_f64() < rule.maximum_seconds {
        let wall = take()?.wall;
        if wall.as_secs_f64() > (1.0 - STILL_WARMING) * quickest.as_secs_f64() {
            break;
        }
        quickest = wall;
        spent += wall;
    }
    Ok(())
}

/// Takes samples until the rule is content and summarises them.
///
/// Disturbed samples are discarded and replaced. Where they go on for the rule's whole time limit before the minimum of clean ones
/// is there, patience ends: the median is then taken over all samples and marked.
///
/// # Errors
/// The first error of `take`.
pub fn time_steps<E>(
    rule: &StepRule,
    threads: usize,
    mut take: impl FnMut() -> Result<TimedSample, E>,
) -> Result<LatencyReading, E> {
    let mut clean = SortedTimes::default();
    let mut disturbed = SortedTimes::default();
    loop {
        let sample = take()?;
        let kind = if sample.is_disturbed(threads) { &mut disturbed } else { &mut clean };
        kind.add(sample.wall);
        if clean.meet_minimum(rule) {
            let (median, spread) = clean.median();
            if spread <= rule.spread || clean.total + disturbed.total >= rule.maximum_seconds {
                let (steps, discarded) = (clean.sorted.len(), disturbed.sorted.len());
                return Ok(LatencyReading { median, spread, steps, discarded, disturbed: false });
            }
        } else if disturbed.meet_minimum(rule) && disturbed.total >= rule.maximum_seconds {
            clean.sorted.iter().for_each(|&milliseconds| disturbed.insert(milliseconds));
            let (median, spread) = disturbed.median();
            return Ok(LatencyReading { median, spread, steps: disturbed.sorted.len(), discarded: 0, disturbed: true });
        }
    }
}

/// Steps timed in parts, in order.
#[derive(Debug, Default)]
pub struct LapSamples {
    clean: Vec<Vec<Duration>>,
    disturbed: Vec<Vec<Duration>>,
}

/// One part of a step, summarised over steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LapSummary {
    /// Mean over the middle half of the steps by their whole time. Times are skewed, so that medians of parts add up to less
    /// than the median of the whole: 2-4 % less was measured.
    pub milliseconds: f64,
    /// Half-width of the median's confidence interval relative to it.
    pub spread: f64,
}

impl LapSamples {
    /// Adds a step with as many parts as the others; `whole` decides whether it was disturbed.
    pub fn add(&mut self, whole: &TimedSample, threads: usize, laps: Vec<Duration>) {
        let kind = if whole.is_disturbed(threads) { &mut self.disturbed } else { &mut self.clean };
        kind.push(laps);
    }

    /// The parts in their order, the number of steps, and whether these include disturbed ones because clean ones were
    /// too few.
    pub fn summary(mut self, rule: &StepRule) -> (Vec<LapSummary>, usize, bool) {
        let disturbed = self.clean.len() < rule.minimum && !self.disturbed.is_empty();
        if disturbed {
            self.clean.append(&mut self.disturbed);
        }
        self.clean.sort_by_key(|laps| laps.iter().sum::<Duration>());
        let quarter = self.clean.len() / 4;
        let middle = &self.clean[quarter..self.clean.len() - quarter];
        let parts = self.clean.first().map_or(0, Vec::len);
        let summary = |part: usize| {
            let mut samples = SortedTimes::default();
            self.clean.iter().for_each(|step| samples.add(step[part]));
            let sum: Duration = middle.iter().map(|step| step[part]).sum();
            let milliseconds = sum.as_secs_f64() * 1e3 / middle.len() as f64;
            LapSummary { milliseconds, spread: samples.median().1 }
        };
        ((0..parts).map(summary).collect(), self.clean.len(), disturbed)
    }
}

/// Wall times, sorted.
#[derive(Default)]
struct SortedTimes {
    sorted: Vec<f64>,
    total: f64,
}

impl SortedTimes {
    fn add(&mut self, wall: Duration) {
        self.total += wall.as_secs_f64();
        self.insert(wall.as_secs_f64() * 1e3);
    }

    fn insert(&mut self, milliseconds: f64) {
        let place = self.sorted.partition_point(|&other| other < milliseconds);
        self.sorted.insert(place, milliseconds);
    }

    fn meet_minimum(&self, rule: &StepRule) -> bool {
        self.sorted.len() >= rule.minimum.max(1) && self.total >= rule.minimum_seconds
    }

    /// The median and the half-width of its 95 % confidence interval relative to it.
    ///
    /// The interval is bounded by two order statistics, so it assumes nothing about how times are distributed (Conover,
    /// Practical Nonparametric Statistics, 3.2). Below six samples no pair reaches 95 %, and the whole range is used
    /// instead.
    fn median(&self) -> (f64, f64) {
        let count = self.sorted.len();
        let median = stats::median(&self.sorted);
        let rank = (count as f64 / 2.0 - 0.98 * (count as f64).sqrt()).round().max(1.0) as usize;
        let half_width = (self.sorted[count - rank] - self.sorted[rank - 1]) / 2.0;
        (median, if median > 0.0 { half_width / median } else { 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    const RULE: StepRule = StepRule { minimum: 3, minimum_seconds: 0.5, spread: 0.02, maximum_seconds: 2.0 };

    /// A step of so many milliseconds on two processors; other programs took a share of them.
    fn sample(milliseconds: u64, taken: f64) -> TimedSample {
        let wall = Duration::from_millis(milliseconds);
        let waited = wall.mul_f64(2.0 * taken);
        let load =
            ProcessorLoad { processor: wall * 2 - waited, preemptions: (taken > 0.0).into(), waited: Some(waited) };
        TimedSample { wall, load }
    }

    fn time(samples: impl IntoIterator<Item = TimedSample>) -> LatencyReading {
        let mut samples = samples.into_iter();
        time_steps::<Infallible>(&RULE, 2, || Ok(samples.next().expect("the rule asked for more samples"))).unwrap()
    }

    #[test]
    fn steady_steps_stop_at_the_minimum_of_time_or_count() {
        let fast = time(std::iter::repeat(sample(10, 0.0)));
        assert_eq!((fast.steps, fast.median, fast.spread), (50, 10.0, 0.0));
        let slow = time(std::iter::repeat(sample(900, 0.0)));
        assert_eq!((slow.steps, slow.median), (3, 900.0));
    }

    #[test]
    fn warming_up_ends_when_steps_get_no_quicker() {
        let steps = |milliseconds: &[u64]| {
            let mut left = milliseconds.iter().map(|&ms| sample(ms, 0.0));
            warm_up::<Infallible>(&RULE, || Ok(left.next().expect("a step more than expected"))).unwrap();
            milliseconds.len() - left.len()
        };
        assert_eq!(steps(&[100, 100, 100]), 2);
        assert_eq!(steps(&[300, 200, 150, 144, 100]), 4, "144 is less than 5 % below 150");
        assert_eq!(steps(&[900, 800, 700, 600]), 3, "the limit of 2 s");
    }

    #[test]
    fn uncertain_medians_ask_for_more_until_time_is_up() {
        // Alternating 100 and 120 ms: the median's interval never gets narrower than that, so 2 s decide.
        let reading = time((0..).map(|i| sample(if i % 2 == 0 { 100 } else { 120 }, 0.0)));
        assert_eq!((reading.steps, reading.median), (19, 100.0));
        assert!((reading.spread - 0.1).abs() < 1e-12 && !reading.disturbed);
    }

    #[test]
    fn disturbed_steps_are_replaced() {
        let burst = std::iter::repeat_n(sample(300, 0.4), 4);
        let reading = time(burst.chain(std::iter::repeat_n(sample(200, 0.0), 3)));
        assert_eq!((reading.steps, reading.median, reading.discarded, reading.disturbed), (3, 200.0, 4, false));
    }

    #[test]
    fn lasting_disturbance_ends_patience_and_is_marked() {
        let reading = time([200, 300, 400, 500, 600].map(|ms| sample(ms, if ms == 200 { 0.0 } else { 0.4 })).repeat(2));
        // 2 s of disturbed steps are reached with the tenth sample but one: 300 400 500 600 and 300.
        assert_eq!((reading.steps, reading.discarded, reading.disturbed), (7, 0, true));
        assert_eq!(reading.median, 300.0);
    }

    #[test]
    fn parts_of_disturbed_steps_count_only_when_there_are_too_few_others() {
        let laps = |ms: [u64; 2]| ms.map(Duration::from_millis).to_vec();
        let mut samples = LapSamples::default();
        for ms in [[1, 10], [2, 30], [9, 20]] {
            samples.add(&sample(40, 0.0), 2, laps(ms));
        }
        samples.add(&sample(900, 0.4), 2, laps([400, 500]));
        let (parts, steps, disturbed) = samples.summary(&RULE);
        // Means of three; below six samples the range is used as the interval: (9 - 1) / 2 = 4 and (30 - 10) / 2 = 10
        // over the medians 2 and 20.
        let expected = [(4.0, 2.0), (20.0, 0.5)].map(|(milliseconds, spread)| LapSummary { milliseconds, spread });
        assert_eq!((parts.as_slice(), steps, disturbed), (expected.as_slice(), 3, false));

        let mut few = LapSamples::default();
        few.add(&sample(40, 0.0), 2, laps([1, 10]));
        few.add(&sample(900, 0.4), 2, laps([3, 20]));
        let (parts, steps, disturbed) = few.summary(&RULE);
        assert_eq!((parts[0].milliseconds, steps, disturbed), (2.0, 2, true));
    }

    #[test]
    fn only_time_that_others_took_counts_as_disturbance() {
        let serial =
            ProcessorLoad { processor: Duration::from_millis(60), preemptions: 3, waited: Some(Duration::ZERO) };
        let step = |load| TimedSample { wall: Duration::from_millis(50), load };
        assert!(!step(serial).is_disturbed(2), "one thread slept, nobody waited");
        assert!(step(ProcessorLoad { waited: None, ..serial }).is_disturbed(2), "a kernel that does not count waiting");
        assert!(
            !step(ProcessorLoad { waited: None, preemptions: 0, ..serial }).is_disturbed(2),
            "nobody was preempted"
        );
    }

    #[test]
    fn the_interval_has_the_ranks_of_the_binomial_distribution() {
        // Ranks k with P(Binomial(n, 1/2) < k) <= 2.5 % < P(Binomial(n, 1/2) < k + 1), from tables.
        for (count, rank) in [(6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (15, 4), (20, 6), (100, 40)] {
            let samples = SortedTimes { sorted: (1..=count).map(f64::from).collect(), total: 0.0 };
            let half_width = (f64::from(count) + 1.0) / 2.0 - f64::from(rank);
            let (median, spread) = samples.median();
            assert!((spread * median - half_width).abs() < 1e-9, "{count} samples");
        }
    }
}
