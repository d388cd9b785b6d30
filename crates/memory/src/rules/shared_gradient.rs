//! What oneDNN borrows to add up the gradients of filters and bias that two threads compute of half of the samples each.
//!
//! Threads share the samples, or the filters, whichever reads and writes less (`balance` of jit_avx512_common_conv_kernel.cpp); blocks of the bias
//! where each has enough of them (`reduce_balancer_t` of src/cpu/x64/cpu_reducer.cpp, which kernels of blocks of 8 use for filters too). The sizes
//! were read off PyTorch 2.11 with its profiler: 1x1, 3x3 and 5x5 kernels, 1 to 128 channels, images of 4 to 64 pixels, 2 to 8 samples.

use super::blocked::{Blocked, pixels};
use crate::amount::{Amount, product};

/// What a part of a scratchpad takes more than its contents.
const PART: u64 = 128;

/// A barrier at which threads wait for each other.
const BARRIER: u64 = 8192;

/// What sums of a reducer take more than their contents.
const SUMS: u64 = 4096;

/// The blocks of channels that a kernel reads and writes.
struct Blocks {
    channels: [u64; 2],
    of: [u64; 2],
}

impl Blocks {
    fn counts(&self) -> [u64; 2] {
        [0, 1].map(|at| self.channels[at].div_ceil(self.of[at]))
    }

    fn filled(&self) -> [u64; 2] {
        [0, 1].map(|at| self.channels[at].next_multiple_of(self.of[at]))
    }
}

impl Blocked<'_> {
    /// The parts of the scratchpad of a weight gradient, for filters and for the bias.
    pub fn shared(&self) -> [Amount; 2] {
        if self.threads == 1 || self.kernel.groups > 1 || self.sums_apart() {
            return [Amount::once(0); 2];
        }
        let (blocks, number) = (self.blocks(), self.operation.number());
        let ([inputs, outputs], [_, jobs]) = (blocks.filled(), blocks.counts());
        let filters = product([number, inputs, outputs, self.kernel.area()]);
        let (bias, of_kernel) = (number * outputs, if self.has_point_kernel() { 0 } else { number * outputs });
        let learned = match self.block_of_gradient() < self.block {
            true => reduced(product(blocks.counts()), filters),
            false => Amount::once(filters + of_kernel + PART + BARRIER).starting_at(self.shares_samples(&blocks)),
        };
        let of_bias = if self.kernel.bias { reduced(jobs, bias) } else { Amount::once(0) };
        [learned, of_bias].map(|amount| self.unless_kept(amount))
    }

    fn blocks(&self) -> Blocks {
        let block = self.block_of_gradient();
        let read = if self.reads_rgb() { self.seen() } else { block };
        Blocks { channels: [self.seen(), self.kernel.out_channels as u64], of: [read, block] }
    }

    /// From how many samples on threads share these: `calc_mem_cost`, of which 10 % more are accepted, but not by 1x1 kernels, and any where one thread
    /// has two thirds of the blocks otherwise.
    fn shares_samples(&self, blocks: &Blocks) -> u64 {
        let [inputs, outputs] = blocks.filled();
        let read = product([inputs, pixels(self.image())]) / self.kernel.step;
        let written = product([outputs, pixels(&self.operation.node.shape)]);
        let learned = product([8, inputs, outputs, self.kernel.area()]);
        let accepted = if self.has_point_kernel() { 10 } else { 11 };
        let [halved_inputs, halved_outputs] = blocks.counts().map(|count| [count.div_ceil(2), count]);
        if !self.has_point_kernel() && [halved_inputs, halved_outputs].iter().all(|[half, count]| 3 * half >= 2 * count)
        {
            return 2;
        }
        let half = |cost: u64, [half, count]: [u64; 2]| cost * half / count.max(1);
        let otherwise = [
            (halved_inputs, half(read, halved_inputs) + written),
            (halved_outputs, read + half(written, halved_outputs)),
        ];
        let possible = otherwise.into_iter().filter(|([half, count], _)| half < count);
        let least = possible.map(|(halved, each)| {
            let once = (10 * learned).saturating_sub(accepted * half(learned, halved));
            once / (accepted * each).saturating_sub(5 * (read + written)).max(1) + 1
        });
        least.fold(2, u64::max)
    }
}

