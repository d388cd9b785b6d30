//! Operations this crate has no word for: loaded with their weights and, as well as can be told, their shape.

use crate::network::onnx::batch::Batch;
use crate::network::onnx::call::{Call, Misfit, Outcome, axis};
use crate::network::onnx::rearrange::bound;
use crate::network::onnx::translate::{Translation, own_name, single};
use crate::network::onnx::value::{Feature, Value, Weight};
use crate::network::onnx::{ADAPTIVE, DOMAIN};
use crate::network::{Op, Shape, Unknown};

/// Operators outside ONNX's own set: the two forms that we write, else unknown.
pub(super) fn ours(to: &mut Translation, call: &Call) -> Outcome {
    if (call.node.domain(), call.node.op_type()) != (DOMAIN, ADAPTIVE) {
        return Err(Misfit::Unsupported);
    }
    let Some(&[height, width]) = call.ints("output_size") else { return Err(Misfit::Unsupported) };
    let output = [super::convolution::size(height)?, super::convolution::size(width)?];
    let image = to.image(call)?;
    single(to.add_like(own_name(call), Op::AdaptiveAvgPool { output }, &[image])?)
}

/// The node as an unknown operation, every output a node of its own.
///
/// # Errors
/// One clause, where not even its shape can be.
pub(in crate::network::onnx) fn load(to: &mut Translation, call: &Call) -> Result<Vec<Value>, String> {
    let inputs: Vec<Feature> = call.features().collect();
    let weights = weights(call);
    if inputs.is_empty() && weights.is_empty() {
        let table = call.node.output.iter().map(|output| Value::Opaque(declared_dims(to, output).unwrap_or_default()));
        return Ok(table.collect());
    }
    let new: Vec<&Weight> = weights.iter().filter(|weight| !to.owners.contains_key(&*weight.tensor)).collect();
    let mut parameters = new.iter().map(|weight| weight.elements).fold(0, u64::saturating_add);
    let mut outputs = Vec::new();
    for (index, output) in call.node.output.iter().enumerate().filter(|(_, output)| !output.is_empty()) {
        let Extent { shape, batch, guessed } = extent(to, call, output, inputs.first().copied());
        let op = Op::Unknown(Unknown { op_type: op_type(call), shape, parameters });
        let node = to.add(&to.name(call), op, &inputs).map_err(|_| "has a shape no device holds".to_string())?;
        for weight in &weights {
            to.owners.entry(weight.tensor.to_string()).or_insert(node);
        }
        outputs.resize_with(index, || Value::Absent);
        outputs.push(Value::Feature(Feature { id: node, batch, guessed }));
        parameters = 0;
    }
    Ok(outputs)
}

/// The trainable inputs; the factors of a Resize are none, whatever their type.
fn weights(call: &Call) -> Vec<Weight> {
    let inputs = call.inputs.iter().filter(|_| !matches!(call.node.op_type(), "Resize" | "Upsample"));
    let weights = inputs.filter_map(|input| match input {
        Value::Weight(weight) => Some(weight.clone()),
        _ => None,
    });
    weights.collect()
}

/// What tables call the operator: with its domain, where that is a foreign one.
fn op_type(call: &Call) -> String {
    match call.node.domain() {
        "" | "ai.onnx" | DOMAIN => call.node.op_type().to_string(),
        domain => format!("{domain}::{}", call.node.op_type()),
    }
}

/// Shape and batch of an unknown output.
struct Extent {
    shape: Shape,
    batch: Option<Batch>,
    guessed: bool,
}

fn extent(to: &Translation, call: &Call, output: &str, input: Option<Feature>) -> Extent {
    if let Some(dims) = declared_dims(to, output) {
        let symbolic = to.declared.get(output).and_then(|dims| dims.iter().position(Option::is_none));
        let held = input.is_some_and(|input| input.batch.is_some());
        let fixed = || dims.iter().position(|&dim| held && dim as u64 == to.batch);
        let batch = symbolic.or_else(fixed).map(Batch::alone_at);
        return Extent { shape: sample(&dims, batch), batch, guessed: false };
    }
    let Some(input) = input else {
        let shape = looked_up(call);
        let guessed = shape.is_none();
        return Extent { shape: shape.unwrap_or_else(|| Shape::new([1])), batch: None, guessed };
    };
    let shape = to.builder.shape(input.id);
    let (shape, guessed) = match computed(to, call, input) {
        Some(shape) => (shape, false),
        None => (shape.clone(), !keeps_shape(call.node.op_type())),
    };
    Extent { shape, batch: input.batch, guessed }
}

fn sample(dims: &[usize], batch: Option<Batch>) -> Shape {
    let tensor: Vec<u64> = dims.iter().map(|&dim| dim as u64).collect();
    batch.map_or_else(|| Shape::new(dims), |batch| batch.sample(&tensor))
}

/// Rows taken from a table by a table of indices (relative position bias).
fn looked_up(call: &Call) -> Option<Shape> {
    if call.node.op_type() != "Gather" {
        return None;
    }
    let (table, indices) = (call.input(0).fixed_dims()?, call.input(1).fixed_dims()?);
    let along = axis(call.int("axis").unwrap_or(0), table.len()).ok()?;
    Some(Shape::new([&table[..along], indices, &table[along + 1..]].concat()))
}

/// What the file declares, the batch filled in for the one dimension that may be symbolic.
fn declared_dims(to: &Translation, output: &str) -> Option<Vec<usize>> {
    let dims = to.declared.get(output)?;
    let symbolic = dims.iter().filter(|dim| dim.is_none()).count();
    (symbolic <= 1).then(|| dims.iter().map(|dim| dim.unwrap_or(to.batch) as usize).collect())
}

