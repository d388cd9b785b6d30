//! The kernels of a convolution: matrix products of lowered images, or, one channel per filter, re-read windows.

use super::kernel::{Access, Amount, Class, Filter, Pass, Product};
use super::layer::Layer;
use perf4sight_network::{Conv, Shape, Volume, Window};

/// The sizes that the kernels of one convolution depend on.
struct Geometry {
    channels: [f64; 2],
    groups: f64,
    /// Pixels of one input and output channel.
    pixels: [f64; 2],
    area: f64,
    weights: f64,
    /// The geometry of the filter, for images.
    filter: Option<Filter>,
}

impl Geometry {
    fn new(conv: &Conv, input: &Shape, output: &Shape) -> Self {
        let [image, positions] = [input, output].map(Shape::image);
        let Window { kernel, stride, dilation, padding: [top, left, ..], .. } = conv.window;
        let padding = [top, left];
        let geometry = Geometry::of(conv.groups, &kernel, input, output);
        let channels = geometry.channels;
        let (groups, channels_last) = (conv.groups, [false; 2]);
        let filter = Filter { channels, groups, image, positions, kernel, stride, dilation, padding, channels_last };
        Geometry { filter: Some(filter), ..geometry }
    }

    fn of(groups: usize, kernel: &[usize], input: &Shape, output: &Shape) -> Self {
        let [from, to] = [input, output].map(|shape| shape.channels() as f64);
        let area = kernel.iter().product::<usize>() as f64;
        Geometry {
            channels: [from, to],
            groups: groups as f64,
            pixels: [input.elements() as f64 / from, output.elements() as f64 / to],
            area,
            weights: area * from * to / groups as f64,
            filter: None,
        }
    }

    fn product(&self, rows: Amount, columns: Amount, inner: Amount) -> Product {
        Product { rows, columns, inner, blocks: Amount::fixed(self.groups) }
    }

    /// Input, result and filters of the layer, once each.
    fn operands(&self, layer: &Layer) -> Amount {
        let [inputs, outputs] = [0, 1].map(|side| self.channels[side] * self.pixels[side]);
        Amount { fixed: layer.weight_bytes(self.weights), sample: layer.bytes(inputs + outputs) }
    }
}

fn class<W>(conv: &Conv<W>, kernel: &[usize], input: &Shape) -> Class {
    match (conv.groups, kernel) {
        (1, [1, 1] | [1, 1, 1]) => Class::Pointwise,
        (1, [3, 3]) => Class::Conv3x3,
        (1, _) => Class::ConvLarge,
        _ if conv.is_depthwise(input.channels()) => Class::Depthwise,
        _ => Class::Grouped,
    }
}

pub(super) fn add(layer: &mut Layer, conv: &Conv) {
    let input = layer.network.input_of(layer.node, 0);
    let geometry = Geometry::new(conv, input, &layer.node.shape);
    add_filters(layer, class(conv, &conv.window.kernel, input), &geometry, conv.bias);
}

pub(super) fn add_volume(layer: &mut Layer, conv: &Conv<Volume>) {
    let (input, kernel) = (layer.network.input_of(layer.node, 0), &conv.window.kernel);
    let geometry = Geometry::of(conv.groups, kernel, input, &layer.node.shape);
    add_filters(layer, class(conv, kernel, input), &geometry, conv.bias);
}

fn add_filters(layer: &mut Layer, class: Class, geometry: &Geometry, bias: bool) {
    layer.filter = geometry.filter;
    if class == Class::Depthwise {
        add_windows(layer, geometry);
    } else {
        add_products(layer, class, geometry);
    }
    if bias {
        add_bias(layer, class);
    }
}

/// Adds the kernels of a transposed convolution: its forward is the input gradient of a convolution, and the reverse.
pub(super) fn add_transposed(layer: &mut Layer, conv: &Conv) {
    let input = layer.network.input_of(layer.node, 0);
    let geometry = Geometry::new(conv, input, &layer.node.shape);
    let class = class(conv, &conv.window.kernel, input);
    let seen = Amount::fixed(geometry.channels[0] / geometry.groups);
    let spread = Amount::fixed(geometry.channels[1] / geometry.groups * geometry.area);
    let pixels = Amount::per_sample(geometry.pixels[0]);
    let operands = geometry.operands(layer);
    layer.multiplies(Pass::Forward, class, geometry.product(spread, pixels, seen), operands);
    if layer.passes_on() {
        layer.multiplies(Pass::InputGradient, class, geometry.product(seen, pixels, spread), operands);
    }
    if layer.learns_any() {
        layer.multiplies(Pass::WeightGradient, class, geometry.product(seen, spread, pixels), operands);
    }
    if conv.bias {
        add_bias(layer, class);
    }
}

/// Forward, input gradient and weight gradient as products of the lowered image (im2col).
fn add_products(layer: &mut Layer, class: Class, geometry: &Geometry) {
    let [seen, filters] = geometry.channels.map(|channels| channels / geometry.groups);
    let [pixels, positions] = geometry.pixels.map(Amount::per_sample);
    let (inner, back) = (Amount::fixed(seen * geometry.area), Amount::fixed(filters * geometry.area));
    let operands = geometry.operands(layer);
    layer.multiplies(Pass::Forward, class, geometry.product(Amount::fixed(filters), positions, inner), operands);
    if layer.passes_on() {
        let product = geometry.product(Amount::fixed(seen), pixels, back);
        layer.multiplies(Pass::InputGradient, class, product, operands);
    }
    if layer.learns_any() {
        let product = geometry.product(Amount::fixed(filters), inner, positions);
        layer.multiplies(Pass::WeightGradient, class, product, operands);
    }
}

/// One channel per filter: every output reads its window, and filters share nothing (Chollet's Xception notes how
/// little arithmetic that is per byte).
fn add_windows(layer: &mut Layer, geometry: &Geometry) {
    let [inputs, outputs] = [0, 1].map(|side| geometry.channels[side] * geometry.pixels[side]);
    let [back, ahead, filters] =
        [inputs, outputs, 2.0 * outputs].map(|elements| Amount::per_sample(layer.bytes(geometry.area * elements)));
    let operands = geometry.operands(layer);
    layer.slides(Pass::Forward, Class::Depthwise, ahead, operands);
    if layer.passes_on() {
        layer.slides(Pass::InputGradient, Class::Depthwise, back, operands);
    }
    if layer.learns_any() {
        // Window and gradient are read for every element of the kernel.
        layer.slides(Pass::WeightGradient, Class::Depthwise, filters, operands);
    }
}

/// The bias is added to the finished result; its gradient sums the gradient of the result.
fn add_bias(layer: &mut Layer, class: Class) {
    let outputs = layer.bytes(layer.outputs());
    layer.moves(Pass::Forward, class, Access::Strided, Amount::per_sample(2.0 * outputs));
    if layer.learns(1) {
        layer.moves(Pass::WeightGradient, class, Access::Strided, Amount::per_sample(outputs));
    }
}
