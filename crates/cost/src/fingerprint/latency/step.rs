//! One step: the time of its kernels, and the time to launch them.

use super::parts::StepParts;
use super::term::{ParameterValues, TimeTerm, TimeTerms, combine};
use super::terms::DeviceRules;
use crate::features::physical::{Kernel, KernelPass};
use perf4sight_platform::SpeedParameter;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LaunchCounts {
    operations: f64,
    updates: f64,
}

impl LaunchCounts {
    pub(super) fn count<'a>(kernels: impl Iterator<Item = &'a Kernel>) -> Self {
        let mut launches = LaunchCounts::default();
        for kernel in kernels {
            match kernel.pass {
                KernelPass::Update => launches.updates += kernel.launches,
                KernelPass::Forward
                | KernelPass::InputGradient
                | KernelPass::WeightGradient
                | KernelPass::Loss
                | KernelPass::Fork => {
                    launches.operations += kernel.launches;
                }
            }
        }
        launches
    }

    /// Milliseconds of the launches, given the parameters.
    pub(super) fn time(self, values: impl Fn(SpeedParameter) -> f64) -> f64 {
        self.operations * values(SpeedParameter::Launch) + self.updates * values(SpeedParameter::UpdateLaunch)
    }
}

/// Combined time of kernels and launches: their sum where `overlap` is 1, close to the longer of the two where it is
/// large.
pub(super) fn combined_time(work: f64, launching: f64, overlap: f64) -> f64 {
    if overlap == 1.0 {
        // A fast path for most devices: the same result without three powers.
        return work + launching;
    }
    (work.powf(overlap) + launching.powf(overlap)).powf(1.0 / overlap)
}

/// The time of one step of one network at one batch size, as a function of the parameters.
#[derive(Debug, Clone)]
pub(super) struct StepTime {
    terms: TimeTerms,
    launches: LaunchCounts,
    overlap: f64,
    whole: bool,
}

impl StepTime {
    pub(super) fn new(rules: DeviceRules, parts: &StepParts, batch: f64) -> Self {
        let mut terms = TimeTerms::default();
        for kind in &parts.kinds {
            let own: Vec<TimeTerm> =
                kind.kernels.iter().flat_map(|kernel| rules.terms(kernel, batch)).flatten().collect();
            terms.push_all(&own, kind.parts.len());
        }
        StepTime { terms, launches: LaunchCounts::count(parts.kernels()), overlap: rules.speed.overlap, whole: true }
    }

    /// The time of some of a step's kernels in isolation.
    pub(super) fn isolated<'a>(
        rules: DeviceRules,
        kernels: impl Iterator<Item = &'a Kernel> + Clone,
        batch: f64,
    ) -> Self {
        let mut terms = TimeTerms::default();
        kernels.clone().flat_map(|kernel| rules.terms(kernel, batch)).flatten().for_each(|term| terms.push(term));
        StepTime { terms, launches: LaunchCounts::count(kernels), overlap: rules.speed.overlap, whole: false }
    }

    /// Milliseconds on several devices at once, given the parameters of each.
    pub(super) fn times<const N: usize>(&self, values: impl Fn(SpeedParameter) -> [f64; N]) -> [f64; N] {
        let mut works = [0.0; N];
        self.terms.iter().for_each(|term| combine(&mut works, term.evaluate(&values), |sum, work| sum + work));
        std::array::from_fn(|device| {
            let [work, launching, step] = self.time_components(|parameter| values(parameter)[device], works[device]);
            combined_time(work, launching, self.overlap) + step
        })
    }

    /// Milliseconds of the work at the device's pace, of the launches, and of the time that no kernel owns.
    fn time_components(&self, values: impl Fn(SpeedParameter) -> f64, work: f64) -> [f64; 3] {
        let (pace, step) = (values(SpeedParameter::Pace), values(SpeedParameter::Step));
        [work * pace, self.launches.time(values), if self.whole { step } else { 0.0 }]
    }

    /// Milliseconds, and their derivatives by the logarithms of the parameters.
    pub(super) fn slopes(&self, values: &ParameterValues) -> (f64, ParameterValues) {
        let (mut work, mut slopes) = (0.0, [0.0; _]);
        self.terms.iter().for_each(|term| term.add_to(values, &mut work, &mut slopes));
        let [work, launching, step] = self.time_components(|parameter| values[parameter as usize], work);
        let total = combined_time(work, launching, self.overlap);
        // d (a^p + b^p)^(1/p) = (a / total)^(p - 1) da + (b / total)^(p - 1) db
        let [of_work, of_launching] = [work, launching].map(|side| (side / total).powf(self.overlap - 1.0));
        slopes.iter_mut().for_each(|slope| *slope *= values[SpeedParameter::Pace as usize] * of_work);
        let mut add = |parameter: SpeedParameter, slope: f64| slopes[parameter as usize] += slope;
        add(SpeedParameter::Pace, work * of_work);
        add(SpeedParameter::Launch, of_launching * self.launches.operations * values[SpeedParameter::Launch as usize]);
        add(
            SpeedParameter::UpdateLaunch,
            of_launching * self.launches.updates * values[SpeedParameter::UpdateLaunch as usize],
        );
        add(SpeedParameter::Step, step);
        (total + step, slopes)
    }
}
