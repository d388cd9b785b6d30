//! Two runs side by side: what changed, and whether iterations of one run differ by as much anyway.

use crate::breakdown::{Breakdown, Iteration};
use crate::metrics::Metric;
use crate::state::Class;
use crate::summary::{Summary, independent, quantile};

/// A number of an iteration that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Measure {
    /// Nanoseconds of one set.
    Set {
        /// Who has the word.
        class: Class,
        /// What the GPU does meanwhile.
        gpu_busy: bool,
    },
    /// A published metric, in its unit.
    Metric(Metric),
}

/// A number before and after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Which.
    pub of: Measure,
    /// Of the run that was first.
    pub before: Summary,
    /// Of the one that it is compared with.
    pub after: Summary,
    /// The mean after without the mean before.
    pub change: f64,
    /// Where the change would lie over many more iterations of the two; the intervals of all numbers of a comparison hold together with
    /// a probability of 95 % at least. None where a run has a single iteration.
    pub interval: Option<[f64; 2]>,
}

/// Which way a number went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is less.
    Less,
    /// It is more.
    More,
    /// No difference that could be told from noise.
    Noise,
}

/// What changed from one run to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Every number that both runs tell.
    pub differences: Vec<Difference>,
}

/// The probability that any interval of a comparison misses.
const MISSES: f64 = 0.05;

impl Measure {
    /// All of them: the sets, then the metrics.
    pub fn all() -> impl Iterator<Item = Self> {
        let sets =
            Class::ALL.into_iter().flat_map(|class| [true, false].map(|gpu_busy| Measure::Set { class, gpu_busy }));
        sets.chain(Metric::ALL.map(Measure::Metric))
    }

    /// Whether it means the same whether or not Python's calls are recorded, without which built-in functions are not, either.
    fn is_told_without_python(self) -> bool {
        match self {
            Measure::Set { class, .. } => class == Class::CudaApi,
            Measure::Metric(metric) => match metric {
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

    /// Its value in an iteration; none where the trace does not tell.
    pub fn of(self, iteration: &Iteration) -> Option<f64> {
        match self {
            Measure::Set { class, gpu_busy } => iteration.sets.get(class, gpu_busy).map(|time| time as f64),
            Measure::Metric(metric) => metric.of(&iteration.sets),
        }
    }
}

impl Comparison {
    /// Of two runs, by the iterations that count on all of each run's ranks.
    ///
    /// The intervals are Welch's (Biometrika 34, 1947), with fewer values than there are where neighbouring iterations are alike: of `n`
    /// with a correlation `r` of neighbours, `n (1 - r) / (1 + r)` count (Zwiers and von Storch, Journal of Climate 8, 1995; `r` without its bias, Kendall, Biometrika 41, 1954). They are so
    /// wide that all hold together (Bonferroni), for among twenty numbers one or the other strays. Where Python's calls are recorded of one
    /// run only, what rests on them is left out.
    pub fn of(before: &Breakdown, after: &Breakdown) -> Self {
        let both = |measure: Measure| {
            let values = |run: &Breakdown| run.values(|iteration| measure.of(iteration));
            Some((measure, values(before)?, values(after)?))
        };
        let alike = has_python(before) == has_python(after);
        let measures = Measure::all().filter(|measure| alike || measure.is_told_without_python());
        let told: Vec<(Measure, Vec<f64>, Vec<f64>)> = measures.filter_map(both).collect();
        let misses = MISSES / told.len() as f64;
        let difference = |(of, before, after): &(Measure, Vec<f64>, Vec<f64>)| {
            let interval = welch(before, after, misses);
            let (before, after) = (Summary::of(before)?, Summary::of(after)?);
            Some(Difference { of: *of, before, after, change: after.mean - before.mean, interval })
        };
        Comparison { differences: told.iter().filter_map(difference).collect() }
    }

    /// Whether a GPU is ever busy in either run.
    pub fn has_gpu(&self) -> bool {
        let busy = self.get(Measure::Metric(Metric::GPUTimeSec));
        busy.is_some_and(|busy| busy.before.mean > 0.0 || busy.after.mean > 0.0)
    }

    /// How a number changed; none where one of the runs does not tell it.
    pub fn get(&self, measure: Measure) -> Option<&Difference> {
        self.differences.iter().find(|difference| difference.of == measure)
    }
}

/// Whether Python's calls are recorded on all ranks.
fn has_python(run: &Breakdown) -> bool {
    run.ranks.iter().flat_map(|rank| &rank.iterations).all(|iteration| iteration.sets.python_recorded)
}

impl Difference {
    /// Which way the number went.
    pub fn verdict(&self) -> Verdict {
        match self.interval {
            Some([low, _]) if low > 0.0 => Verdict::More,
            Some([_, high]) if high < 0.0 => Verdict::Less,
            _ => Verdict::Noise,
        }
    }

    /// The change in percent of what was before; none where that was nothing.
    pub fn percent(&self) -> Option<f64> {
        (self.before.mean != 0.0).then(|| 100.0 * self.change / self.before.mean)
    }
}

/// Where the mean of the values behind the second lies above that behind the first, but for so small a probability; none for a single
/// value.
fn welch(before: &[f64], after: &[f64], misses: f64) -> Option<[f64; 2]> {
    let [before, after] = [before, after].map(Spread::of);
    let (before, after) = (before?, after?);
    let change = after.mean - before.mean;
    let square = before.square + after.square;
    if square == 0.0 {
        return Some([change, change]);
    }
    let parts = [before, after].map(|spread| spread.square.powi(2) / (spread.count - 1.0));
    let half = quantile(square.powi(2) / parts.iter().sum::<f64>(), misses)? * square.sqrt();
    Some([change - half, change + half])
}

/// How sure a mean is.
#[derive(Clone, Copy)]
struct Spread {
    mean: f64,
    /// The square of its standard deviation.
    square: f64,
    /// As many values that do not depend on each other tell as much.
    count: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Option<Self> {
        let Summary { mean, spread, .. } = Summary::of(values)?;
        let count = independent(values, mean);
        Some(Spread { mean, square: spread?.powi(2) / count, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference is `scipy.stats.ttest_ind(after, before, equal_var=False).confidence_interval()`; neighbours are no more alike than others.
    #[test]
    fn an_interval_is_welchs() {
        let before = [10.0, 12.0, 10.0, 12.0, 10.5, 12.5];
        let after = [15.0, 13.0, 16.0, 13.0, 15.5, 14.0];
        let [low, high] = welch(&before, &after, 0.05).unwrap();
        assert!((low - 1.695_222_268_9).abs() < 1e-6 && (high - 4.804_777_731_1).abs() < 1e-6, "{low} {high}");
        assert_eq!(welch(&[1.0], &after, 0.05), None);
        assert_eq!(welch(&[1.0, 1.0], &[3.0, 3.0], 0.05), Some([2.0, 2.0]));
    }

    /// Two runs without any difference, in which each iteration keeps part of the one before: intervals of 95 % hold 95 in 100 times.
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
                .filter(|_| matches!(welch(&run(), &run(), 0.05), Some([low, high]) if low <= 0.0 && high >= 0.0));
            let share = holds.count() as f64 / 2000.0;
            assert!((0.935..=0.985).contains(&share), "{kept}: {share}");
        }
    }
}
