//! From a kernel to its time as a sum of terms.
//!
//! Every term is positive and grows with the batch size whatever the (positive) parameters, but where PyTorch turns to another library
//! (`super::processor`), hence so does every time made of them.
//! Work is counted in millions, rates in billions a second, so that times are milliseconds.

use super::processor::{Processor, Route};
use super::term::{Term, Values};
use crate::features::physical::{Access, Class, Filter, Kernel, Pass, Product};
use crate::target::{self, Asked, Parameter, Speed, Target};

/// The rules by which a kind of device computes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) speed: &'a Speed,
    pub(super) target: &'a Target,
}

pub(super) const MILLION: f64 = 1e6;

/// The terms of one kernel.
pub(super) type Few = [Option<Term>; 5];

impl<'a> Rules<'a> {
    /// The terms of one kernel: what it computes, what it moves.
    pub(super) fn terms(&self, kernel: &Kernel, batch: f64) -> Few {
        match self.processor() {
            Some(processor) => processor.terms(kernel, batch),
            None => self.accelerated(kernel, batch),
        }
    }

    /// The rules of a processor, where it is one.
    pub(super) fn processor(&self) -> Option<Processor<'a>> {
        let Rules { speed, target } = *self;
        let (kept, cache) = (target.kept()?, speed.cache?);
        Some(Processor { rules: *self, kept, cache })
    }

    /// Who computes an operation: a kernel that is not left to the library's code for it decides.
    pub(super) fn route(&self, kernels: &[Kernel], batch: f64) -> Route {
        let routes = |processor: Processor| kernels.iter().map(|kernel| processor.route(kernel, batch)).max();
        self.processor().and_then(routes).unwrap_or(Route::Library)
    }

    /// The terms of one kernel on a graphics processor.
    fn accelerated(&self, kernel: &Kernel, batch: f64) -> Few {
        let [first, second] = match &kernel.product {
            None => [Some(self.movement(kernel, batch)), None],
            Some(product) => match self.winograd(kernel) {
                Some((tile, filter)) => self.filtering(&filter, tile, batch).map(Some),
                None => [self.product(kernel, product, batch), operands(kernel, batch)].map(Some),
            },
        };
        [first, second, None, None, None]
    }

    /// Milliseconds of one kernel.
    pub(super) fn time(&self, kernel: &Kernel, batch: f64, values: &Values) -> f64 {
        self.terms(kernel, batch).iter().flatten().map(|term| term.value(values)).sum()
    }

    /// Bytes over a bandwidth.
    pub(super) fn movement(&self, kernel: &Kernel, batch: f64) -> Term {
        let traffic = kernel.traffic.at(batch) / MILLION;
        match kernel.access {
            // A thread of a graphics processor keeps nothing of its window for its neighbour.
            Access::Windowed => Term::new(kernel.windows.at(batch) / MILLION, of_windows(kernel.pass), [None; 2]),
            Access::Strided => Term::new(traffic, Parameter::Bandwidth, [of_kind(kernel), Some(Parameter::Strided)]),
            Access::Contiguous => Term::new(traffic, Parameter::Bandwidth, [of_kind(kernel), None]),
        }
    }

    /// A matrix product whose rows are padded to the quantum.
    fn product(&self, kernel: &Kernel, product: &Product, batch: f64) -> Term {
        let rows = product.rows.at(batch);
        self.padded(kernel, product, batch, [rows, up(rows, self.speed.quantum) / rows])
    }

    /// A matrix product, slower where rows (as many as are computed), the summed axis or the tiles in flight are few; padded to so many
    /// times its size.
    pub(super) fn padded(&self, kernel: &Kernel, product: &Product, batch: f64, [computed, padded]: [f64; 2]) -> Term {
        let Speed { quantum, tile, .. } = *self.speed;
        let [rows, columns, inner, blocks] =
            [product.rows, product.columns, product.inner, product.blocks].map(|amount| amount.at(batch));
        // Columns and blocks grow with the batch: were they rounded up to tiles, or asked whether they are ragged, a larger batch
        // could take less time.
        let tiles = (rows / tile).ceil() * (columns / tile).max(1.0) * blocks;
        let ragged = [product.rows, product.inner].iter().any(|axis| axis.sample == 0.0 && axis.fixed % quantum != 0.0);
        let work = padded * product.flops(batch) / MILLION;
        Term::new(work, Parameter::Compute, [of_shape(kernel.class), of_pass(kernel.pass)]).losing([
            (Parameter::RowLoss, 1.0 / computed),
            (Parameter::InnerLoss, 1.0 / inner),
            (Parameter::TileLoss, 1.0 / tiles),
            (Parameter::RaggedLoss, f64::from(u8::from(ragged))),
            (Parameter::SmallBatchLoss, if is_dense(kernel.class) { small_batch(batch) } else { 0.0 }),
        ])
    }

    /// The side of the output tile and the filter, where the device computes this by minimal filtering.
    fn winograd(&self, kernel: &Kernel) -> Option<(f64, Filter)> {
        let filter = kernel.filter?;
        let pass = match kernel.pass {
            Pass::Forward => target::Pass::Forward,
            Pass::InputGradient => target::Pass::InputGradient,
            Pass::WeightGradient => target::Pass::WeightGradient,
            Pass::Loss | Pass::Fork | Pass::Update => return None,
        };
        let tile = self.target.workspaces.iter().find_map(|workspace| workspace.winograd(&asked(&filter), pass))?;
        Some((tile as f64, filter))
    }

    /// Minimal filtering, non-fused: transform tiles, multiply them point by point, transform back (A. Lavin and S. Gray, "Fast
    /// algorithms for convolutional neural networks", 2016).
    fn filtering(&self, filter: &Filter, tile: f64, batch: f64) -> [Term; 2] {
        let points = (tile + 2.0) * (tile + 2.0);
        let tiles = batch * filter.image.iter().map(|&side| (side as f64 / tile).ceil()).product::<f64>();
        let padded: f64 = filter.channels.iter().map(|&channels| up(channels, self.speed.quantum)).product();
        let [inputs, outputs] = filter.channels;
        let products = Term::new(2.0 * points * tiles * padded / MILLION, Parameter::Winograd, [None; 2])
            .losing([(Parameter::SmallBatchLoss, small_batch(batch))]);
        // Each transformed tensor is written and read once, four bytes an element.
        let moved = 8.0 * points * (tiles * (inputs + outputs) + inputs * outputs) / MILLION;
        [products, Term::new(moved, Parameter::Bandwidth, [Some(Parameter::WinogradTraffic), None])]
    }
}

