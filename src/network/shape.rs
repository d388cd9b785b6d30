//! Per-sample tensor shapes, and the output shape of every operation from its inputs.

use super::op::{Op, Window};
use std::fmt;

/// More elements per sample than any real activation or weight has; larger ones are refused before anything multiplies them.
pub const MAX_ELEMENTS: u64 = 1 << 40;

/// The shape of one sample of a tensor: the batch is not part of it, so it holds for every batch size.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// From its dimensions, outermost first; an image is channels, height, width.
    pub fn new(dims: impl Into<Vec<usize>>) -> Self {
        Shape(dims.into())
    }

    /// All dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Elements of one sample; saturates far above [`MAX_ELEMENTS`], which no tensor of a built network exceeds.
    pub fn elements(&self) -> u64 {
        self.0.iter().fold(1u64, |product, &dim| product.saturating_mul(dim as u64))
    }

    /// Length of the channel axis (the first one); 1 for a scalar.
    pub fn channels(&self) -> usize {
        self.0.first().copied().unwrap_or(1)
    }

    /// Height and width of an image; 1 where there is none.
    pub fn image(&self) -> [usize; 2] {
        match self.0.as_slice() {
            [_, height, width] => [*height, *width],
            _ => [1, 1],
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.0.iter().map(usize::to_string).collect();
        write!(f, "{}", dims.join("x"))
    }
}

/// Output shape of `op` applied to `inputs`; the error is one clause that names what does not fit.
pub(super) fn infer(op: &Op, inputs: &[&Shape]) -> Result<Shape, String> {
    let shape = match op {
        Op::Input(shape) | Op::Parameter(shape) => shape.clone(),
        Op::Unknown(unknown) => unknown.shape.clone(),
        Op::Concat { axis } => concat(inputs, *axis)?,
        Op::Binary(_) => match inputs {
            [one] => (*one).clone(),
            [a, b] => broadcast(a, b)?,
            _ => return Err(format!("takes one or two inputs, has {}", inputs.len())),
        },
        Op::MatMul => matmul(two(inputs)?)?,
        _ => unary(op, one(inputs)?)?,
    };
    if shape.dims().contains(&0) {
        return Err(format!("would give an empty {shape} result"));
    }
    if shape.elements() > MAX_ELEMENTS {
        return Err(format!("would give a {shape} result, more than any device holds"));
    }
    Ok(shape)
}

fn one<'a>(inputs: &[&'a Shape]) -> Result<&'a Shape, String> {
    match inputs {
        [input] => Ok(input),
        _ => Err(format!("takes one input, has {}", inputs.len())),
    }
}

fn two<'a>(inputs: &[&'a Shape]) -> Result<[&'a Shape; 2], String> {
    match inputs {
        [a, b] => Ok([a, b]),
        _ => Err(format!("takes two inputs, has {}", inputs.len())),
    }
}

fn unary(op: &Op, input: &Shape) -> Result<Shape, String> {
    Ok(match op {
        Op::Conv(conv) => {
            let [channels, height, width] = image(input)?;
            if conv.groups == 0 || channels % conv.groups != 0 || conv.out_channels % conv.groups != 0 {
                return Err(format!(
                    "cannot split {channels} input and {} output channels into {} groups",
                    conv.out_channels, conv.groups
                ));
            }
            let [height, width] = windows(&conv.window, [height, width])?;
            Shape::new([conv.out_channels, height, width])
        }
        Op::MaxPool(window) | Op::AvgPool { window, .. } => {
            let [channels, height, width] = image(input)?;
            let [height, width] = windows(window, [height, width])?;
            Shape::new([channels, height, width])
        }
        Op::AdaptiveAvgPool { output } => {
            let [channels, _, _] = image(input)?;
            Shape::new([channels, output[0], output[1]])
        }
        Op::Linear(linear) => {
            let mut dims = input.dims().to_vec();
            *dims.last_mut().ok_or("needs at least one axis")? = linear.out_features;
            Shape::new(dims)
        }
        Op::Flatten => Shape::new([input.elements() as usize]),
        Op::Reshape(target) => {
            if target.elements() != input.elements() {
                return Err(format!("cannot view {input} as {target}"));
            }
            target.clone()
        }
        Op::Transpose { order } => {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            if sorted != (0..input.rank()).collect::<Vec<_>>() {
                return Err(format!("{order:?} is no order of the axes of {input}"));
            }
            Shape::new(order.iter().map(|&axis| input.dims()[axis]).collect::<Vec<_>>())
        }
        Op::Slice { axis, start, length } => {
            let mut dims = input.dims().to_vec();
            let dim = dims.get_mut(*axis).ok_or(format!("has no axis {axis} in {input}"))?;
            if start.checked_add(*length).is_none_or(|end| end > *dim) {
                return Err(format!("cannot take {length} from {start} of an axis of {dim}"));
            }
            *dim = *length;
            Shape::new(dims)
        }
        Op::Mean { axes, keep } => mean(input, axes, *keep)?,
        Op::LayerNorm { axis } | Op::Softmax { axis } if *axis >= input.rank() => {
            return Err(format!("has no axis {axis} in {input}"));
        }
        _ => input.clone(),
    })
}

