//! The kernels of recurrent layers, and of operations known by name only with a number of multiply-accumulates. They were not measured, so
//! they take as long as fully connected layers of their size, and move as many bytes.

use super::kernel::{AccessPattern, BatchQuantity, KernelClass, KernelPass, MatrixProduct};
use super::layer::LayerKernels;
use super::movement;
use perf4sight_network::{OperationFacts, UnknownOperation};

/// Elements read and written for each lookup of a deformable convolution: four neighbours, and the interpolated value
/// (`deformable_im2col` of torchvision's csrc/ops/cpu/deform_conv2d_kernel.cpp).
const LOOKED_UP: f64 = 5.0;

/// The same in its backward pass: 5 x 5 pixels are each tested for being a neighbour (`deformable_col2im`), the
/// neighbours are read again for either coordinate of the position (`deformable_col2im_coord`), and once more for the
/// weights.
const LOOKED_UP_BACK: f64 = 25.0 + 3.0 * LOOKED_UP;

/// A product of one pass, and its traffic besides the operation's data.
struct UnknownProduct {
    product: MatrixProduct,
    traffic: BatchQuantity,
    /// Bytes that are moved again after the first time.
    again: f64,
}

/// Adds the products of an operation from its multiply-accumulates, and its other traffic.
pub(super) fn add(layer: &mut LayerKernels, unknown: &UnknownOperation, facts: &OperationFacts) {
    movement::add(layer, KernelClass::Unknown, &facts.traffic);
    let (macs, weights) = (facts.macs as f64, unknown.parameters as f64);
    if facts.across {
        return of_features(layer, across(macs));
    }
    match unknown.op_type.as_str() {
        _ if weights == 0.0 => of_features(layer, of_operands(layer, macs)),
        operator if unknown.is_recurrent() => recurrent(layer, KernelClass::Unknown, operator, weights, macs / weights),
        operator => filtering(layer, macs, weights, operator == "DeformConv"),
    }
}

/// Adds the products of a recurrent layer, which are those of fully connected ones, and its other traffic.
pub(super) fn add_recurrent(layer: &mut LayerKernels, operator: &str, facts: &OperationFacts) {
    movement::add(layer, KernelClass::Arithmetic, &facts.traffic);
    // Biases multiply nothing.
    let matrices = facts.weights.first().map_or(0, |weight| weight.dims.elements()) as f64;
    recurrent(layer, KernelClass::Linear, operator, matrices, facts.macs as f64 / matrices);
}

/// Every sample with every other one.
fn across(macs: f64) -> MatrixProduct {
    let samples = BatchQuantity::per_sample(1.0);
    MatrixProduct {
        rows: samples,
        columns: samples,
        inner: BatchQuantity::fixed(macs),
        blocks: BatchQuantity::fixed(1.0),
    }
}

/// A product of two activations with this many multiply-accumulates.
fn of_operands(layer: &LayerKernels, macs: f64) -> MatrixProduct {
    let (outputs, rows) = (layer.outputs(), layer.node.shape.features() as f64);
    let [rows, inner, blocks] = [rows, macs / outputs, 1.0].map(BatchQuantity::fixed);
    MatrixProduct { rows, columns: BatchQuantity::per_sample(outputs / rows.fixed), inner, blocks }
}

/// A product forward, and one of equal size for every factor whose gradient is computed.
fn of_features(layer: &mut LayerKernels, product: MatrixProduct) {
    layer.multiplies(KernelPass::Forward, KernelClass::Unknown, product, BatchQuantity::default());
    for _ in layer.gradients.clone().into_iter().take(2).filter(|wanted| *wanted) {
        layer.multiplies(KernelPass::InputGradient, KernelClass::Unknown, product, BatchQuantity::default());
    }
}

/// Sequential products for every time step, each of which reads all weights. Libraries that compute LSTMs (oneDNN,
/// cuDNN) store the weights in a suitable layout, so few rows are not slower in proportion, and accumulate the
/// gradient of the weights in one product over all steps. PyTorch computes the other kinds step by step, and each
/// step adds its own gradient: two reads and a write.
fn recurrent(layer: &mut LayerKernels, class: KernelClass, operator: &str, weights: f64, steps: f64) {
    let remembered = layer.node.shape.features() as f64;
    let [rows, inner] = [remembered, weights / remembered].map(BatchQuantity::fixed);
    let as_one = operator == "LSTM";
    let (samples, blocks) = if as_one { (steps, 1.0) } else { (1.0, steps) };
    let (samples, blocks) = (BatchQuantity::per_sample(samples), BatchQuantity::fixed(blocks));
    let once = layer.weight_bytes(weights);
    let read_again = (steps - 1.0).max(0.0) * once;
    let work = |rows, columns, inner, again| {
        let product = MatrixProduct { rows, columns, inner, blocks };
        UnknownProduct { product, traffic: BatchQuantity::fixed(once), again }
    };
    let added = if as_one { 0.0 } else { 3.0 * steps * once };
    let passes = [
        work(rows, samples, inner, read_again),
        work(inner, samples, rows, read_again),
        work(rows, inner, samples, added),
    ];
    add_products(layer, class, passes, steps);
}

