//! A network with weights in libtorch, run node by node.

use super::autocast::casting;
use super::checkpoint::checkpointed;
use super::ops::{NodeRun, kind_of_number};
use super::weights::WeightStore;
use perf4sight_network::{CheckpointSegment, Network, Node, NodeId};
use perf4sight_step::workload::Step;
use std::ops::Range;
use std::rc::Rc;
use tch::{Device, TchError, Tensor};

/// A network that libtorch can run.
pub(super) struct Executable {
    /// The parts that backward may run again.
    parts: Rc<ExecutableParts>,
    /// The segments that backward runs again, in the order they run.
    segments: Vec<CheckpointSegment>,
    device: Device,
}

struct ExecutableParts {
    network: Network,
    weights: WeightStore,
    step: Step,
    in_place: Vec<bool>,
    /// How many times each node's result is read.
    uses: Vec<usize>,
}

/// The results that somebody still reads, on the way through the nodes.
struct NodeResults {
    results: Vec<Option<Tensor>>,
    left: Vec<usize>,
    samples: i64,
}

impl Executable {
    /// The network with fresh weights on a device, in training or in evaluation mode, cut after some of its nodes.
    pub fn new(network: &Network, step: Step, cuts: &[NodeId], device: Device) -> Result<Self, TchError> {
        let uses = network.use_counts();
        let weights = WeightStore::new(network, kind_of_number(step.precision.held_format()), device)?;
        let (segments, in_place) = (network.segments(cuts), network.in_place());
        let parts = Rc::new(ExecutableParts { network: network.clone(), weights, step, in_place, uses });
        Ok(Executable { parts, segments, device })
    }

    pub fn parameters(&self) -> impl Iterator<Item = &Tensor> {
        self.parts.weights.parameters()
    }

    /// The network's results for a batch of its inputs, both in the network's order.
    pub fn forward(&self, batch: &[Tensor]) -> Result<Vec<Tensor>, TchError> {
        self.forward_watched(batch, |_| Ok(()))
    }

    /// The same, with a call after each node, in order, that gets its result. An intermediate result is dropped as soon
    /// as its last reader ran; autograd keeps the tensors that backward needs, or a way to compute them again.
    pub fn forward_watched(
        &self,
        batch: &[Tensor],
        mut ran: impl FnMut(&Tensor) -> Result<(), TchError>,
    ) -> Result<Vec<Tensor>, TchError> {
        let parts = &self.parts;
        let inputs = parts.network.inputs().map(|(id, _, _)| id).zip(batch.iter().map(Tensor::shallow_clone));
        let mut results = NodeResults::new(parts, inputs, batch.first().map_or(1, |first| first.size()[0]));
        batch.iter().try_for_each(&mut ran)?;
        let mut done = batch.len();
        for segment in &self.segments {
            let again = self.run_again(segment, &results);
            checkpointed(self.device, again, || parts.run(segment.nodes.clone(), &mut results, &mut ran))?;
            done = segment.nodes.end;
        }
        parts.run(done..parts.network.nodes().len(), &mut results, &mut ran)?;
        Ok(parts.network.outputs().iter().map(|output| results.read(*output)).collect())
    }

    /// A closure that runs a segment once more and holds its inputs; it opens an autocast of its own, because the
    /// forward's is over by then.
    fn run_again(
        &self,
        segment: &CheckpointSegment,
        results: &NodeResults,
    ) -> impl Fn() -> Result<(), TchError> + use<> {
        let (parts, nodes, samples) = (Rc::clone(&self.parts), segment.nodes.clone(), results.samples);
        let (precision, device) = (parts.step.precision, self.device);
        let held: Vec<(NodeId, Tensor)> = segment.reads.iter().map(|id| (*id, results.look(*id))).collect();
        move || {
            let held = held.iter().map(|(id, tensor)| (*id, tensor.shallow_clone()));
            let mut results = NodeResults::new(&parts, held, samples);
            casting(precision, device, || parts.run(nodes.clone(), &mut results, &mut |_: &Tensor| Ok(())))
        }
    }
}

