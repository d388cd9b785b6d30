//! Fits latency and time per byte to the busy periods of links in recorded steps.

use super::periods::{self, LinkPeriod};
use super::{
    CollectiveAlgorithm, CommunicationCosts, CostEstimate, GroupCost, MessageShape, OverlapSlowDown, UnknownLatency,
    shape,
};
use crate::graph::recorded::RecordedSteps;
use crate::graph::{ResourceKind, StepGraph};
use crate::simulate::simulate;
use perf4sight_base::stats::{median, percentile};

/// Periods have to differ by this factor in bytes per message, for latency to show.
const SPREAD: f64 = 2.0;

/// Nanoseconds of a message by sockets where the traces do not show them: half of what a barrier of two gloo ranks on one host
/// took, whose two messages wait for each other.
const ASSUMED_BY_SOCKETS: f64 = 100_000.0;
/// Nanoseconds of NCCL within a node, of an operation and of each of its messages. In vTrain's tables of all-reduces
/// (<https://github.com/VIA-Research/vTrain>) the lines through 1 to 32 MiB leave 39, 51, 52, 58, 66, 63 and 66 us at no bytes for 2 to 8
/// A100, and 25, 27, 46, 37, 44, 78 and 117 us for V100. Between nodes it is some microseconds more.
const OF_OPERATION_ON_STREAMS: f64 = 30_000.0;
const OF_MESSAGE_ON_STREAMS: f64 = 3_000.0;
/// The longest message of these tables takes 19.6 us, on 2 A100: on streams a message of any group may take as much.
const MOST_ON_STREAMS: f64 = 20_000.0;
/// How many times the assumed latency a message may take, at least.
const MOST: f64 = 3.0;
/// How many times as long as the longest that is assumed a message may take on links that are unusual, as between far hosts, in steps.
const UNUSUAL: [f64; 6] = [1.5, 2.2, 3.3, 4.7, 6.9, 10.0];
/// Nanoseconds of a byte on the slowest link that training is likely to use, of 1 Gbit/s: what operations of one size take beyond that
/// is not for their bytes.
const SLOWEST: f64 = 8.0;

/// The costs of a job's groups: the medians over the recorded steps of what fits each, with the interval of the median.
pub fn fit(recorded: &RecordedSteps, algorithm: CollectiveAlgorithm) -> CommunicationCosts {
    let groups = recorded.typical.groups.len();
    let periods: Vec<Vec<Vec<LinkPeriod>>> =
        (0..recorded.steps.len()).map(|step| periods_of(recorded, step, algorithm)).collect();
    let of_group = |group: usize, times: &dyn Fn(AssumedLatency) -> f64| {
        let steps = periods.iter().map(|step| step[group].as_slice()).filter(|periods| !periods.is_empty());
        let assumed = AssumedLatency::of_group(&recorded.typical, group, algorithm);
        cost(&steps.collect::<Vec<_>>(), assumed, times(assumed))
    };
    let with = |times: &dyn Fn(AssumedLatency) -> f64| -> Vec<Option<GroupCost>> {
        (0..groups).map(|group| of_group(group, times)).collect()
    };
    let groups = with(&|_| 1.0);
    let least: fn(AssumedLatency) -> f64 = |_| 0.0;
    let bounds = [
        (least, [EstimateBound::Low, EstimateBound::High]),
        (|assumed| assumed.most, [EstimateBound::High, EstimateBound::Low]),
    ];
    let alternative = |(times, bounds): (fn(AssumedLatency) -> f64, _)| {
        with(&times).into_iter().map(|cost| Some(at_bounds(cost?, bounds))).collect()
    };
    let alternatives =
        if groups.iter().any(Option::is_some) { bounds.into_iter().map(alternative).collect() } else { Vec::new() };
    let is_assumed = groups.iter().flatten().any(|cost| cost.unknown_latency.is_some());
    let unusual = UNUSUAL.iter().filter(|_| is_assumed);
    let slower_messages = unusual.map(|factor| with(&|assumed| factor * assumed.most)).collect();
    let slow_down = OverlapSlowDown::fit(&recorded.typical);
    CommunicationCosts { algorithm, groups, alternatives, slower_messages, slow_down }
}

#[derive(Debug, Clone, Copy)]
enum EstimateBound {
    Low,
    High,
}