/// Filters applied at a number of positions of every sample.
fn filtering(layer: &mut LayerKernels, macs: f64, weights: f64, looks_up: bool) {
    let filters = layer.node.shape.channels() as f64;
    let [rows, inner, blocks] = [filters, weights / filters, 1.0].map(BatchQuantity::fixed);
    let places = BatchQuantity::per_sample(macs / weights);
    let elements = macs / filters;
    let traffic = BatchQuantity { fixed: layer.weight_bytes(weights), sample: layer.bytes(elements) };
    let product = |rows, columns, inner| UnknownProduct {
        product: MatrixProduct { rows, columns, inner, blocks },
        traffic,
        again: 0.0,
    };
    if looks_up {
        let looked_up = |times: f64| BatchQuantity::per_sample(times * layer.bytes(elements));
        let [forward, back] = [LOOKED_UP, LOOKED_UP_BACK].map(looked_up);
        layer.add_movement(KernelPass::Forward, KernelClass::Unknown, AccessPattern::Strided, forward);
        if layer.passes_on() {
            layer.add_movement(KernelPass::InputGradient, KernelClass::Unknown, AccessPattern::Strided, back);
        }
    }
    let passes = [product(rows, places, inner), product(inner, places, rows), product(rows, inner, places)];
    add_products(layer, KernelClass::Unknown, passes, 1.0);
}

/// The products for the result, the gradient of the input, and that of the weights, with `starts` launches each.
fn add_products(
    layer: &mut LayerKernels,
    class: KernelClass,
    [forward, back, gradient]: [UnknownProduct; 3],
    starts: f64,
) {
    add_product(layer, class, KernelPass::Forward, &forward);
    layer.add_launches(starts);
    if layer.passes_on() {
        add_product(layer, class, KernelPass::InputGradient, &back);
        layer.add_launches(starts);
    }
    if layer.step.trains() && layer.network.trains(layer.node) {
        add_product(layer, class, KernelPass::WeightGradient, &gradient);
    }
}

fn add_product(layer: &mut LayerKernels, class: KernelClass, pass: KernelPass, work: &UnknownProduct) {
    if work.again > 0.0 {
        layer.moves_again(pass, class, BatchQuantity::fixed(work.again));
    }
    layer.multiplies(pass, class, work.product, work.traffic);
}

#[cfg(test)]
mod tests {
    use super::super::{Kernel, kernels};
    use super::*;
    use perf4sight_network::{Linear, Network, NetworkBuilder, Op, Shape};
    use perf4sight_step::workload::{Stage, Step};

    /// An unknown operation behind a layer that passes a gradient on, `features` wide at 50 positions.
    fn behind_a_layer(features: usize, unknown: UnknownOperation) -> Network {
        let mut builder = NetworkBuilder::new("priced", Shape::new([50, 16]));
        let linear = Op::Linear(Linear { out_features: features, bias: false });
        let linear = builder.add("linear", linear, &[builder.input()]).unwrap();
        let unknown = builder.add("unknown", Op::Unknown(unknown), &[linear]).unwrap();
        builder.finish(unknown)
    }

    fn of_unknown(network: &Network) -> Vec<Kernel> {
        let all = kernels(network, Step::published(Stage::Training)).into_iter();
        all.filter(|kernel| kernel.node == network.output() && kernel.product.is_some()).collect()
    }

    fn flops(kernel: &Kernel, batch: f64) -> f64 {
        kernel.product.map_or(0.0, |product| product.flops(batch))
    }

    #[test]
    fn recurrent_layers_read_their_weights_at_every_step() {
        // 256 features, 1024 hidden units, 50 steps: LSTMs have 4 gates, GRUs 3.
        for (operator, gates, summed) in [("LSTM", 4, 0.0), ("GRU", 3, 150.0), ("RNN", 1, 150.0)] {
            let weights = gates * 1024 * (256 + 1024);
            let unknown = UnknownOperation {
                macs: 50 * weights,
                ..UnknownOperation::new(operator, Shape::new([50, 1, 1024]), weights)
            };
            let network = behind_a_layer(256, unknown);
            let (kernels, all) = (of_unknown(&network), kernels(&network, Step::published(Stage::Training)));
            let passes = [KernelPass::Forward, KernelPass::InputGradient, KernelPass::WeightGradient];
            assert_eq!(kernels.iter().map(|kernel| kernel.pass).collect::<Vec<_>>(), passes);
            for (kernel, read) in kernels.iter().zip([50.0, 50.0, 1.0 + summed]) {
                // Each pass has as many products as forward, so backward has twice as many.
                assert_eq!(flops(kernel, 4.0), 2.0 * 4.0 * 50.0 * weights as f64, "{operator} {:?}", kernel.pass);
                let same = all.iter().filter(|other| (other.node, other.pass) == (kernel.node, kernel.pass));
                let moved: f64 = same.map(|kernel| kernel.traffic.fixed).sum();
                assert_eq!(moved, read * 4.0 * weights as f64, "{operator} {:?}", kernel.pass);
            }
        }
    }

    #[test]
    fn filters_are_the_convolution_that_they_are() {
        // 256 filters of 16 x 3 x 3 at 50 positions; their lookups are separate kernels.
        let unknown = UnknownOperation {
            macs: 50 * 256 * 144,
            ..UnknownOperation::new("DeformConv", Shape::new([256, 50, 1]), 256 * 144)
        };
        let network = behind_a_layer(16, unknown);
        let kernels = of_unknown(&network);
        assert!(
            kernels.len() == 3 && kernels.iter().all(|kernel| flops(kernel, 2.0) == 2.0 * 2.0 * 50.0 * 256.0 * 144.0)
        );
    }

    #[test]
    fn samples_that_meet_all_others_cost_the_square_of_the_batch() {
        let unknown =
            UnknownOperation { macs: 32, across: true, ..UnknownOperation::new("MatMul", Shape::new([1]), 0) };
        let kernels = of_unknown(&behind_a_layer(32, unknown));
        assert_eq!(kernels.iter().map(|kernel| flops(kernel, 8.0)).sum::<f64>(), 2.0 * 2.0 * 64.0 * 32.0);
    }
}