fn image(shape: &Shape) -> Result<[usize; 3], String> {
    match shape.dims() {
        [channels, height, width] => Ok([*channels, *height, *width]),
        _ => Err(format!("needs an image (channels x height x width), got {shape}")),
    }
}

/// Positions of the window along height and width.
fn windows(window: &Window, size: [usize; 2]) -> Result<[usize; 2], String> {
    let mut positions = [0; 2];
    for axis in 0..2 {
        let (kernel, stride) = (window.kernel[axis], window.stride[axis]);
        if kernel == 0 || stride == 0 || window.dilation[axis] == 0 {
            return Err("has a kernel, stride or dilation of 0".into());
        }
        let reach = (kernel - 1).saturating_mul(window.dilation[axis]).saturating_add(1);
        let before = window.padding[axis];
        let padded = size[axis].saturating_add(before).saturating_add(window.padding[axis + 2]);
        // Rounding up counts a last window of which only a part lies on the image, as long as it does not start behind it:
        // PyTorch's pooling_output_shape.
        let overhang = if window.ceil { stride - 1 } else { 0 };
        let room = padded
            .saturating_add(overhang)
            .checked_sub(reach)
            .ok_or_else(|| format!("has a kernel that reaches {reach} over an image of {padded} (padding included)"))?;
        positions[axis] = room / stride + 1;
        if window.ceil && (positions[axis] - 1).saturating_mul(stride) >= size[axis].saturating_add(before) {
            positions[axis] -= 1;
        }
    }
    Ok(positions)
}

fn concat(inputs: &[&Shape], axis: usize) -> Result<Shape, String> {
    let first = inputs.first().ok_or("has no inputs")?;
    let mut dims = first.dims().to_vec();
    if axis >= dims.len() {
        return Err(format!("has no axis {axis} in {first}"));
    }
    dims[axis] = 0;
    for input in inputs {
        let fits = input.rank() == dims.len() && (0..dims.len()).all(|i| i == axis || input.dims()[i] == dims[i]);
        if !fits {
            return Err(format!("cannot join {first} and {input} along axis {axis}"));
        }
        dims[axis] = dims[axis].saturating_add(input.dims()[axis]);
    }
    Ok(Shape::new(dims))
}

/// Axes of length 1 stretch. The ranks must be equal: with the batch in front, shorter shapes would meet the wrong axes.
fn broadcast(a: &Shape, b: &Shape) -> Result<Shape, String> {
    let misfit = || format!("cannot combine {a} and {b} element by element");
    let stretched = |(&x, &y): (&usize, &usize)| match (x, y) {
        _ if x == y || y == 1 => Ok(x),
        (1, _) => Ok(y),
        _ => Err(misfit()),
    };
    if a.rank() != b.rank() {
        return Err(misfit());
    }
    Ok(Shape::new(a.dims().iter().zip(b.dims()).map(stretched).collect::<Result<Vec<_>, _>>()?))
}

fn matmul([a, b]: [&Shape; 2]) -> Result<Shape, String> {
    let fits = a.rank() >= 2
        && a.rank() == b.rank()
        && a.dims()[..a.rank() - 2] == b.dims()[..b.rank() - 2]
        && a.dims()[a.rank() - 1] == b.dims()[b.rank() - 2];
    if !fits {
        return Err(format!("cannot multiply {a} by {b}"));
    }
    let mut dims = a.dims().to_vec();
    dims[a.rank() - 1] = b.dims()[b.rank() - 1];
    Ok(Shape::new(dims))
}

fn mean(input: &Shape, axes: &[usize], keep: bool) -> Result<Shape, String> {
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
