//! Every operation of a network as the libtorch call that PyTorch would make for it.

use super::weights::{Weights, sizes};
use perf4sight_step::network::{Activation, Binary, Conv, Node, Op, Shape, Window};
use tch::{TchError, Tensor};

/// Momentum of a batch-norm's running statistics and its epsilon; PyTorch's defaults, and those of the published networks.
const RUNNING_MOMENTUM: f64 = 0.1;
const EPSILON: f64 = 1e-5;

/// Runs one node on its inputs.
pub(super) struct Call<'a> {
    pub node: &'a Node,
    pub weights: Option<&'a Weights>,
    pub inputs: Vec<Tensor>,
    /// The network's input.
    pub batch: &'a Tensor,
    /// Batch statistics and dropout as in training.
    pub training: bool,
    /// Whether the result may overwrite the input.
    pub in_place: bool,
}

impl Call<'_> {
    /// The node's result.
    pub fn run(self) -> Result<Tensor, TchError> {
        let shape = &self.node.shape;
        match &self.node.op {
            Op::Input(_) => Ok(self.batch.shallow_clone()),
            Op::Parameter(_) => self.weights()?.weight.f_expand(self.sized(shape), false),
            Op::Conv(conv) => self.conv(conv),
            Op::Linear(_) => self.inputs[0].f_linear(&self.weights()?.weight, self.weights()?.bias.as_ref()),
            Op::BatchNorm => self.batch_norm(),
            Op::LayerNorm { .. } => self.layer_norm(),
            Op::Activation(activation) => self.activation(*activation),
            Op::MaxPool(window) => self.max_pool(window),
            Op::AvgPool { window, count_include_pad } => self.average_pool(window, *count_include_pad),
            Op::AdaptiveAvgPool { output } => self.inputs[0].f_adaptive_avg_pool2d(sizes(output)),
            Op::Mean { axes, keep } => self.inputs[0].f_mean_dim(behind_batches(axes), *keep, None),
            Op::Binary(binary) => self.binary(*binary),
            Op::Concat { axis } => Tensor::f_cat(&self.inputs, behind_batch(*axis)),
            Op::Flatten => self.inputs[0].f_flatten(1, -1),
            Op::Reshape(_) => self.inputs[0].f_reshape(self.sized(shape)),
            Op::Transpose { order } => self.inputs[0].f_permute([vec![0], behind_batches(order)].concat()),
            Op::Slice { axis, start, length } => {
                self.inputs[0].f_narrow(behind_batch(*axis), *start as i64, *length as i64)
            }
            Op::MatMul => self.inputs[0].f_matmul(&self.inputs[1]),
            Op::Softmax { axis } => self.inputs[0].f_softmax(behind_batch(*axis), None),
            Op::Dropout { rate } => self.inputs[0].f_dropout(f64::from(*rate), self.training),
            Op::Unknown(_) => Err(TchError::Shape(format!("{} cannot run", self.node.op.kind()))),
        }
    }

    fn weights(&self) -> Result<&Weights, TchError> {
        self.weights.ok_or_else(|| TchError::Shape(format!("{} has no weights", self.node.name)))
    }

    /// A shape for every sample of the batch.
    fn sized(&self, shape: &Shape) -> Vec<i64> {
        self.batch.size()[..1].iter().copied().chain(sizes(shape.dims())).collect()
    }

    fn conv(&self, conv: &Conv) -> Result<Tensor, TchError> {
        let Weights { weight, bias, .. } = self.weights()?;
        let (input, padding) = self.padded(&conv.window, 0.0)?;
        let Window { stride, dilation, .. } = &conv.window;
        input.f_conv2d(weight, bias.as_ref(), sizes(stride), padding, sizes(dilation), conv.groups as i64)
    }

    fn batch_norm(&self) -> Result<Tensor, TchError> {
        let Weights { weight, bias, running } = self.weights()?;
        let [mean, variance] = running.as_ref().map_or([None, None], |running| running.each_ref().map(Some));
        let (scale, shift, input) = (Some(weight), bias.as_ref(), &self.inputs[0]);
        input.f_batch_norm(scale, shift, mean, variance, self.training, RUNNING_MOMENTUM, EPSILON, true)
    }

    fn layer_norm(&self) -> Result<Tensor, TchError> {
        let Weights { weight, bias, .. } = self.weights()?;
        self.inputs[0].f_layer_norm(weight.size(), Some(weight), bias.as_ref(), EPSILON, true)
    }

    fn max_pool(&self, window: &Window) -> Result<Tensor, TchError> {
        let (input, padding) = self.padded(window, f64::NEG_INFINITY)?;
        let Window { kernel, stride, dilation, .. } = window;
        input.f_max_pool2d(sizes(kernel), sizes(stride), padding, sizes(dilation), window.ceil)
    }

    fn average_pool(&self, window: &Window, count_include_pad: bool) -> Result<Tensor, TchError> {
        let (input, padding) = self.padded(window, 0.0)?;
        let Window { kernel, stride, .. } = window;
        input.f_avg_pool2d(sizes(kernel), sizes(stride), padding, window.ceil, count_include_pad, None)
    }

    /// The input and the padding libtorch is told. Its operations pad both sides alike, pooling by half a kernel at most; any
    /// other padding is laid around the image first, and just so far that no window is left over or missing.
    fn padded(&self, window: &Window, value: f64) -> Result<(Tensor, Vec<i64>), TchError> {
        let [top, left, bottom, right] = window.padding;
        let pools = !matches!(self.node.op, Op::Conv(_));
        let too_far = pools && (0..2).any(|axis| 2 * window.padding[axis] > window.kernel[axis]);
        let input = &self.inputs[0];
        if [top, left] == [bottom, right] && !too_far {
            return Ok((input.shallow_clone(), sizes(&[top, left])));
        }
        let image = input.size();
        let after = |axis: usize| {
            let reach = (window.kernel[axis] - 1) * window.dilation[axis] + 1;
            let covered = (self.node.shape.image()[axis] - 1) * window.stride[axis] + reach;
            covered as i64 - image[axis + 2] - window.padding[axis] as i64
        };
        let padding = [left as i64, after(1), top as i64, after(0)];
        Ok((input.f_pad(padding, "constant", value)?, vec![0, 0]))
    }

    fn activation(mut self, activation: Activation) -> Result<Tensor, TchError> {
        let input = &mut self.inputs[0];
        match activation {
            Activation::Relu if self.in_place => input.f_relu_(),
            Activation::Relu6 if self.in_place => input.f_relu6_(),
            Activation::Relu => input.f_relu(),
            Activation::Relu6 => input.f_relu6(),
            Activation::LeakyRelu => input.f_leaky_relu(),
            Activation::Elu => input.f_elu(),
            Activation::Sigmoid => input.f_sigmoid(),
            Activation::HardSigmoid => input.f_hardsigmoid(),
            Activation::Tanh => input.f_tanh(),
            Activation::Silu => input.f_silu(),
            Activation::HardSwish => input.f_hardswish(),
            Activation::Gelu => input.f_gelu("none"),
            Activation::Mish => input.f_mish(),
            Activation::Softplus => input.f_softplus(),
        }
    }

    fn binary(&self, binary: Binary) -> Result<Tensor, TchError> {
        let [a, b] = self.inputs.as_slice() else { return self.with_constant(binary) };
        let rank = a.dim().max(b.dim());
        let (a, b) = (raised(a, rank)?, raised(b, rank)?);
        match binary {
            Binary::Add => a.f_add(&b),
            Binary::Sub => a.f_sub(&b),
            Binary::Mul => a.f_mul(&b),
            Binary::Div => a.f_div(&b),
        }
    }

    /// Arithmetic with a constant, which is not part of the graph; the cost is the same whatever its value.
    fn with_constant(&self, binary: Binary) -> Result<Tensor, TchError> {
        let input = &self.inputs[0];
        match binary {
            Binary::Add => input.f_add_scalar(1.0),
            Binary::Sub => input.f_sub_scalar(1.0),
            Binary::Mul => input.f_mul_scalar(1.0),
            Binary::Div => input.f_div_scalar(1.0),
        }
    }
}

/// The tensor with axes of length 1 behind the batch, so that samples of different rank broadcast at their last axis.
fn raised(tensor: &Tensor, rank: usize) -> Result<Tensor, TchError> {
    (tensor.dim()..rank).try_fold(tensor.shallow_clone(), |tensor, _| tensor.f_unsqueeze(1))
}

/// A per-sample axis as an axis of the batch.
fn behind_batch(axis: usize) -> i64 {
    axis as i64 + 1
}

fn behind_batches(axes: &[usize]) -> Vec<i64> {
    axes.iter().map(|&axis| behind_batch(axis)).collect()
}