/// A cost with other shares of latency and bytes that fits as well: with one at its lower bound, the other at its upper one. Where it
/// shows no latency, the assumed one differs already. What is a small share of recorded times is most of those on slower links, so that its
/// bounds count the more the further a change is from what was recorded.
fn at_bounds(cost: GroupCost, [latency, per_byte]: [EstimateBound; 2]) -> GroupCost {
    let at = |estimate: CostEstimate, bound| match bound {
        EstimateBound::Low => CostEstimate { value: estimate.low, ..estimate },
        EstimateBound::High => CostEstimate { value: estimate.high, ..estimate },
    };
    match cost.unknown_latency {
        None => GroupCost { latency: at(cost.latency, latency), per_byte: at(cost.per_byte, per_byte), ..cost },
        Some(_) => cost,
    }
}

/// The busy periods of each group's link in a recorded step.
fn periods_of(recorded: &RecordedSteps, step: usize, algorithm: CollectiveAlgorithm) -> Vec<Vec<LinkPeriod>> {
    let overlapping = recorded.overlapping(step);
    let step = recorded.step(step);
    let schedule = simulate(&step.graph);
    (0..step.groups.len()).map(|group| periods::busy(&step, &schedule, (group, overlapping), algorithm)).collect()
}

/// The latency of messages that traces do not show.
#[derive(Debug, Clone, Copy, PartialEq)]
struct AssumedLatency {
    /// Nanoseconds of a message.
    latency: f64,
    /// How many times that a message may take.
    most: f64,
    /// Why it is assumed, unless the periods show it. Those with waiting for ranks without a trace in them never do, for a short one may wait as
    /// long as a long one.
    because: UnknownLatency,
}

impl AssumedLatency {
    fn of_group(step: &StepGraph, group: usize, algorithm: CollectiveAlgorithm) -> Self {
        let transfers = || step.transfers.iter().filter(|transfer| transfer.group == group);
        let mut launches = transfers().flat_map(|transfer| &transfer.parts).map(|part| part.launch);
        let size = step.groups[group].size;
        let usual = match launches.any(|launch| step.graph.resource_of(launch).kind == ResourceKind::Thread) {
            true => AssumedLatency { latency: ASSUMED_BY_SOCKETS, most: MOST, because: UnknownLatency::OneSize },
            false => AssumedLatency::on_streams(size),
        };
        let shapes = transfers().filter_map(|transfer| Some((transfer.operation, transfer.payload()?)));
        let because = match transfers().all(|transfer| transfer.parts.len() >= size as usize) {
            false => UnknownLatency::RanksWithoutTrace,
            true if sizes_differ(shapes.map(|(operation, bytes)| shape(operation, algorithm, size, bytes))) => {
                UnknownLatency::Overlapping
            }
            true => UnknownLatency::OneSize,
        };
        AssumedLatency { because, ..usual }
    }

    /// Whether the periods of a step show it instead.
    fn is_shown(self, step: &[LinkPeriod]) -> bool {
        self.because != UnknownLatency::RanksWithoutTrace && sizes_differ(step.iter().map(|period| period.shape))
    }

    /// What an operation takes is shared by the messages of an all-reduce's ring.
    fn on_streams(ranks: u32) -> Self {
        let messages = 2.0 * (f64::from(ranks) - 1.0).max(1.0);
        let latency = OF_MESSAGE_ON_STREAMS + OF_OPERATION_ON_STREAMS / messages;
        AssumedLatency { latency, most: MOST.max(MOST_ON_STREAMS / latency), because: UnknownLatency::OneSize }
    }
}

/// The cost that fits the periods of several steps, by least squares of the relative errors; where they do not show the latency, it is so many times what is assumed.
fn cost(steps: &[&[LinkPeriod]], assumed: AssumedLatency, times: f64) -> Option<GroupCost> {
    let with_bytes = |step: &&[LinkPeriod]| step.iter().any(|period| period.shape.bytes > 0.0);
    let steps: Vec<&[LinkPeriod]> = steps.iter().copied().filter(with_bytes).collect();
    if steps.is_empty() {
        return None;
    }
    let unseen = |step: &[LinkPeriod], times| unseen_latency(step, assumed, times);
    let shows = |step: &[LinkPeriod]| assumed.is_shown(step);
    let lines = steps.iter().map(|step| {
        let shown = periods::line(step).filter(|[latency, per_byte]| *latency >= 0.0 && *per_byte >= 0.0);
        let shown = shown.filter(|_| shows(step)).map(|[latency, per_byte]| (latency, per_byte));
        shown.unwrap_or_else(|| with_latency(step, unseen(step, times)))
    });
    let (latencies, per_byte): (Vec<f64>, Vec<f64>) = lines.unzip();
    let unknown_latency = (!steps.iter().any(|step| shows(step))).then_some(assumed.because);
    let mut latency = interval_of_median(&latencies);
    if unknown_latency.is_some() {
        [latency.low, latency.high] =
            [0.0, median(&steps.iter().map(|step| unseen(step, assumed.most)).collect::<Vec<_>>())];
    }
    Some(GroupCost { latency, unknown_latency, per_byte: interval_of_median(&per_byte), per_byte_within_node: None })
}

