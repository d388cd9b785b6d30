//! Operations this crate has no word for: loaded with their weights and, as well as can be told, their shape.

use crate::network::onnx::batch::Batch;
use crate::network::onnx::call::{Call, Misfit, Outcome};
use crate::network::onnx::translate::{Translation, name, own_name, single};
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
    let weights: Vec<Weight> = call.inputs.iter().filter_map(weight).collect();
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
        let node = to.add(name(call), op, &inputs).map_err(|_| "has a shape no device holds".to_string())?;
        for weight in &weights {
            to.owners.entry(weight.tensor.to_string()).or_insert(node);
        }
        outputs.resize_with(index, || Value::Absent);
        outputs.push(Value::Feature(Feature { id: node, batch, guessed }));
        parameters = 0;
    }
    Ok(outputs)
}

fn weight(input: &Value) -> Option<Weight> {
    match input {
        Value::Weight(weight) => Some(weight.clone()),
        _ => None,
    }
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
        let fixed = || dims.iter().position(|&dim| dim as u64 == to.batch);
        let batch = input.and_then(|input| input.batch).and_then(|_| symbolic.or_else(fixed)).map(Batch::alone_at);
        let tensor: Vec<u64> = dims.iter().map(|&dim| dim as u64).collect();
        let shape = batch.map_or_else(|| Shape::new(dims.clone()), |batch| batch.sample(&tensor));
        return Extent { shape, batch, guessed: false };
    }
    match input {
        Some(input) => {
            let (shape, guessed) = match computed(to, call, input) {
                Some(shape) => (shape, false),
                None => (to.builder.shape(input.id).clone(), !keeps_shape(call.node.op_type())),
            };
            Extent { shape, batch: input.batch, guessed }
        }
        None => Extent { shape: Shape::new([1]), batch: None, guessed: true },
    }
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

/// Shapes of the operators that detection and segmentation networks are full of.
fn computed(to: &Translation, call: &Call, input: Feature) -> Option<Shape> {
    let [channels, height, width] = *to.builder.shape(input.id).dims() else { return None };
    match call.node.op_type() {
        "Resize" | "Upsample" => resized(call, [channels, height, width]),
        "ConvTranspose" => transposed(call, [height, width]),
        "DepthToSpace" => {
            let block = usize::try_from(call.int("blocksize")?).ok().filter(|&block| block > 0 && block < 1 << 16)?;
            Some(Shape::new([channels / (block * block), height.checked_mul(block)?, width.checked_mul(block)?]))
        }
        "SpaceToDepth" => {
            let block = usize::try_from(call.int("blocksize")?).ok().filter(|&block| block > 0 && block < 1 << 16)?;
            Some(Shape::new([channels.checked_mul(block * block)?, height / block, width / block]))
        }
        _ => None,
    }
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
