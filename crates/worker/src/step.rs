//! A step of one network at one batch size, which is timed and whose memory is measured.

use super::autocast::{Scaler, casting};
use super::executable::Executable;
use super::laps::Stopwatch;
use super::ops::{kind_of, kind_of_number};
use super::tape::AutogradTape;
use super::weights::sizes;
use perf4sight_network::{InputContents, Network, NetworkInput, NodeId};
use perf4sight_step::workload::{self, Loss, NumberFormat, Optimizer, Precision, Stage, Workload, ZeroGrad};
use tch::{COptimizer, Device, Kind, Reduction, TchError, Tensor};

/// The published optimizer: stochastic gradient descent with momentum and weight decay.
const LEARNING_RATE: f64 = 0.1;
const MOMENTUM: f64 = 0.9;
const WEIGHT_DECAY: f64 = 5e-4;

/// A step that can be taken again and again, on random data that is already in place.
pub(super) struct RunnableStep {
    executable: Executable,
    batch: Vec<Tensor>,
    training: Option<TrainingState>,
    precision: Precision,
    device: Device,
}

struct TrainingState {
    loss: Loss,
    /// The targets of results, each with the index of its result.
    targets: Vec<(usize, Tensor)>,
    optimizer: COptimizer,
    zero_grad: ZeroGrad,
    /// Passes forward and backward a step.
    passes: u64,
    samples: u64,
    scaler: Option<Scaler>,
}

impl RunnableStep {
    /// Network, data and optimizer for a workload, on a device; the network is cut after some of its nodes.
    pub fn new(network: &Network, workload: Workload, cuts: &[NodeId], device: Device) -> Result<Self, TchError> {
        let executable = Executable::new(network, workload.step, cuts, device)?;
        let samples = workload.step.accumulate.samples(workload.batch);
        let precision = workload.step.precision;
        let held = (precision.held_format(), device);
        let inputs = network.inputs().map(|(id, _, input)| filled(network.contents(id), input, samples, held));
        let batch = inputs.collect::<Result<_, _>>()?;
        let training = match workload.step.stage {
            Stage::Training => Some(TrainingState::new(network, workload, &executable, device)?),
            Stage::Inference => None,
        };
        Ok(RunnableStep { executable, batch, training, precision, device })
    }

    /// The first step that changes the weights, from which on the optimizer holds its state: a scaler begins where gradients may be no numbers, and
    /// leaves updates out until they are.
    pub fn begin(&mut self) -> Result<(), TchError> {
        for _ in 0..Scaler::MOST_LEFT_OUT {
            self.run()?;
            let scaler = self.training.as_ref().and_then(|training| training.scaler.as_ref());
            if scaler.map_or(Ok(true), Scaler::lets_through)? {
                return Ok(());
            }
        }
        Err(TchError::Torch(format!(
            "after {} steps gradients are still no numbers in half precision",
            Scaler::MOST_LEFT_OUT
        )))
    }

    /// One step: forward, loss, zero_grad unless it came first, and backward, as many times as `accumulate` requires;
    /// then the optimizer. Or forward without gradients.
    pub fn run(&mut self) -> Result<(), TchError> {
        let (precision, device) = (self.precision, self.device);
        let Some(training) = &mut self.training else {
            return tch::no_grad(|| casting(precision, device, || self.executable.forward(&self.batch))).map(drop);
        };
        training.free_gradients()?;
        // As in a program's loop, a loss is freed when the next one exists.
        let mut loss = None;
        for pass in 0..training.passes {
            let batch = training.batch(&self.batch, pass)?;
            let found = casting(precision, device, || training.loss(&self.executable.forward(&batch)?))?;
            let loss = loss.insert(training.of_all_passes(found)?);
            if pass == 0 {
                training.fill_gradients(&self.executable)?;
            }
            training.scaled(loss)?.f_backward()?;
        }
        training.optimize(&self.executable)
    }

    /// The same step, with a look at the clock after every operation of either pass.
    pub fn run_in_laps(&mut self, watch: &mut Stopwatch) -> Result<(), TchError> {
        let Some(training) = &mut self.training else { return self.infer_in_laps(watch) };
        training.free_gradients()?;
        watch.zero_grad()?;
        for pass in 0..training.passes {
            self.pass_in_laps(pass, watch)?;
        }
        let Some(training) = &mut self.training else { return Ok(()) };
        training.optimize(&self.executable)?;
        watch.optimizer()
    }