/// Whether bytes per message differ enough for latency to show.
fn sizes_differ(shapes: impl Iterator<Item = MessageShape>) -> bool {
    let sizes = shapes.map(|shape| shape.bytes / shape.messages.max(1.0));
    let [least, most] = sizes.fold([f64::INFINITY, 0.0f64], |[least, most], size| [least.min(size), most.max(size)]);
    most > 0.0 && most >= SPREAD * least
}

/// A latency, and the time per byte that fits best with it.
fn with_latency(step: &[LinkPeriod], latency: f64) -> (f64, f64) {
    (latency, periods::per_byte(step, latency).max(0.0))
}

/// So many times the assumed latency, which is at most half of each period, or more where bytes on the slowest link leave more; but never
/// more than the usual period.
fn unseen_latency(step: &[LinkPeriod], assumed: AssumedLatency, times: f64) -> f64 {
    let of_message = |per_byte: f64| {
        let latency =
            move |period: &LinkPeriod| (period.time - per_byte * period.shape.bytes) / period.shape.messages.max(1.0);
        step.iter().map(latency).collect::<Vec<f64>>()
    };
    let whole = of_message(0.0);
    let half = whole.iter().map(|time| time / 2.0).fold(assumed.latency, f64::min);
    let left = median(&of_message(SLOWEST)).min(assumed.most * assumed.latency);
    (times * half.max(left)).min(median(&whole))
}

