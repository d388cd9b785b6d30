//! The kernels of a convolution: matrix products of lowered images, or, one channel per filter, re-read windows.

use super::kernel::{AccessPattern, BatchQuantity, FilterGeometry, KernelClass, KernelPass, MatrixProduct};
use super::layer::LayerKernels;
use perf4sight_network::{Conv, Shape, VolumeWindow, Window};

/// The sizes that the kernels of one convolution depend on.
struct KernelGeometry {
    channels: [f64; 2],
    groups: f64,
    /// Pixels of one input and output channel.
    pixels: [f64; 2],
    area: f64,
    weights: f64,
    /// The geometry of the filter, for images.
    filter: Option<FilterGeometry>,
}

impl KernelGeometry {
    fn new(conv: &Conv, input: &Shape, output: &Shape) -> Self {
        let [image, positions] = [input, output].map(Shape::image);
        let Window { kernel, stride, dilation, padding: [top, left, ..], .. } = conv.window;
        let padding = [top, left];
        let geometry = KernelGeometry::without_filter(conv.groups, &kernel, input, output);
        let channels = geometry.channels;
        let (groups, channels_last) = (conv.groups, [false; 2]);
        let filter =
            FilterGeometry { channels, groups, image, positions, kernel, stride, dilation, padding, channels_last };
        KernelGeometry { filter: Some(filter), ..geometry }
    }

    fn without_filter(groups: usize, kernel: &[usize], input: &Shape, output: &Shape) -> Self {
        let [from, to] = [input, output].map(|shape| shape.channels() as f64);
        let area = kernel.iter().product::<usize>() as f64;
        KernelGeometry {
            channels: [from, to],
            groups: groups as f64,
            pixels: [input.elements() as f64 / from, output.elements() as f64 / to],
            area,
            weights: area * from * to / groups as f64,
            filter: None,
        }
    }

    fn product(&self, rows: BatchQuantity, columns: BatchQuantity, inner: BatchQuantity) -> MatrixProduct {
        MatrixProduct { rows, columns, inner, blocks: BatchQuantity::fixed(self.groups) }
    }

    /// Input, result and filters of the layer, once each.
    fn operands(&self, layer: &LayerKernels) -> BatchQuantity {
        let [inputs, outputs] = [0, 1].map(|side| self.channels[side] * self.pixels[side]);
        BatchQuantity { fixed: layer.weight_bytes(self.weights), sample: layer.bytes(inputs + outputs) }
    }
}

fn class<W>(conv: &Conv<W>, kernel: &[usize], input: &Shape) -> KernelClass {
    match (conv.groups, kernel) {
        (1, [1, 1] | [1, 1, 1]) => KernelClass::Pointwise,
        (1, [3, 3]) => KernelClass::Conv3x3,
        (1, _) => KernelClass::ConvLarge,
        _ if conv.is_depthwise(input.channels()) => KernelClass::Depthwise,
        _ => KernelClass::Grouped,
    }
}

pub(super) fn add(layer: &mut LayerKernels, conv: &Conv) {
    let input = layer.network.input_of(layer.node, 0);
    let geometry = KernelGeometry::new(conv, input, &layer.node.shape);
    add_filters(layer, class(conv, &conv.window.kernel, input), &geometry, conv.bias);
}

pub(super) fn add_volume(layer: &mut LayerKernels, conv: &Conv<VolumeWindow>) {
    let (input, kernel) = (layer.network.input_of(layer.node, 0), &conv.window.kernel);
    let geometry = KernelGeometry::without_filter(conv.groups, kernel, input, &layer.node.shape);
    add_filters(layer, class(conv, kernel, input), &geometry, conv.bias);
}

fn add_filters(layer: &mut LayerKernels, class: KernelClass, geometry: &KernelGeometry, bias: bool) {
    layer.filter = geometry.filter;
    if class == KernelClass::Depthwise {
        add_windows(layer, geometry);
    } else {
        add_products(layer, class, geometry);
    }
    if bias {
        add_bias(layer, class);
    }
}