/// What libraries are asked for.
pub(super) fn asked(filter: &Filter) -> Asked {
    let channels = filter.channels[0];
    Asked {
        kernel: filter.kernel,
        moves_by_one: filter.moves_by_one(),
        groups: filter.groups,
        channels: channels as usize,
        elements: (channels * filter.pixels()) as u64,
    }
}

/// What a product reads and writes, every operand once.
fn operands(kernel: &Kernel, batch: f64) -> Term {
    Term::new(kernel.traffic.at(batch) / MILLION, Parameter::Bandwidth, [Some(Parameter::Operands), None])
}

/// The next multiple.
pub(super) fn up(size: f64, step: f64) -> f64 {
    (size / step).ceil() * step
}

/// The share of the small-batch loss: all of it up to a batch of 8, none from 16 on. In between the time lost shrinks no faster than
/// the work grows, as long as the loss is at most 1.
fn small_batch(batch: f64) -> f64 {
    (16.0 / batch - 1.0).clamp(0.0, 1.0)
}

fn is_dense(class: Class) -> bool {
    matches!(class, Class::Pointwise | Class::Conv3x3 | Class::ConvLarge | Class::Grouped)
}

pub(super) fn of_shape(class: Class) -> Option<Parameter> {
    match class {
        Class::Conv3x3 => Some(Parameter::Conv3x3),
        Class::ConvLarge => Some(Parameter::ConvLarge),
        Class::Grouped => Some(Parameter::Grouped),
        Class::Linear | Class::MatMul => Some(Parameter::Linear),
        // Compared with which the others are fast or slow.
        Class::Pointwise => None,
        // These multiply no matrices.
        Class::Depthwise | Class::Normalisation | Class::Activation | Class::Dropout | Class::Arithmetic => None,
        Class::Copy | Class::Pooling | Class::Softmax | Class::Loss | Class::Update | Class::Unknown => None,
    }
}

