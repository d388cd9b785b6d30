//! Windows that move over an image, reductions of windows, whole images or axes to a number, and resized images.

use super::attributes::Window;
use super::effects::{AuxiliaryResult, BackwardNeeds, GradientFlow, MemoryTraffic, ResultStorage};
use super::facts::{ChannelCoupling, NodePosition, OperationFacts, OperationNature};
use crate::Shape;

impl Window {
    /// A square kernel with equal stride and padding on all sides.
    pub fn square(kernel: usize, stride: usize, padding: usize) -> Self {
        Window { kernel: [kernel; 2], stride: [stride; 2], padding: [padding; 4], dilation: [1; 2], ceil: false }
    }

    /// The same with the number of positions rounded up.
    #[must_use]
    pub fn ceil(mut self) -> Self {
        self.ceil = true;
        self
    }

    pub(super) fn shape(&self, input: &Shape) -> Result<Shape, String> {
        let [channels, height, width] = image(input)?;
        let [height, width] = self.positions([height, width])?;
        Ok(Shape::new([channels, height, width]))
    }

    pub(super) fn positions(&self, size: [usize; 2]) -> Result<[usize; 2], String> {
        let along = |axis: usize| AxisWindow {
            size: size[axis],
            kernel: self.kernel[axis],
            stride: self.stride[axis],
            dilation: self.dilation[axis],
            padding: [self.padding[axis], self.padding[axis + 2]],
        };
        Ok([along(0).positions(self.ceil)?, along(1).positions(self.ceil)?])
    }
}

/// A window along one axis of its input.
pub(super) struct AxisWindow {
    pub size: usize,
    pub kernel: usize,
    pub stride: usize,
    pub dilation: usize,
    /// Before and after.
    pub padding: [usize; 2],
}

impl AxisWindow {
    /// Its number of positions, rounded up or down.
    pub fn positions(&self, ceil: bool) -> Result<usize, String> {
        let AxisWindow { size, kernel, stride, dilation, padding: [before, behind] } = *self;
        if kernel == 0 || stride == 0 || dilation == 0 {
            return Err("has a kernel, stride or dilation of 0".into());
        }
        let reach = (kernel - 1).saturating_mul(dilation).saturating_add(1);
        let padded = size.saturating_add(before).saturating_add(behind);
        // With rounding up, a last window counts even if only a part of it is on the image, unless it starts beyond the image:
        // PyTorch's pooling_output_shape.
        let overhang = if ceil { stride - 1 } else { 0 };
        let room = padded
            .saturating_add(overhang)
            .checked_sub(reach)
            .ok_or_else(|| format!("has a kernel that reaches {reach} over an image of {padded} (padding included)"))?;
        let positions = room / stride + 1;
        let starts_behind = ceil && (positions - 1).saturating_mul(stride) >= size.saturating_add(before);
        Ok(if starts_behind { positions - 1 } else { positions })
    }
}

pub(super) fn image(shape: &Shape) -> Result<[usize; 3], String> {
    match shape.dims() {
        [channels, height, width] => Ok([*channels, *height, *width]),
        _ => Err(format!("needs an image (channels x height x width), got {shape}")),
    }
}

/// Pooling with a kernel of two or three axes; only images have a `window`.
pub(super) fn max<'a>(kernel: &[usize], window: Option<&'a Window>, at: NodePosition) -> OperationFacts<'a> {
    let [inputs, outputs] = [at.input(0).elements() as f64, at.outputs()];
    OperationFacts {
        needs: BackwardNeeds::Inputs,
        auxiliary: Some(AuxiliaryResult::Indices),
        // Every result reads its window; two more words store the index of the maximum, which backward reads.
        traffic: MemoryTraffic::new((elements(kernel) + 3.0) * outputs, 3.0 * outputs + 2.0 * inputs),
        ..pooling_facts(window)
    }
}

pub(super) fn average<'a>(kernel: &[usize], window: Option<&'a Window>, at: NodePosition) -> OperationFacts<'a> {
    let [inputs, outputs] = [at.input(0).elements() as f64, at.outputs()];
    let traffic = MemoryTraffic::new((1.0 + elements(kernel)) * outputs, inputs + outputs);
    OperationFacts { needs: BackwardNeeds::Inputs, traffic, ..pooling_facts(window) }
}

