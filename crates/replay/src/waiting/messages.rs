//! Messages from one rank to another one, as between the stages of a pipeline, in which ranks work in turn.

use super::Waiting;
use crate::collectives::{Exchanges, Operation};
use perf4sight_base::stats::median;
use std::collections::BTreeMap;

/// A link between two ranks over which messages take longer than over the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowLink {
    /// The indices of the ranks that send and receive.
    pub ranks: [usize; 2],
    /// The time of a message as a multiple of that of messages of the same size over the other links, their median.
    pub times: f64,
    /// Milliseconds of a step by which its messages take longer.
    pub longer: f64,
}

/// What sends and receives are as exchanges, one by one or several together.
const MESSAGE: Operation = Operation::SendReceive;
/// A link is slow where its messages take this many times as long.
const SLOW: f64 = 1.5;

impl Waiting {
    /// The share of all waiting that is for messages, from 0 to 1.
    pub fn in_turn(&self, exchanges: &Exchanges) -> f64 {
        let mut waiting = [0.0; 2];
        for timed in self.exchanges.iter().filter(|timed| exchanges.all[timed.exchange].step.is_some()) {
            let waits = timed.parts.iter().filter_map(|(rank, _)| timed.waiting(*rank));
            waiting[usize::from(timed.operation == MESSAGE)] += waits.sum::<i64>() as f64;
        }
        let [others, messages] = waiting;
        messages / (messages + others).max(1.0)
    }

    /// The link whose messages take longest beyond those of the same size over other links; none where none takes much longer, or only by as much as clocks may be off.
    pub fn slow_link(&self, exchanges: &Exchanges) -> Option<SlowLink> {
        let mut times: BTreeMap<u64, BTreeMap<[usize; 2], Vec<f64>>> = BTreeMap::new();
        for timed in self.exchanges.iter().filter(|timed| timed.operation == MESSAGE) {
            let exchange = &exchanges.all[timed.exchange];
            if let (Some(ranks), Some(bytes), Some(_)) = (exchanges.ends(exchange), exchange.bytes, exchange.step) {
                let of_link = times.entry(bytes).or_default().entry(ranks).or_default();
                of_link.push(timed.transfer() as f64 / 1e6);
            }
        }
        let mut links: BTreeMap<[usize; 2], [f64; 2]> = BTreeMap::new();
        for of_size in times.values().filter(|links| links.len() > 2) {
            for (link, own) in of_size {
                let others: Vec<f64> =
                    of_size.iter().filter(|(other, _)| *other != link).map(|(_, times)| median(times)).collect();
                let (time, other) = (median(own), median(&others));
                if time - other > self.uncertainty {
                    let [all, usual] = links.entry(*link).or_default();
                    *all += time * own.len() as f64;
                    *usual += other * own.len() as f64;
                }
            }
        }
        let slow = links.into_iter().map(|(ranks, [all, usual])| SlowLink {
            ranks,
            times: all / usual.max(f64::MIN_POSITIVE),
            longer: (all - usual) / self.steps.len().max(1) as f64,
        });
        slow.filter(|link| link.times >= SLOW).max_by(|one, other| one.longer.total_cmp(&other.longer))
    }
}
