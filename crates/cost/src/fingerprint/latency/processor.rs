//! The terms of kernels on a processor. oneDNN computes convolutions and copies operands into its own layouts and
//! back; where PyTorch does not call it, they are plain products image by image. Cache misses are a further term.

use super::term::TimeTerm;
use super::terms::{DeviceRules, KernelTerms, MILLION, convolution_query, of_pass, of_shape, round_up};
use crate::features::physical::{
    AccessPattern, BatchQuantity, FilterGeometry, Kernel, KernelClass, KernelPass, MatrixProduct,
};
use crate::fingerprint::depthwise::is_general;
use perf4sight_platform::{NativeConvolutions, SpeedParameter};
use serde::{Deserialize, Serialize};

/// A processor's rules, in addition to those of any device.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessorRules<'a> {
    pub(super) rules: DeviceRules<'a>,
    /// Which convolutions PyTorch keeps from the library.
    pub(super) kept: NativeConvolutions,
    /// Capacity of the caches in bytes.
    pub(super) cache: f64,
}

/// The code that computes an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KernelRoute {
    /// The library's code for its kind.
    Library,
    /// PyTorch, image by image.
    Own,
    /// The library's code for any convolution, channel by channel.
    General,
    /// The library's code for channels-last images.
    ChannelsLast,
    /// PyTorch, row by row, group by group, window by window.
    Rows,
    /// PyTorch, by series: exponentials and functions built from them.
    Series,
}

impl KernelRoute {
    /// The route whose corrections apply where this one has none, as in fingerprints that did not distinguish them.
    pub(super) fn known_as(self) -> Self {
        match self {
            KernelRoute::Library | KernelRoute::ChannelsLast | KernelRoute::Rows | KernelRoute::Series => {
                KernelRoute::Library
            }
            KernelRoute::Own => KernelRoute::Own,
            KernelRoute::General => KernelRoute::General,
        }
    }
}

