//! What oneDNN borrows to add up the gradients of filters and bias that threads compute of a part of the samples each ([`FilterGradientWork`] says how many do).
//!
//! The sizes were read off PyTorch's profiler: 1x1, 3x3 and 5x5 kernels, 1 to 128 channels, images of 4 to 64 pixels, 2 to 8 samples; one to eight threads.

use super::balance::{FilterGradientWork, ROWS, ThreadDivision, best_part, summed_jobs};
use crate::amount::product;
use perf4sight_network::Shape;
use perf4sight_step::workload::NumberFormat;

/// What a part of a scratchpad takes more than its contents.
const PART: u64 = 128;

/// Bytes that sums are aligned to, and of a barrier at which threads wait for each other.
const PAGE: u64 = 4096;

/// Channels of a block in vectors of 512 bits.
const WIDE: u64 = 16;

/// What a filter costs, next to a number read or written: of 1x1 kernels, and of others.
const POINT_COST: u64 = 12;
const FILTER_COST: u64 = 8;

/// The gradient of a convolution's filters.
pub(super) struct FilterGradient<'a> {
    pub threads: u64,
    pub samples: u64,
    pub groups: u64,
    /// The image that is read, and the result.
    pub images: [&'a Shape; 2],
    /// Channels of a block of both.
    pub of: [u64; 2],
    /// Pixels of the kernel, and of the image for each pixel of the result.
    pub area: u64,
    pub step: u64,
    /// Whether there is a kernel for what sees one pixel.
    pub is_point: bool,
    /// Whether threads may share the rows of a sample.
    pub shares_rows: bool,
    pub bias: bool,
}

impl FilterGradient<'_> {
    /// Bytes of the scratchpad, for filters and for the bias.
    pub fn scratchpad(&self) -> [u64; 2] {
        let ([inputs, outputs], blocks) = (self.filled_channels(), self.blocks());
        let filters = product([NumberFormat::Fp32.bytes(), self.groups, inputs, outputs, self.area]);
        let bias = product([NumberFormat::Fp32.bytes(), self.groups, outputs]);
        let [jobs, of_bias] = [product(blocks), blocks[1]].map(|jobs| product([jobs, self.groups]));
        let (learned, threads) = if self.of[1] < WIDE {
            (reduction_bytes(self.threads, jobs, self.samples, filters / jobs), self.threads)
        } else {
            let ThreadDivision { sharing, threads } =
                self.work().map_or(ThreadDivision::NONE, |work| work.best_division());
            let sums = product([filters.saturating_add(if self.is_point { 0 } else { bias }), sharing - 1]);
            (if sharing > 1 { sums.saturating_add(PART + 2 * PAGE) } else { 0 }, threads)
        };
        let of_bias = if self.bias { reduction_bytes(threads, of_bias, self.samples, bias / of_bias) } else { 0 };
        [learned, of_bias]
    }

    /// Channels of a group, of the image and the result.
    fn channels(&self) -> [u64; 2] {
        self.images.map(|image| (image.channels() as u64 / self.groups).max(1))
    }

    fn blocks(&self) -> [u64; 2] {
        let channels = self.channels();
        [0, 1].map(|at| channels[at].div_ceil(self.of[at]))
    }

    fn filled_channels(&self) -> [u64; 2] {
        let channels = self.channels();
        [0, 1].map(|at| channels[at].next_multiple_of(self.of[at]))
    }

    /// What threads divide among them; none where there are more groups than threads.
    fn work(&self) -> Option<FilterGradientWork> {
        let (samples, [read, written]) = (self.samples, self.of);
        let [image, result] = self.images.map(|image| image.elements() / (image.channels() as u64).max(1));
        let common = FilterGradientWork {
            threads: self.threads / self.groups,
            parts: [samples; 2],
            sizes: [product([read, image]), product([written, result])],
            step: self.step,
            most: samples,
            round_up_to: samples,
            blocks: self.blocks(),
            filters: product([read, written, self.area]),
            filter_cost: FILTER_COST,
            is_evened: true,
        };
        let (depth, [read_rows, rows]) = (self.depth(), self.images.map(|image| image.image()[0] as u64));
        let work = if self.is_point {
            let part = pixels_of_part(result, self.images[1].image()[1] as u64);
            let parts = product([samples, result.div_ceil(part)]);
            let (sizes, filter_cost) = ([read * part, written * part], POINT_COST);
            FilterGradientWork {
                parts: [parts; 2],
                sizes,
                step: 1,
                most: parts,
                filter_cost,
                is_evened: false,
                ..common
            }
        } else if self.shares_rows && rows > ROWS {
            let most = product([samples, rows / ROWS]);
            let parts = [read_rows, rows].map(|rows| product([samples, rows]));
            let sizes = [common.sizes[0] / read_rows, common.sizes[1] / rows];
            FilterGradientWork { parts, sizes, most, round_up_to: most, ..common }
        } else {
            let most = product([samples, depth]);
            FilterGradientWork { most, round_up_to: most, ..common }
        };
        (work.threads > 0).then_some(work)
    }

    /// Planes of the result.
    fn depth(&self) -> u64 {
        match *self.images[1].dims() {
            [_, depth, _, _] => depth as u64,
            _ => 1,
        }
    }
}

