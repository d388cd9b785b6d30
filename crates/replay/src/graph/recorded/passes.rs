//! The backward passes of a step: gradients of one are not reduced together with those of another, and those under `no_sync` not at
//! all.

use super::rows::RankStep;
use crate::collectives::{CollectiveCall, CollectiveOperation};
use crate::graph::{CallTable, WorkKind};
use perf4sight_traces::TrackId;
use std::collections::BTreeMap;

/// What backward operations run inside.
const BACKWARD: &str = "autograd::engine";
/// How the names of PyTorch's operations begin.
const OPERATION: &str = "aten::";

/// Bytes of a pass.
#[derive(Default)]
struct BackwardPass {
    gradients: u64,
    reduced: u64,
}

/// Numbers the passes of a rank's gradients, and leaves out those of passes that reduce less than their gradients; if none reduces as much, they are not
/// reduced as they are, and all stay.
pub(super) fn mark(rows: &mut RankStep, main: Option<TrackId>, parts: &[(usize, &CollectiveCall)], calls: &CallTable) {
    let others = others(rows, main, calls);
    // The gradients of one pass have no other operation between them.
    let end = |row: usize| rows.rows.get(row).map_or(i64::MAX, |row| row.end);
    let pass = |row: usize| others.partition_point(|other| *other <= end(row));
    let mut passes: BTreeMap<usize, BackwardPass> = BTreeMap::new();
    for gradient in &rows.gradients {
        passes.entry(pass(gradient.row)).or_default().gradients += gradient.bytes;
    }
    for (number, call) in parts.iter().filter(|(_, call)| call.operation == CollectiveOperation::AllReduce) {
        let own = rows.parts.get(number).and_then(|part| passes.get_mut(&pass(part.issuing.0)));
        own.into_iter().for_each(|own| own.reduced = own.reduced.saturating_add(call.bytes().unwrap_or(0)));
    }
    let is_reduced = |own: &BackwardPass| own.reduced >= own.gradients;
    let none_is = !passes.values().any(is_reduced);
    let kept: Vec<usize> =
        passes.iter().filter(|(_, own)| none_is || is_reduced(own)).map(|(number, _)| *number).collect();
    let silent_passes = passes.len() - kept.len();
    let numbers: Vec<Option<usize>> =
        rows.gradients.iter().map(|gradient| kept.binary_search(&pass(gradient.row)).ok()).collect();
    let mut numbers = numbers.into_iter();
    rows.gradients.retain_mut(|gradient| {
        let number = numbers.next().flatten();
        gradient.pass = number.unwrap_or(0) as u32;
        number.is_some()
    });
    rows.silent_passes = silent_passes;
}

/// When the operations of the main thread outside of backward end, in order; none in traces that do not say what belongs to backward.
fn others(rows: &RankStep, main: Option<TrackId>, calls: &CallTable) -> Vec<i64> {
    if !calls.names().any(|name| name.contains(BACKWARD)) {
        return Vec::new();
    }
    let own = rows.tracks.iter().find(|(track, _)| Some(*track) == main);
    let own = own.map(|(_, range)| &rows.rows[range.clone()]).unwrap_or_default();
    let is_other = |call| {
        calls.path(call).any(|name| name.starts_with(OPERATION))
            && !calls.path(call).any(|name| name.contains(BACKWARD))
    };
    own.iter().filter(|row| row.kind == WorkKind::Operation && is_other(row.call)).map(|row| row.end).collect()
}

#[cfg(test)]
mod tests {
    use super::super::rows::{GradientRow, PartRows, WorkRow};
    use super::*;
    use crate::collectives::CollectiveCall;
    use perf4sight_traces::{CollectiveArguments, Trace, Track};

    /// A thread that does forward and backward of two gradients, and that again; `reduced` of the four gradients are each reduced by
    /// themselves. Returns the passes of those that are, and how many passes reduce none.
    fn marked(reduced: &[usize]) -> (Vec<(usize, u32)>, usize) {
        let mut calls = CallTable::default();
        let engine = calls.intern("autograd::engine::evaluate_function: MulBackward0", None);
        let [forward, backward] = [calls.intern("aten::mm", None), calls.intern("aten::mm", Some(engine))];
        let row = |(place, call)| WorkRow { call, kind: WorkKind::Operation, end: 10 * place as i64 };
        let order = [forward, backward, backward, forward, backward, backward];
        let mut trace = Trace::default();
        let thread = || "1".to_owned();
        trace.tracks = vec![Track { process: thread(), thread: thread(), thread_name: None, process_name: None }];
        let main = trace.track_ids().next();
        let mut rows = RankStep { rows: order.into_iter().enumerate().map(row).collect(), ..RankStep::default() };
        rows.tracks = main.into_iter().map(|main| (main, 0..6)).collect();
        rows.gradients = [1, 2, 4, 5].map(|row| GradientRow { row, bytes: 4, pass: 0 }).to_vec();
        let arguments = CollectiveArguments {
            elements: Some([1, 1]),
            element_type: "float".to_owned(),
            ..CollectiveArguments::default()
        };
        let call = CollectiveCall {
            event: 0,
            issued: None,
            is_earlier: false,
            step: Some(0),
            time: (0, 0),
            operation: CollectiveOperation::AllReduce,
            arguments,
            batch: Vec::new(),
        };
        for (number, place) in reduced.iter().enumerate() {
            let row = rows.gradients[*place].row;
            rows.parts.insert(number, PartRows { launch: row, wait: None, begin: 0, end: 0, issuing: (row, row) });
        }
        let parts: Vec<(usize, &CollectiveCall)> = (0..reduced.len()).map(|number| (number, &call)).collect();
        mark(&mut rows, main, &parts, &calls);
        (rows.gradients.iter().map(|gradient| (gradient.row, gradient.pass)).collect(), rows.silent_passes)
    }

    #[test]
    fn gradients_under_no_sync_are_in_no_bucket() {
        assert_eq!(marked(&[2, 3]), (vec![(4, 0), (5, 0)], 1));
        // Each pass reduces its gradients.
        let all = (vec![(1, 0), (2, 0), (4, 1), (5, 1)], 0);
        assert_eq!(marked(&[0, 1, 2, 3]), all);
        // Half of the bytes: a hook that compresses gradients.
        assert_eq!(marked(&[0, 2]), all);
    }
}
