//! Operations that look elements up by index, as the libtorch calls that PyTorch would make.

use super::ops::{NodeRun, behind_batch};
use super::weights::sizes;
use perf4sight_network::{ArgMax, Fold, GridSample, Interpolation, OutsideValues, TopK, Window};
use tch::{TchError, Tensor};

impl NodeRun<'_> {
    /// A place, as a number where it is one of numbers.
    pub(super) fn extreme(&self, place: &ArgMax) -> Result<Tensor, TchError> {
        let (input, axis) = (&self.inputs[0], Some(behind_batch(place.axis)));
        let found = if place.largest { input.f_argmax(axis, place.keep) } else { input.f_argmin(axis, place.keep) };
        found?.f_to_kind(input.kind())
    }

    pub(super) fn top(&self, top: &TopK) -> Result<Tensor, TchError> {
        let input = &self.inputs[0];
        let (values, places) = input.f_topk(top.count as i64, behind_batch(top.axis), top.largest, true)?;
        if top.places { places.f_to_kind(input.kind()) } else { Ok(values) }
    }

    pub(super) fn folded(&self, fold: &Fold) -> Result<Tensor, TchError> {
        let Window { kernel, stride, padding: [top, left, ..], dilation, .. } = &fold.window;
        self.inputs[0].f_col2im(
            sizes(&fold.image),
            sizes(kernel),
            sizes(dilation),
            sizes(&[*top, *left]),
            sizes(stride),
        )
    }

    /// libtorch numbers the ways (GridSamplerInterpolation and GridSamplerPadding in aten/src/ATen/native/GridSamplerUtils.h).
    pub(super) fn sampled(&self, sample: &GridSample) -> Result<Tensor, TchError> {
        let interpolation = match sample.interpolation {
            Interpolation::Linear => 0,
            Interpolation::Nearest => 1,
            Interpolation::Cubic => 2,
        };
        let beyond = match sample.beyond {
            OutsideValues::Zeros => 0,
            OutsideValues::Edge => 1,
            OutsideValues::Reflect => 2,
        };
        self.inputs[0].f_grid_sampler(&self.inputs[1], interpolation, beyond, sample.corners)
    }
}
