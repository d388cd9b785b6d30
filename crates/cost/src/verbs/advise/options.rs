//! The options that may save memory, with their alternative values, and whether training gives the same result with
//! them.

use super::judge::WorkloadJudge;
use perf4sight_base::error::Error;
use perf4sight_network::{Network, Op};
use perf4sight_step::workload::{
    Accumulate, Checkpoint, FrozenNormalisation, Optimizer, Precision, Setting, Step, Trainable, Workload, ZeroGrad,
};
use std::ops::Range;

/// One part of a workload and its alternative values.
#[derive(Debug, Clone)]
pub(super) struct StepOption {
    /// None means the batch size.
    pub setting: Option<Setting>,
    /// The requested workload, with another value of this part.
    pub values: Vec<Workload>,
    /// This many of the first values are combined with other options; the time of steps with the others is unknown.
    pub timed: usize,
    /// Whether training gives the same result with other values.
    pub learns_the_same: bool,
}

/// Changes that are not tried, or only one at a time, in words, with the reasons.
#[derive(Debug, Default)]
pub(super) struct WithheldChanges {
    pub refused: Vec<(String, Error)>,
    /// Tried one at a time: the time of steps with them is unknown.
    pub untimed: Vec<(String, Error)>,
}

impl WithheldChanges {
    pub fn join(parts: Vec<WithheldChanges>) -> Self {
        parts.into_iter().fold(WithheldChanges::default(), |mut all, part| {
            all.refused.extend(part.refused);
            all.untimed.extend(part.untimed);
            all
        })
    }
}

/// The number of operations at the end of a network that fine-tuning trains, as in the published comparisons of frozen
/// networks.
const LAST: u64 = 10;

/// The numbers of checkpoint segments to try: few segments rerun little, many keep little.
const SEGMENTS: [u64; 3] = [2, 4, 8];

impl StepOption {
    /// All options, in the order in which steps are written, the batch size last. Values that cannot save memory are
    /// left out.
    pub fn all(asked: Workload, network: &Network) -> Vec<StepOption> {
        let mut options: Vec<StepOption> =
            Setting::ALL.into_iter().map(|setting| StepOption::for_setting(setting, asked, network)).collect();
        let smaller = repeated_halves(asked.batch).filter(|batch| *batch >= asked.step.accumulate.passes());
        let values: Vec<Workload> = smaller.map(|batch| Workload { batch, ..asked }).collect();
        // Samples of inference do not meet.
        let learns_the_same = !asked.step.trains();
        options.push(StepOption { setting: None, timed: values.len(), values, learns_the_same });
        options
    }

    fn for_setting(setting: Setting, asked: Workload, network: &Network) -> Self {
        let step = asked.step;
        let steps = if step.trains() { others(setting, asked, network) } else { of_inference(setting, step) };
        let values = steps.into_iter().filter(|other| *other != step).map(|step| Workload { step, ..asked });
        let values: Vec<Workload> = values.collect();
        let learns_the_same = match setting {
            Setting::ZeroGrad | Setting::Checkpoint => true,
            // Batch normalisation computes its statistics over the samples of a pass.
            Setting::Accumulate => !normalises(network),
            Setting::Optimizer | Setting::Precision | Setting::Trainable | Setting::FrozenNormalisation => false,
            Setting::Loss => false,
        };
        StepOption { setting: Some(setting), timed: values.len(), values, learns_the_same }
    }

    /// The indices of values that are combined with other options.
    pub fn combined_values(&self) -> Range<usize> {
        0..self.timed
    }

    /// Whether each value needs no more memory than the one before.
    pub fn is_monotonic(&self) -> bool {
        self.setting.is_none_or(|setting| match setting {
            Setting::ZeroGrad | Setting::Accumulate => true,
            Setting::Checkpoint => false,
            Setting::Optimizer | Setting::Precision | Setting::Trainable | Setting::FrozenNormalisation => false,
            Setting::Loss => false,
        })
    }

    /// Removes values that are refused, and moves values whose time is unknown to the end; returns both with the
    /// reasons.
    pub fn withhold(&mut self, asked: Workload, judge: &WorkloadJudge) -> WithheldChanges {
        let words = |value: Workload| {
            let words = value.step.differences(asked.step).map(|(setting, word)| format!("{} = {word}", setting.key()));
            let batch = (value.batch != asked.batch).then(|| format!("batch = {}", value.batch));
            words.chain(batch).collect::<Vec<_>>().join(", ")
        };
        let (mut withheld, mut timed, mut untimed) = (WithheldChanges::default(), Vec::new(), Vec::new());
        for value in std::mem::take(&mut self.values) {
            match (judge.check(value), judge.check_time(value.step)) {
                (Err(problem), _) => withheld.refused.push((words(value), problem)),
                (Ok(()), Ok(())) => timed.push(value),
                (Ok(()), Err(problem)) => {
                    withheld.untimed.push((words(value), problem));
                    untimed.push(value);
                }
            }
        }
        self.timed = timed.len();
        self.values = [timed, untimed].concat();
        withheld
    }

    /// A workload with this part taken from another.
    pub fn apply(&self, workload: Workload, from: Workload) -> Workload {
        match self.setting {
            Some(setting) => Workload { step: workload.step.taking(setting, from.step), ..workload },
            None => Workload { batch: from.batch, ..workload },
        }
    }
}