    /// Forward and backward; before the first backward gradients are filled where they are kept.
    fn pass_in_laps(&self, pass: u64, watch: &mut Stopwatch) -> Result<(), TchError> {
        let Some(training) = &self.training else { return Ok(()) };
        let mut tape = AutogradTape::new();
        let batch = training.batch(&self.batch, pass)?;
        let loss = casting(self.precision, self.device, || {
            let results = self.executable.forward_watched(&batch, |result| {
                tape.record(result)?;
                watch.forward()
            })?;
            training.loss(&results)
        })?;
        let loss = training.scaled(&training.of_all_passes(loss)?)?;
        tape.record(&loss)?;
        watch.loss()?;
        if pass == 0 {
            training.fill_gradients(&self.executable)?;
            watch.zero_grad()?;
        }
        tape.begin(&loss)?;
        let operations = watch.nodes();
        tape.differentiate(operations)?;
        watch.loss()?;
        for node in (0..operations).rev() {
            tape.differentiate(node)?;
            watch.backward(node)?;
        }
        // The plain step drops the graph when it ends.
        drop((loss, tape));
        watch.loss()
    }

    fn infer_in_laps(&self, watch: &mut Stopwatch) -> Result<(), TchError> {
        let forward = || self.executable.forward_watched(&self.batch, |_| watch.forward());
        tch::no_grad(|| casting(self.precision, self.device, forward)).map(drop)
    }
}

impl TrainingState {
    fn new(network: &Network, workload: Workload, executable: &Executable, device: Device) -> Result<Self, TchError> {
        let Workload { step: workload::Step { optimizer, zero_grad, accumulate, precision, loss, .. }, batch } =
            workload;
        let mut optimizer = created(optimizer)?;
        executable.parameters().try_for_each(|parameter| optimizer.add_parameters(parameter, 0))?;
        let samples = accumulate.samples(batch);
        let targets = |output: NodeId| match loss {
            Loss::CrossEntropy => {
                let (classes, places) = network.labels(output);
                Tensor::f_randint(classes as i64, batch_of(samples, places.dims()), (Kind::Int64, device))
            }
            Loss::MeanSquaredError => {
                let shape = batch_of(samples, network.node(output).shape.dims());
                Tensor::f_rand(shape, (kind_of_number(precision.held_format()), device))
            }
        };
        let place = |output| network.outputs().iter().position(|other| *other == output);
        let compared = network.loss_results().filter_map(|output| Some((place(output)?, output)));
        let targets = compared.map(|(place, output)| Ok((place, targets(output)?))).collect::<Result<_, TchError>>()?;
        let (scaler, passes) = (Scaler::new(precision, device)?, accumulate.passes());
        Ok(TrainingState { loss, targets, optimizer, zero_grad, passes, samples: batch, scaler })
    }

    /// The samples of a pass: all are divided evenly, and the first passes have one more where some are left.
    fn batch(&self, largest: &[Tensor], pass: u64) -> Result<Vec<Tensor>, TchError> {
        let samples = self.samples / self.passes + u64::from(pass < self.samples % self.passes);
        largest.iter().map(|tensor| first(tensor, samples as i64)).collect()
    }

    /// The update of the weights, left out where a scaled gradient is no number.
    fn optimize(&mut self, executable: &Executable) -> Result<(), TchError> {
        let Some(scaler) = &mut self.scaler else { return self.optimizer.step() };
        let gradients = executable.parameters().map(Tensor::f_grad).collect::<Result<Vec<_>, _>>()?;
        let defined: Vec<Tensor> = gradients.into_iter().filter(Tensor::defined).collect();
        if scaler.unscale(&defined)? {
            self.optimizer.step()?;
        }
        scaler.update()
    }

    /// The loss that backward begins at.
    fn scaled(&self, loss: &Tensor) -> Result<Tensor, TchError> {
        self.scaler.as_ref().map_or_else(|| Ok(loss.shallow_clone()), |scaler| scaler.scaled(loss))
    }

    /// As PyTorch's users do it, before the step begins.
    fn free_gradients(&self) -> Result<(), TchError> {
        match self.zero_grad {
            ZeroGrad::Free => self.optimizer.zero_grad(),
            ZeroGrad::Keep => Ok(()),
        }
    }

    /// The published tool's PyTorch zeroed gradients in place, when the loss was known.
    fn fill_gradients(&self, executable: &Executable) -> Result<(), TchError> {
        match self.zero_grad {
            ZeroGrad::Keep => executable.parameters().try_for_each(|parameter| {
                let mut gradient = parameter.f_grad()?;
                if gradient.defined() { gradient.f_zero_().map(drop) } else { Ok(()) }
            }),
            ZeroGrad::Free => Ok(()),
        }
    }

