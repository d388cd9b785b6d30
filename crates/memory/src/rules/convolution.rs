//! Convolutions: by the library that runs them, and cuDNN's workspace for each of the three passes.

use super::blocked::{BlockedConvolution, ConvolutionParameters};
use super::operation::StepOperation;
use super::rule::RuleAction::{Drop, InputGradient, Output, Take, WeightGradient};
use super::rule::{MemoryRule, SavedTensor};
use crate::amount::{BatchBytes, product};
use perf4sight_network::{Conv, Shape, VolumeWindow};
use perf4sight_platform::{ConvolutionPass, ConvolutionWorkspace, NativeConvolutions};

/// The rule of a convolution, with its weights already set.
pub(super) fn rule(rule: MemoryRule, operation: StepOperation, conv: &Conv) -> MemoryRule {
    let rule = rule.saves([SavedTensor::Input(0), SavedTensor::Cast(0)]);
    let images = [operation.network.input_of(operation.node, 0), &operation.node.shape];
    let rule = match blocked(
        operation,
        images,
        ConvolutionParameters::of_images(operation.convolution_query(conv), images, conv),
    ) {
        Some(blocked) if blocked.takes_columns() => native_kernel(rule, operation, conv),
        Some(blocked) if operation.runs_channels_last() => {
            rule.forward(blocked.forward_channels_last()).backward(blocked.backward_channels_last())
        }
        Some(blocked) => rule.forward(blocked.forward()).backward(blocked.backward()),
        None => borrowing(rule, operation, conv),
    };
    // `contiguous` of the layout that the input suggests; never channels-last for height-1 images
    // (aten/src/ATen/native/Convolution.cpp).
    let lies_so = match operation.reads_row() {
        true => operation.layout(0).is_contiguous(),
        false => operation.layout(0).is_dense(),
    };
    // A followed pass holds this copy already: with kernels and without them it is the same, so that it is in no difference of the two.
    if lies_so { rule } else { rule.copying(operation.input(0)) }
}

/// PyTorch's own kernel, for single small images: through columns, a matrix of every window of the image, forward and for the gradient of the weight
/// (aten/src/ATen/native/ConvolutionMM2d.cpp).
fn native_kernel(rule: MemoryRule, operation: StepOperation, conv: &Conv) -> MemoryRule {
    let [height, width] = operation.node.shape.image();
    let elements = [height, width, conv.window.kernel[0], conv.window.kernel[1]].map(|size| size as u64);
    let read = operation.network.input_of(operation.node, 0).channels() as u64;
    let columns = BatchBytes::per_sample(product(elements.into_iter().chain([read, operation.number()])));
    let input = operation.requires_gradient(0).then_some(InputGradient(0));
    let bias = conv.bias.then_some(WeightGradient(1)).filter(|_| operation.trains(1));
    let weight = operation.trains(0).then_some([WeightGradient(0), Take(columns), Drop(0)]);
    let rule = rule.forward([Output, Take(columns), Drop(0)]);
    rule.backward(input).backward(bias).backward(weight.into_iter().flatten())
}

/// The rule of a 3-D convolution; cuDNN's workspace for one is not known.
pub(super) fn of_volumes(rule: MemoryRule, operation: StepOperation, conv: &Conv<VolumeWindow>) -> MemoryRule {
    let rule = rule.saves([SavedTensor::Input(0), SavedTensor::Cast(0)]);
    let images = [operation.network.input_of(operation.node, 0), &operation.node.shape];
    let rule = match blocked(operation, images, ConvolutionParameters::of_volumes(images[0], conv)) {
        Some(blocked) if blocked.is_computed_alone() => own_of_volumes(rule, operation, conv),
        Some(blocked) if operation.runs_channels_last() => {
            rule.forward(blocked.forward_channels_last()).backward(blocked.backward_channels_last())
        }
        Some(blocked) => rule.forward(blocked.forward()).backward(blocked.backward()),
        None => {
            let input = operation.requires_gradient(0).then_some(InputGradient(0));
            rule.forward([Output]).backward(input).backward(operation.weight_gradients(1 + usize::from(conv.bias)))
        }
    };
    // Frames that follow each other in memory are the samples of a convolution of images.
    let lies_so =
        operation.layout(0).is_contiguous() || conv.window.moves_by_frames() && operation.layout(0).is_of_frames();
    // A followed pass holds this copy already: with kernels and without them it is the same, so that it is in no difference of the two.
    if lies_so { rule } else { rule.copying(operation.input(0)) }
}