impl ExecutableParts {
    /// Runs nodes in a row on the results before them.
    fn run(
        &self,
        nodes: Range<usize>,
        results: &mut NodeResults,
        ran: &mut impl FnMut(&Tensor) -> Result<(), TchError>,
    ) -> Result<(), TchError> {
        for (id, node) in self.network.iter().skip(nodes.start).take(nodes.len()) {
            let inputs = node.inputs.iter().map(|input| results.read(*input)).collect();
            let result = self.run_node(id, node, inputs, results.samples)?;
            ran(&result)?;
            results.results[id.index()] = Some(result);
        }
        Ok(())
    }

    fn run_node(&self, id: NodeId, node: &Node, inputs: Vec<Tensor>, samples: i64) -> Result<Tensor, TchError> {
        let (weights, in_place) = (self.weights.weights_of(id, node), self.in_place[id.index()]);
        let (held, training) = (self.step.precision.held_format(), self.network.works_as_in_training(node, self.step));
        NodeRun { node, weights, inputs, samples, held, training, in_place }.run()
    }
}

impl NodeResults {
    /// Starts with existing results, for that many samples.
    fn new(parts: &ExecutableParts, given: impl Iterator<Item = (NodeId, Tensor)>, samples: i64) -> Self {
        let mut results: Vec<Option<Tensor>> = parts.uses.iter().map(|_| None).collect();
        given.for_each(|(id, tensor)| results[id.index()] = Some(tensor));
        NodeResults { results, left: parts.uses.clone(), samples }
    }

    /// Gives a result to one of its readers, and drops it with the last.
    fn read(&mut self, id: NodeId) -> Tensor {
        let (left, result) = (&mut self.left[id.index()], &mut self.results[id.index()]);
        *left -= 1;
        let last = if *left == 0 { result.take() } else { result.as_ref().map(Tensor::shallow_clone) };
        last.expect(THERE)
    }

    /// A result that its readers have not all read.
    fn look(&self, id: NodeId) -> Tensor {
        self.results[id.index()].as_ref().map(Tensor::shallow_clone).expect(THERE)
    }
}

