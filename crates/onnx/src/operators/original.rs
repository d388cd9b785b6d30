//! Unsupported operations, kept as in their file: operator, attributes, constants, the places of their inputs.

use crate::attributes as with;
use crate::batch::BatchAxis;
use crate::call::NodeCall;
use crate::number::{BatchNumber, as_integers};
use crate::schema::tensor_proto::DataType;
use crate::schema::{AttributeProto, NodeProto, TensorProto};
use crate::tensor::KnownTensor;
use crate::translate::{GraphTranslation, own_name};
use crate::value::{Feature, FixedTensor, Value, WeightView, elements};
use crate::{DOMAIN, OPSET};
use perf4sight_network::{ElementKind, Op, OriginalOperand, OriginalOperation, PytorchRun};
use prost::Message;

/// All that a file needs to repeat the operation. `None` if it cannot be written: with subgraphs, operands that are the same for
/// all samples, or computed weights.
pub(super) fn keep_original(
    to: &GraphTranslation,
    call: &NodeCall,
    output: usize,
    batch: Option<BatchAxis>,
    parameters: u64,
) -> Option<Box<OriginalOperation>> {
    let (attribute, axes) = modern(to, call);
    // Operations that we wrote as unknown have nothing to keep.
    if call.node.domain() == DOMAIN
        || attribute.iter().any(|attribute| attribute.g.is_some() || !attribute.graphs.is_empty())
    {
        return None;
    }
    // If elements are written into numbers of the file, these numbers are for its own batch.
    if call.node.op_type() == "ScatterND" && matches!(call.input(0), Value::Constant(_)) {
        return None;
    }
    let mut operands: Vec<OriginalOperand> =
        (0..call.inputs.len()).map(|place| operand(call, place)).collect::<Option<_>>()?;
    open_batch(to, call, batch?, &mut operands);
    operands.extend(
        axes.map(|axes| OriginalOperand::Integers(vec![axes.len()], axes.into_iter().map(|axis| [0, axis]).collect())),
    );
    let trained =
        operands.iter().map(|operand| if let OriginalOperand::Weight(dims) = operand { elements(dims) } else { 0 });
    if trained.fold(0, u64::saturating_add) != parameters {
        return None;
    }
    Some(Box::new(OriginalOperation {
        attributes: NodeProto { attribute, ..Default::default() }.encode_to_vec(),
        opset: to.domains.get(call.node.domain()).copied().unwrap_or(to.opset.max(OPSET)),
        operands,
        output,
        outputs: call.node.output.len(),
        layout: batch?.layout()?,
    }))
}

/// The operands of an operation as ONNX's operators need them: indices as integers, which are sometimes numbers here, and
/// untrained numbers for every sample as for one.
pub(super) fn operands(to: &mut GraphTranslation, call: &NodeCall) -> Result<Vec<Value>, String> {
    let mut operands = call.inputs.clone();
    for (place, operand) in operands.iter_mut().enumerate() {
        let name = || format!("{}_{place}", own_name(call));
        match operand {
            Value::Feature(feature)
                if is_place(call, place) && to.builder.node(feature.id).element == ElementKind::Number =>
            {
                *feature = as_places(to, &name(), *feature)?;
            }
            Value::Opaque(_) | Value::Constant(_) => {
                let dims = operand.fixed_dims().unwrap_or_default();
                let Some(batch) = of_samples(to, call, place, &dims) else { continue };
                let sample = batch.sample(&dims)?;
                let of = if let Value::Opaque(FixedTensor { of, .. }) = &*operand { of.as_ref() } else { None };
                let id = to.table(&name(), sample, of)?;
                // What a file computes of sizes, such as the places of a slice, is no buffer of the module.
                if of.is_none() {
                    to.builder.set_runs(id, PytorchRun::View);
                }
                let numbers = Feature { id, batch: Some(batch), guessed: false };
                *operand = Value::Feature(match is_place(call, place) {
                    true => as_places(to, &format!("{}_places", name()), numbers)?,
                    false => numbers,
                });
            }
            _ => {}
        }
    }
    Ok(operands)
}

/// Numbers of ours as the integers that PyTorch has anyway.
fn as_places(to: &mut GraphTranslation, name: &str, numbers: Feature) -> Result<Feature, String> {
    let places = to.add_like(name, Op::Cast(ElementKind::Integer), &[numbers])?;
    to.builder.set_runs(places.id, PytorchRun::View);
    Ok(places)
}

