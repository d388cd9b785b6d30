//! Transposed convolutions on a processor: oneDNN computes them as the gradient of a convolution's input, in blocked layouts, and PyTorch copies the
//! result once more (`mkldnn_convolution_transpose` in aten/src/ATen/native/mkldnn/Conv.cpp). The moves are those that the profiler of PyTorch 2.11 shows,
//! kernels of 2 to 4 pixels, strides of 1 and 2, 3 to 112 channels.

use super::blocked::pixels;
use super::operation::Operation;
use super::rule::Move::{Drop, InputGradient, Output, Take, WeightGradient};
use super::rule::{Move, Rule, Saved};
use super::shared_gradient::FilterGradient;
use super::small_products::{Moves, lists};
use crate::amount::{Amount, product};
use perf4sight_network::{Conv, Shape};
use perf4sight_platform::{Kept, Workspace};
use perf4sight_step::workload::Number;

/// What a scratchpad within another takes more than its contents, and what aligns the list of products of a kernel that moves by one pixel, as measured.
const PART: u64 = 128;
const ALIGNED: u64 = 4224;

/// Channels of a plain image.
const RGB: u64 = 3;

/// The rule of a transposed convolution, with its weights already set; none where no library computes it in blocks.
pub(super) fn rule(rule: Rule, operation: Operation, conv: &Conv) -> Option<Rule> {
    let (block, kept, threads) = operation.workspaces().iter().find_map(|workspace| match workspace {
        Workspace::BlockedCopies { channels, threads } => Some((*channels, Kept::on(*threads), *threads)),
        Workspace::Winograd { .. } | Workspace::ChannelsLast { .. } => None,
    })?;
    let copies = Copies { operation, conv, block, kept, threads };
    let rule = rule.saves([Saved::Input(0), Saved::Cast(0)]);
    if operation.runs_channels_last() {
        return Some(rule.forward(copies.forward_channels_last()).backward(copies.backward_channels_last()));
    }
    let rule = rule.forward(copies.forward());
    let bias = conv.bias.then_some(WeightGradient(1)).filter(|_| operation.learns(1));
    let input = [copies.filters(), copies.source()];
    let blocks = (!copies.makes_plain_image()).then(|| copies.result());
    let input = operation.tracked(0).then(|| copies.gradient(blocks, input, None, InputGradient(0)));
    let weight = [copies.source(), copies.filters()];
    let blocks = (conv.out_channels as u64 > RGB).then(|| copies.result());
    let weight = operation.learns(0).then(|| copies.gradient(blocks, weight, copies.sums(), WeightGradient(0)));
    Some(rule.backward(input.into_iter().flatten()).backward(weight.into_iter().flatten()).backward(bias))
}

struct Copies<'a> {
    operation: Operation<'a>,
    conv: &'a Conv,
    block: u64,
    kept: Kept,
    threads: u64,
}