fn others(setting: Setting, Workload { step, batch }: Workload, network: &Network) -> Vec<Step> {
    match setting {
        // An optimizer with as many states per weight saves nothing.
        Setting::Optimizer => {
            let fewer = Optimizer::ALL.into_iter().filter(|optimizer| optimizer.states() < step.optimizer.states());
            fewer.map(|optimizer| Step { optimizer, ..step }).collect()
        }
        // Kept gradients need at least as much memory as freed ones.
        Setting::ZeroGrad => vec![Step { zero_grad: ZeroGrad::Free, ..step }],
        Setting::Precision => Precision::ALL.map(|precision| Step { precision, ..step }).into(),
        // A part of an already restricted part is not defined.
        Setting::Trainable if step.trainable != Trainable::All => Vec::new(),
        Setting::Trainable => {
            let fewer = [Trainable::Last(LAST), Trainable::Classifier, Trainable::Normalisation, Trainable::Bias];
            let layers = network.nodes().iter().filter(|node| network.parameters_of(node) > 0).count() as u64;
            let fewer = fewer.into_iter().filter(|trainable| *trainable != Trainable::Last(LAST) || layers > LAST);
            fewer.map(|trainable| Step { trainable, ..step }).collect()
        }
        // Without frozen weights or batch normalisation the setting has no effect.
        Setting::FrozenNormalisation if step.trainable == Trainable::All || !normalises(network) => Vec::new(),
        Setting::FrozenNormalisation => vec![Step { frozen_normalisation: FrozenNormalisation::Eval, ..step }],
        Setting::Accumulate => {
            let passes = repeated_halves(batch).filter_map(|samples| Accumulate::new(batch / samples));
            let more = passes.filter(|passes| passes.passes() > step.accumulate.passes());
            more.map(|accumulate| Step { accumulate, ..step }).collect()
        }
        Setting::Checkpoint => {
            let segments = SEGMENTS.map(Checkpoint::Segments).into_iter().chain([Checkpoint::EveryBlock]);
            segments.map(|checkpoint| Step { checkpoint, ..step }).collect()
        }
        // The loss defines the training task, so it is not changed to save memory.
        Setting::Loss => Vec::new(),
    }
}

fn of_inference(setting: Setting, step: Step) -> Vec<Step> {
    match setting {
        Setting::Precision => Precision::ALL.map(|precision| Step { precision, ..step }).into(),
        Setting::Optimizer | Setting::ZeroGrad | Setting::Trainable => Vec::new(),
        Setting::FrozenNormalisation | Setting::Accumulate | Setting::Checkpoint | Setting::Loss => Vec::new(),
    }
}

/// Half of a number, half of that, and so on, down to one.
fn repeated_halves(number: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(number / 2), |half| Some(half / 2)).take_while(|half| *half > 0)
}

/// Whether the network has batch normalisation.
pub(super) fn normalises(network: &Network) -> bool {
    network.nodes().iter().any(|node| matches!(node.op, Op::BatchNorm { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_network::zoo::{Dataset, build};
    use perf4sight_step::workload::Stage;

    const CHECKPOINTS: [&str; 4] =
        ["checkpoint=2 segments", "checkpoint=4 segments", "checkpoint=8 segments", "checkpoint=every block"];

    fn all_values(asked: Workload) -> Vec<String> {
        let network = build("resnet18", Dataset::Imagenet).unwrap();
        let all = StepOption::all(asked, &network);
        let described = |option: &StepOption| -> Vec<String> {
            let batch = |value: &Workload| (value.batch != asked.batch).then(|| format!("batch={}", value.batch));
            let words = |value: &Workload| {
                value.step.differences(asked.step).map(|(key, word)| format!("{}={word}", key.key()))
            };
            option.values.iter().flat_map(|value| words(value).chain(batch(value)).collect::<Vec<_>>()).collect()
        };
        all.iter().flat_map(described).filter(|word| !word.starts_with("precision")).collect()
    }

    #[test]
    fn values_that_save_nothing_are_left_out() {
        let published = Step::published(Stage::Training);
        let frozen = ["trainable=last 10", "trainable=classifier", "trainable=normalisation", "trainable=bias"];
        let expected = ["optimizer=sgd_without_momentum", "zero_grad=free"].into_iter().chain(frozen);
        let expected =
            expected.chain(["accumulate=2", "accumulate=4"]).chain(CHECKPOINTS).chain(["batch=2", "batch=1"]);
        assert_eq!(all_values(Workload { step: published, batch: 4 }), expected.collect::<Vec<_>>());
        let step = Step { optimizer: Optimizer::RmsProp, zero_grad: ZeroGrad::Free, ..published };
        let step = Step { trainable: Trainable::Bias, accumulate: Accumulate::new(3).unwrap(), ..step };
        // 6 samples in 6 passes, because more than 3 are required; 3 samples give each of 3 passes one sample.
        let expected = ["optimizer=sgd_without_momentum", "frozen_normalisation=eval", "accumulate=6"].into_iter();
        let expected = expected.chain(CHECKPOINTS).chain(["batch=3"]);
        assert_eq!(all_values(Workload { step, batch: 6 }), expected.collect::<Vec<_>>());
        assert!(all_values(Workload { step: Step::published(Stage::Inference), batch: 2 }) == ["batch=1"]);
    }
}