/// Adds the kernels of a transposed convolution: its forward is the input gradient of a convolution, and the reverse.
pub(super) fn add_transposed(layer: &mut LayerKernels, conv: &Conv) {
    let input = layer.network.input_of(layer.node, 0);
    let geometry = KernelGeometry::new(conv, input, &layer.node.shape);
    let class = class(conv, &conv.window.kernel, input);
    let seen = BatchQuantity::fixed(geometry.channels[0] / geometry.groups);
    let spread = BatchQuantity::fixed(geometry.channels[1] / geometry.groups * geometry.area);
    let pixels = BatchQuantity::per_sample(geometry.pixels[0]);
    let operands = geometry.operands(layer);
    layer.multiplies(KernelPass::Forward, class, geometry.product(spread, pixels, seen), operands);
    if layer.passes_on() {
        layer.multiplies(KernelPass::InputGradient, class, geometry.product(seen, pixels, spread), operands);
    }
    if layer.learns_any() {
        layer.multiplies(KernelPass::WeightGradient, class, geometry.product(seen, spread, pixels), operands);
    }
    if conv.bias {
        add_bias(layer, class);
    }
}

/// Forward, input gradient and weight gradient as products of the lowered image (im2col).
fn add_products(layer: &mut LayerKernels, class: KernelClass, geometry: &KernelGeometry) {
    let [seen, filters] = geometry.channels.map(|channels| channels / geometry.groups);
    let [pixels, positions] = geometry.pixels.map(BatchQuantity::per_sample);
    let (inner, back) = (BatchQuantity::fixed(seen * geometry.area), BatchQuantity::fixed(filters * geometry.area));
    let operands = geometry.operands(layer);
    layer.multiplies(
        KernelPass::Forward,
        class,
        geometry.product(BatchQuantity::fixed(filters), positions, inner),
        operands,
    );
    if layer.passes_on() {
        let product = geometry.product(BatchQuantity::fixed(seen), pixels, back);
        layer.multiplies(KernelPass::InputGradient, class, product, operands);
    }
    if layer.learns_any() {
        let product = geometry.product(BatchQuantity::fixed(filters), inner, positions);
        layer.multiplies(KernelPass::WeightGradient, class, product, operands);
    }
}

/// One channel per filter: every output reads its window, and filters share nothing (Chollet's Xception notes how
/// little arithmetic that is per byte).
fn add_windows(layer: &mut LayerKernels, geometry: &KernelGeometry) {
    let [inputs, outputs] = [0, 1].map(|side| geometry.channels[side] * geometry.pixels[side]);
    let [back, ahead, filters] = [inputs, outputs, 2.0 * outputs]
        .map(|elements| BatchQuantity::per_sample(layer.bytes(geometry.area * elements)));
    let operands = geometry.operands(layer);
    layer.slides(KernelPass::Forward, KernelClass::Depthwise, ahead, operands);
    if layer.passes_on() {
        layer.slides(KernelPass::InputGradient, KernelClass::Depthwise, back, operands);
    }
    if layer.learns_any() {
        // Window and gradient are read for every element of the kernel.
        layer.slides(KernelPass::WeightGradient, KernelClass::Depthwise, filters, operands);
    }
}

/// The bias is added to the finished result; its gradient sums the gradient of the result.
fn add_bias(layer: &mut LayerKernels, class: KernelClass) {
    let outputs = layer.bytes(layer.outputs());
    layer.add_movement(KernelPass::Forward, class, AccessPattern::Strided, BatchQuantity::per_sample(2.0 * outputs));
    if layer.trains(1) {
        layer.add_movement(
            KernelPass::WeightGradient,
            class,
            AccessPattern::Strided,
            BatchQuantity::per_sample(outputs),
        );
    }
}