    /// The losses of all results, one after the other, and their sum.
    fn loss(&self, results: &[Tensor]) -> Result<Tensor, TchError> {
        let mut sum: Option<Tensor> = None;
        for (place, targets) in &self.targets {
            let loss = self.loss_of(&results[*place], targets)?;
            sum = Some(sum.map_or_else(|| Ok(loss.shallow_clone()), |sum| sum.f_add(&loss))?);
        }
        sum.ok_or_else(|| TchError::Torch("the network gives no numbers that a loss can be of".into()))
    }

    fn loss_of(&self, output: &Tensor, targets: &Tensor) -> Result<Tensor, TchError> {
        const IGNORED_CLASS: i64 = -100; // PyTorch's default
        let targets = first(targets, output.size()[0])?;
        if self.loss == Loss::MeanSquaredError {
            return output.f_mse_loss(&targets, Reduction::Mean);
        }
        // Of a sequence every place counts as a sample, as PyTorch's users write it for words.
        let (output, classes) = match output.dim() {
            1 => (output.f_unsqueeze(1)?, targets),
            3 => (output.f_flatten(0, 1)?, targets.f_flatten(0, -1)?),
            _ => (output.shallow_clone(), targets),
        };
        output.f_cross_entropy_loss::<&Tensor>(&classes, None, Reduction::Mean, IGNORED_CLASS, 0.0)
    }

    /// Gradients of several passes add up to those of the mean of their losses, as PyTorch's users write it.
    fn of_all_passes(&self, loss: Tensor) -> Result<Tensor, TchError> {
        if self.passes > 1 { loss.f_div_scalar(self.passes as f64) } else { Ok(loss) }
    }
}

fn first(batch: &Tensor, samples: i64) -> Result<Tensor, TchError> {
    if batch.size()[0] == samples { Ok(batch.shallow_clone()) } else { batch.f_narrow(0, 0, samples) }
}

/// libtorch's own optimizer, so that its state is created as in PyTorch: in the first step. The numbers are PyTorch's
/// defaults, except for the published ones.
fn created(optimizer: Optimizer) -> Result<COptimizer, TchError> {
    const BETAS: [f64; 2] = [0.9, 0.999];
    const EPSILON: f64 = 1e-8;
    const SMOOTHING: f64 = 0.99;
    let [first, second] = BETAS;
    match optimizer {
        Optimizer::Sgd => COptimizer::sgd(LEARNING_RATE, MOMENTUM, 0.0, WEIGHT_DECAY, false),
        Optimizer::SgdWithoutWeightDecay => COptimizer::sgd(1e-3, MOMENTUM, 0.0, 0.0, false),
        Optimizer::SgdWithoutMomentum => COptimizer::sgd(1e-3, 0.0, 0.0, 0.0, false),
        Optimizer::Adam => COptimizer::adam(1e-3, first, second, 0.0, EPSILON, false),
        Optimizer::AdamW => COptimizer::adamw(1e-3, first, second, 1e-2, EPSILON, false),
        Optimizer::RmsProp => COptimizer::rms_prop(1e-2, SMOOTHING, EPSILON, 0.0, 0.0, false),
    }
}

fn filled(
    contents: InputContents,
    input: &NetworkInput,
    batch: u64,
    (held, device): (NumberFormat, Device),
) -> Result<Tensor, TchError> {
    let size = batch_of(batch, input.shape.dims());
    let kind = kind_of(input.element, held);
    match contents {
        InputContents::Numbers => Tensor::f_rand(size, (kind, device)),
        InputContents::Below(rows) => Tensor::f_randint(rows as i64, size, (kind, device)),
        InputContents::Ones => Tensor::f_ones(size, (kind, device)),
    }
}