/// Whether this operand is an index.
fn is_place(call: &NodeCall, place: usize) -> bool {
    match call.node.op_type() {
        "Gather" | "GatherElements" | "GatherND" | "Scatter" | "ScatterElements" | "ScatterND" => place == 1,
        "OneHot" => place == 0,
        _ => false,
    }
}

/// The batch axis of numbers in the file, which are for its own batch. For an open batch, it is the axis of the batch's length,
/// or the batch axis of the other operands. For a fixed batch, only tensors that elements are written into and indices of lookups
/// have one.
fn of_samples(to: &GraphTranslation, call: &NodeCall, place: usize, dims: &[BatchNumber]) -> Option<BatchAxis> {
    let held = |axis: usize| dims.get(axis).is_some_and(|&dim| dim == to.samples);
    let fits = |batch: &BatchAxis| dims.get(batch.axis).is_some_and(|&dim| batch.fits(dim, to.samples));
    let noted = call.features().find_map(|feature| feature.batch).filter(fits);
    if to.samples == BatchNumber::BATCH {
        return (0..dims.len()).find(|&axis| held(axis)).map(BatchAxis::alone_at).or(noted);
    }
    let operator = call.node.op_type();
    let written = matches!(operator, "Scatter" | "ScatterElements") && place == 0;
    noted.filter(|_| written || operator == "GatherElements" && place == 1)
}

/// The attributes in the form of the operator sets that we write, and axes that moved from an attribute to an input.
fn modern(to: &GraphTranslation, call: &NodeCall) -> (Vec<AttributeProto>, Option<Vec<i64>>) {
    let operator = call.node.op_type();
    let moved = if operator == "ReduceSum" { 13 } else { 18 };
    let moves = operator.starts_with("Reduce") && to.opset < moved;
    let axes = call.ints("axes").filter(|_| moves).map(<[i64]>::to_vec);
    let renamed = |attribute: AttributeProto| match (operator, attribute.name(), attribute.s()) {
        ("GridSample", "mode", b"bilinear") => with::text("mode", "linear"),
        ("GridSample", "mode", b"bicubic") => with::text("mode", "cubic"),
        _ => attribute,
    };
    let kept = call.node.attribute.iter().filter(|attribute| axes.is_none() || attribute.name() != "axes");
    (kept.cloned().map(renamed).collect(), axes)
}

fn operand(call: &NodeCall, place: usize) -> Option<OriginalOperand> {
    let input = call.input(place);
    let trained = super::unknown::is_trained(call, place);
    Some(match input {
        // The missing output of another operation is not an absent operand.
        Value::Absent if call.node.input[place].is_empty() => OriginalOperand::Absent,
        Value::Feature(feature) => OriginalOperand::Node(feature.batch?.layout()?),
        // Factors of a Resize are constants, whatever their type.
        Value::Weight(weight) if matches!(call.node.op_type(), "Resize" | "Upsample") => {
            numbers(weight.values.as_deref()?)?
        }
        Value::Weight(weight) if weight.view == WeightView::Stored && trained => {
            OriginalOperand::Weight(as_integers(&weight.dims)?)
        }
        Value::Weight(weight) if weight.view == WeightView::Stored => {
            OriginalOperand::Buffer(as_integers(&weight.dims)?)
        }
        Value::Opaque(table) => OriginalOperand::Buffer(as_integers(&table.dims)?),
        Value::Constant(constant) if constant.integer => OriginalOperand::Integers(
            constant.dims.clone(),
            constant.values.iter().map(|value| value.parts()).collect(),
        ),
        Value::Constant(constant) => numbers(constant)?,
        _ => return None,
    })
}

/// A size in the result that equals a fixed batch becomes a multiple of any batch.
fn open_batch(to: &GraphTranslation, call: &NodeCall, batch: BatchAxis, operands: &mut [OriginalOperand]) {
    let place = match call.node.op_type() {
        "Expand" => 1,
        "Resize" => 3,
        _ => return,
    };
    let Some(OriginalOperand::Integers(_, sizes)) = operands.get_mut(place) else { return };
    if let Some(size) = sizes.get_mut(batch.axis)
        && size[0] == 0
        && batch.fits(size[1].into(), to.samples)
    {
        *size = [batch.times().parts()[1], 0];
    }
}

fn numbers(constant: &KnownTensor) -> Option<OriginalOperand> {
    let tensor = TensorProto {
        dims: constant.dims.iter().map(|&dim| dim as i64).collect(),
        data_type: Some(DataType::Float as i32),
        float_data: constant.values.iter().map(|value| Some(value.fixed_value()? as f32)).collect::<Option<_>>()?,
        ..Default::default()
    };
    Some(OriginalOperand::Numbers(tensor.encode_to_vec()))
}