impl ProcessorRules<'_> {
    /// The batch size from which the library computes every convolution; below 2 where PyTorch keeps only single
    /// images.
    pub(super) fn library_from(&self) -> f64 {
        self.kept.pointwise_below as f64
    }

    pub(super) fn route(&self, kernel: &Kernel, batch: f64) -> KernelRoute {
        match &kernel.filter {
            Some(filter) if kernel.product.is_some() && self.is_native(filter, batch) => KernelRoute::Own,
            Some(filter) if is_depthwise(kernel) && filter.reads_channels_last(batch) => KernelRoute::ChannelsLast,
            Some(_) if is_general(kernel, self.rules.speed.depthwise) => KernelRoute::General,
            _ if kernel.row > 0.0 => KernelRoute::Rows,
            _ if self.rules.effort(kernel) > 1.0 => KernelRoute::Series,
            _ => KernelRoute::Library,
        }
    }

    pub(super) fn terms(&self, kernel: &Kernel, batch: f64) -> KernelTerms {
        let [first, second, third, fourth] = match (&kernel.filter, &kernel.product) {
            (Some(filter), Some(product)) => self.convolution(kernel, filter, product, batch),
            (Some(filter), None) if kernel.access == AccessPattern::Windowed => self.depthwise(kernel, filter, batch),
            // The bias is added while the result is in registers.
            (Some(_), None) if kernel.pass == KernelPass::Forward => [None; 4],
            (None, Some(product)) => {
                let sizes = [product.rows, product.columns, product.inner, product.blocks];
                let product = self.product(kernel, sizes.map(|amount| amount.for_batch(batch)));
                [
                    Some(product),
                    Some(reading(kernel.traffic.for_batch(batch))),
                    transposed_gradient(kernel, batch),
                    None,
                ]
            }
            (_, None) => [Some(self.rules.movement(kernel, batch)), planes(kernel, batch), None, None],
        };
        [first, second, third, fourth, self.missing(kernel, batch)]
    }

    fn convolution(
        &self,
        kernel: &Kernel,
        filter: &FilterGeometry,
        product: &MatrixProduct,
        batch: f64,
    ) -> [Option<TimeTerm>; 4] {
        match self.route(kernel, batch) {
            KernelRoute::Own => {
                let [product, operands, columns] = self.image_by_image(kernel, filter, product, batch);
                [Some(product), Some(operands), Some(columns), None]
            }
            KernelRoute::Library
            | KernelRoute::General
            | KernelRoute::ChannelsLast
            | KernelRoute::Rows
            | KernelRoute::Series => self.by_library(kernel, filter, product, batch).map(Some),
        }
    }

    /// Whether PyTorch computes it itself.
    fn is_native(&self, filter: &FilterGeometry, batch: f64) -> bool {
        batch < self.kept.library_from(&convolution_query(filter)) as f64
    }

    /// Products of whole blocks of channels, without the padding; images and filters are copied into the library's
    /// layouts.
    fn by_library(
        &self,
        kernel: &Kernel,
        filter: &FilterGeometry,
        product: &MatrixProduct,
        batch: f64,
    ) -> [TimeTerm; 4] {
        let quantum = self.rules.speed.quantum;
        let [input, output] = filter.channels.map(|channels| round_up(channels, quantum) / channels);
        // Fewer channels than a block under a kernel with an extent: forward reads the image in its own layout
        // (`is_1stconv`).
        let plain = filter.channels[0] < quantum && filter.kernel != [1, 1];
        let rows = round_up(product.rows.for_batch(batch), quantum);
        let padded = match (filter.groups, plain) {
            (1, false) => input * output,
            (1, true) => output,
            _ => rows / product.rows.for_batch(batch),
        };
        let compute = self.rules.padded_product(kernel, product, batch, [rows, padded * filter.inside()]);
        let ragged = (SpeedParameter::RaggedCopies, f64::from(u8::from(input * output > 1.0)));
        let read = if plain && kernel.pass == KernelPass::Forward { 0.0 } else { filter.channels[0] * filter.pixels() };
        let copied = batch * kernel.element * (read + filter.channels[1] * filter.results()) / MILLION;
        let images = TimeTerm::new(copied, SpeedParameter::Bandwidth, [Some(SpeedParameter::Operands), None])
            .with_losses([ragged]);
        let filters = TimeTerm::new(kernel.traffic.fixed / MILLION, SpeedParameter::Filters, [None; 2]);
        [
            compute,
            library_start(),
            images,
            filters.with_losses([(SpeedParameter::FilterLoss, 1.0 / filter.area()), ragged]),
        ]
    }

    /// A product for every image, of its windows laid out side by side unless those are its pixels (ConvolutionMM2d.cpp).
    fn image_by_image(
        &self,
        kernel: &Kernel,
        filter: &FilterGeometry,
        product: &MatrixProduct,
        batch: f64,
    ) -> [TimeTerm; 3] {
        let sizes = [product.rows, product.columns, product.inner, product.blocks].map(|amount| amount.for_batch(1.0));
        let product = self.product(kernel, sizes).times(batch);
        let plain = filter.kernel == [1, 1] && filter.moves_by_one();
        let columns = if kernel.pass == KernelPass::InputGradient {
            // Written by the product, then added to a gradient of zeros.
            2.0 * kernel.element * filter.columns() + 3.0 * kernel.result.for_batch(1.0)
        } else if plain {
            0.0
        } else {
            2.0 * kernel.element * filter.columns()
        };
        let columns =
            TimeTerm::new(batch * columns / MILLION, SpeedParameter::Bandwidth, [Some(SpeedParameter::Strided), None]);
        [product, reading(batch * kernel.traffic.for_batch(1.0)), columns]
    }

    /// A product with this many rows, columns, summed elements, and blocks, by the library for linear algebra.
    fn product(&self, kernel: &Kernel, [rows, columns, inner, blocks]: [f64; 4]) -> TimeTerm {
        // A single column is a matrix-vector product, which has separate code.
        let few = if columns == 1.0 { 0.0 } else { 1.0 / columns };
        let work = 2.0 * rows * columns * inner * blocks / MILLION;
        let shape = of_shape(kernel.class).filter(|_| kernel.filter.is_none());
        TimeTerm::new(work, SpeedParameter::Gemm, [shape, of_pass(kernel.pass)]).with_losses([
            (SpeedParameter::RowLoss, 1.0 / rows),
            (SpeedParameter::InnerLoss, 1.0 / inner),
            (SpeedParameter::ColumnLoss, few),
        ])
    }

    /// Every operand once where the library has code for it, else the windows of every channel copied separately.
    fn depthwise(&self, kernel: &Kernel, filter: &FilterGeometry, batch: f64) -> [Option<TimeTerm>; 4] {
        match self.route(kernel, batch) {
            KernelRoute::ChannelsLast => self.as_they_lie(kernel, filter, batch),
            KernelRoute::General => {
                let blocks = TimeTerm::new(batch * filter.groups as f64, SpeedParameter::Blocks, [None; 2]);
                let windows =
                    TimeTerm::new(kernel.windows.for_batch(batch) / MILLION, SpeedParameter::WindowGradient, [None; 2]);
                [Some(blocks), Some(windows), Some(library_start()), None]
            }
            KernelRoute::Library | KernelRoute::Own | KernelRoute::Rows | KernelRoute::Series => {
                let ragged = f64::from(u8::from(filter.channels[1] % self.rules.speed.quantum != 0.0));
                let moved =
                    TimeTerm::new(kernel.traffic.for_batch(batch) / MILLION, SpeedParameter::Windows, [None; 2]);
                [Some(moved.with_losses([(SpeedParameter::RaggedCopies, ragged)])), Some(library_start()), None, None]
            }
        }
    }

    /// Channels-last images are read as they are. No element meets two filters, so every product loads both of its
    /// operands, for which a core has ports for one product a cycle instead of two. Where the gradient of the filters
    /// has no code of its own, the code for dense filters computes it: every channel is a block, of which one row is
    /// computed and all is written.
    fn as_they_lie(&self, kernel: &Kernel, filter: &FilterGeometry, batch: f64) -> [Option<TimeTerm>; 4] {
        let (quantum, filters) = (self.rules.speed.quantum, filter.groups as f64 * filter.area());
        let dense = is_general(kernel, self.rules.speed.depthwise) && kernel.pass == KernelPass::WeightGradient;
        let computed = 2.0 * filters * filter.results() * batch * if dense { quantum } else { 2.0 };
        let computed = TimeTerm::new(computed / MILLION, SpeedParameter::Compute, [of_pass(kernel.pass), None]);
        let written = dense.then(|| reading(kernel.element * quantum * quantum * filters));
        [Some(computed), Some(reading(kernel.traffic.for_batch(batch))), written, Some(library_start())]
    }

    /// Traffic of main memory: operands too large for the caches, and weights that the rest of a step evicted.
    fn missing(&self, kernel: &Kernel, batch: f64) -> Option<TimeTerm> {
        let forgotten = (kernel.held / self.cache - 1.0).clamp(0.0, 1.0);
        let BatchQuantity { fixed, sample } = kernel.traffic;
        // The operands of one operation get half of the caches: the tensors of its neighbours are there, too.
        let overflowing = (sample * batch - 0.5 * self.cache).max(0.0);
        let bytes = forgotten * fixed + overflowing;
        (bytes > 0.0).then(|| TimeTerm::new(bytes / MILLION, SpeedParameter::Memory, [None; 2]))
    }
}