pub(super) fn of_pass(pass: Pass) -> Option<Parameter> {
    match pass {
        Pass::InputGradient => Some(Parameter::InputGradient),
        Pass::WeightGradient => Some(Parameter::WeightGradient),
        _ => None,
    }
}

fn of_windows(pass: Pass) -> Parameter {
    match pass {
        Pass::WeightGradient => Parameter::WindowGradient,
        _ => Parameter::Windows,
    }
}

fn of_kind(kernel: &Kernel) -> Option<Parameter> {
    match kernel.class {
        // Its gradient multiplies with what was drawn before.
        Class::Dropout if kernel.pass == Pass::Forward => Some(Parameter::Dropout),
        Class::Dropout => Some(Parameter::Activation),
        Class::Normalisation | Class::Softmax => Some(Parameter::Normalisation),
        Class::Activation => Some(Parameter::Activation),
        Class::Pooling => Some(Parameter::Pooling),
        Class::Update => Some(Parameter::Update),
        Class::Arithmetic | Class::Copy | Class::Loss | Class::Unknown => None,
        // What these move beside their products.
        Class::Pointwise | Class::Conv3x3 | Class::ConvLarge | Class::Grouped | Class::Depthwise => None,
        Class::Linear | Class::MatMul => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::physical::kernels;
    use crate::network::{Conv, Network, NetworkBuilder, Op, Shape, Window};
    use crate::workload::{Stage, Step};

    /// Two depthwise convolutions of a width: the second passes a gradient on.
    fn depthwise(width: usize) -> Network {
        let mut builder = NetworkBuilder::new("depthwise", Shape::new([64, 14, 14]));
        let op = || {
            Op::Conv(Conv { out_channels: 64, window: Window::square(width, 1, width / 2), groups: 64, bias: false })
        };
        let first = builder.add("first", op(), &[builder.input()]).unwrap();
        let second = builder.add("second", op(), &[first]).unwrap();
        builder.finish(second)
    }

    /// Time of 5x5 over time of 3x3 kernels.
    fn widening(target: &Target, pass: Pass) -> f64 {
        let values = Parameter::ALL.map(|parameter| target.speed.prior(parameter).typical);
        let rules = Rules { speed: &target.speed, target };
        let time = |width| -> f64 {
            let step = kernels(&depthwise(width), Step::published(Stage::Training));
            step.iter().filter(|kernel| kernel.pass == pass).map(|kernel| rules.time(kernel, 4.0, &values)).sum()
        };
        time(5) / time(3)
    }

    #[test]
    fn wide_depthwise_kernels_cost_what_the_device_has_code_for() {
        let [tx2, cpu] = ["tx2", "cpu"].map(|name| Target::named(name).unwrap());
        let reread = [Pass::Forward, Pass::InputGradient, Pass::WeightGradient].map(|pass| widening(&tx2, pass));
        assert!(reread.iter().all(|ratio| (ratio - 25.0 / 9.0).abs() < 1e-9), "{reread:?}");
        // Measured on one core, 480 channels of 14x14: forward 0.36 ms with 3x3 kernels, 0.43 with 5x5; backward 0.59 and 6.3.
        assert!((widening(&cpu, Pass::Forward) - 1.0).abs() < 0.1);
        assert!(widening(&cpu, Pass::WeightGradient) > 5.0);
    }
}
