//! From a kernel to its time as a sum of terms, each a power of the device's parameters times losses `1 + parameter x share`.
//!
//! Every term is positive and grows with the batch size whatever the (positive) parameters, hence so does every time made of them.
//! Work is counted in millions, rates in billions a second, so that times are milliseconds.

use crate::features::physical::{Access, Class, Filter, Kernel, Pass, Product};
use crate::target::{self, Depthwise, Parameter, Speed, Target, Workspace};

/// How many parameters there are.
pub(super) const COUNT: usize = Parameter::ALL.len();

/// The value of every parameter, in the order of [`Parameter::ALL`].
pub(super) type Values = [f64; COUNT];

/// One summand of a kernel's time: `work x product of the factors / rate x product of (1 + parameter x share)`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Term {
    work: f64,
    rate: Parameter,
    factors: [Option<Parameter>; 2],
    losses: [(Parameter, f64); 5],
}

impl Term {
    /// A term without losses.
    fn new(work: f64, rate: Parameter, factors: [Option<Parameter>; 2]) -> Self {
        Term { work, rate, factors, losses: [(Parameter::Step, 0.0); 5] }
    }

    pub(super) fn value(&self, values: &Values) -> f64 {
        let factors: f64 = self.factors.iter().flatten().map(|&factor| values[factor as usize]).product();
        let losses: f64 = self.losses.iter().map(|&(loss, share)| 1.0 + values[loss as usize] * share).product();
        self.work * factors * losses / values[self.rate as usize]
    }

    /// Adds the term, and its derivatives by the logarithms of the parameters.
    pub(super) fn add_to(&self, values: &Values, sum: &mut f64, slopes: &mut Values) {
        let value = self.value(values);
        *sum += value;
        slopes[self.rate as usize] -= value;
        for factor in self.factors.into_iter().flatten() {
            slopes[factor as usize] += value;
        }
        for (loss, share) in self.losses {
            let lost = values[loss as usize] * share;
            slopes[loss as usize] += value * lost / (1.0 + lost);
        }
    }

    /// Whether two terms differ in nothing but their work.
    fn is_like(&self, other: &Term) -> bool {
        self.rate == other.rate && self.factors == other.factors && self.losses == other.losses
    }
}

/// Terms summed up: those that differ in nothing but their work are one.
#[derive(Debug, Clone, Default)]
pub(super) struct Terms(Vec<Term>);

impl Terms {
    pub(super) fn push(&mut self, term: Term) {
        match self.0.iter_mut().find(|known| known.is_like(&term)) {
            Some(known) => known.work += term.work,
            None => self.0.push(term),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Term> {
        self.0.iter()
    }
}

/// The rules by which a kind of device computes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) speed: &'a Speed,
    pub(super) target: &'a Target,
}

const MILLION: f64 = 1e6;

impl Rules<'_> {
    /// The terms of one kernel: what it computes, what it moves.
    pub(super) fn terms(&self, kernel: &Kernel, batch: f64) -> [Option<Term>; 2] {
        let Some(product) = &kernel.product else { return [Some(self.movement(kernel, batch)), None] };
        let terms = match self.winograd(kernel) {
            Some((tile, filter)) => self.filtering(&filter, tile, batch),
            None => self.product(kernel, product, batch),
        };
        terms.map(Some)
    }

    /// Milliseconds of one kernel.
    pub(super) fn time(&self, kernel: &Kernel, batch: f64, values: &Values) -> f64 {
        self.terms(kernel, batch).iter().flatten().map(|term| term.value(values)).sum()
    }

    /// Bytes over a bandwidth.
    fn movement(&self, kernel: &Kernel, batch: f64) -> Term {
        let traffic = kernel.traffic.at(batch) / MILLION;
        match kernel.access {
            Access::Windowed => self.sliding(kernel, batch),
            Access::Strided => Term::new(traffic, Parameter::Bandwidth, [of_kind(kernel), Some(Parameter::Strided)]),
            Access::Contiguous => Term::new(traffic, Parameter::Bandwidth, [of_kind(kernel), None]),
        }
    }

    /// Windows read anew, or every operand once.
    fn sliding(&self, kernel: &Kernel, batch: f64) -> Term {
        let width = kernel.filter.map_or(0, |filter| filter.kernel[1]);
        let gradient = kernel.pass == Pass::WeightGradient;
        let rereads = match self.speed.depthwise {
            Depthwise::Reread => true,
            Depthwise::Cached { widest } => gradient && width > widest,
        };
        let bytes = if rereads { kernel.windows } else { kernel.traffic };
        let rate = if rereads && gradient { Parameter::WindowGradient } else { Parameter::Windows };
        Term::new(bytes.at(batch) / MILLION, rate, [None; 2])
    }

