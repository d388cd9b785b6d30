//! How much longer all-reduces may take over links of which nothing was measured: the slowest usual ones.

use crate::all_reduce::AllReduceTimes;
use crate::plan::{MeasuredPlan, TransformerPlan};

/// GPUs of a usual server.
const SERVER: u64 = 8;
/// PCIe 3.0 without peer-to-peer gives an all-reduce about 5 GB/s (NCCL's busbw), a twentieth of what is assumed of NVLink.
const PCIE: f64 = 20.0;
/// Ethernet of 10 Gb/s gives 1.25 GB/s, an eightieth.
const ETHERNET: f64 = 80.0;

/// By how many times all-reduces may be slower than assumed: those of tensor parallelism, and those of gradients. 1 where their links were measured,
/// by a table or by plans.
pub(super) fn slowest(plan: &TransformerPlan, rows: &[MeasuredPlan], all_reduce: &AllReduceTimes) -> [f64; 2] {
    let most = |number: fn(&TransformerPlan) -> u64| rows.iter().map(|row| number(&row.plan)).max().unwrap_or_default();
    let measured = most(|plan| plan.gpus).max(all_reduce.most_ranks().unwrap_or_default()).max(SERVER);
    let in_server = |degree: fn(&TransformerPlan) -> u64| {
        if degree(plan) > 1 && most(degree) < 2 && all_reduce.is_assumed() { PCIE } else { 1.0 }
    };
    let [tensor, data] = [in_server(|plan| plan.tensor_parallel), in_server(|plan| plan.data_parallel)];
    let is_beyond = plan.gpus > measured;
    [
        if is_beyond && plan.tensor_parallel > SERVER { ETHERNET } else { tensor },
        if is_beyond && plan.data_parallel > 1 { ETHERNET } else { data },
    ]
}
