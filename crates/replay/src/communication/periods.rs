//! Times in which a link is busy with operations that run at the same time. They delay each other, so that only the time of all of
//! them together says what they cost. An operation that waits in the queue until the one before is done shows its own.

use super::{CollectiveAlgorithm, MessageShape, shape};
use crate::graph::{NodeId, StepGraph, TransferNode};
use crate::simulate::NodeSchedule;
use std::collections::BTreeSet;

/// Operations of a link that run at the same time, as the replay puts them one after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LinkPeriod {
    /// Nanoseconds.
    pub time: f64,
    /// What they send together.
    pub shape: MessageShape,
}

/// The busy periods of a group's link in a replayed step, without transfers whose size is not known. Transfers that overlapped with earlier
/// ones, where they were recorded, share a period with these.
pub(super) fn busy(
    step: &StepGraph,
    schedule: &NodeSchedule,
    (group, overlapping): (usize, &BTreeSet<NodeId>),
    algorithm: CollectiveAlgorithm,
) -> Vec<LinkPeriod> {
    let mut transfers: Vec<&TransferNode> = step.transfers.iter().filter(|transfer| transfer.group == group).collect();
    transfers.sort_by_key(|transfer| schedule.start(transfer.node));
    let mut periods: Vec<(u64, Option<LinkPeriod>)> = Vec::new();
    for transfer in transfers {
        let start = schedule.start(transfer.node);
        let end = schedule.end(&step.graph, transfer.node);
        let own = transfer_period(step, transfer, (end - start) as f64, algorithm);
        match periods.last_mut() {
            Some((last, period)) if *last == start && overlapping.contains(&transfer.node) => {
                (*last, *period) = (end, period.zip(own).map(|(before, own)| before.plus(own)));
            }
            _ => periods.push((end, own)),
        }
    }
    periods.into_iter().filter_map(|(_, period)| period).filter(|period| period.time > 0.0).collect()
}

fn transfer_period(
    step: &StepGraph,
    transfer: &TransferNode,
    time: f64,
    algorithm: CollectiveAlgorithm,
) -> Option<LinkPeriod> {
    let bytes = transfer.payload()?;
    let ranks = step.groups[transfer.group].size;
    Some(LinkPeriod { time, shape: shape(transfer.operation, algorithm, ranks, bytes) })
}

impl LinkPeriod {
    fn plus(self, other: LinkPeriod) -> LinkPeriod {
        let [a, b] = [self.shape, other.shape];
        let shape = MessageShape {
            messages: a.messages + b.messages,
            bytes: a.bytes + b.bytes,
            bytes_within_node: a.bytes_within_node + b.bytes_within_node,
        };
        LinkPeriod { time: self.time + other.time, shape }
    }
}

/// Sums over periods of products of messages and bytes, each as a share of the period's time: the normal equations of
/// least squares of the relative errors.
struct PeriodSums {
    messages: f64,
    bytes: f64,
    messages_squared: f64,
    bytes_squared: f64,
    both: f64,
}

impl PeriodSums {
    fn from_periods(periods: &[LinkPeriod]) -> Self {
        let mut sums = PeriodSums { messages: 0.0, bytes: 0.0, messages_squared: 0.0, bytes_squared: 0.0, both: 0.0 };
        for LinkPeriod { time, shape } in periods {
            let [messages, bytes] = [shape.messages / time, shape.bytes / time];
            sums.messages += messages;
            sums.bytes += bytes;
            sums.messages_squared += messages * messages;
            sums.bytes_squared += bytes * bytes;
            sums.both += messages * bytes;
        }
        sums
    }
}

/// Latency and time per byte by least squares of the relative errors; none where all periods have the same bytes for each
/// message.
pub(super) fn line(periods: &[LinkPeriod]) -> Option<[f64; 2]> {
    let sums = PeriodSums::from_periods(periods);
    let determinant = sums.messages_squared * sums.bytes_squared - sums.both * sums.both;
    (determinant > 1e-9 * sums.messages_squared * sums.bytes_squared).then(|| {
        let latency = sums.messages * sums.bytes_squared - sums.bytes * sums.both;
        let per_byte = sums.bytes * sums.messages_squared - sums.messages * sums.both;
        [latency / determinant, per_byte / determinant]
    })
}

/// The time per byte with which all periods take as long together as they did, where the latency is given. By relative errors a short period would
/// count most: a broadcast whose root is done when its socket's buffer has the bytes made a link of 0.15 Gb/s one of 1.06.
pub(super) fn per_byte(periods: &[LinkPeriod], latency: f64) -> f64 {
    let sum = |value: fn(&LinkPeriod) -> f64| periods.iter().map(value).sum::<f64>();
    (sum(|period| period.time) - latency * sum(|period| period.shape.messages)) / sum(|period| period.shape.bytes)
}
