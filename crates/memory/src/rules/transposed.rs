//! Transposed convolutions on a processor: oneDNN computes the result as the gradient of a convolution's input, and the gradients as the result and the gradient of
//! filters of that convolution (`mkldnn_convolution_transpose` in aten/src/ATen/native/mkldnn/Conv.cpp), whose image and result change places.

use super::blocked::{BlockedConvolution, ConvolutionParameters};
use super::convolution::blocked;
use super::operation::StepOperation;
use super::rule::RuleAction::{Drop, InputGradient, Output, Take, WeightGradient};
use super::rule::{MemoryRule, RuleAction, SavedTensor};
use perf4sight_network::Conv;

/// The rule of a transposed convolution, with its weights already set; none where no library computes it in blocks.
pub(super) fn rule(rule: MemoryRule, operation: StepOperation, conv: &Conv) -> Option<MemoryRule> {
    let images = [&operation.node.shape, operation.network.input_of(operation.node, 0)];
    let reversed = Conv { out_channels: images[1].channels(), bias: false, ..conv.clone() };
    let blocked = blocked(
        operation,
        images,
        ConvolutionParameters::of_images(operation.convolution_query(conv), images, &reversed),
    )?;
    let bias = conv.bias.then_some(WeightGradient(1)).filter(|_| operation.trains(1));
    let rule = rule.saves([SavedTensor::Input(0), SavedTensor::Cast(0)]);
    Some(match operation.runs_channels_last() {
        true => {
            let forward = blocked.with_turned_filters(exchange_roles(blocked.input_gradient_channels_last()));
            let input = of_input(&blocked, BlockedConvolution::result_channels_last);
            let weight =
                if blocked.trains_weights() { blocked.weight_gradient_channels_last(conv.bias) } else { Vec::new() };
            rule.forward(forward).backward(blocked.with_turned_filters([input, weight].concat()))
        }
        false => {
            let weight = if operation.trains(0) { blocked.weight_gradient() } else { Vec::new() };
            let rule = rule.forward(with_bias(&blocked, conv.bias, exchange_roles(blocked.input_gradient())));
            rule.backward(of_input(&blocked, BlockedConvolution::forward)).backward(weight).backward(bias)
        }
    })
}

/// Kernels of convolutions without strides add no bias: oneDNN computes the result in a scratchpad as large, and adds it there.
fn with_bias(blocked: &BlockedConvolution, bias: bool, moves: Vec<RuleAction>) -> Vec<RuleAction> {
    match bias && !blocked.kernel.is_strided() && !blocked.sums_apart() {
        true => [vec![Take(blocked.source())], moves, vec![Drop(0)]].concat(),
        false => moves,
    }
}

/// The gradient of the input, which is the result of the other convolution.
fn of_input<'a>(
    blocked: &BlockedConvolution<'a>,
    result: impl Fn(&BlockedConvolution<'a>) -> Vec<RuleAction>,
) -> Vec<RuleAction> {
    if blocked.operation.requires_gradient(0) { exchange_roles(result(blocked)) } else { Vec::new() }
}

/// The moves of the other convolution, whose input's gradient is the result here, and whose result is the gradient of the input.
fn exchange_roles(moves: Vec<RuleAction>) -> Vec<RuleAction> {
    let exchange = |made| match made {
        Output => InputGradient(0),
        InputGradient(_) => Output,
        other => other,
    };
    moves.into_iter().map(exchange).collect()
}

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use perf4sight_base::error::Result;
    use perf4sight_network::{Activation, Conv, ConvTranspose, NetworkBuilder, Op, Shape, Window};
    use perf4sight_platform::Platform;
    use perf4sight_step::workload::{Optimizer, Stage, Step, ZeroGrad};

    /// `d(relu(c(x.permute(0, 3, 1, 2))))` with transposed convolutions of 32 and 3 channels, 4x4 pixels and a stride of 2, which are the classes of every pixel: the peak of PyTorch's
    /// allocator over three steps of AdamW with 4 samples of 16 x 16 x 16 is 1,892,808 bytes (PyTorch 2.15, two threads). In blocks it would be 2.5 million.
    #[test]
    fn channels_last_images_are_read_as_they_are() -> Result<()> {
        let mut builder = NetworkBuilder::new("last", Shape::new([16, 16, 16]));
        let up = |out_channels| {
            Op::ConvTranspose(ConvTranspose {
                conv: Conv { out_channels, window: Window::square(4, 2, 1), groups: 1, bias: true },
                extra: [0; 2],
            })
        };
        let image = builder.add("image", Op::Transpose { order: vec![2, 0, 1] }, &[builder.input()])?;
        let wide = builder.add("c", up(32), &[image])?;
        let bent = builder.add("relu", Op::Activation(Activation::Relu), &[wide])?;
        let last = builder.add("d", up(3), &[bent])?;
        let step = Step { optimizer: Optimizer::AdamW, zero_grad: ZeroGrad::Free, ..Step::published(Stage::Training) };
        let (network, cpu) = (builder.finish(last), Platform::for_name("cpu")?.on_threads(2));
        let peak = Simulation::new(&network, step, &cpu).peak(4).allocated.0;
        assert!(peak.abs_diff(1_892_808) < 2000, "{peak}");
        Ok(())
    }
}