fn keeps_shape(operator: &str) -> bool {
    const KEEP: [&str; 24] = [
        "Abs",
        "Celu",
        "Ceil",
        "Clip",
        "Cos",
        "CumSum",
        "Erf",
        "Exp",
        "Floor",
        "GroupNormalization",
        "InstanceNormalization",
        "LRN",
        "Log",
        "LpNormalization",
        "MeanVarianceNormalization",
        "Neg",
        "PRelu",
        "Pow",
        "RMSNormalization",
        "Selu",
        "Sin",
        "Softsign",
        "Sqrt",
        "ThresholdedRelu",
    ];
    KEEP.contains(&operator)
}

/// Shapes of the operators that detection, segmentation and window attention are full of.
fn computed(to: &Translation, call: &Call, input: Feature) -> Option<Shape> {
    match call.node.op_type() {
        "Slice" => strided(to, call, input),
        "Pad" => padded(to, call, input),
        _ => computed_image(to, call, input),
    }
}

fn computed_image(to: &Translation, call: &Call, input: Feature) -> Option<Shape> {
    let [channels, height, width] = *to.builder.shape(input.id).dims() else { return None };
    let block = || usize::try_from(call.int("blocksize")?).ok().filter(|&block| block > 0 && block < 1 << 16);
    match call.node.op_type() {
        "Resize" | "Upsample" => resized(call, [channels, height, width]),
        "ConvTranspose" => transposed(call, [height, width]),
        "DepthToSpace" => {
            let block = block()?;
            Some(Shape::new([channels / (block * block), height.checked_mul(block)?, width.checked_mul(block)?]))
        }
        "SpaceToDepth" => {
            let block = block()?;
            Some(Shape::new([channels.checked_mul(block * block)?, height / block, width / block]))
        }
        _ => None,
    }
}

/// A slice with steps.
fn strided(to: &Translation, call: &Call, input: Feature) -> Option<Shape> {
    let [starts, ends, axes] = [1, 2, 3].map(|index| Some(call.constant(index)?.as_integers()));
    let (starts, ends, axes, steps) = (starts?, ends?, axes?, call.constant(4)?.as_integers());
    let mut dims = to.builder.shape(input.id).dims().to_vec();
    for (((&start, &end), &along), &step) in starts.iter().zip(&ends).zip(&axes).zip(&steps) {
        let dim = dims.get_mut(to.axis(input, along).ok()?)?;
        let step = usize::try_from(step).ok().filter(|&step| step > 0)?;
        *dim = bound(end, *dim).saturating_sub(bound(start, *dim)).div_ceil(step);
    }
    Some(Shape::new(dims))
}

/// A padding of any axes but the batch.
fn padded(to: &Translation, call: &Call, input: Feature) -> Option<Shape> {
    let pads = call.integers("pads", 1)?;
    let rank = to.dims(input).len();
    let mut dims = to.builder.shape(input.id).dims().to_vec();
    for onnx_axis in (0..rank).filter(|_| pads.len() == 2 * rank) {
        let added = pads[onnx_axis].checked_add(pads[onnx_axis + rank])?;
        if added != 0 {
            let dim = dims.get_mut(to.axis(input, onnx_axis as i64).ok()?)?;
            *dim = usize::try_from(i64::try_from(*dim).ok()?.checked_add(added)?).ok()?;
        }
    }
    Some(Shape::new(dims))
}

/// Resize takes its factors as input 2 (input 1 in opset 10 and in Upsample) or the sizes as input 3.
fn resized(call: &Call, dims: [usize; 3]) -> Option<Shape> {
    if let Some(sizes) = call.constant(3) {
        let sizes: Vec<usize> = sizes.values.iter().map(|&size| size as usize).collect();
        return (sizes.len() == 4).then(|| Shape::new(&sizes[1..]));
    }
    let factors: Vec<f64> = match call.floats("scales") {
        Some(factors) => factors.iter().map(|&factor| f64::from(factor)).collect(),
        None => [2, 1].into_iter().filter_map(|i| call.constant(i)).find(|c| c.values.len() == 4)?.values.clone(),
    };
    let scaled = dims.iter().zip(factors.get(1..)?).map(|(&dim, factor)| (dim as f64 * factor).floor() as usize);
    Some(Shape::new(scaled.collect::<Vec<_>>()))
}

fn transposed(call: &Call, image: [usize; 2]) -> Option<Shape> {
    let &[_, seen, height, width] = call.input(1).fixed_dims()? else { return None };
    let channels = seen.checked_mul(usize::try_from(call.int("group").unwrap_or(1)).ok()?)?;
    let window = super::convolution::window(call, image, [height, width], [0; 4]).ok()?;
    let extra = call.ints("output_padding").unwrap_or(&[0, 0]);
    let size = |axis: usize| -> Option<usize> {
        let reach = (window.kernel[axis].checked_sub(1)?).checked_mul(window.dilation[axis])?.checked_add(1)?;
        let spread = (image[axis].checked_sub(1)?).checked_mul(window.stride[axis])?;
        let padded = window.padding[axis].checked_add(window.padding[axis + 2])?;
        spread.checked_add(reach)?.checked_add(usize::try_from(*extra.get(axis)?).ok()?)?.checked_sub(padded)
    };
    Some(Shape::new([channels, size(0)?, size(1)?]))
}
