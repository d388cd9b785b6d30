//! One step: the time of its kernels, and the time to launch them.

use super::parts::Parts;
use super::term::{Term, Terms, Values, each};
use super::terms::Rules;
use crate::features::physical::{Kernel, Pass};
use perf4sight_platform::Parameter;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Launches {
    operations: f64,
    updates: f64,
}

impl Launches {
    pub(super) fn of<'a>(kernels: impl Iterator<Item = &'a Kernel>) -> Self {
        let mut launches = Launches::default();
        for kernel in kernels {
            match kernel.pass {
                Pass::Update => launches.updates += kernel.launches,
                Pass::Forward | Pass::InputGradient | Pass::WeightGradient | Pass::Loss | Pass::Fork => {
                    launches.operations += kernel.launches;
                }
            }
        }
        launches
    }

    /// Milliseconds of the launches, given the parameters.
    pub(super) fn time(self, values: impl Fn(Parameter) -> f64) -> f64 {
        self.operations * values(Parameter::Launch) + self.updates * values(Parameter::UpdateLaunch)
    }
}

/// Combined time of kernels and launches: their sum where `overlap` is 1, close to the longer of the two where it is
/// large.
pub(super) fn together(work: f64, launching: f64, overlap: f64) -> f64 {
    if overlap == 1.0 {
        // A fast path for most devices: the same result without three powers.
        return work + launching;
    }
    (work.powf(overlap) + launching.powf(overlap)).powf(1.0 / overlap)
}

/// The time of one step of one network at one batch size, as a function of the parameters.
#[derive(Debug, Clone)]
pub(super) struct StepTime {
    terms: Terms,
    launches: Launches,
    overlap: f64,
    whole: bool,
}

impl StepTime {
    pub(super) fn new(rules: Rules, parts: &Parts, batch: f64) -> Self {
        let mut terms = Terms::default();
        for kind in &parts.kinds {
            let own: Vec<Term> = kind.kernels.iter().flat_map(|kernel| rules.terms(kernel, batch)).flatten().collect();
            terms.push_all(&own, kind.parts.len());
        }
        StepTime { terms, launches: Launches::of(parts.kernels()), overlap: rules.speed.overlap, whole: true }
    }

    /// The time of some of a step's kernels in isolation.
    pub(super) fn part<'a>(rules: Rules, kernels: impl Iterator<Item = &'a Kernel> + Clone, batch: f64) -> Self {
        let mut terms = Terms::default();
        kernels.clone().flat_map(|kernel| rules.terms(kernel, batch)).flatten().for_each(|term| terms.push(term));
        StepTime { terms, launches: Launches::of(kernels), overlap: rules.speed.overlap, whole: false }
    }

    /// Milliseconds on several devices at once, given the parameters of each.
    pub(super) fn times<const N: usize>(&self, values: impl Fn(Parameter) -> [f64; N]) -> [f64; N] {
        let mut works = [0.0; N];
        self.terms.iter().for_each(|term| each(&mut works, term.of(&values), |sum, work| sum + work));
        std::array::from_fn(|device| {
            let [work, launching, step] = self.sides(|parameter| values(parameter)[device], works[device]);
            together(work, launching, self.overlap) + step
        })
    }

    /// Milliseconds of the work at the device's pace, of the launches, and of the time that no kernel owns.
    fn sides(&self, values: impl Fn(Parameter) -> f64, work: f64) -> [f64; 3] {
        let (pace, step) = (values(Parameter::Pace), values(Parameter::Step));
        [work * pace, self.launches.time(values), if self.whole { step } else { 0.0 }]
    }

    /// Milliseconds, and their derivatives by the logarithms of the parameters.
    pub(super) fn slopes(&self, values: &Values) -> (f64, Values) {
        let (mut work, mut slopes) = (0.0, [0.0; _]);
        self.terms.iter().for_each(|term| term.add_to(values, &mut work, &mut slopes));
        let [work, launching, step] = self.sides(|parameter| values[parameter as usize], work);
        let total = together(work, launching, self.overlap);
        // d (a^p + b^p)^(1/p) = (a / total)^(p - 1) da + (b / total)^(p - 1) db
        let [of_work, of_launching] = [work, launching].map(|side| (side / total).powf(self.overlap - 1.0));
        slopes.iter_mut().for_each(|slope| *slope *= values[Parameter::Pace as usize] * of_work);
        let mut add = |parameter: Parameter, slope: f64| slopes[parameter as usize] += slope;
        add(Parameter::Pace, work * of_work);
        add(Parameter::Launch, of_launching * self.launches.operations * values[Parameter::Launch as usize]);
        add(Parameter::UpdateLaunch, of_launching * self.launches.updates * values[Parameter::UpdateLaunch as usize]);
        add(Parameter::Step, step);
        (total + step, slopes)
    }
}