/// The gradient of a matrix is computed transposed and then added to the stored gradient: two reads and a write
/// across its rows. A single sample has no such order.
fn transposed_gradient(kernel: &Kernel, batch: f64) -> Option<TimeTerm> {
    let turned = kernel.class == KernelClass::Linear && kernel.pass == KernelPass::WeightGradient && batch > 1.0;
    let bytes = 3.0 * kernel.traffic.fixed / MILLION;
    turned.then(|| TimeTerm::new(bytes, SpeedParameter::Bandwidth, [Some(SpeedParameter::Operands), None]))
}

/// Operands read once, in their own layout.
fn reading(bytes: f64) -> TimeTerm {
    TimeTerm::new(bytes / MILLION, SpeedParameter::Bandwidth, [None; 2])
}

/// The start of a computation by the library: it chooses layouts and looks up code.
fn library_start() -> TimeTerm {
    TimeTerm::new(1.0, SpeedParameter::Primitives, [None; 2])
}

fn is_depthwise(kernel: &Kernel) -> bool {
    kernel.class == KernelClass::Depthwise
}

/// Floats in a vector, on any processor: PyTorch's own code has one loop for whole vectors and one for the remainder.
const VECTOR: f64 = 16.0;

/// Images of one channel that fill no whole vectors, each started separately; a single pixel counts as channels-last.
fn planes(kernel: &Kernel, batch: f64) -> Option<TimeTerm> {
    let [channels, pixels] = kernel.images;
    let ragged = kernel.class == KernelClass::Normalisation && pixels > 1.0 && pixels % VECTOR != 0.0;
    ragged.then(|| TimeTerm::new(batch * channels / 1e3, SpeedParameter::Planes, [None; 2]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::latency::NetworkSteps;
    use perf4sight_network::{Affine, Conv, Network, NetworkBuilder, Op, Shape, Window};
    use perf4sight_platform::Platform;
    use perf4sight_step::workload::{Stage, Step};

    /// Convolutions of 240 channels in sequence, so that the second passes a gradient on.
    fn two_convolutions(side: usize, window: &Window, groups: usize) -> Network {
        let mut builder = NetworkBuilder::new("two", Shape::new([240, side, side]));
        let op = || Op::Conv(Conv { out_channels: 240, window: window.clone(), groups, bias: false });
        let first = builder.add("first", op(), &[builder.input()]).unwrap();
        let second = builder.add("second", op(), &[first]).unwrap();
        builder.finish(second)
    }

    /// Milliseconds of a pass of the second convolution at a batch size on one thread, by the prior.
    fn time(network: &Network, pass: KernelPass, batch: f64) -> f64 {
        let platform = Platform::for_name("cpu").unwrap().on_threads(1);
        let values = SpeedParameter::ALL.map(|parameter| platform.speed.prior(parameter).typical);
        let rules = DeviceRules { speed: &platform.speed, platform: &platform };
        let step = NetworkSteps::new(network).laid_out(Step::published(Stage::Training));
        let second = step.iter().filter(|kernel| kernel.node == network.output() && kernel.pass == pass);
        second.map(|kernel| rules.time(kernel, batch, &values)).sum()
    }

    #[track_caller]
    fn is_about(predicted: f64, measured: f64) {
        assert!((predicted / measured).ln().abs() < 0.7, "{predicted} ms where {measured} were measured");
    }

    #[test]
    fn depthwise_kernels_on_images_smaller_than_their_padding_have_no_code() {
        // One core, 240 channels, 32 images: 5x5 on 2x2 pixels 0.052 ms, on a single one 1.73; its weight gradient of 3x3 kernels
        // takes 0.077 ms on 4x4 pixels at stride 2 (two rows less than the library's code asks for), and 1.1 on a single one.
        let [wide, narrow] = [5, 3].map(|kernel| Window::square(kernel, 1, kernel / 2));
        is_about(time(&two_convolutions(2, &wide, 240), KernelPass::Forward, 32.0), 0.052);
        is_about(time(&two_convolutions(1, &wide, 240), KernelPass::Forward, 32.0), 1.73);
        is_about(time(&two_convolutions(1, &narrow, 240), KernelPass::Forward, 32.0), 0.042);
        is_about(time(&two_convolutions(1, &narrow, 240), KernelPass::WeightGradient, 32.0), 1.1);
        is_about(time(&two_convolutions(1, &wide, 240), KernelPass::InputGradient, 32.0), 0.043);
    }

    #[test]
    fn one_thread_computes_pointwise_convolutions_of_small_batches_at_half_the_speed() {
        // One core, 14x14 pixels: medians of 280 layers, 90 GFLOP/s at batch 8 and up to 180 at 16.
        let pointwise = two_convolutions(14, &Window::square(1, 1, 0), 1);
        let rate = |batch: f64| 2e-6 * batch * 240.0 * 240.0 * 196.0 / time(&pointwise, KernelPass::Forward, batch);
        assert!((60.0..100.0).contains(&rate(8.0)), "{}", rate(8.0));
        assert!(rate(16.0) > 1.3 * rate(8.0), "{}", rate(16.0));
    }

    #[test]
    fn wide_depthwise_gradients_take_a_third_where_channels_lie_last() {
        let mut builder = NetworkBuilder::new("last", Shape::new([14, 14, 384]));
        let norm = Op::LayerNorm { axis: 2, affine: Affine::ScaleAndShift };
        let normed = builder.add("norm", norm, &[builder.input()]).unwrap();
        let turned = builder.add("turned", Op::Transpose { order: vec![2, 0, 1] }, &[normed]).unwrap();
        let conv = Conv { out_channels: 384, window: Window::square(7, 1, 3), groups: 384, bias: false };
        let last = builder.add("conv", Op::Conv(conv), &[turned]).unwrap();
        let last = builder.finish(last);
        let backward = |network: &Network| -> f64 {
            [KernelPass::InputGradient, KernelPass::WeightGradient].map(|pass| time(network, pass, 4.0)).iter().sum()
        };
        // One core, batch 4: ConvNeXt's of 384 channels of 14x14 take 0.44 ms forward and 4.2 backward; 240 in the usual layout 6, for 480 take 12.
        is_about(time(&last, KernelPass::Forward, 4.0), 0.44);
        is_about(backward(&last), 4.2);
        is_about(backward(&two_convolutions(14, &Window::square(7, 1, 3), 240)), 6.0);
    }
}
