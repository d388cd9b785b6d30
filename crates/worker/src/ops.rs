//! Every operation of a network as the libtorch call that PyTorch would make for it.

use super::weights::{Weights, sizes};
use perf4sight_network::{
    Activation, BinaryFunction, Conv, ConvTranspose, ElementKind, Embedding, Interpolation, Node, Op, PaddingFill,
    PickedElements, Recurrent, RecurrentKind, ReductionKind, Shape, VolumeWindow, Window,
};
use perf4sight_step::workload::NumberFormat;
use tch::{Kind, TchError, Tensor};

/// Momentum of a batch-norm's running statistics and its epsilon; PyTorch's defaults, and those of the published networks.
const RUNNING_MOMENTUM: f64 = 0.1;
const EPSILON: f64 = 1e-5;

/// Runs one node on its inputs.
pub(super) struct NodeRun<'a> {
    pub node: &'a Node,
    pub weights: Option<&'a Weights>,
    pub inputs: Vec<Tensor>,
    pub samples: i64,
    /// The format of weights and data.
    pub held: NumberFormat,
    /// Batch statistics and dropout as in training.
    pub training: bool,
    /// Whether the result may overwrite the input.
    pub in_place: bool,
}

impl NodeRun<'_> {
    /// A stored table, or one that is computed anew from fewer trained numbers.
    fn table(&self, shape: &Shape) -> Result<Tensor, TchError> {
        let weight = &self.weights()?.weight;
        if weight.numel() as u64 == shape.elements() {
            return weight.f_expand(self.sized(shape), false);
        }
        let once: Vec<i64> = std::iter::once(1).chain(shape.dims().iter().map(|&dim| dim as i64)).collect();
        weight.f_sum(weight.kind())?.f_expand(once, false)?.f_contiguous()?.f_expand(self.sized(shape), false)
    }

    /// The node's result.
    pub fn run(self) -> Result<Tensor, TchError> {
        let shape = &self.node.shape;
        match &self.node.op {
            Op::Input(_) => Err(TchError::Shape(format!("{} was not given", self.node.name))),
            Op::Embedding(embedding) => self.looked_up(embedding),
            Op::Cast(element) => self.inputs[0].f_to_kind(kind_of(*element, self.held)),
            Op::Parameter(_) => self.table(shape),
            Op::Conv(conv) => self.conv(conv),
            Op::Conv3d(conv) => self.conv_3d(conv),
            Op::ConvTranspose(transposed) => self.transposed(transposed),
            Op::Linear(linear) => self.inputs[0].f_linear(&self.weights()?.weight, self.bias(linear.bias)?),
            Op::BatchNorm { axis } => self.batch_norm(*axis),
            Op::LayerNorm { axis, .. } => self.layer_norm(*axis),
            Op::GroupNorm { groups, .. } => self.group_norm(*groups),
            Op::Activation(activation) => self.activation(*activation),
            Op::MaxPool(window) => self.max_pool(window),
            Op::AvgPool { window, count_include_pad } => self.average_pool(window, *count_include_pad),
            Op::MaxPool3d(window) => self.max_pool_3d(window),
            Op::AvgPool3d { window, count_include_pad } => self.average_pool_3d(window, *count_include_pad),
            Op::ArgMax(place) => self.extreme(place),
            Op::TopK(top) => self.top(top),
            Op::CumSum { axis } => self.inputs[0].f_cumsum(behind_batch(*axis), None),
            Op::Fold(fold) => self.folded(fold),
            Op::GridSample(sample) => self.sampled(sample),
            Op::AdaptiveAvgPool { output } => self.inputs[0].f_adaptive_avg_pool2d(sizes(output)),
            Op::Reduce { reduction, axes, keep } => self.reduced(*reduction, &behind_batches(axes), *keep),
            Op::Binary(binary) => self.binary(*binary),
            Op::Concat { axis } => Tensor::f_cat(&self.inputs, behind_batch(*axis)),
            Op::Flatten => self.inputs[0].f_flatten(1, -1),
            Op::Reshape(_) => self.inputs[0].f_reshape(self.sized(shape)),
            Op::Transpose { order } => self.inputs[0].f_permute([vec![0], behind_batches(order)].concat()),
            Op::Contiguous { batch } => self.laid_anew(*batch as i64),
            Op::Slice { axis, start, length } => {
                self.inputs[0].f_narrow(behind_batch(*axis), *start as i64, *length as i64)
            }
            Op::Every { axis, start, step } => {
                self.inputs[0].f_slice(behind_batch(*axis), *start as i64, None, *step as i64)
            }
            Op::Pick(pick) => self.pick_elements(pick),
            Op::Pad { sides, fill } => self.surrounded(sides, *fill),
            Op::Expand(shape) => self.inputs[0].f_expand(self.sized(shape), false),
            Op::Where => self.chosen(),
            Op::Resize { image, interpolation, corners } => self.resized(*image, *interpolation, *corners),
            Op::MatMul => self.inputs[0].f_matmul(&self.inputs[1]),
            Op::Attention => self.attention(),
            Op::Softmax { axis } => self.inputs[0].f_softmax(behind_batch(*axis), None),
            Op::Dropout { rate } => self.inputs[0].f_dropout(f64::from(*rate), self.training),
            Op::DropPath { rate } => self.dropped(f64::from(*rate)),
            Op::Recurrent(layer) => self.recurrent(layer),
            Op::Unknown(_) => Err(TchError::Shape(format!("{} cannot run", self.node.op.kind()))),
        }
    }

    /// A contiguous copy, with the batch after so many axes of a sample.
    fn laid_anew(&self, batch: i64) -> Result<Tensor, TchError> {
        self.inputs[0].f_movedim_int(0, batch)?.f_contiguous()?.f_movedim_int(batch, 0)
    }

    /// The bias, where the layer has one; a layer whose weights it shares may have a bias that this one lacks.
    fn bias(&self, has: bool) -> Result<Option<&Tensor>, TchError> {
        Ok(self.weights()?.bias.as_ref().filter(|_| has))
    }

    fn weights(&self) -> Result<&Weights, TchError> {
        self.weights.ok_or_else(|| TchError::Shape(format!("{} has no weights", self.node.name)))
    }

    /// A shape for every sample of the batch.
    fn sized(&self, shape: &Shape) -> Vec<i64> {
        std::iter::once(self.samples).chain(sizes(shape.dims())).collect()
    }

    /// Fixed indices, the same for every sample: the values do not matter, so the first rows are read over and over.
    fn looked_up(&self, embedding: &Embedding) -> Result<Tensor, TchError> {
        let table = &self.weights()?.weight;
        let look = |numbers: &Tensor| Tensor::f_embedding(table, numbers, -1, false, false);
        let Some(fixed) = &embedding.fixed else { return look(&self.inputs[0]) };
        let numbers = Tensor::f_arange(fixed.elements() as i64, (Kind::Int64, table.device()))?;
        let size: Vec<i64> = std::iter::once(1).chain(sizes(fixed.dims())).collect();
        let numbers = numbers.f_remainder(embedding.rows as i64)?.f_view(size.as_slice())?;
        look(&numbers)?.f_expand(self.sized(&self.node.shape), false)
    }

    fn conv(&self, conv: &Conv) -> Result<Tensor, TchError> {
        let (weight, bias) = (&self.weights()?.weight, self.bias(conv.bias)?);
        let (input, padding) = self.padded(&conv.window, 0.0)?;
        let Window { stride, dilation, .. } = &conv.window;
        input.f_conv2d(weight, bias, sizes(stride), padding, sizes(dilation), conv.groups as i64)
    }

    fn conv_3d(&self, conv: &Conv<VolumeWindow>) -> Result<Tensor, TchError> {
        let (weight, bias) = (&self.weights()?.weight, self.bias(conv.bias)?);
        let [stride, padding, dilation] =
            [conv.window.stride, conv.window.padding, conv.window.dilation].map(|three| sizes(&three));
        self.inputs[0].f_conv3d(weight, bias, stride, padding, dilation, conv.groups as i64)
    }

    /// The values of the filters do not matter, only their layout, which is PyTorch's.
    fn transposed(&self, transposed: &ConvTranspose) -> Result<Tensor, TchError> {
        let ConvTranspose { conv: Conv { window, groups, bias, .. }, extra } = transposed;
        let (weight, bias) = (&self.weights()?.weight, self.bias(*bias)?);
        let [top, left, bottom, right] = window.padding;
        let (stride, dilation) = (sizes(&window.stride), sizes(&window.dilation));
        // PyTorch cuts both sides of an axis alike and extends the end by its output padding, which cannot be negative.
        let more = [(extra[0] + top).checked_sub(bottom), (extra[1] + left).checked_sub(right)];
        let [Some(below), Some(behind)] = more else {
            return Err(TchError::Shape(format!("{} is cut unlike PyTorch cuts", self.node.name)));
        };
        let extra = sizes(&[below, behind]);
        let padding = sizes(&[top, left]);
        self.inputs[0].f_conv_transpose2d(weight, bias, stride, padding, extra, *groups as i64, dilation)
    }

    /// PyTorch's own layer, which begins with zeros.
    fn recurrent(&self, layer: &Recurrent) -> Result<Tensor, TchError> {
        let (input, weights) = (&self.inputs[0], &self.weights()?.of_directions);
        let (directions, hidden) = (layer.directions() as i64, layer.hidden as i64);
        let zeros = Tensor::f_zeros([directions, self.samples, hidden], (input.kind(), input.device()))?;
        let (bias, training, both) = (layer.bias, self.training, layer.both_ways);
        let (steps, last) = match layer.cell {
            RecurrentKind::Lstm => {
                let states = [&zeros, &zeros];
                let weights: Vec<&Tensor> = weights.iter().collect();
                let (steps, last, _) = input.f_lstm(&states, &weights, bias, 1, 0.0, training, both, true)?;
                (steps, last)
            }
            RecurrentKind::Gru => input.f_gru(&zeros, weights, bias, 1, 0.0, training, both, true)?,
            RecurrentKind::Tanh => input.f_rnn_tanh(&zeros, weights, bias, 1, 0.0, training, both, true)?,
            RecurrentKind::Relu => input.f_rnn_relu(&zeros, weights, bias, 1, 0.0, training, both, true)?,
        };
        if layer.last { last.f_transpose(0, 1) } else { steps.f_reshape(self.sized(&self.node.shape)) }
    }

    fn reduced(&self, reduction: ReductionKind, axes: &[i64], keep: bool) -> Result<Tensor, TchError> {
        let input = &self.inputs[0];
        match reduction {
            ReductionKind::Mean => input.f_mean_dim(axes, keep, None),
            ReductionKind::Sum => input.f_sum_dim_intlist(axes, keep, None),
            ReductionKind::Max => input.f_amax(axes, keep),
            ReductionKind::Min => input.f_amin(axes, keep),
            ReductionKind::L1 => input.f_norm_scalaropt_dim(1, axes, keep),
            ReductionKind::L2 => input.f_norm_scalaropt_dim(2, axes, keep),
            ReductionKind::LogSumExp => input.f_logsumexp(axes, keep),
            ReductionKind::Product => {
                let mut last_first = axes.to_vec();
                last_first.sort_unstable_by(|a, b| b.cmp(a));
                last_first.iter().try_fold(input.shallow_clone(), |input, &axis| input.f_prod_dim_int(axis, keep, None))
            }
        }
    }

    /// The selected elements do not change the cost; where the file does not list them, the first ones are read over
    /// and over.
    fn pick_elements(&self, pick: &PickedElements) -> Result<Tensor, TchError> {
        let input = &self.inputs[0];
        let axis = behind_batch(pick.axis);
        let places: Vec<i64> = match pick.places.as_slice() {
            [] => (0..pick.count as i64).map(|place| place % input.size()[axis as usize]).collect(),
            places => sizes(places),
        };
        input.f_index_select(axis, &Tensor::f_from_slice(&places)?.f_to_device(input.device())?)
    }

    /// libtorch names the last axis first.
    fn surrounded(&self, sides: &[[i64; 2]], fill: PaddingFill) -> Result<Tensor, TchError> {
        let input = &self.inputs[0];
        let first = sides.iter().position(|side| *side != [0, 0]).unwrap_or(0);
        let pads = |from: usize| sides[from..].iter().rev().flatten().copied().collect::<Vec<i64>>();
        let mode = match fill {
            PaddingFill::Zeros => return input.f_pad(pads(first), "constant", 0.0),
            PaddingFill::Constant => return input.f_pad(pads(first), "constant", 2.0),
            PaddingFill::Reflect => "reflect",
            PaddingFill::Edge => "replicate",
            PaddingFill::Wrap => "circular",
        };
        // These modes work on images, whose last two axes they pad.
        input.f_pad(pads(first.max(1)), mode, None)
    }

    /// PyTorch's own choice of a kernel: without numbers to train among the scores the one that never holds all of them.
    fn attention(&self) -> Result<Tensor, TchError> {
        let [query, key, value] = [0, 1, 2].map(|place| &self.inputs[place]);
        let added = self.inputs.get(3);
        Tensor::f_scaled_dot_product_attention(query, key, value, added, 0.0, false, None, false)
    }

    /// As torchvision's `stochastic_depth` and timm's `drop_path` write it.
    fn dropped(&self, rate: f64) -> Result<Tensor, TchError> {
        let input = &self.inputs[0];
        if !self.training || rate == 0.0 {
            return Ok(input.shallow_clone());
        }
        let size: Vec<i64> = input.size().iter().take(1).copied().chain(vec![1; input.dim() - 1]).collect();
        let mut kept = input.f_new_empty(size, (input.kind(), input.device()))?.f_bernoulli_float_(1.0 - rate)?;
        if rate < 1.0 {
            drop(kept.f_divide_scalar_(1.0 - rate)?);
        }
        input.f_mul(&kept)
    }

    fn chosen(&self) -> Result<Tensor, TchError> {
        let rank = self.inputs.iter().map(Tensor::dim).max().unwrap_or(0);
        let [condition, yes, no] = [0, 1, 2].map(|place| raised(&self.inputs[place], rank));
        let condition = condition?;
        let truth = if condition.kind() == Kind::Bool { condition } else { condition.f_ne(0)? };
        yes?.f_where_self(&truth, &no?)
    }

    fn resized(&self, image: [usize; 2], interpolation: Interpolation, corners: bool) -> Result<Tensor, TchError> {
        let (input, size) = (&self.inputs[0], sizes(&image));
        match interpolation {
            Interpolation::Nearest => input.f_upsample_nearest2d(size, None, None),
            Interpolation::Linear => input.f_upsample_bilinear2d(size, corners, None, None),
            Interpolation::Cubic => input.f_upsample_bicubic2d(size, corners, None, None),
        }
    }

    fn batch_norm(&self, axis: usize) -> Result<Tensor, TchError> {
        let Weights { weight, bias, running, .. } = self.weights()?;
        let [mean, variance] = running.as_ref().map_or([None, None], |running| running.each_ref().map(Some));
        let (scale, shift, input) = (Some(weight), bias.as_ref(), &self.inputs[0]);
        let normalised = |input: &Tensor| {
            input.f_batch_norm(scale, shift, mean, variance, self.training, RUNNING_MOMENTUM, EPSILON, true)
        };
        // libtorch expects channels on the axis after the batch: the axes before them count as samples.
        if axis == 0 { normalised(input) } else { normalised(&input.f_flatten(0, axis as i64)?)?.f_view_as(input) }
    }

    fn layer_norm(&self, axis: usize) -> Result<Tensor, TchError> {
        let [scale, shift] = self.affine();
        self.inputs[0].f_layer_norm(sizes(&self.node.shape.dims()[axis..]), scale, shift, EPSILON, true)
    }

    fn group_norm(&self, groups: usize) -> Result<Tensor, TchError> {
        let [scale, shift] = self.affine();
        self.inputs[0].f_group_norm(groups as i64, scale, shift, EPSILON, true)
    }

    /// Scale and shift, where a normalisation has them.
    fn affine(&self) -> [Option<&Tensor>; 2] {
        self.weights.map_or([None, None], |weights| [Some(&weights.weight), weights.bias.as_ref()])
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

    fn max_pool_3d(&self, window: &VolumeWindow) -> Result<Tensor, TchError> {
        let VolumeWindow { kernel, stride, padding, dilation, ceil } = window;
        self.inputs[0].f_max_pool3d(sizes(kernel), sizes(stride), sizes(padding), sizes(dilation), *ceil)
    }

    fn average_pool_3d(&self, window: &VolumeWindow, count_include_pad: bool) -> Result<Tensor, TchError> {
        let VolumeWindow { kernel, stride, padding, ceil, .. } = window;
        self.inputs[0].f_avg_pool3d(sizes(kernel), sizes(stride), sizes(padding), *ceil, count_include_pad, None)
    }

    /// The input and the padding for libtorch. Its operations pad both sides alike, pooling by half a kernel at most;
    /// any other padding is added to the image first, and only so far that no window is left over or missing.
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
            Activation::Selu => input.f_selu(),
            Activation::Celu => input.f_celu(),
            Activation::Clip => input.f_clamp(0.0, 2.0),
            Activation::Abs => input.f_abs(),
            Activation::Neg => input.f_neg(),
            Activation::Exp => input.f_exp(),
            Activation::Log => input.f_log(),
            Activation::Sqrt => input.f_sqrt(),
            Activation::Reciprocal => input.f_reciprocal(),
            Activation::Erf => input.f_erf(),
            Activation::Sin => input.f_sin(),
            Activation::Cos => input.f_cos(),
            Activation::Sign => input.f_sign(),
            Activation::Floor => input.f_floor(),
            Activation::Ceil => input.f_ceil(),
            Activation::Round => input.f_round(),
            Activation::Not => input.f_logical_not(),
        }
    }

    fn binary(&self, binary: BinaryFunction) -> Result<Tensor, TchError> {
        let [a, b] = self.inputs.as_slice() else { return self.with_constant(binary) };
        let rank = a.dim().max(b.dim());
        let (a, b) = (raised(&self.number(a, b)?, rank)?, raised(&self.number(b, a)?, rank)?);
        match binary {
            BinaryFunction::Add => a.f_add(&b),
            BinaryFunction::Sub => a.f_sub(&b),
            BinaryFunction::Mul => a.f_mul(&b),
            BinaryFunction::Div => a.f_div(&b),
            BinaryFunction::Pow => a.f_pow(&b),
            BinaryFunction::Max => a.f_maximum(&b),
            BinaryFunction::Min => a.f_minimum(&b),
            BinaryFunction::Mod => a.f_fmod_tensor(&b),
            BinaryFunction::Equal => a.f_eq_tensor(&b),
            BinaryFunction::Less => a.f_lt_tensor(&b),
            BinaryFunction::LessOrEqual => a.f_le_tensor(&b),
            BinaryFunction::Greater => a.f_gt_tensor(&b),
            BinaryFunction::GreaterOrEqual => a.f_ge_tensor(&b),
            BinaryFunction::And => a.f_logical_and(&b),
            BinaryFunction::Or => a.f_logical_or(&b),
            BinaryFunction::Xor => a.f_logical_xor(&b),
            BinaryFunction::PRelu => a.f_internal_prelu_kernel(&b.f_to_kind(a.kind())?),
        }
    }

    /// Results of comparisons, which libtorch cannot subtract, as numbers like those of the other operand, or in the
    /// format of the weights.
    fn number(&self, tensor: &Tensor, other: &Tensor) -> Result<Tensor, TchError> {
        let kind = if other.is_floating_point() { other.kind() } else { kind_of_number(self.held) };
        if tensor.kind() == Kind::Bool { tensor.f_to_kind(kind) } else { Ok(tensor.shallow_clone()) }
    }

    /// Arithmetic with a constant, which is not part of the graph; the cost is the same whatever its value.
    fn with_constant(&self, binary: BinaryFunction) -> Result<Tensor, TchError> {
        let input = self.number(&self.inputs[0], &self.inputs[0])?;
        let one = || input.f_ones_like();
        match binary {
            BinaryFunction::Add => input.f_add_scalar(1),
            BinaryFunction::Sub => input.f_sub_scalar(1),
            BinaryFunction::Mul => input.f_mul_scalar(1),
            BinaryFunction::Div => input.f_div_scalar(1),
            BinaryFunction::Pow => input.f_pow_tensor_scalar(2),
            BinaryFunction::Max => input.f_clamp_min(1),
            BinaryFunction::Min => input.f_clamp_max(1),
            BinaryFunction::Mod => input.f_fmod(1),
            BinaryFunction::Equal => input.f_eq(1),
            BinaryFunction::Less => input.f_lt(1),
            BinaryFunction::LessOrEqual => input.f_le(1),
            BinaryFunction::Greater => input.f_gt(1),
            BinaryFunction::GreaterOrEqual => input.f_ge(1),
            BinaryFunction::And => input.f_logical_and(&one()?),
            BinaryFunction::Or => input.f_logical_or(&one()?),
            BinaryFunction::Xor => input.f_logical_xor(&one()?),
            BinaryFunction::PRelu => {
                input.f_internal_prelu_kernel(&Tensor::f_ones([1], (input.kind(), input.device()))?)
            }
        }
    }
}

/// How libtorch calls elements.
pub(super) fn kind_of(element: ElementKind, held: NumberFormat) -> Kind {
    match element {
        ElementKind::Number => kind_of_number(held),
        ElementKind::Integer => Kind::Int64,
        ElementKind::Truth => Kind::Bool,
    }
}

/// Numbers as libtorch names them.
pub(super) fn kind_of_number(number: NumberFormat) -> Kind {
    match number {
        NumberFormat::Fp32 => Kind::Float,
        NumberFormat::Fp16 => Kind::Half,
        NumberFormat::Bf16 => Kind::BFloat16,
    }
}

/// The tensor with axes of length 1 after the batch, so that samples of different rank broadcast at their last axis.
fn raised(tensor: &Tensor, rank: usize) -> Result<Tensor, TchError> {
    (tensor.dim()..rank).try_fold(tensor.shallow_clone(), |tensor, _| tensor.f_unsqueeze(tensor.dim().min(1) as i64))
}

/// A per-sample axis as an axis of the batch.
pub(super) fn behind_batch(axis: usize) -> i64 {
    axis as i64 + 1
}

fn behind_batches(axes: &[usize]) -> Vec<i64> {
    axes.iter().map(|&axis| behind_batch(axis)).collect()
}