/// Pixels that a thread reads of an image at a time, for a 1x1 kernel.
fn pixels_of_part(pixels: u64, width: u64) -> u64 {
    let mut part = best_part(pixels, 7, 16, true);
    if !pixels.is_multiple_of(part) {
        part = best_part(width, 4, width, false);
    }
    if part > 256 { 1 } else { part }
}

/// Bytes of the sums of jobs that several threads compute, and of a barrier for each group of threads.
fn reduction_bytes(threads: u64, jobs: u64, samples: u64, bytes: u64) -> u64 {
    match summed_jobs(threads, jobs, samples) {
        (_, 0) => 0,
        (groups, sums) => product([sums, bytes]).saturating_add(PAGE * (groups + 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::FilterGradient;
    use crate::followed::totals;
    use crate::simulation_cache::SimulationCache;
    use crate::tensor::StepPhase;
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
            let (network, cpu) = (builder.finish(made), Platform::for_name("cpu")?);
            let found = totals(&SimulationCache::new(&network, &cpu), Step::published(Stage::Training), 3);
            Ok::<_, perf4sight_base::error::Error>(found[&(StepPhase::Backward as usize, made)])
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
                let cpu = Platform::for_name("cpu")?.on_threads(threads);
                let memo = SimulationCache::new(&network, &cpu);
                let found = totals(&memo, Step::published(Stage::Training), self.samples);
                Ok(found[&(StepPhase::Backward as usize, network.iter().last().map(|(id, _)| id).unwrap())])
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

    /// What `aten::convolution_backward` borrows and gives back at once, by the memory events of PyTorch 2.15's profiler on 1, 2, 4 and 8 threads (AVX-512), without what else is
    /// in the same allocation: images that strided points gather.
    #[test]
    fn more_threads_borrow_what_pytorch_shows() {
        // Samples; channels, sides of image and result; pixels of the kernel; the channels of a block; whether rows are shared.
        type Case<'a> = (u64, [usize; 2], [&'a [usize]; 2], u64, u64, bool, [u64; 4]);
        let cases: [Case; 6] = [
            (8, [32, 32], [&[32, 32]; 2], 9, 16, false, [0, 45_312, 119_296, 267_264]),
            (8, [32, 32], [&[16, 16]; 2], 1, 16, false, [0, 12_416, 20_608, 36_992]),
            (1, [16, 24], [&[28, 28]; 2], 1, 16, false, [0, 10_368, 10_368, 14_464]),
            (6, [8, 256], [&[20, 20]; 2], 1, 16, false, [0, 0, 24_704, 24_704]),
            (4, [8, 16], [&[1, 1000]; 2], 9, 8, true, [0, 0, 20_992, 30_208]),
            (2, [16, 32], [&[8, 8, 8]; 2], 27, 16, false, [0, 0, 63_744, 174_592]),
        ];
        for (samples, channels, sides, area, block, shares_rows, expected) in cases {
            let [image, result] = [0, 1]
                .map(|at| Shape::new([channels[at]].into_iter().chain(sides[at].iter().copied()).collect::<Vec<_>>()));
            let found = [1, 2, 4, 8].map(|threads| {
                let gradient = FilterGradient {
                    threads,
                    samples,
                    groups: 1,
                    images: [&image, &result],
                    of: [block; 2],
                    area,
                    step: 1,
                    is_point: area == 1,
                    shares_rows,
                    bias: false,
                };
                gradient.scratchpad()
            });
            assert_eq!(found, expected.map(|bytes| [bytes, 0]), "{samples} x {channels:?}, {area}");
        }
    }
}
