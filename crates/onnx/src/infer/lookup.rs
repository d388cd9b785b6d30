//! Shapes of selections: lookups by index, one-hot codes, the largest elements.

use crate::call::{NodeCall, axis};
use crate::number::{BatchNumber, TensorDims};

pub(super) fn outputs(call: &NodeCall, inputs: &[Option<TensorDims>]) -> Option<Vec<TensorDims>> {
    let input = |index: usize| inputs.get(index)?.as_ref();
    let along = |rank: usize, default: i64| axis(call.int("axis").unwrap_or(default), rank).ok();
    match call.node.op_type() {
        "Gather" => {
            let (data, indices) = (input(0)?, input(1)?);
            let along = along(data.len(), 0)?;
            Some(vec![[&data[..along], indices, &data[along + 1..]].concat()])
        }
        "GatherElements" => Some(vec![input(1)?.clone()]),
        "GatherND" => {
            let (data, (tuple, places)) = (input(0)?, input(1)?.split_last()?);
            let shared = usize::try_from(call.int("batch_dims").unwrap_or(0)).ok()?;
            let behind = shared.checked_add(tuple.as_integer()?)?;
            Some(vec![[places, data.get(behind..)?].concat()])
        }
        "OneHot" => {
            let mut dims = input(0)?.clone();
            let depth = *call.constant(1)?.values.first()?;
            let along = along(dims.len() + 1, -1)?;
            dims.insert(along, depth);
            Some(vec![dims])
        }
        "TopK" => {
            let mut dims = input(0)?.clone();
            // Samples that are sorted are as many as the batch is large.
            let count = call.int("k").map(BatchNumber::from).or_else(|| call.constant(1)?.values.first().copied())?;
            let along = along(dims.len(), -1)?;
            dims[along] = count;
            Some(vec![dims.clone(), dims])
        }
        _ => None,
    }
}
