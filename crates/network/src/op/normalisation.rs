//! Normalisations, and softmax, which is one as well.

use super::attributes::Affine;
use super::effects::{
    AuxiliaryResult, BackwardNeeds, BackwardTraffic, GradientFlow, MemoryTraffic, ResultStorage, TrainedTensor,
    WeightSpans,
};
use super::facts::{ChannelCoupling, NodePosition, OperationFacts, OperationNature};
use crate::Shape;

pub(super) fn shape(axis: usize, input: &Shape) -> Result<Shape, String> {
    match axis < input.rank() {
        true => Ok(input.clone()),
        false => Err(format!("has no axis {axis} in {input}")),
    }
}

/// Normalisations over all samples have their channels right after the batch, or after rows that count as samples.
pub(super) fn batch_shape(axis: usize, input: &Shape) -> Result<Shape, String> {
    match axis < 2 {
        true => shape(axis, input),
        false => Err(format!("cannot normalise axis {axis} of {input} over all samples")),
    }
}

impl Affine {
    /// Number of its trained tensors.
    pub fn tensors(self) -> usize {
        match self {
            Affine::None => 0,
            Affine::Scale => 1,
            Affine::ScaleAndShift => 2,
        }
    }
}

pub(super) fn grouped_shape(groups: usize, input: &Shape) -> Result<Shape, String> {
    match input.rank() > 0 && groups > 0 && input.channels().is_multiple_of(groups) {
        true => Ok(input.clone()),
        false => Err(format!("cannot split the channels of {input} into {groups} groups")),
    }
}

/// Normalises channels over all samples of a batch, with scale and shift; keeps running mean and variance.
pub(super) fn batch<'a>(at: NodePosition, axis: usize) -> OperationFacts<'a> {
    let channels = Shape::new([at.output().dims()[axis]]);
    let outputs = at.outputs();
    // Training reads the input for the statistics and again to apply them; the gradient reads input and gradient twice. With kept
    // statistics it still reads both for the sums of scale and shift, whether they are needed or not, and then the gradient alone
    // (batch_norm_cpu_backward_contiguous_impl in aten/src/ATen/native/cpu/batch_norm_kernel.cpp).
    let backward = BackwardTraffic::Normalised { batch: 5.0 * outputs, kept: 4.0 * outputs };
    let traffic = MemoryTraffic { inference: 2.0 * outputs, backward, ..MemoryTraffic::new(3.0 * outputs, 0.0) };
    OperationFacts {
        buffers: vec![channels.clone(); 2],
        traffic,
        ..scaled_facts(channels, axis, Affine::ScaleAndShift)
    }
}

/// Normalises every sample independently over the axes from `axis` on.
pub(super) fn layer<'a>(at: NodePosition, axis: usize, affine: Affine) -> OperationFacts<'a> {
    let (rows, normalised) = at.output().dims().split_at(axis);
    let outputs = at.outputs();
    OperationFacts {
        // aten/src/ATen/native/layer_norm.cpp: mean and inverse deviation of every normalised row.
        auxiliary: Some(AuxiliaryResult::Statistics(Shape::new(rows).elements())),
        traffic: MemoryTraffic::new(3.0 * outputs, 5.0 * outputs),
        ..scaled_facts(Shape::new(normalised), axis, affine)
    }
}

pub(super) fn group<'a>(at: NodePosition, groups: usize, affine: Affine) -> OperationFacts<'a> {
    let outputs = at.outputs();
    let apart = groups == at.output().channels();
    OperationFacts {
        // aten/src/ATen/native/group_norm.cpp: mean and inverse deviation of every group.
        auxiliary: Some(AuxiliaryResult::Statistics(groups as u64)),
        traffic: MemoryTraffic::new(3.0 * outputs, 5.0 * outputs),
        channels: if apart { ChannelCoupling::Each(affine) } else { ChannelCoupling::Grouped { groups } },
        ..scaled_facts(Shape::new([at.output().channels()]), 0, affine)
    }
}

/// A normalisation with a scale and a shift of these dimensions, if it has any, which extend along the result's axes from `first`
/// on.
fn scaled_facts<'a>(dims: Shape, first: usize, affine: Affine) -> OperationFacts<'a> {
    let weight = TrainedTensor { dims, spans: WeightSpans::Result { first } };
    OperationFacts {
        weights: vec![weight; affine.tensors()],
        needs: BackwardNeeds::Inputs,
        ..OperationFacts::new(OperationNature::Normalisation, ChannelCoupling::Same, GradientFlow::Made)
    }
}

pub(super) fn softmax<'a>(at: NodePosition) -> OperationFacts<'a> {
    let outputs = at.outputs();
    OperationFacts {
        needs: BackwardNeeds::Result,
        storage: ResultStorage::Needed,
        traffic: MemoryTraffic::new(3.0 * outputs, 4.0 * outputs),
        ..OperationFacts::new(OperationNature::Softmax, ChannelCoupling::Same, GradientFlow::Made)
    }
}