impl Copies<'_> {
    fn forward(&self) -> Vec<Move> {
        let [source, filters, result] = [self.source(), self.filters(), self.result()].map(Take);
        let plain = Take(self.unless_kept(self.operation.output()));
        match self.conv.window.stride == [1, 1] {
            // The scratchpad is of the result's size, and both fill whole blocks.
            true => {
                let channels = (self.conv.out_channels as u64).next_multiple_of(self.block);
                let blocks = Take(self.image(&self.operation.node.shape, channels));
                vec![blocks, source, filters, blocks, Drop(1), Drop(1), Drop(1), Output, Drop(0)]
            }
            false => {
                let moves = vec![source, filters, result, Drop(1), Drop(1), Drop(1), plain, Output, Drop(0), Drop(0)];
                [Take(self.scratchpad())].into_iter().chain(moves).collect()
            }
        }
    }

    /// Of a channels-last image, which is read as it is: PyTorch permutes the filters, oneDNN copies them into blocks (PyTorch 2.15, kernels of 2 to 4 pixels,
    /// strides of 1 and 2, 3 to 48 channels, two threads).
    fn forward_channels_last(&self) -> Vec<Move> {
        let is_strided = self.conv.window.stride != [1, 1];
        let scratch = if is_strided { self.scratchpad() } else { self.list() };
        let turned = Take(self.plain_filters());
        vec![turned, Output, Take(scratch), Take(self.filters()), Drop(0), Drop(0), Drop(0)]
    }

    /// The gradients of input, bias and filters, likewise.
    fn backward_channels_last(&self) -> Vec<Move> {
        let [turned, filters] = [self.plain_filters(), self.filters()].map(Take);
        let scratch = Take(self.list());
        let input = [InputGradient(0), filters, scratch, Drop(0), Drop(0)];
        let input = input.into_iter().filter(|_| self.operation.tracked(0));
        let bias = self.conv.bias.then_some(WeightGradient(1)).filter(|_| self.operation.learns(1));
        let weight = [filters].into_iter().chain(bias).chain([turned, WeightGradient(0), Drop(0), Drop(0)]);
        let weight = weight.filter(|_| self.operation.learns(0));
        [turned].into_iter().chain(input).chain(weight).chain([Drop(0)]).collect()
    }

    /// What the kernel of strided gradients borrows, which computes the result.
    fn scratchpad(&self) -> Amount {
        let window = &self.conv.window;
        let (sides, strides, padding) = (&window.kernel, &window.stride, &window.padding[..2]);
        let [made, read] = [&self.operation.node.shape, self.operation.network.input_of(self.operation.node, 0)];
        let moves = Moves { sides, strides, padding, made, read };
        self.unless_kept(Amount::once(moves.scratchpad(self.threads) + PART))
    }

    /// What threads borrow to add up the gradient of the filters: that of a convolution that reads the result.
    fn shared(&self) -> Option<Amount> {
        let image = self.operation.network.input_of(self.operation.node, 0);
        let (window, made) = (&self.conv.window, self.conv.out_channels as u64);
        let gradient = FilterGradient {
            threads: self.threads,
            samples: self.operation.samples,
            groups: self.conv.groups as u64,
            images: [&self.operation.node.shape, image],
            of: [if made <= RGB { made } else { self.block }, self.block],
            area: self.area(),
            step: product(window.stride.map(|step| step as u64)),
            is_point: false,
            shares_rows: window.dilation == [1; 2],
            bias: false,
        };
        let [filters, _] = gradient.scratchpad();
        (filters > 0).then(|| self.unless_kept(Amount::once(filters + PART)))
    }

    /// Pixels of the kernel.
    fn area(&self) -> u64 {
        product(self.conv.window.kernel.map(|side| side as u64))
    }

    /// The incoming gradient in blocks, unless it is read as a plain image, and two more copies, of which the first is gone before the gradient is copied
    /// back; sums while it is computed.
    fn gradient(&self, blocks: Option<Amount>, copies: [Amount; 2], sums: Option<Amount>, made: Move) -> Vec<Move> {
        let sums = sums.into_iter().flat_map(|sums| [Take(sums), Drop(0)]);
        let gone = [Drop(1); 2].into_iter().skip(usize::from(blocks.is_none()));
        let taken = blocks.into_iter().chain(copies).map(Take);
        taken.chain(sums).chain(gone).chain([made, Drop(0)]).collect()
    }

    /// The list of products of a kernel that moves by one pixel.
    fn list(&self) -> Amount {
        self.unless_kept(Amount::once(lists(self.threads, self.area()) + ALIGNED))
    }

    /// Sums of filters; in fewer bits in single precision, and both images turned, rows of the larger one filled up as for other convolutions.
    fn sums(&self) -> Option<Amount> {
        let (number, block) = (self.operation.number(), self.block);
        let [height, width] = self.operation.node.shape.image().map(|side| side as u64);
        let made = self.conv.out_channels as u64;
        let channels = made.next_multiple_of(if made <= RGB { RGB + 1 } else { block });
        let read = self.operation.network.input_of(self.operation.node, 0);
        let small = product([(read.channels() as u64).next_multiple_of(block), pixels(read)]);
        let turned = product([channels, height, width + 4]).saturating_add(small).saturating_mul(number);
        let filters = self.filters().times(Number::Fp32.bytes()).divided_by(number);
        if self.operation.is_low() { Some(filters.and(Amount::once(turned))) } else { self.shared() }
    }

    fn source(&self) -> Amount {
        let image = self.operation.network.input_of(self.operation.node, 0);
        self.image(image, (image.channels() as u64).next_multiple_of(self.block))
    }

    fn result(&self) -> Amount {
        let channels = self.conv.out_channels as u64;
        let channels = if self.makes_plain_image() { channels } else { channels.next_multiple_of(self.block) };
        self.image(&self.operation.node.shape, channels)
    }

    fn filters(&self) -> Amount {
        let inputs = self.operation.network.input_of(self.operation.node, 0).channels() as u64;
        let whole = |channels: u64| (channels / self.conv.groups as u64).next_multiple_of(self.block);
        let (made, groups) = (self.conv.out_channels as u64, self.conv.groups as u64);
        let channels = match inputs == groups && made == groups {
            // Each channel by itself.
            true => [groups.next_multiple_of(self.block), 1, 1],
            false => [whole(inputs), whole(made), groups],
        };
        self.unless_kept(Amount::once(product(channels.into_iter().chain([self.operation.number(), self.area()]))))
    }

    /// Filters as the module holds them.
    fn plain_filters(&self) -> Amount {
        let read = self.operation.network.input_of(self.operation.node, 0).channels() as u64;
        let made = (self.conv.out_channels / self.conv.groups) as u64;
        self.unless_kept(Amount::once(product([self.operation.number(), read, made, self.area()])))
    }

    fn image(&self, image: &Shape, channels: u64) -> Amount {
        self.unless_kept(Amount::per_sample(product([self.operation.number(), channels, pixels(image)])))
    }

    /// Fewer channels than a block are written without one.
    fn makes_plain_image(&self) -> bool {
        (self.conv.out_channels as u64) < self.block && self.conv.groups == 1
    }

    fn unless_kept(&self, amount: Amount) -> Amount {
        amount.only_if(self.operation.samples >= self.kept.library_from(&self.operation.asked(self.conv)))
    }
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
        let (network, cpu) = (builder.finish(last), Platform::named("cpu")?.on_threads(2));
        let peak = Simulation::new(&network, step, &cpu).peak(4).allocated.0;
        assert!(peak.abs_diff(1_892_808) < 2000, "{peak}");
        Ok(())
    }
}
