//! What a pass of the module itself takes, with the memory that its kernels borrow, against what the graph says.

use crate::each_operation::{each_operation, sum};
use crate::memo::Memo;
use crate::step::Period;
use crate::tensor::Phase;
use perf4sight_network::{FollowedPass, Kernels, NodeId};
use perf4sight_step::workload::{Accumulate, Optimizer, Step, ZeroGrad};
use std::collections::BTreeMap;

/// How many bytes more than the graph's pass of a step a followed one takes; `inside` counts what kernels borrow, `outside` does not.
pub(crate) fn beyond<'a>(inside: &Memo<'a>, outside: &Memo<'a>, step: Step, pass: &FollowedPass) -> i64 {
    // What becomes of gradients and weights is no part of a pass.
    let (optimizer, zero_grad) = (Optimizer::SgdWithoutMomentum, ZeroGrad::Free);
    let plain = Step { optimizer, zero_grad, accumulate: Accumulate::default(), ..step };
    let of_passes = |memo: &Memo<'a>| {
        let (schedule, samples) = memo.schedule(plain, pass.samples);
        memo.outcome(plain, (&schedule, samples)).of_passes
    };
    let taken = taken(inside, outside, plain, pass)
        .unwrap_or_else(|| pass.most.saturating_add(of_passes(inside).saturating_sub(of_passes(outside))));
    taken.cast_signed().saturating_sub(of_passes(inside).cast_signed())
}

/// The most bytes of a followed pass, with what every operator's kernel borrows at its time; none where the graph has other operators.
fn taken<'a>(inside: &Memo<'a>, outside: &Memo<'a>, plain: Step, pass: &FollowedPass) -> Option<u64> {
    let [with, without] = [inside, outside].map(|memo| totals(memo, plain, pass.samples));
    let borrowed = |phase: Phase, node: NodeId| {
        let [with, without] = [&with, &without].map(|totals| totals.get(&(phase as usize, node)).copied().unwrap_or(0));
        with.saturating_sub(without)
    };
    let mut most = pass.most;
    for kind in Kernels::ALL {
        let nodes: Vec<NodeId> = kind.nodes(inside.network).collect();
        for (phase, index) in [(Phase::Forward, 0), (Phase::Backward, 1)] {
            let borrows = nodes.iter().map(|&node| borrowed(phase, node));
            let alive = pass.operators.get(&kind).map_or(&[][..], |alive| &alive[index]);
            if borrows.clone().all(|bytes| bytes == 0) {
                continue;
            }
            if alive.len() != nodes.len() {
                return None;
            }
            let peaks = alive.iter().zip(borrows).map(|(alive, borrowed)| alive.saturating_add(borrowed));
            most = most.max(peaks.max().unwrap_or(0));
        }
    }
    Some(most)
}

/// The most bytes while each operation of the first step runs.
fn totals(memo: &Memo, plain: Step, samples: u64) -> BTreeMap<(usize, NodeId), u64> {
    let (schedule, samples) = memo.schedule(plain, samples);
    let each = each_operation(&schedule, samples, Period::First).into_iter();
    each.map(|(mark, bytes)| ((mark.phase as usize, mark.node), sum(&bytes))).collect()
}
