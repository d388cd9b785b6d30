//! Lookups of rows of trained tables by number: words, positions, types.

use crate::batch::BatchAxis;
use crate::call::{CallResult, NodeCall, NodeMisfit};
use crate::number::as_integers;
use crate::parameters::WeightTie;
use crate::tensor::KnownTensor;
use crate::translate::{GraphTranslation, own_name, single};
use crate::value::{Feature, Value, WeightTensor, WeightView};
use perf4sight_network::{ElementKind, Embedding, Op, Shape};

pub(super) fn looked_up(to: &mut GraphTranslation, call: &NodeCall, table: &WeightTensor) -> CallResult {
    let [rows, width] = call.fixed(0)?;
    let numbers = lookup_indices(to, call)?;
    let looked = to.builder.node(numbers.id);
    // A table of numbers that was repeated for every sample.
    let fixed =
        if let (Op::Parameter(places), Some(0)) = (&looked.op, looked.trained) { Some(places.clone()) } else { None };
    let integers = looked.element == ElementKind::Integer || fixed.is_some();
    if !integers || call.int("axis").unwrap_or(0) != 0 || table.view != WeightView::Stored {
        return Err(NodeMisfit::Unsupported);
    }
    let inputs = if fixed.is_some() { Vec::new() } else { vec![numbers.id] };
    let id = to.builder.insert(&to.free(&to.name(call)), Op::Embedding(Embedding { rows, width, fixed }), &inputs)?;
    record_lookup(to, call, Feature { id, ..numbers })
}

/// What rows are looked up by. Places that were found, as by `argmin`, count as numbers.
fn lookup_indices(to: &mut GraphTranslation, call: &NodeCall) -> Result<Feature, NodeMisfit> {
    let numbers = call.feature(1)?;
    let looked = to.builder.node(numbers.id);
    match looked.element == ElementKind::Number && !matches!(looked.op, Op::Parameter(_)) {
        true => to.add_like(&format!("{}_places", own_name(call)), Op::Cast(ElementKind::Integer), &[numbers]),
        false => Ok(numbers),
    }
}

/// A lookup by numbers that are the same for every sample, such as positions, if the table has a name of PyTorch's
/// `nn.Embedding`. Lookups in other tables, such as one of relative positions, count as parts of a weight.
pub(super) fn fixed(to: &mut GraphTranslation, call: &NodeCall) -> Option<CallResult> {
    let Value::Weight(table) = call.input(0) else { return None };
    let [rows, width] = call.fixed(0).ok()?;
    let numbers = call.input(1).fixed_dims().filter(|dims| !dims.is_empty())?;
    let first = call.node.op_type() == "Gather" && call.int("axis").unwrap_or(0) == 0;
    if !first || table.view != WeightView::Stored || !table.tensor.ends_with(".weight") {
        return None;
    }
    let known = call.constant(1).map(KnownTensor::as_integers).unwrap_or_default();
    if let Some(place) = known.iter().find(|place| !(-(rows as i64)..rows as i64).contains(*place)) {
        return Some(Err(NodeMisfit::Wrong(format!("looks up row {place} of a table of {rows}"))));
    }
    let (batch, places) = match numbers.as_slice() {
        &[samples, ref places @ ..] if (samples == 1 || samples == to.samples) && !places.is_empty() => {
            (Some(BatchAxis::FIRST), places)
        }
        places => (None, places),
    };
    let embedding = Embedding { rows, width, fixed: Some(Shape::new(as_integers::<usize>(places)?)) };
    to.hold_tables(call);
    let name = to.name(call);
    // In our files the rows are repeated for every sample after the lookup.
    let name = name.strip_suffix("/rows").filter(|_| to.ours).unwrap_or(&name);
    let node = to.add(name, Op::Embedding(embedding), &[]);
    Some(node.and_then(|id| record_lookup(to, call, Feature { id, batch, guessed: false })))
}

fn record_lookup(to: &mut GraphTranslation, call: &NodeCall, looked_up: Feature) -> CallResult {
    to.store_filters(looked_up.id, call.input(0), 1);
    let tie = to.tie_weight(looked_up.id, call, 0);
    let trained = if tie == WeightTie::Elsewhere { 0 } else { to.trained_elements(call, call.input(0)) };
    to.builder.set_trained(looked_up.id, trained);
    single(looked_up)
}