fn elements(kernel: &[usize]) -> f64 {
    kernel.iter().product::<usize>() as f64
}

pub(super) fn adaptive_shape(output: [usize; 2], input: &Shape) -> Result<Shape, String> {
    let [channels, _, _] = image(input)?;
    Ok(Shape::new([channels, output[0], output[1]]))
}

pub(super) fn adaptive<'a>(output: [usize; 2], at: NodePosition) -> OperationFacts<'a> {
    // The global mean is at::mean, which needs nothing of its input for backward (AdaptiveAveragePooling.cpp).
    let needs = if output == [1, 1] { BackwardNeeds::Nothing } else { BackwardNeeds::Inputs };
    OperationFacts { needs, traffic: whole_traffic(at), ..pooling_facts(None) }
}

perf4sight_base::words! {
    /// The kind of reduction of axes to a number.
    pub enum ReductionKind {
        Mean = "mean",
        Sum = "sum",
        Max = "reduce-max",
        Min = "reduce-min",
        /// The sum of magnitudes.
        L1 = "norm-1",
        /// The root of the sum of squares.
        L2 = "norm",
        Product = "product",
        /// The logarithm of the sum of exponentials.
        LogSumExp = "log-sum-exp",
    }
}

pub(super) fn reduced_shape(input: &Shape, axes: &[usize], keep: bool) -> Result<Shape, String> {
    if let Some(axis) = axes.iter().find(|&&axis| axis >= input.rank()) {
        return Err(format!("has no axis {axis} in {input}"));
    }
    let dims = input
        .dims()
        .iter()
        .enumerate()
        .filter_map(|(i, &dim)| if !axes.contains(&i) { Some(dim) } else { keep.then_some(1) });
    Ok(Shape::new(dims.collect::<Vec<_>>()))
}

pub(super) fn reduction<'a>(
    reduction: ReductionKind,
    axes: &'a [usize],
    keep: bool,
    at: NodePosition,
) -> OperationFacts<'a> {
    // amax, amin, linalg_vector_norm, prod and logsumexp in derivatives.yaml.
    let (needs, storage) = match reduction {
        ReductionKind::Mean | ReductionKind::Sum => (BackwardNeeds::Nothing, ResultStorage::Own),
        ReductionKind::Max | ReductionKind::Min | ReductionKind::L1 | ReductionKind::L2 | ReductionKind::Product => {
            (BackwardNeeds::All, ResultStorage::Needed)
        }
        ReductionKind::LogSumExp => (BackwardNeeds::All, ResultStorage::Needed),
    };
    OperationFacts {
        needs,
        storage,
        traffic: whole_traffic(at),
        channels: ChannelCoupling::Reduced { axes, keep },
        ..pooling_facts(None)
    }
}

/// The interpolation of a resized image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Interpolation {
    /// The nearest pixel.
    Nearest,
    /// The nearest two on each axis.
    Linear,
    /// The nearest four on each axis.
    Cubic,
}

impl Interpolation {
    pub(super) fn pixels(self) -> f64 {
        match self {
            Interpolation::Nearest => 1.0,
            Interpolation::Linear => 4.0,
            Interpolation::Cubic => 16.0,
        }
    }
}

/// A resized image; neither direction needs more than the sizes (upsample_* in derivatives.yaml).
pub(super) fn resize<'a>(interpolation: Interpolation, at: NodePosition) -> OperationFacts<'a> {
    let [inputs, outputs] = [at.input(0).elements() as f64, at.outputs()];
    let read = interpolation.pixels() * outputs;
    let traffic = MemoryTraffic::new(read + outputs, outputs + read.max(inputs));
    OperationFacts { traffic, ..pooling_facts(None) }
}

fn whole_traffic(at: NodePosition) -> MemoryTraffic {
    let moved = at.input(0).elements() as f64 + at.outputs();
    MemoryTraffic::new(moved, moved)
}

fn pooling_facts(window: Option<&Window>) -> OperationFacts<'_> {
    OperationFacts::new(OperationNature::Pooling(window), ChannelCoupling::Image, GradientFlow::Made)
}