/// The median, and the order statistics around it that hold the median of all steps in 95 of 100 cases: by the normal
/// approximation of the binomial distribution, half a rank more than 1.96 sqrt(n) / 2 to either side.
fn interval_of_median(values: &[f64]) -> CostEstimate {
    let count = values.len() as f64;
    let half = 100.0 * (1.96 * count.sqrt() / 2.0 + 0.5) / (count - 1.0).max(1.0);
    let at = |percent: f64| percentile(values, percent.clamp(0.0, 100.0));
    CostEstimate { value: median(values), low: at(50.0 - half), high: at(50.0 + half) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times made with 50 µs a message and 8 ns a byte, a little off in each step.
    #[test]
    fn latency_and_time_per_byte_are_found_where_sizes_differ() {
        let step = |factor: f64| {
            let period = |bytes: f64| LinkPeriod {
                time: factor * (50_000.0 * 2.0 + 8.0 * bytes),
                shape: MessageShape::flat(2.0, bytes),
            };
            vec![period(1e4), period(1e6), period(4e6)]
        };
        let steps: Vec<Vec<LinkPeriod>> = [0.99, 1.0, 1.01, 1.02, 0.98].map(step).to_vec();
        let steps: Vec<&[LinkPeriod]> = steps.iter().map(Vec::as_slice).collect();
        let cost = cost(&steps, AssumedLatency { latency: 0.0, most: MOST, because: UnknownLatency::OneSize }, 1.0)
            .filter(|cost| cost.unknown_latency.is_none());
        let near = |estimate: CostEstimate, truth: f64| {
            (estimate.value / truth - 1.0).abs() < 1e-9 && estimate.low < truth && truth < estimate.high
        };
        assert!(cost.is_some_and(|cost| near(cost.latency, 50_000.0) && near(cost.per_byte, 8.0)), "{cost:?}");
    }

    /// Recorded of a network with batch norm, two ranks at 0.15 Gb/s each, 53 ns a byte: its buffers of 136 kB are broadcast before forward, which their
    /// root is done with when its socket has taken them, and its gradients of 9.41 MB reduced.
    #[test]
    fn a_broadcast_that_a_buffer_takes_says_nothing_of_the_link() {
        let period = |time, bytes| LinkPeriod { time, shape: MessageShape::flat(2.0, bytes) };
        let step = [period(0.15e6, 136_448.0), period(500e6, 9.41e6)];
        let assumed = AssumedLatency { latency: 1e5, most: MOST, because: UnknownLatency::OneSize };
        let cost = cost(&[step.as_slice(); 3], assumed, 1.0);
        assert!(cost.is_some_and(|cost| (cost.per_byte.value / 53.0 - 1.0).abs() < 0.03), "{cost:?}");
    }

    /// A short operation that waits 3 ms for a rank without a trace looks like one of a long latency.
    #[test]
    fn where_waiting_is_in_the_periods_they_show_no_latency() {
        let [short, long] =
            [1e4, 4e6].map(|bytes| LinkPeriod { time: 3e6 + bytes, shape: MessageShape::flat(2.0, bytes) });
        let fitted = |because| {
            cost(&[[short, long].as_slice(); 3], AssumedLatency { latency: 1e4, most: MOST, because }, 1.0).unwrap()
        };
        let known = fitted(UnknownLatency::OneSize);
        assert!(known.unknown_latency.is_none() && known.latency.value > 1e6);
        let because = UnknownLatency::RanksWithoutTrace;
        let assumed = fitted(because);
        assert!(
            assumed.unknown_latency == Some(because) && assumed.latency.low == 0.0 && assumed.latency.value <= 3e4,
            "{assumed:?}"
        );
    }

    /// 50 to 60 µs a message and 8 to 9 ns a byte: of an operation of one message and 1,000 bytes, the bytes are 8 of 68 or 9 of 59 µs.
    #[test]
    fn shares_of_latency_and_bytes_are_as_uncertain_as_both() {
        let estimate = |low, high| CostEstimate { value: (low + high) / 2.0, low, high };
        let [latency, per_byte] = [estimate(50_000.0, 60_000.0), estimate(8.0, 9.0)];
        let cost = GroupCost { latency, unknown_latency: None, per_byte, per_byte_within_node: None };
        let share = |bounds| {
            let (cost, shape) = (at_bounds(cost, bounds), MessageShape::flat(1.0, 1_000.0));
            cost.time_of_bytes(shape) / cost.time(shape)
        };
        assert!((share([EstimateBound::High, EstimateBound::Low]) - 8.0 / 68.0).abs() < 1e-9);
        assert!((share([EstimateBound::Low, EstimateBound::High]) - 9.0 / 59.0).abs() < 1e-9);
        let assumed = GroupCost { unknown_latency: Some(UnknownLatency::OneSize), ..cost };
        assert_eq!(at_bounds(assumed, [EstimateBound::Low, EstimateBound::High]), assumed);
    }

    /// Two messages and 100,000 bytes in 1 ms. At 1 Gbit/s the bytes are 0.8 ms of it, which leaves 0.1 ms a message: more than the three
    /// times 10 us that are assumed at most, so that the bytes take 940 us. Of 12,500 bytes they are 0.1 ms, and leave 450 us.
    #[test]
    fn of_equal_sizes_latency_is_not_known_but_bounded() {
        let fitted = |bytes: f64, assumed: f64| {
            let period = LinkPeriod { time: 1_000_000.0, shape: MessageShape::flat(2.0, bytes) };
            let cost = cost(
                &[&[period; 3]],
                AssumedLatency { latency: assumed, most: MOST, because: UnknownLatency::OneSize },
                1.0,
            )
            .filter(|cost| cost.unknown_latency.is_some());
            cost.map(|cost| [cost.latency.value, cost.latency.high, bytes * cost.per_byte.value].map(f64::round))
        };
        assert_eq!(fitted(1e5, 1e4), Some([30_000.0, 90_000.0, 940_000.0]));
        // Not more than all of the time.
        assert_eq!(fitted(12_500.0, 3e5), Some([450_000.0, 500_000.0, 100_000.0]));
        // A link that is faster than that: what is assumed.
        assert_eq!(fitted(1e6, 1e5), Some([100_000.0, 300_000.0, 800_000.0]));
    }

    /// vTrain's tables of A100 by the number of ranks: microseconds of a message where no bytes are sent, by the lines through 1 to 32 MiB.
    #[test]
    fn what_is_assumed_of_nccl_is_near_tables_of_all_reduces() {
        for (ranks, measured) in [(2, 19.6), (3, 12.8), (4, 8.6), (5, 7.2), (6, 6.6), (7, 5.3), (8, 4.7)] {
            let assumed = AssumedLatency::on_streams(ranks);
            let latency = assumed.latency / 1e3;
            assert!((latency / measured - 1.0).abs() < 0.2, "{ranks} ranks: {latency} us");
            assert!(assumed.most * latency >= 20.0 - 1e-9, "{ranks} ranks: {assumed:?}");
        }
    }
}
