//! Operations that multiply matrices: convolutions, fully connected layers and products of two tensors.

use super::attributes::{Conv, ConvTranspose, Linear};
use super::effects::{AuxiliaryResult, BackwardNeeds, GradientFlow, ResultStorage, TrainedTensor, WeightSpans};
use super::facts::{ChannelCoupling, NodePosition, OperationFacts, OperationNature};
use super::pooling::image;
use super::two_inputs;
use crate::Shape;

impl Conv {
    pub(super) fn shape(&self, input: &Shape) -> Result<Shape, String> {
        let [channels, height, width] = image(input)?;
        self.divides(channels)?;
        let [height, width] = self.window.positions([height, width])?;
        Ok(Shape::new([self.out_channels, height, width]))
    }

    pub(super) fn facts<'a>(&'a self, at: NodePosition) -> OperationFacts<'a> {
        self.filtering(&self.window.kernel, at, OperationNature::Convolution(self), ChannelCoupling::Filters(self))
    }
}

impl<W> Conv<W> {
    pub(super) fn divides(&self, channels: usize) -> Result<(), String> {
        let divides = |channels: usize| self.groups > 0 && channels.is_multiple_of(self.groups);
        match divides(channels) && divides(self.out_channels) {
            true => Ok(()),
            false => Err(format!(
                "cannot split {channels} input and {} output channels into {} groups",
                self.out_channels, self.groups
            )),
        }
    }

    /// Its facts, for a kernel over any kind of input.
    pub(super) fn filtering<'a>(
        &self,
        kernel: &[usize],
        at: NodePosition,
        nature: OperationNature<'a>,
        channels: ChannelCoupling<'a>,
    ) -> OperationFacts<'a> {
        let filter: Vec<usize> =
            std::iter::once(at.input(0).channels() / self.groups).chain(kernel.iter().copied()).collect();
        let macs = Shape::new(filter.as_slice()).elements().saturating_mul(at.output().elements());
        let dims = Shape::new([&[self.out_channels], filter.as_slice()].concat());
        let filters = TrainedTensor { dims, spans: WeightSpans::Filters { input: 0 } };
        let bias = self
            .bias
            .then(|| TrainedTensor { dims: Shape::new([self.out_channels]), spans: WeightSpans::Result { first: 0 } });
        OperationFacts {
            weights: [filters].into_iter().chain(bias).collect(),
            macs,
            needs: BackwardNeeds::Inputs,
            ..OperationFacts::new(nature, channels, GradientFlow::Made)
        }
    }

    /// Whether each of `inputs` channels has filters of its own.
    pub fn is_depthwise(&self, inputs: usize) -> bool {
        self.groups > 1 && self.groups == inputs
    }
}

impl Linear {
    pub(super) fn shape(&self, input: &Shape) -> Result<Shape, String> {
        let mut dims = input.dims().to_vec();
        *dims.last_mut().ok_or("needs at least one axis")? = self.out_features;
        Ok(Shape::new(dims))
    }

    pub(super) fn facts<'a>(&'a self, at: NodePosition) -> OperationFacts<'a> {
        let (inputs, last) = (at.input(0).features(), at.input(0).rank().saturating_sub(1));
        let matrix = TrainedTensor {
            dims: Shape::new([self.out_features, inputs]),
            spans: WeightSpans::Filters { input: last },
        };
        let bias = self.bias.then(|| TrainedTensor {
            dims: Shape::new([self.out_features]),
            spans: WeightSpans::Result { first: last },
        });
        // Over tokens the result is a view of one product of all of them (`_flatten_nd_linear` in Linear.cpp). An operation that
        // overwrites a view copies its gradient twice (`CopySlices`), so authors of such layers avoid that.
        let is_view = self.bias && last > 0;
        OperationFacts {
            weights: [matrix].into_iter().chain(bias).collect(),
            macs: at.output().elements().saturating_mul(inputs as u64),
            storage: if is_view { ResultStorage::Needed } else { ResultStorage::Own },
            needs: BackwardNeeds::Inputs,
            ..OperationFacts::new(OperationNature::Linear(self), ChannelCoupling::Features(self), GradientFlow::Made)
        }
    }
}

impl ConvTranspose {
    /// Every pixel of the input is spread over a window of the result: the inverse of PyTorch's `conv_output`.
    pub(super) fn shape(&self, input: &Shape) -> Result<Shape, String> {
        let [channels, height, width] = image(input)?;
        let Conv { window, groups, out_channels, .. } = &self.conv;
        if *groups == 0 || !channels.is_multiple_of(*groups) || !out_channels.is_multiple_of(*groups) {
            return Err(format!(
                "cannot split {channels} input and {out_channels} output channels into {groups} groups"
            ));
        }
        let mut dims = vec![*out_channels];
        for (axis, size) in [height, width].into_iter().enumerate() {
            let reach = window.kernel[axis].saturating_sub(1).saturating_mul(window.dilation[axis]) + 1;
            let spread =
                (size - 1).saturating_mul(window.stride[axis]).saturating_add(reach).saturating_add(self.extra[axis]);
            let cut = window.padding[axis].saturating_add(window.padding[axis + 2]);
            dims.push(spread.checked_sub(cut).ok_or_else(|| format!("cuts {cut} of {spread}"))?);
        }
        Ok(Shape::new(dims))
    }

