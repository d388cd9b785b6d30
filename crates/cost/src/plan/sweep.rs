//! Lists a sweep as tests in the published order, and as configurations in the order in which they run.

use crate::records::{MeasurementIdentity, Variant};
use perf4sight_step::workload::{Step, Variable, Workload};
use std::fmt;

/// The settings of one network's sweep, which measures every combination of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sweep {
    /// Latency, memory, layers.
    pub variables: Vec<Variable>,
    /// Samples per step, ascending or not.
    pub batches: Vec<u64>,
    /// The steps: training, inference or both.
    pub steps: Vec<Step>,
    /// The network at its levels.
    pub variants: Vec<Variant>,
}

/// One variable of one configuration; one column of lists in a test configuration.
pub type Test = MeasurementIdentity;

/// The work of one worker: all requested variables of a variant at one stage and batch size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// The network at its level.
    pub variant: Variant,
    /// Stage and batch size.
    pub workload: Workload,
    /// The measured variables, without repeats, in the order of [`Variable::ALL`].
    pub variables: Vec<Variable>,
    /// The number of this repetition, from 1 on.
    pub round: u32,
}

impl Sweep {
    /// The tests in the published order: by variable, then batch size, then stage; the variant varies fastest.
    ///
    /// (The published order also has data set and network, before the stage; a sweep has one of each.)
    pub fn tests(&self) -> Vec<Test> {
        let mut tests = Vec::new();
        for &variable in &self.variables {
            for &batch in &self.batches {
                for &step in &self.steps {
                    let workload = Workload { step, batch };
                    tests.extend(self.variants.iter().cloned().map(|variant| Test { variant, workload, variable }));
                }
            }
        }
        tests
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} bs {}", self.variant, self.workload.step, self.workload.batch)
    }
}

/// Tests in the order in which they first run: by variant and step in the order of their first test, then by ascending
/// batch size.
///
/// They are grouped by variant because a failure at one batch size makes the larger ones unnecessary. The published
/// order measures all variants before the second batch size, so it would find the failures too late.
pub fn regroup(tests: &[Test]) -> Vec<Configuration> {
    let mut variants: Vec<&Variant> = Vec::new();
    let mut steps: Vec<Step> = Vec::new();
    for test in tests {
        if !variants.contains(&&test.variant) {
            variants.push(&test.variant);
        }
        if !steps.contains(&test.workload.step) {
            steps.push(test.workload.step);
        }
    }
    let groups = variants.iter().flat_map(|&variant| steps.iter().map(move |&step| (variant, step)));
    groups.flat_map(|(variant, step)| group(tests, variant, step)).collect()
}

fn group(tests: &[Test], variant: &Variant, step: Step) -> Vec<Configuration> {
    let tests: Vec<&Test> =
        tests.iter().filter(|test| test.variant == *variant && test.workload.step == step).collect();
    let mut batches: Vec<u64> = tests.iter().map(|test| test.workload.batch).collect();
    batches.sort_unstable();
    batches.dedup();
    let asked = |batch, variable| tests.iter().any(|test| test.workload.batch == batch && test.variable == variable);
    let configuration = |batch| Configuration {
        variant: variant.clone(),
        workload: Workload { step, batch },
        variables: Variable::ALL.into_iter().filter(|&variable| asked(batch, variable)).collect(),
        round: 1,
    };
    batches.into_iter().map(configuration).collect()
}