/// The reason why a result exists.
const THERE: &str = "nodes stand in the order they run, and uses were counted";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::sizes;
    use perf4sight_network::zoo;
    use perf4sight_network::zoo::Dataset;
    use perf4sight_network::{
        Activation, Affine, ArgMax, BinaryFunction, Conv, ConvTranspose, Fold, GradientFlow, GridSample, Interpolation,
        Linear, NetworkBuilder, Op, OutsideValues, PaddingFill, PickedElements, Recurrent, RecurrentKind,
        ReductionKind, Shape, TopK, VolumeWindow, Window,
    };
    use perf4sight_step::workload::Stage;

    /// A network of one operation, reading its input as often as the operation has inputs.
    fn alone(op: Op, inputs: usize, sample: &[usize]) -> Network {
        let mut builder = NetworkBuilder::new("alone", Shape::new(sample));
        let input = builder.input();
        let output = builder.add("op", op, &vec![input; inputs]).unwrap();
        builder.finish(output)
    }

    fn conv(out_channels: usize, window: Window, groups: usize) -> Op {
        Op::Conv(Conv { out_channels, window, groups, bias: true })
    }

    fn grid_sample(interpolation: Interpolation, beyond: OutsideValues) -> Op {
        Op::GridSample(GridSample { interpolation, beyond, corners: false })
    }

    fn padded(kernel: usize, stride: usize, padding: [usize; 4]) -> Window {
        Window { padding, ..Window::square(kernel, stride, 0) }
    }

    /// Sets weights without autograd, as a program does.
    fn fill(executable: &Executable, value: f64) {
        tch::no_grad(|| executable.parameters().for_each(|parameter| drop(parameter.shallow_clone().fill_(value))));
    }

    fn values(tensor: &Tensor) -> Vec<f64> {
        Vec::try_from(tensor.flatten(0, -1).to_kind(tch::Kind::Double)).unwrap()
    }

    #[test]
    fn a_small_forward_pass_gives_what_paper_and_pencil_give() {
        let mut builder = NetworkBuilder::new("small", Shape::new([1, 2, 2]));
        let sum = conv(1, padded(2, 1, [1, 0, 0, 1]), 1);
        let sum = builder.add("conv", sum, &[builder.input()]).unwrap();
        let clipped = builder.add("relu6", Op::Activation(Activation::Relu6), &[sum]).unwrap();
        let pooled = builder.add("pool", Op::MaxPool(Window::square(2, 1, 0)), &[clipped]).unwrap();
        let mean = builder.add("mean", Op::AdaptiveAvgPool { output: [1, 1] }, &[clipped]).unwrap();
        let joined = builder.add("concat", Op::Concat { axis: 0 }, &[pooled, mean]).unwrap();
        let flat = builder.add("flatten", Op::Flatten, &[joined]).unwrap();
        let linear = builder.add("linear", Op::Linear(Linear { out_features: 1, bias: true }), &[flat]).unwrap();
        let network = builder.finish(linear);
        let executable = Executable::new(&network, Step::published(Stage::Inference), &[], Device::Cpu).unwrap();
        fill(&executable, 1.0);
        let batch = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0]).view([1, 1, 2, 2]);
        // The image gets a row of zeros above and a column after it:  0 0 0 / 1 2 0 / 3 4 0.
        // Sums over 2x2 plus a bias of 1: 4 3 / 11 7. Clipped at 6: 4 3 / 6 6. Largest 6, mean 4.75, sum plus bias 11.75.
        assert_eq!(values(&executable.forward(&[batch]).unwrap()[0]), [11.75]);
    }

    #[test]
    fn every_operation_gives_the_shape_that_was_inferred() {
        let image = [4, 7, 9];
        let activations = Activation::ALL.map(|activation| (Op::Activation(activation), 1));
        let binaries = BinaryFunction::ALL.map(Op::Binary).into_iter().flat_map(|op| [(op.clone(), 1), (op, 2)]);
        let reduced = ReductionKind::ALL.map(|reduction| (Op::Reduce { reduction, axes: vec![0, 2], keep: true }, 1));
        let turned = Conv { out_channels: 6, window: Window::square(3, 2, 1), groups: 2, bias: true };
        let average = |window, count_include_pad| Op::AvgPool { window, count_include_pad };
        let others = [
            (conv(6, Window::square(3, 2, 1), 2), 1),
            (conv(8, padded(3, 1, [0, 2, 1, 0]), 4), 1),
            (conv(8, Window { dilation: [2, 1], ..padded(3, 2, [1, 1, 2, 1]) }, 1), 1),
            (Op::Linear(Linear { out_features: 5, bias: false }), 1),
            (Op::BatchNorm { axis: 0 }, 1),
            (Op::LayerNorm { axis: 1, affine: Affine::ScaleAndShift }, 1),
            (Op::MaxPool(Window::square(3, 2, 1).ceil()), 1),
            (Op::MaxPool(padded(2, 2, [1, 1, 1, 1]).ceil()), 1),
            (Op::MaxPool(padded(3, 2, [0, 0, 1, 1]).ceil()), 1),
            (Op::MaxPool(padded(2, 3, [2, 2, 2, 2]).ceil()), 1),
            (average(padded(3, 2, [1, 0, 0, 1]), false), 1),
            (average(Window::square(2, 2, 1).ceil(), true), 1),
            (Op::AdaptiveAvgPool { output: [2, 4] }, 1),
            (Op::BatchNorm { axis: 1 }, 1),
            (Op::LayerNorm { axis: 2, affine: Affine::None }, 1),
            (Op::LayerNorm { axis: 1, affine: Affine::Scale }, 1),
            (Op::GroupNorm { groups: 2, affine: Affine::ScaleAndShift }, 1),
            (Op::GroupNorm { groups: 4, affine: Affine::None }, 1),
            (Op::ConvTranspose(ConvTranspose { conv: turned, extra: [1, 0] }), 1),
            (Op::Resize { image: [5, 12], interpolation: Interpolation::Nearest, corners: false }, 1),
            (Op::Resize { image: [14, 18], interpolation: Interpolation::Linear, corners: true }, 1),
            (Op::Resize { image: [14, 4], interpolation: Interpolation::Cubic, corners: false }, 1),
            (Op::Pad { sides: vec![[1, 0], [0, 0], [2, 1]], fill: PaddingFill::Zeros }, 1),
            (Op::Pad { sides: vec![[0, 0], [-1, 1], [2, -3]], fill: PaddingFill::Zeros }, 1),
            (Op::Pad { sides: vec![[0, 0], [1, 1], [2, 0]], fill: PaddingFill::Reflect }, 1),
            (Op::Pad { sides: vec![[0, 0], [1, 1], [2, 0]], fill: PaddingFill::Edge }, 1),
            (Op::Pad { sides: vec![[0, 0], [1, 1], [2, 0]], fill: PaddingFill::Wrap }, 1),
            (Op::Every { axis: 1, start: 1, step: 3 }, 1),
            (Op::Pick(PickedElements { axis: 2, count: 3, places: vec![8, 0, 8] }), 1),
            (Op::Pick(PickedElements { axis: 0, count: 9, places: vec![] }), 1),
            (Op::Where, 3),
            (Op::Reduce { reduction: ReductionKind::Mean, axes: vec![1, 2], keep: false }, 1),
            (Op::Reduce { reduction: ReductionKind::Mean, axes: vec![0], keep: true }, 1),
            (Op::Concat { axis: 1 }, 3),
            (Op::Flatten, 1),
            (Op::Reshape(Shape::new([4, 63])), 1),
            (Op::Transpose { order: vec![2, 0, 1] }, 1),
            (Op::Contiguous { batch: 0 }, 1),
            (Op::Contiguous { batch: 2 }, 1),
            (Op::Slice { axis: 2, start: 3, length: 4 }, 1),
            (Op::Softmax { axis: 0 }, 1),
            (Op::Dropout { rate: 0.5 }, 1),
            (Op::Dropout { rate: 0.0 }, 1),
            (Op::DropPath { rate: 0.2 }, 1),
            (Op::DropPath { rate: 1.0 }, 1),
            (Op::Attention, 3),
        ];
        for (op, inputs) in activations.into_iter().chain(binaries).chain(others).chain(reduced) {
            let network = alone(op, inputs, &image);
            runs_as_inferred(&network);
        }
        runs_as_inferred(&alone(Op::MatMul, 2, &[3, 5, 5]));
        runs_as_inferred(&alone(Op::Expand(Shape::new([3, 5, 4])), 1, &[3, 1, 4]));
    }

    #[test]
    fn every_recurrent_layer_gives_the_shape_that_was_inferred() {
        for cell in RecurrentKind::ALL {
            for (both_ways, bias, last) in [(false, true, true), (true, true, false), (true, false, true)] {
                let layer = Recurrent { cell, hidden: 5, both_ways, bias, last, batch_first: true };
                let network = alone(Op::Recurrent(layer), 1, &[7, 3]);
                runs_as_inferred(&network);
                // Each gate has a row of each matrix and two biases for every hidden feature.
                let each = 3 + 5 + if bias { 2 } else { 0 };
                let held = layer.directions() * cell.gates() * 5 * each;
                let executable = Executable::new(&network, Step::published(Stage::Training), &[], Device::Cpu).unwrap();
                assert_eq!(executable.parameters().map(Tensor::numel).sum::<usize>(), held, "{layer:?}");
                assert_eq!(network.parameters(), held as u64, "{layer:?}");
            }
        }
    }

    #[test]
    fn every_operation_on_volumes_gives_the_shape_that_was_inferred() {
        let volume = VolumeWindow { stride: [1, 2, 2], dilation: [2, 1, 1], ..VolumeWindow::cube(2, 1, 1) };
        let even = VolumeWindow { dilation: [1; 3], ceil: true, ..volume.clone() };
        let volumes = [
            Op::Conv3d(Conv { out_channels: 6, window: volume.clone(), groups: 2, bias: true }),
            Op::MaxPool3d(volume),
            Op::AvgPool3d { window: even, count_include_pad: false },
            Op::BatchNorm { axis: 0 },
        ];
        for op in volumes {
            runs_as_inferred(&alone(op, 1, &[4, 5, 6, 7]));
        }
    }

    #[test]
    fn everything_that_looks_elements_up_gives_the_shape_that_was_inferred() {
        let top = TopK { axis: 1, count: 3, largest: false, places: false };
        let sampled = [
            (Op::ArgMax(ArgMax { axis: 0, keep: false, largest: true }), 1),
            (Op::ArgMax(ArgMax { axis: 2, keep: true, largest: false }), 1),
            (Op::TopK(top), 1),
            (Op::TopK(TopK { places: true, ..top }), 1),
            (Op::CumSum { axis: 2 }, 1),
            (grid_sample(Interpolation::Linear, OutsideValues::Zeros), 2),
            (grid_sample(Interpolation::Nearest, OutsideValues::Edge), 2),
            (grid_sample(Interpolation::Cubic, OutsideValues::Reflect), 2),
        ];
        for (op, inputs) in sampled {
            runs_as_inferred(&alone(op, inputs, &[5, 9, 2]));
        }
        // 2 channels of windows of 3 x 3 at 6 x 4 places.
        let window = Window::square(3, 1, 1);
        runs_as_inferred(&alone(Op::Fold(Fold { image: [6, 4], window }), 1, &[18, 24]));
    }

    #[track_caller]
    fn runs_as_inferred(network: &Network) {
        let executable = Executable::new(network, Step::published(Stage::Training), &[], Device::Cpu).unwrap();
        let batch = |dims: &[usize]| [&[2], sizes(dims).as_slice()].concat();
        let input =
            Tensor::rand(batch(network.input_shape().dims()), (tch::Kind::Float, Device::Cpu)).set_requires_grad(true);
        let output = executable
            .forward(&[input])
            .unwrap_or_else(|error| panic!("{:?}: {error}", network.nodes()[1].op))
            .remove(0);
        assert_eq!(output.size(), batch(network.output_shape().dims()), "{:?}", network.nodes()[1].op);
        let flows = network.facts(network.node(network.output())).gradient != GradientFlow::Ends;
        assert_eq!(output.requires_grad(), flows, "{:?}", network.nodes()[1].op);
        if flows {
            output.sum(tch::Kind::Float).f_backward().unwrap();
        }
    }

    #[test]
    fn a_layer_with_the_weight_of_another_need_not_have_its_bias() {
        let mut builder = NetworkBuilder::new("tied", Shape::new([1]));
        let layer = |bias| Op::Linear(Linear { out_features: 1, bias });
        let first = builder.add("first", layer(true), &[builder.input()]).unwrap();
        let second = builder.add("second", layer(false), &[first]).unwrap();
        builder.share(second, first).unwrap();
        let network = builder.finish(second);
        let executable = Executable::new(&network, Step::published(Stage::Inference), &[], Device::Cpu).unwrap();
        fill(&executable, 2.0);
        // 5 x 2 + 2, then times 2.
        assert_eq!(values(&executable.forward(&[Tensor::from_slice(&[5f32]).view([1, 1])]).unwrap()[0]), [24.0]);
    }

    #[test]
    fn tokens_that_no_layer_owns_join_every_sample_of_a_batch() {
        let mut builder = NetworkBuilder::new("tokens", Shape::new([3, 4]));
        let token = builder.add("token", Op::Parameter(Shape::new([1, 4])), &[]).unwrap();
        let joined = builder.add("concat", Op::Concat { axis: 0 }, &[token, builder.input()]).unwrap();
        let scale = builder.add("scale", Op::Parameter(Shape::new([1, 4])), &[]).unwrap();
        let scaled = builder.add("product", Op::Binary(BinaryFunction::Mul), &[joined, scale]).unwrap();
        runs_as_inferred(&builder.finish(scaled));
    }

    #[test]
    fn libtorch_holds_as_many_parameters_as_the_graph_counts() {
        tch::set_num_threads(1); // tests run side by side, and OpenMP threads that wait for each other spin
        for name in zoo::names() {
            let network = zoo::build(name, Dataset::Imagenet).unwrap();
            let executable = Executable::new(&network, Step::published(Stage::Inference), &[], Device::Cpu).unwrap();
            let held: usize = executable.parameters().map(Tensor::numel).sum();
            assert_eq!(held as u64, network.parameters(), "{name}");
        }
    }
}
