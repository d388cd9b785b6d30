//! Layouts of the gradients of results, where they are known.
//!
//! The gradient of a view is a view (`PermuteBackward`, `NarrowBackward`), and operations that need contiguous rows
//! copy it first: the fold of a fully connected layer (`reshape` in `ViewBackward`), `contiguous` in a convolution's
//! backward.

use super::{TensorLayout, samples_after};
use perf4sight_network::{BinaryFunction, Network, Node, Op, OperationNature, PytorchRun};
use perf4sight_step::workload::Loss;

/// For every node, the layout of the gradient of its result; none where it is not known.
pub(crate) fn gradient_layouts(network: &Network, layouts: &[TensorLayout], loss: Loss) -> Vec<Option<TensorLayout>> {
    let mut arriving: Vec<Option<TensorLayout>> = vec![None; layouts.len()];
    let mut is_read = vec![false; layouts.len()];
    for output in network.outputs() {
        arriving[output.index()] = Some(of_loss(&layouts[output.index()], loss));
        is_read[output.index()] = true;
    }
    for (id, node) in network.iter().rev() {
        for (index, input) in node.inputs.iter().enumerate() {
            let gradient = handed_on(network, node, index, (arriving[id.index()].as_ref(), layouts));
            let place = input.index();
            // The others are added to the first that arrives.
            let known = !is_read[place] || arriving[place].is_some();
            arriving[place] = match (known, gradient) {
                (true, Some(gradient)) => Some(arriving[place].take().unwrap_or(gradient)),
                _ => None,
            };
            is_read[place] = true;
        }
    }
    arriving
}

/// The layout of an operation's gradient of one of its inputs, given the layout of its result's gradient.
fn handed_on(
    network: &Network,
    node: &Node,
    index: usize,
    (arrived, layouts): (Option<&TensorLayout>, &[TensorLayout]),
) -> Option<TensorLayout> {
    let read = &layouts[node.inputs[index].index()];
    let contiguous = || TensorLayout::contiguous(read.sizes().to_vec());
    let followed = || arrived.map(|arrived| arrived.with_sizes(read.sizes().to_vec()));
    match network.facts(node).nature {
        OperationNature::Movement => movement_gradient(node, read, arrived),
        OperationNature::Linear(_) => (read.folds_behind().unwrap_or(0) == 0).then(contiguous),
        OperationNature::Arithmetic(BinaryFunction::Add) => {
            arrived.filter(|arrived| arrived.has(read.sizes())).cloned()
        }
        OperationNature::Activation(_) | OperationNature::Dropout => followed(),
        // A quotient of an expanded tensor (`mean_backward`).
        OperationNature::Pooling(_) if averages_all(&node.op) => Some(contiguous()),
        OperationNature::Convolution(_) | OperationNature::Pooling(_) | OperationNature::Normalisation => {
            Some(dense(read))
        }
        OperationNature::MatMul if node.multiplies_at_once() => {
            Some(TensorLayout::with_batch_after(read.sizes().to_vec(), samples_after(network, node)))
        }
        OperationNature::MatMul | OperationNature::Softmax => Some(contiguous()),
        OperationNature::Input
        | OperationNature::Parameter
        | OperationNature::Embedding(_)
        | OperationNature::Attention
        | OperationNature::Choice => None,
        // Samples of a convolution of images.
        OperationNature::Volume(conv) if conv.window.moves_by_frames() && read.is_of_frames() => {
            Some(TensorLayout::of_frames(read.sizes().to_vec()))
        }
        OperationNature::Volume(_) | OperationNature::Transposed(_) | OperationNature::Arithmetic(_) => None,
        OperationNature::Recurrent(_) | OperationNature::Unknown(_) => None,
    }
}

/// The same for operations that only move elements.
fn movement_gradient(node: &Node, read: &TensorLayout, arrived: Option<&TensorLayout>) -> Option<TensorLayout> {
    let op = &node.op;
    let contiguous = || TensorLayout::contiguous(read.sizes().to_vec());
    if node.runs == PytorchRun::PixelShuffle && read.sizes().len() == 4 {
        // As the gradient that comes in (`pixel_unshuffle`).
        let last = |arrived: &TensorLayout| {
            arrived.is_innermost(1).then(|| TensorLayout::channels_last(read.sizes().to_vec()))
        };
        arrived.map(|arrived| last(arrived).unwrap_or_else(contiguous))
    } else if let Op::Transpose { order } = op {
        arrived.map(|arrived| arrived.permute(&inverse(order)))
    } else if let Op::Flatten | Op::Reshape(_) = op {
        arrived.map(|arrived| arrived.view_as(read.sizes()).unwrap_or_else(contiguous))
    } else if let Op::Concat { .. } = op {
        arrived.map(|arrived| arrived.cut(read.sizes().to_vec(), 0, 1))
    } else {
        // Zeros all around (`slice_backward`).
        // The columns of `im2col` for those of a fold.
        matches!(op, Op::Slice { .. } | Op::Every { .. } | Op::Fold(_)).then(contiguous)
    }
}