fn batch_of(batch: u64, dims: &[usize]) -> Vec<i64> {
    std::iter::once(batch as i64).chain(sizes(dims)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::StepClock;
    use perf4sight_network::zoo;
    use perf4sight_network::zoo::Dataset;
    use perf4sight_network::{Linear, NetworkBuilder, Op, Shape};
    use perf4sight_step::workload::{Accumulate, Checkpoint};

    /// The network with dropouts that drop nothing: tests draw from one generator side by side.
    fn without_chance(network: &Network) -> Network {
        let mut builder = network.builder_with_input();
        for node in network.nodes().iter().skip(1) {
            let op = if matches!(node.op, Op::Dropout { .. }) { Op::Dropout { rate: 0.0 } } else { node.op.clone() };
            builder.add(&node.name, op, &node.inputs).unwrap();
        }
        builder.finish(network.output())
    }

    #[test]
    fn a_loss_is_the_sum_of_those_of_all_results() {
        let mut builder = NetworkBuilder::new("two", Shape::new([1]));
        let linear = |out_features| Op::Linear(Linear { out_features, bias: false });
        let [first, second] = [2, 4].map(|width| (format!("of_{width}"), linear(width)));
        let first = builder.add(first.0, first.1, &[builder.input()]).unwrap();
        let second = builder.add(second.0, second.1, &[builder.input()]).unwrap();
        let network = builder.finish_with(&[second, first]);
        let step = RunnableStep::new(&network, Workload::published(Stage::Training, 1), &[], Device::Cpu).unwrap();
        tch::no_grad(|| step.executable.parameters().for_each(|weight| drop(weight.shallow_clone().fill_(0.5))));
        let results = step.executable.forward(&step.batch).unwrap();
        assert_eq!(results.iter().map(Tensor::size).collect::<Vec<_>>(), [[1, 4], [1, 2]]);
        // Equal logits, whatever class is the true one: ln 4 + ln 2.
        let loss = f64::try_from(step.training.unwrap().loss(&results).unwrap()).unwrap();
        assert!((loss - 8f64.ln()).abs() < 1e-6, "{loss}");
    }

    #[test]
    fn differentiating_one_operation_at_a_time_gives_the_gradients_of_the_whole() {
        tch::set_num_threads(1);
        // Forks and sums, in-place activations, concatenations, depthwise convolutions, a bias that is broadcast.
        for name in ["resnet18", "mobilenetv2", "squeezenet", "googlenet"] {
            let network = without_chance(&zoo::build(name, Dataset::Cifar10).unwrap());
            let mut step =
                RunnableStep::new(&network, Workload::published(Stage::Training, 2), &[], Device::Cpu).unwrap();
            let all = |step: &RunnableStep, of: fn(&Tensor) -> Tensor| {
                step.executable.parameters().map(of).collect::<Vec<_>>()
            };
            let weights = all(&step, |weight| weight.detach().copy());
            step.run().unwrap();
            let whole = all(&step, |weight| weight.grad().copy());
            tch::no_grad(|| {
                let now = step.executable.parameters();
                now.zip(&weights).for_each(|(weight, then)| weight.shallow_clone().copy_(then));
            });
            step.run_in_laps(&mut Stopwatch::new(network.nodes().len(), StepClock::Processor).unwrap()).unwrap();
            for (whole, part) in whole.iter().zip(all(&step, Tensor::grad)) {
                let apart = f64::try_from((whole - &part).norm()).unwrap();
                assert!(apart <= 1e-5 * f64::try_from(whole.norm()).unwrap(), "{name}: {apart}");
            }
        }
    }

    #[test]
    fn segments_that_run_again_give_the_gradients_of_the_whole() {
        tch::set_num_threads(1);
        for name in ["resnet18", "mobilenetv2", "squeezenet", "googlenet"] {
            let network = without_chance(&zoo::build(name, Dataset::Cifar10).unwrap());
            let begin = |checkpoint: Checkpoint| {
                let published = Workload::published(Stage::Training, 2);
                RunnableStep::new(&network, published, &network.cuts(checkpoint), Device::Cpu).unwrap()
            };
            let mut whole = begin(Checkpoint::None);
            let [mut again, mut in_laps] = [Checkpoint::EveryBlock, Checkpoint::Segments(3)].map(begin);
            tch::no_grad(|| {
                for other in [&again, &in_laps] {
                    let pairs = other.executable.parameters().zip(whole.executable.parameters());
                    let pairs = pairs.chain(other.batch.iter().zip(&whole.batch));
                    pairs.for_each(|(other, whole)| other.shallow_clone().copy_(whole));
                    let targets = |step: &RunnableStep| step.training.as_ref().unwrap().targets[0].1.shallow_clone();
                    targets(other).copy_(&targets(&whole));
                }
            });
            whole.run().unwrap();
            again.run().unwrap();
            in_laps.run_in_laps(&mut Stopwatch::new(network.nodes().len(), StepClock::Processor).unwrap()).unwrap();
            for other in [again, in_laps] {
                for (whole, other) in whole.executable.parameters().zip(other.executable.parameters()) {
                    let apart = f64::try_from((whole.grad() - other.grad()).norm()).unwrap();
                    assert!(apart <= 1e-4 * f64::try_from(whole.grad().norm()).unwrap(), "{name}: {apart}");
                }
            }
        }
    }

    #[test]
    fn passes_divide_the_samples_evenly() {
        tch::set_num_threads(1);
        let network = zoo::build("squeezenet", Dataset::Cifar10).unwrap();
        let accumulate = Accumulate::new(4).unwrap();
        let workload =
            Workload { step: workload::Step { accumulate, ..workload::Step::published(Stage::Training) }, batch: 10 };
        let mut step = RunnableStep::new(&network, workload, &[], Device::Cpu).unwrap();
        let samples = |pass| step.training.as_ref().unwrap().batch(&step.batch, pass).unwrap()[0].size()[0];
        assert_eq!([0, 1, 2, 3].map(samples), [3, 3, 2, 2]);
        step.run().unwrap();
    }

    #[test]
    fn what_fails_when_a_segment_runs_again_is_told() {
        let first = crate::checkpoint::checkpointed(
            Device::Cpu,
            || Err(TchError::Torch("no such luck".into())),
            || Tensor::ones([2], (Kind::Float, Device::Cpu)).set_requires_grad(true).f_exp(),
        );
        let problem = first.unwrap().sum(Kind::Float).f_backward().unwrap_err().to_string();
        assert!(problem.contains("no such luck"), "{problem}");
    }

    #[test]
    fn every_family_trains() {
        tch::set_num_threads(1); // tests run side by side, and OpenMP threads that wait for each other spin
        for name in ["vgg11", "resnet18", "resnet50", "mobilenetv2", "squeezenet", "mnasnet", "googlenet"] {
            let network = zoo::build(name, Dataset::Cifar10).unwrap();
            let mut step =
                RunnableStep::new(&network, Workload::published(Stage::Training, 2), &[], Device::Cpu).unwrap();
            // Matrices and filters; a batch-norm's zeros can have no gradient and nothing to decay.
            let weights: Vec<Tensor> =
                step.executable.parameters().filter(|weight| weight.dim() > 1).map(Tensor::shallow_clone).collect();
            let before: Vec<Tensor> = weights.iter().map(|weight| weight.detach().copy()).collect();
            (0..2).try_for_each(|_| step.run()).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(weights.iter().zip(&before).all(|(now, then)| now != then), "{name}: a weight stayed as it was");
        }
    }

    #[test]
    fn a_first_step_follows_gradient_and_weight_decay() {
        let mut builder = NetworkBuilder::new("line", Shape::new([1]));
        let linear = Op::Linear(Linear { out_features: 2, bias: false });
        let output = builder.add("linear", linear, &[builder.input()]).unwrap();
        let network = builder.finish(output);
        let mut step = RunnableStep::new(&network, Workload::published(Stage::Training, 1), &[], Device::Cpu).unwrap();
        tch::no_grad(|| {
            drop(step.batch[0].fill_(2.0));
            drop(step.training.as_mut().unwrap().targets[0].1.fill_(0));
            step.executable.parameters().for_each(|weight| drop(weight.shallow_clone().fill_(0.5)));
        });
        (0..2).try_for_each(|_| step.run()).unwrap();
        // Equal logits: softmax 1/2 each, so the gradient is -1/2 x 2 = -1 for the true class and 1 for the other.
        // v1 = g + 5e-4 w = -0.99975 and 1.00025; w = 0.599975 and 0.399975. Logits 1.19995 and 0.79995: the other's softmax is
        // s = 1 / (1 + e^0.4) = 0.401312340, g = -/+ 2 s, v2 = 0.9 v1 + g + 5e-4 w; w -= 0.1 v2.
        let weights = Vec::<f64>::try_from(step.executable.parameters().next().unwrap().flatten(0, -1)).unwrap();
        let share = 1.0 / (1.0 + 0.4f64.exp());
        let expected = |w1: f64, v1: f64, gradient: f64| w1 - 0.1 * (0.9 * v1 + gradient + 5e-4 * w1);
        let expected = [expected(0.599975, -0.99975, -2.0 * share), expected(0.399975, 1.00025, 2.0 * share)];
        for (weight, expected) in weights.iter().zip(expected) {
            assert!((weight - expected).abs() < 1e-6, "{weight} instead of {expected}");
        }
    }
}