/// Sums of so many jobs, which two threads share only where they cannot take half of the jobs each.
fn reduced(jobs: u64, bytes: u64) -> Amount {
    let from = match jobs {
        1 => 2,
        odd if odd % 2 == 1 => 2 * odd + 2,
        _ => u64::MAX,
    };
    Amount::once(bytes + SUMS + BARRIER).starting_at(from)
}

#[cfg(test)]
mod tests {
    use crate::followed::totals;
    use crate::memo::Memo;
    use crate::tensor::Phase;
    use perf4sight_base::error::Result;
    use perf4sight_network::{Conv, Network, NetworkBuilder, Op, Shape, Window};
    use perf4sight_platform::Platform;
    use perf4sight_step::workload::{Stage, Step};

    #[test]
    fn depthwise_kernels_taller_than_the_image_read_it_without_a_copy() -> Result<()> {
        // 3 samples of 64 channels, 3x3: PyTorch 2.11 copies both images (12,288 bytes each) of 8 rows of 2 pixels, none of 2 rows of 8 pixels: there the gradient
        // (2,304 bytes) next to its copy is the most.
        let backward = |image: [usize; 2]| {
            let mut builder = NetworkBuilder::new("depthwise", Shape::new([64, image[0], image[1]]));
            let conv = Conv { out_channels: 64, window: Window::square(3, 1, 1), groups: 64, bias: true };
            let made = builder.add("conv", Op::Conv(conv), &[builder.input()])?;
            let (network, cpu) = (builder.finish(made), Platform::named("cpu")?);
            let found = totals(&Memo::new(&network, &cpu), Step::published(Stage::Training), 3);
            Ok::<_, perf4sight_base::error::Error>(found[&(Phase::Backward as usize, made)])
        };
        assert_eq!(backward([8, 2])? - backward([2, 8])?, 2 * 12_288 - 2_304);
        Ok(())
    }

    /// A convolution with its samples.
    struct Case {
        samples: u64,
        channels: [usize; 2],
        image: usize,
        window: Window,
        bias: bool,
    }

    impl Case {
        fn network(&self) -> Result<Network> {
            let [read, out_channels] = self.channels;
            let mut builder = NetworkBuilder::new("convolution", Shape::new([read, self.image, self.image]));
            let conv = Conv { out_channels, window: self.window.clone(), groups: 1, bias: self.bias };
            let made = builder.add("conv", Op::Conv(conv), &[builder.input()])?;
            Ok(builder.finish(made))
        }

        /// How many bytes more the gradient takes on two threads than on one.
        fn shared(&self) -> Result<u64> {
            let network = self.network()?;
            let on = |threads| {
                let cpu = Platform::named("cpu")?.on_threads(threads);
                let memo = Memo::new(&network, &cpu);
                let found = totals(&memo, Step::published(Stage::Training), self.samples);
                Ok(found[&(Phase::Backward as usize, network.iter().last().map(|(id, _)| id).unwrap())])
            };
            Ok(on(2)? - on(1)?)
        }
    }

    #[test]
    fn two_threads_borrow_what_pytorch_shows() -> Result<()> {
        // The largest allocation of `aten::convolution_backward` that PyTorch 2.11 frees first, by the memory events of its profiler on two threads; on
        // one there is none. AVX-512.
        let cases = [
            (4, [16, 16], 32, (3, 1, 0), true, 29_952),
            (4, [16, 16], 32, (3, 1, 0), false, 17_600),
            (4, [3, 16], 32, (3, 1, 0), true, 22_464),
            (4, [64, 64], 32, (3, 1, 0), true, 156_032),
            // Threads share the filters.
            (4, [64, 64], 8, (3, 1, 0), true, 0),
            (8, [64, 16], 4, (3, 1, 1), true, 12_352),
            (8, [48, 48], 14, (3, 1, 1), true, 103_936),
            (3, [48, 48], 14, (3, 1, 1), false, 91_456),
            (3, [16, 128], 56, (3, 1, 1), true, 82_560),
            (5, [128, 24], 56, (3, 1, 1), false, 155_904),
            (2, [16, 48], 14, (3, 2, 1), true, 36_160),
            // Kernels of AVX2.
            (8, [8, 24], 32, (3, 1, 1), false, 19_200),
            (2, [8, 16], 16, (5, 1, 2), false, 0),
        ];
        for (samples, channels, image, (side, step, padding), bias, bytes) in cases {
            let case = Case { samples, channels, image, window: Window::square(side, step, padding), bias };
            assert_eq!(case.shared()?, bytes, "{samples} x {channels:?} x {image}, {side}");
        }
        Ok(())
    }
}