/// The gradient of logarithms of probabilities is contiguous whatever they were computed from (`log_softmax_backward_cpu_out` of aten/src/ATen/native/SoftMax.cpp,
/// and its meta function); that of squared differences has the layout of the result.
fn of_loss(result: &TensorLayout, loss: Loss) -> TensorLayout {
    match loss {
        Loss::CrossEntropy => TensorLayout::contiguous(result.sizes().to_vec()),
        Loss::MeanSquaredError => dense(result),
    }
}

fn averages_all(op: &Op) -> bool {
    matches!(op, Op::Reduce { .. } | Op::AdaptiveAvgPool { output: [1, 1] })
}

/// Without gaps, channels last where it is such an image.
fn dense(layout: &TensorLayout) -> TensorLayout {
    let sizes = layout.sizes().to_vec();
    if layout.is_channels_last() { TensorLayout::channels_last(sizes) } else { TensorLayout::contiguous(sizes) }
}

fn inverse(order: &[usize]) -> Vec<usize> {
    let mut undone = vec![0; order.len()];
    order.iter().enumerate().for_each(|(to, &from)| undone[from] = to);
    undone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::layouts;
    use perf4sight_network::{Activation, Conv, Linear, NetworkBuilder, NodeId, Shape, Window};
    use perf4sight_step::workload::{AutocastDevice, Stage, Step};

    /// PyTorch 2.15's profiler sees a convolution copy the part that it gets of a joined gradient, and none that it gets whole.
    #[test]
    fn gradients_of_what_is_joined_come_back_as_parts() {
        let mut builder = NetworkBuilder::new("joined", Shape::new([3, 4, 4]));
        let conv = Conv { out_channels: 8, window: Window::square(1, 1, 0), groups: 1, bias: true };
        let [one, other] =
            ["one", "other"].map(|name| builder.add(name, Op::Conv(conv.clone()), &[builder.input()]).unwrap());
        let joined = builder.add("joined", Op::Concat { axis: 0 }, &[one, other]).unwrap();
        let bent = builder.add("bent", Op::Activation(Activation::Relu), &[joined]).unwrap();
        let network = builder.finish(bent);
        let tracked = vec![true; network.nodes().len()];
        let layouts = layouts(&network, Step::published(Stage::Training), &tracked, (AutocastDevice::Processor, 2));
        let arriving = gradient_layouts(&network, &layouts, Loss::CrossEntropy);
        let is_whole = |id: NodeId| arriving[id.index()].as_ref().map(TensorLayout::is_contiguous);
        assert_eq!([joined, one, other].map(is_whole), [Some(true), Some(false), Some(false)]);
    }

    #[test]
    fn gradients_of_tokens_that_become_an_image_again_come_back_turned() {
        let mut builder = NetworkBuilder::new("turned", Shape::new([3, 4, 4]));
        let conv = Conv { out_channels: 8, window: Window::square(1, 1, 0), groups: 1, bias: true };
        let image = builder.add("conv", Op::Conv(conv), &[builder.input()]).unwrap();
        let tokens = builder.add("tokens", Op::Transpose { order: vec![1, 2, 0] }, &[image]).unwrap();
        let layer = builder.add("layer", Op::Linear(Linear { out_features: 8, bias: true }), &[tokens]).unwrap();
        let back = builder.add("back", Op::Transpose { order: vec![2, 0, 1] }, &[layer]).unwrap();
        let sum = builder.add("sum", Op::Binary(BinaryFunction::Add), &[image, back]).unwrap();
        let network = builder.finish(sum);
        let tracked = vec![true; network.nodes().len()];
        let layouts = layouts(&network, Step::published(Stage::Training), &tracked, (AutocastDevice::Processor, 2));
        let arriving = gradient_layouts(&network, &layouts, Loss::CrossEntropy);
        let image = TensorLayout::contiguous(vec![2, 8, 4, 4]);
        // The gradient of the sum is passed on to the image and, permuted, to the layer: [2, 4, 4, 8] with strides
        // [128, 4, 1, 16].
        assert_eq!(arriving[sum.index()], Some(image.clone()));
        let turned = arriving[layer.index()].clone().unwrap();
        assert_eq!(turned, image.permute(&[1, 2, 0]));
        assert!(!turned.folds_before(1));
        // The first that reaches the image is the sum's.
        assert_eq!(arriving[1], Some(image));
    }
}