    pub(super) fn facts<'a>(&'a self, at: NodePosition) -> OperationFacts<'a> {
        let Conv { window, groups, out_channels, bias } = &self.conv;
        let [height, width] = window.kernel;
        let dims = Shape::new([at.input(0).channels(), out_channels / groups, height, width]);
        let each = Shape::new(&dims.dims()[1..]).elements();
        let filters = TrainedTensor { dims, spans: WeightSpans::Transposed { input: 0 } };
        let bias =
            bias.then(|| TrainedTensor { dims: Shape::new([*out_channels]), spans: WeightSpans::Result { first: 0 } });
        OperationFacts {
            weights: [filters].into_iter().chain(bias).collect(),
            // Every element of the input is multiplied by every filter of its group.
            macs: each.saturating_mul(at.input(0).elements()),
            needs: BackwardNeeds::Inputs,
            ..OperationFacts::new(OperationNature::Transposed(self), ChannelCoupling::Spread(self), GradientFlow::Made)
        }
    }
}

/// Batched matrix products; axes before the last two are broadcast if they have length 1.
pub(super) fn matmul_shape(inputs: &[&Shape]) -> Result<Shape, String> {
    let [a, b] = two_inputs(inputs)?;
    let misfit = || format!("cannot multiply {a} by {b}");
    let rank = a.rank();
    if rank < 2 || rank != b.rank() || a.dims()[rank - 1] != b.dims()[rank - 2] {
        return Err(misfit());
    }
    let stack = a.dims()[..rank - 2].iter().zip(b.dims()).map(|(&x, &y)| match (x, y) {
        _ if x == y || y == 1 => Ok(x),
        (1, _) => Ok(y),
        _ => Err(misfit()),
    });
    let mut dims = stack.collect::<Result<Vec<_>, _>>()?;
    dims.extend([a.dims()[rank - 2], b.dims()[rank - 1]]);
    Ok(Shape::new(dims))
}

pub(super) fn matmul<'a>(at: NodePosition) -> OperationFacts<'a> {
    let macs = at.output().elements().saturating_mul(at.input(0).features() as u64);
    OperationFacts {
        macs,
        needs: BackwardNeeds::Inputs,
        ..OperationFacts::new(OperationNature::MatMul, ChannelCoupling::Multiplied, GradientFlow::Made)
    }
}

/// Queries, keys and values with equally many heads, and an addend for the scores, whose axes of length 1 are broadcast.
pub(super) fn attention_shape(inputs: &[&Shape]) -> Result<Shape, String> {
    let ([query, key, value] | [query, key, value, _]) = *inputs else {
        return Err(format!("takes three or four inputs, has {}", inputs.len()));
    };
    let misfit = || format!("cannot look {query} up in {key} for {value}");
    let (&[heads, rows, features], &[_, keys, _], &[.., columns]) = (query.dims(), key.dims(), value.dims()) else {
        return Err(misfit());
    };
    if key.dims() != [heads, keys, features] || value.dims() != [heads, keys, columns] {
        return Err(misfit());
    }
    if let Some(added) = inputs.get(3) {
        let scores = Shape::new([heads, rows, keys]);
        let fits = |(&dim, &score): (&usize, &usize)| dim == score || dim == 1;
        if added.rank() != 3 || !added.dims().iter().zip(scores.dims()).all(fits) {
            return Err(format!("cannot add {added} to scores of {scores}"));
        }
    }
    Ok(Shape::new([heads, rows, columns]))
}

/// PyTorch's flash attention keeps its inputs, its result and one number for each query
/// (`_scaled_dot_product_flash_attention_for_cpu` in tools/autograd/derivatives.yaml), never all scores.
pub(super) fn attention<'a>(at: NodePosition) -> OperationFacts<'a> {
    let queries = at.output().elements() / at.output().features() as u64;
    let keys = at.input(1).image()[0] as u64;
    let multiplied = (at.input(0).features() + at.output().features()) as u64;
    OperationFacts {
        macs: queries.saturating_mul(keys).saturating_mul(multiplied),
        needs: BackwardNeeds::All,
        storage: ResultStorage::Needed,
        auxiliary: Some(AuxiliaryResult::Sums(queries)),
        ..OperationFacts::new(OperationNature::Attention, ChannelCoupling::Multiplied, GradientFlow::Made)
    }
}