/// PyTorch's own kernel, for single small volumes: through columns, forward and for each gradient (aten/src/ATen/native/ConvolutionMM3d.cpp).
fn own_of_volumes(rule: MemoryRule, operation: StepOperation, conv: &Conv<VolumeWindow>) -> MemoryRule {
    let window = conv.window.kernel.map(|side| side as u64);
    let read = operation.network.input_of(operation.node, 0).channels() as u64;
    let pixels = operation.node.shape.elements() / (operation.node.shape.channels() as u64).max(1);
    let columns = BatchBytes::per_sample(product(window.into_iter().chain([read, pixels, operation.number()])));
    let borrowed = [Take(columns), Drop(0)];
    // Single pixels are their own columns, but not those of a gradient.
    let of_image = borrowed.into_iter().filter(|_| window.iter().product::<u64>() > 1);
    let input = operation.requires_gradient(0).then_some([InputGradient(0)].into_iter().chain(borrowed));
    let bias = conv.bias.then_some(WeightGradient(1)).filter(|_| operation.trains(1));
    let weight = operation.trains(0).then_some([WeightGradient(0)].into_iter().chain(of_image.clone()));
    let rule = rule.forward(of_image).forward([Output]).backward(input.into_iter().flatten());
    rule.backward(bias).backward(weight.into_iter().flatten())
}

/// The library whose layouts need copies, where the platform has it.
pub(super) fn blocked<'a>(
    operation: StepOperation<'a>,
    images: [&'a Shape; 2],
    kernel: ConvolutionParameters<'a>,
) -> Option<BlockedConvolution<'a>> {
    let found = operation.workspaces().iter().find_map(|workspace| match workspace {
        ConvolutionWorkspace::BlockedCopies { channels, threads } => {
            Some((*channels, NativeConvolutions::for_threads(*threads), *threads))
        }
        ConvolutionWorkspace::Winograd { .. } | ConvolutionWorkspace::ChannelsLast { .. } => None,
    });
    let (block, kept, threads) = found?;
    Some(BlockedConvolution { operation, images, kernel, block, threads, kept })
}

/// Allocate, borrow a workspace, give it back: cuDNN's way (aten/src/ATen/native/cudnn/Conv_v7.cpp).
fn borrowing(rule: MemoryRule, operation: StepOperation, conv: &Conv) -> MemoryRule {
    let borrowed = |pass: ConvolutionPass| {
        let amounts = operation.workspaces().iter().filter_map(move |workspace| match workspace {
            ConvolutionWorkspace::Winograd { .. } => {
                workspace.winograd(&operation.convolution_query(conv), pass).map(|tile| winograd(tile, operation, conv))
            }
            ConvolutionWorkspace::ChannelsLast { channels } => channels_last(*channels, operation, conv),
            ConvolutionWorkspace::BlockedCopies { .. } => None,
        });
        amounts.flat_map(|amount| [Take(amount), Drop(0)])
    };
    let bias = conv.bias.then_some(WeightGradient(1)).filter(|_| operation.trains(1));
    let rule = rule.forward([Output]).forward(borrowed(ConvolutionPass::Forward));
    let rule = match operation.requires_gradient(0) {
        true => rule.backward([InputGradient(0)]).backward(borrowed(ConvolutionPass::InputGradient)),
        false => rule,
    };
    let rule = match operation.trains(0) {
        true => rule.backward([WeightGradient(0)]).backward(borrowed(ConvolutionPass::WeightGradient)),
        false => rule,
    };
    rule.backward(bias)
}

