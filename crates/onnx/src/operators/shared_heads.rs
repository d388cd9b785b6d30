//! Heads of keys and values that several heads of queries share. PyTorch's attention reads each where it lies (`enable_gqa`); files repeat them.

use crate::call::{NodeCall, NodeMisfit};
use crate::notes;
use crate::translate::{GraphTranslation, own_name};
use crate::value::Feature;
use crate::warning::UnsureReason;
use perf4sight_network::{KeptReading, NodeId, Op, PytorchRun, Shape};

/// Makes repeated heads of keys and values views of one, where the attention reads them so: if its note has `enable_gqa`, or if its mask is
/// from the code of transformers that leaves out mask and repetition in a run where nothing is padded, but not in an export
/// (`use_gqa_in_sdpa` of integrations/sdpa_attention.py, `_ignore_causal_mask_sdpa` of masking_utils.py).
pub(super) fn read_in_place(to: &mut GraphTranslation, call: &NodeCall, keys_and_values: [Feature; 2]) {
    let repeated = keys_and_values.map(|feature| repetition(to, feature));
    let [Some(keys), Some(values)] = repeated else { return };
    let is_operand = notes::shares_heads(call.node);
    let is_of_library = to.exporter.has_library_masks() && notes::is_masked_attention(call.node);
    if !(is_operand || is_of_library) {
        return;
    }
    if !is_operand {
        to.noticed.unsure(UnsureReason::SharedHeads);
    }
    if is_operand || to.keeping != KeptReading::Most {
        [keys, values].into_iter().for_each(|copy| to.builder.set_runs(copy, PytorchRun::View));
    }
}

/// The shapes of an attention's operands, where one head of keys and values is read for all heads of queries: the product of a file broadcasts it, and
/// PyTorch's kernel takes it as it is.
pub(super) fn for_all_queries(shapes: &[Shape]) -> Vec<Shape> {
    let heads = shapes[0].dims().first();
    let wanted = |(place, shape): (usize, &Shape)| match (place, shape.dims(), heads) {
        (1 | 2, &[1, tokens, features], Some(&heads)) => Shape::new([heads, tokens, features]),
        _ => shape.clone(),
    };
    shapes.iter().enumerate().map(wanted).collect()
}

/// The operands in these shapes, as views.
pub(super) fn expand_to(
    to: &mut GraphTranslation,
    call: &NodeCall,
    operands: Vec<Feature>,
    shapes: Vec<Shape>,
) -> Result<Vec<Feature>, NodeMisfit> {
    let expanded = |(operand, shape): (Feature, Shape)| match *to.builder.shape(operand.id) == shape {
        true => Ok(operand),
        false => to.add_like(&format!("{}_shared", own_name(call)), Op::Expand(shape), &[operand]),
    };
    operands.into_iter().zip(shapes).map(expanded).collect()
}

/// The copy that repeats heads: a tensor that was expanded, reshaped.
fn repetition(to: &GraphTranslation, heads: Feature) -> Option<NodeId> {
    let reshaped = to.builder.node(heads.id);
    let (Op::Reshape(_), &[expanded]) = (&reshaped.op, reshaped.inputs.as_slice()) else { return None };
    matches!(to.builder.node(expanded).op, Op::Expand(_)).then_some(heads.id)
}