    /// A matrix product: rows padded to the quantum, slower where rows, the summed axis or the tiles in flight are few.
    fn product(&self, kernel: &Kernel, product: &Product, batch: f64) -> [Term; 2] {
        let Speed { quantum, tile, .. } = *self.speed;
        let [rows, columns, inner, blocks] =
            [product.rows, product.columns, product.inner, product.blocks].map(|amount| amount.at(batch));
        // Columns and blocks grow with the batch: were they rounded up to tiles, or asked whether they are ragged, a larger batch
        // could take less time.
        let tiles = (rows / tile).ceil() * (columns / tile).max(1.0) * blocks;
        let ragged = [product.rows, product.inner].iter().any(|axis| axis.sample == 0.0 && axis.fixed % quantum != 0.0);
        let compute = Term {
            work: 2.0 * up(rows, quantum) * columns * inner * blocks / MILLION,
            rate: Parameter::Compute,
            factors: [of_shape(kernel.class), of_pass(kernel.pass)],
            losses: [
                (Parameter::RowLoss, 1.0 / rows),
                (Parameter::InnerLoss, 1.0 / inner),
                (Parameter::TileLoss, 1.0 / tiles),
                (Parameter::RaggedLoss, f64::from(u8::from(ragged))),
                (Parameter::SmallBatchLoss, if is_dense(kernel.class) { small_batch(batch) } else { 0.0 }),
            ],
        };
        let operands = kernel.traffic.at(batch) / MILLION;
        [compute, Term::new(operands, Parameter::Bandwidth, [Some(Parameter::Operands), None])]
    }

    /// The side of the output tile and the filter, where the device computes this by minimal filtering.
    fn winograd(&self, kernel: &Kernel) -> Option<(f64, Filter)> {
        let filter = kernel.filter.filter(|filter| filter.unit_stride_dense && filter.kernel == [3, 3])?;
        let pass = match kernel.pass {
            Pass::Forward => target::Pass::Forward,
            Pass::InputGradient => target::Pass::InputGradient,
            Pass::WeightGradient => target::Pass::WeightGradient,
            Pass::Loss | Pass::Fork | Pass::Update => return None,
        };
        // An image of three colours has too few channels for it to pay: none of its workspace is ever seen there.
        let pays = filter.channels[0] > 3.0;
        self.target.workspaces.iter().filter(|_| pays).find_map(|workspace| match workspace {
            Workspace::Winograd { output_tile, passes } => {
                passes.contains(&pass).then_some((*output_tile as f64, filter))
            }
            Workspace::ChannelsLast { .. } | Workspace::BlockedCopies { .. } => None,
        })
    }

    /// Minimal filtering, non-fused: transform tiles, multiply them point by point, transform back (A. Lavin and S. Gray, "Fast
    /// algorithms for convolutional neural networks", 2016).
    fn filtering(&self, filter: &Filter, tile: f64, batch: f64) -> [Term; 2] {
        let points = (tile + 2.0) * (tile + 2.0);
        let tiles = batch * filter.image.iter().map(|side| (side / tile).ceil()).product::<f64>();
        let padded: f64 = filter.channels.iter().map(|&channels| up(channels, self.speed.quantum)).product();
        let [inputs, outputs] = filter.channels;
        let mut products = Term::new(2.0 * points * tiles * padded / MILLION, Parameter::Winograd, [None; 2]);
        products.losses[0] = (Parameter::SmallBatchLoss, small_batch(batch));
        // Each transformed tensor is written and read once, four bytes an element.
        let moved = 8.0 * points * (tiles * (inputs + outputs) + inputs * outputs) / MILLION;
        [products, Term::new(moved, Parameter::Bandwidth, [Some(Parameter::WinogradTraffic), None])]
    }
}

/// The next multiple.
fn up(size: f64, step: f64) -> f64 {
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

fn of_shape(class: Class) -> Option<Parameter> {
    match class {
        Class::Conv3x3 => Some(Parameter::Conv3x3),
        Class::ConvLarge => Some(Parameter::ConvLarge),
        Class::Grouped => Some(Parameter::Grouped),
        Class::Linear | Class::MatMul => Some(Parameter::Linear),
        _ => None,
    }
}

fn of_pass(pass: Pass) -> Option<Parameter> {
    match pass {
        Pass::InputGradient => Some(Parameter::InputGradient),
        Pass::WeightGradient => Some(Parameter::WeightGradient),
        _ => None,
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
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::physical::kernels;
    use crate::network::{Conv, Network, NetworkBuilder, Op, Shape, Window};
    use crate::workload::Stage;

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
        let values = Parameter::ALL.map(|parameter| target.speed.priors[&parameter].typical);
        let rules = Rules { speed: &target.speed, target };
        let time = |width| -> f64 {
            let step = kernels(&depthwise(width), Stage::Training);
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