/// Transformed tiles of input and result for every sample, and transformed filters: Lavin and Gray, "Fast algorithms for
/// convolutional neural networks" (2016), F(m x m, 3 x 3) with tiles of (m + 2) x (m + 2), each transform in memory.
fn winograd(output_tile: u64, operation: StepOperation, conv: &Conv) -> BatchBytes {
    let input = operation.network.input_of(operation.node, 0);
    let [inputs, outputs] = [input.channels(), conv.out_channels].map(|channels| channels as u64);
    let tiles = product(input.image().map(|side| (side as u64).div_ceil(output_tile)));
    let transformed = BatchBytes::per_sample(product([tiles, inputs + outputs]));
    let point = transformed.plus(BatchBytes::constant(product([inputs, outputs])));
    point.times(operation.number() * (output_tile + 2).pow(2))
}

/// Copies of both operands and the result of whichever pass, which are the same three tensors in all of them.
fn channels_last(block: u64, operation: StepOperation, conv: &Conv) -> Option<BatchBytes> {
    let input = operation.network.input_of(operation.node, 0);
    let filled = |channels: usize| (channels as u64).next_multiple_of(block);
    let image = |shape: &Shape| {
        let sides = shape.image().map(|side| side as u64);
        BatchBytes::per_sample(product([operation.number(), filled(shape.channels())].into_iter().chain(sides)))
    };
    let kernel = conv.window.kernel.map(|side| side as u64);
    let filters =
        product([operation.number(), filled(input.channels()), conv.out_channels as u64].into_iter().chain(kernel));
    (conv.groups == 1).then(|| image(input).plus(image(&operation.node.shape)).plus(BatchBytes::constant(filters)))
}

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use perf4sight_base::error::Result;
    use perf4sight_network::{
        Activation, Conv, Linear, NetworkBuilder, NodeId, Op, PytorchRun, ReductionKind, Shape, VolumeWindow, Window,
    };
    use perf4sight_platform::Platform;
    use perf4sight_step::workload::{Optimizer, Stage, Step, ZeroGrad};

    /// `c2(relu(b(c(v.reshape(-1, 3, 32, 32))))).mean((2, 3)).view(4, 6, -1).mean(1)` and a classifier of 5, with 3x3 kernels of 16 and 32 channels: the peak of PyTorch's allocator over
    /// three steps of AdamW with 4 samples of 6 x 3 x 32 x 32 is 12,987,680 bytes (PyTorch 2.15). Each image is read where it is.
    #[test]
    fn frames_of_a_batch_are_images_that_are_not_copied() -> Result<()> {
        let mut builder = NetworkBuilder::new("frames", Shape::new([6, 3, 32, 32]));
        let turn = Op::Transpose { order: vec![1, 0, 2, 3] };
        let conv = |builder: &mut NetworkBuilder, name: &str, out_channels: usize, of: NodeId| -> Result<NodeId> {
            let window = VolumeWindow { kernel: [1, 3, 3], padding: [0, 1, 1], ..VolumeWindow::cube(1, 1, 0) };
            let slices = builder.add(format!("{name}_slices"), turn.clone(), &[of])?;
            let conv =
                builder.add(name, Op::Conv3d(Conv { out_channels, window, groups: 1, bias: true }), &[slices])?;
            builder.add(format!("{name}_images"), turn.clone(), &[conv])
        };
        let input = builder.input();
        let first = conv(&mut builder, "c", 16, input)?;
        let normalised = builder.add("b", Op::BatchNorm { axis: 1 }, &[first])?;
        let bent = builder.add("relu", Op::Activation(Activation::Relu), &[normalised])?;
        let second = conv(&mut builder, "c2", 32, bent)?;
        let mean = |axes: Vec<usize>| Op::Reduce { reduction: ReductionKind::Mean, axes, keep: false };
        let images = builder.add("images", mean(vec![2, 3]), &[second])?;
        let frames = builder.add("frames", mean(vec![0]), &[images])?;
        let last = builder.add("l", Op::Linear(Linear { out_features: 5, bias: true }), &[frames])?;
        let peak = with_adamw(builder, last, 4)?;
        assert!((peak / 12_987_680.0 - 1.0).abs() < 0.001, "{peak}");
        Ok(())
    }

    fn with_adamw(builder: NetworkBuilder, last: NodeId, batch: u64) -> Result<f64> {
        let step = Step { optimizer: Optimizer::AdamW, zero_grad: ZeroGrad::Free, ..Step::published(Stage::Training) };
        let (network, cpu) = (builder.finish(last), Platform::for_name("cpu")?);
        Ok(Simulation::new(&network, step, &cpu).peak(batch).allocated.0 as f64)
    }

    /// `Conv3d(8, 8, 3, padding=1)`, whose channels are the classes of every point: the peak of PyTorch's allocator over three steps of AdamW with one sample of 8 x 32 x 32 x 32 is
    /// 30,698,640 bytes (PyTorch 2.15), of which columns are 28,311,552.
    #[test]
    fn a_single_small_volume_is_read_by_columns() -> Result<()> {
        let mut builder = NetworkBuilder::new("volume", Shape::new([8, 32, 32, 32]));
        let conv = Conv { out_channels: 8, window: VolumeWindow::cube(3, 1, 1), groups: 1, bias: true };
        let last = builder.add("conv", Op::Conv3d(conv), &[builder.input()])?;
        let peak = with_adamw(builder, last, 1)?;
        assert!((peak / 30_698_640.0 - 1.0).abs() < 0.001, "{peak}");
        Ok(())
    }

    /// `Conv2d(64, 64, 15, padding=7, groups=4)`, likewise, with 4 samples of 64 x 24 x 24: 16,866,576 bytes on two threads.
    /// Groups of 12 and of 5 channels, which fill no blocks: `Conv2d(96, 96, 11, padding=5, groups=8)` with 2 samples of 96 x 28 x 28 takes 10,232,592, `Conv2d(20, 20, 5,
    /// padding=2, groups=4)` behind a `Conv2d(3, 20, 1)` with one of 3 x 40 x 40 2,047,352.
    #[test]
    fn filters_in_groups_have_columns_of_a_group() -> Result<()> {
        let cases = [
            ([64, 24, 64, 15, 4, 4], false, 16_866_576.0),
            ([96, 28, 96, 11, 8, 2], false, 10_232_592.0),
            ([3, 40, 20, 5, 4, 1], true, 2_047_352.0),
        ];
        for ([read, side, made, kernel, groups, samples], is_behind, expected) in cases {
            let mut builder = NetworkBuilder::new("groups", Shape::new([read, side, side]));
            let conv = |kernel, groups| {
                Op::Conv(Conv { out_channels: made, window: Window::square(kernel, 1, kernel / 2), groups, bias: true })
            };
            let image = match is_behind {
                true => builder.add("first", conv(1, 1), &[builder.input()])?,
                false => builder.input(),
            };
            let last = builder.add("conv", conv(kernel, groups), &[image])?;
            let peak = with_adamw(builder, last, samples as u64)?;
            assert!((peak / expected - 1.0).abs() < 0.001, "{peak} {expected}");
        }
        Ok(())
    }

    /// `t(x)` of 64 features and its view as images, channels last.
    fn image_of_tokens(builder: &mut NetworkBuilder, features: usize, side: usize) -> Result<NodeId> {
        let layer = Op::Linear(Linear { out_features: features, bias: true });
        let tokens = builder.add("t", layer, &[builder.input()])?;
        let turned = builder.add("turned", Op::Transpose { order: vec![1, 0] }, &[tokens])?;
        builder.add("image", Op::Reshape(Shape::new([features, side, side])), &[turned])
    }

    fn square(out_channels: usize) -> Op {
        Op::Conv(Conv { out_channels, window: Window::square(3, 1, 1), groups: 1, bias: true })
    }

    /// `o(s(t(x).view(b, 144, 6, 64).permute(0, 2, 3, 1).reshape(b * 6, 64, 12, 12)).mean((2, 3)).view(b, 6, 32).mean(1))` with a 3x3 convolution of 32 channels and 5 classes:
    /// the peak of PyTorch's allocator over three steps of AdamW with 4 samples of 864 x 64 is 4,853,904 bytes (PyTorch 2.15). The reshape copies, once.
    #[test]
    fn frames_that_a_reshape_copied_are_not_copied_again() -> Result<()> {
        let mut builder = NetworkBuilder::new("frames", Shape::new([864, 64]));
        let layer = Op::Linear(Linear { out_features: 64, bias: true });
        let tokens = builder.add("t", layer, &[builder.input()])?;
        let apart = builder.add("apart", Op::Reshape(Shape::new([144, 6, 64])), &[tokens])?;
        let turned = builder.add("turned", Op::Transpose { order: vec![1, 2, 0] }, &[apart])?;
        let joined = builder.add("joined", Op::Reshape(Shape::new([6, 64, 12, 12])), &[turned])?;
        builder.set_runs(joined, PytorchRun::Joining);
        let turn = Op::Transpose { order: vec![1, 0, 2, 3] };
        let slices = builder.add("slices", turn.clone(), &[joined])?;
        let window = VolumeWindow { kernel: [1, 3, 3], padding: [0, 1, 1], ..VolumeWindow::cube(1, 1, 0) };
        let conv = Op::Conv3d(Conv { out_channels: 32, window, groups: 1, bias: true });
        let conv = builder.add("s", conv, &[slices])?;
        let images = builder.add("images", turn, &[conv])?;
        let mean = |axes: Vec<usize>| Op::Reduce { reduction: ReductionKind::Mean, axes, keep: false };
        let means = builder.add("means", mean(vec![2, 3]), &[images])?;
        let mean = builder.add("mean", mean(vec![0]), &[means])?;
        let last = builder.add("o", Op::Linear(Linear { out_features: 5, bias: true }), &[mean])?;
        let peak = with_adamw(builder, last, 4)?;
        assert!((peak / 4_853_904.0 - 1.0).abs() < 0.001, "{peak}");
        Ok(())
    }

    /// `s(t(x).transpose(1, 2).reshape(b, 64, 12, 12))` with a 3x3 convolution of 32 channels, which are the classes of every pixel: the peak of PyTorch's allocator over three
    /// steps of AdamW with 24 samples of 144 x 64 is 4,133,272 bytes (PyTorch 2.15). Cross-entropy gives a contiguous gradient, which the convolution copies.
    #[test]
    fn the_gradient_of_classes_of_pixels_is_contiguous() -> Result<()> {
        let mut builder = NetworkBuilder::new("pixels", Shape::new([144, 64]));
        let image = image_of_tokens(&mut builder, 64, 12)?;
        let last = builder.add("s", square(32), &[image])?;
        let peak = with_adamw(builder, last, 24)?;
        assert!((peak / 4_133_272.0 - 1.0).abs() < 0.001, "{peak}");
        Ok(())
    }

    /// `o(F.pixel_shuffle(c(t(x).transpose(1, 2).reshape(b, 32, 16, 16)), 2))` with 3x3 convolutions of 128 and 16 channels: the peak of PyTorch's allocator over three steps of
    /// AdamW with 4 samples of 256 x 32 is 2,455,968 bytes (PyTorch 2.15). A shuffle of channels-last images gives such images.
    #[test]
    fn shuffled_pixels_lie_as_the_image_does() -> Result<()> {
        let mut builder = NetworkBuilder::new("shuffled", Shape::new([256, 32]));
        let image = image_of_tokens(&mut builder, 32, 16)?;
        let wide = builder.add("c", square(128), &[image])?;
        let blocks = builder.add("blocks", Op::Reshape(Shape::new([32, 2, 2, 16, 16])), &[wide])?;
        let turned = builder.add("turned_blocks", Op::Transpose { order: vec![0, 3, 1, 4, 2] }, &[blocks])?;
        let shuffled = builder.add("shuffled", Op::Reshape(Shape::new([32, 32, 32])), &[turned])?;
        [blocks, shuffled].into_iter().for_each(|step| builder.set_runs(step, PytorchRun::PixelShuffle));
        let last = builder.add("o", square(16), &[shuffled])?;
        let peak = with_adamw(builder, last, 4)?;
        assert!((peak / 2_455_968.0 - 1.0).abs() < 0.002, "{peak}");
        Ok(())
    }
}
