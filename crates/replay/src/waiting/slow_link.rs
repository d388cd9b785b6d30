//! Ranks whose exchanges take longer than exchanges of the same size among other ranks: their link is slow.

use super::JobWaiting;
use crate::collectives::{CollectiveOperation, RankExchanges};
use perf4sight_base::stats::{median, percentile};
use std::collections::BTreeMap;

/// Ranks whose exchanges take longer than those of others.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowLink {
    /// The kind of the exchanges.
    pub operation: CollectiveOperation,
    /// The indices of the ranks; of messages, of the one that sends and the one that receives.
    pub ranks: Vec<usize>,
    /// The time of an exchange as a multiple of that of exchanges of the same size among as many other ranks, their median.
    pub times: f64,
    /// Milliseconds of a step by which their exchanges take longer.
    pub longer: f64,
}

/// A link is slow where its exchanges take this many times as long.
const SLOW: f64 = 1.5;
/// And this percentile of them too: on a busy machine some exchanges of every link take long.
const LOW_PERCENTILE: f64 = 25.0;
/// Fewer sets of ranks do not show what is usual: one of two is slow where it takes this many times as long, or where others wait for one of its
/// ranks.
const FEWEST: usize = 3;
const SLOW_OF_TWO: f64 = 3.0;

/// Milliseconds of the exchanges of some ranks.
type ExchangeTimesByRanks = BTreeMap<Vec<usize>, Vec<f64>>;

impl JobWaiting {
    /// The ranks whose exchanges take longest, compared with those of the same kind and size among as many other ranks. None if no link takes much
    /// longer, or only by as much as clocks may be off.
    pub fn slow_link(&self, exchanges: &RankExchanges) -> Option<SlowLink> {
        self.slowest_link(exchanges, SLOW_OF_TWO)
    }

    /// The same if it is of a rank that others wait for: that its link is the slow one of two is then no chance.
    pub fn slow_link_of(&self, exchanges: &RankExchanges, rank: usize) -> Option<SlowLink> {
        self.slowest_link(exchanges, SLOW).filter(|link| link.ranks.contains(&rank))
    }

    fn slowest_link(&self, exchanges: &RankExchanges, slow_of_two: f64) -> Option<SlowLink> {
        let mut links: BTreeMap<(CollectiveOperation, &Vec<usize>), [f64; 2]> = BTreeMap::new();
        let times = self.times(exchanges);
        for ((operation, ..), alike) in times.iter().filter(|(_, alike)| alike.len() > 1) {
            let slow = if alike.len() < FEWEST { slow_of_two } else { SLOW };
            for (ranks, own) in alike {
                let others: Vec<f64> =
                    alike.iter().filter(|(other, _)| *other != ranks).map(|(_, times)| median(times)).collect();
                let (time, other) = (median(own), median(&others));
                if time - other > self.uncertainty && percentile(own, LOW_PERCENTILE) >= slow * other {
                    let [all, usual] = links.entry((*operation, ranks)).or_default();
                    *all += time * own.len() as f64;
                    *usual += other * own.len() as f64;
                }
            }
        }
        let slow = links.into_iter().map(|((operation, ranks), [all, usual])| SlowLink {
            operation,
            ranks: ranks.clone(),
            times: all / usual.max(f64::MIN_POSITIVE),
            longer: (all - usual) / self.steps.len().max(1) as f64,
        });
        slow.filter(|link| link.times >= SLOW).max_by(|one, other| one.longer.total_cmp(&other.longer))
    }

    /// The times of exchanges by their ranks: of each kind, size and number of ranks.
    fn times(&self, exchanges: &RankExchanges) -> BTreeMap<(CollectiveOperation, u64, usize), ExchangeTimesByRanks> {
        let mut times: BTreeMap<(CollectiveOperation, u64, usize), ExchangeTimesByRanks> = BTreeMap::new();
        for timed in &self.exchanges {
            let exchange = &exchanges.all[timed.exchange];
            let all = || Some(exchange.parts.iter().map(|part| part.rank).collect());
            let is_message = timed.operation == CollectiveOperation::SendReceive;
            let ranks: Option<Vec<usize>> =
                if is_message { exchanges.end_ranks(exchange).map(Vec::from) } else { all() };
            if let (Some(ranks), Some(bytes), Some(_)) = (ranks, exchange.bytes, exchange.step) {
                let alike = times.entry((timed.operation, bytes, ranks.len())).or_default();
                alike.entry(ranks).or_default().push(timed.transfer() as f64 / 1e6);
            }
        }
        times
    }
}
