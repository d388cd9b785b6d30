//! Messages from one rank to another one, as between the stages of a pipeline, in which ranks work in turn.

use super::JobWaiting;
use crate::collectives::{CollectiveOperation, RankExchanges};

impl JobWaiting {
    /// The share of all waiting that is for messages, from 0 to 1.
    pub fn share_of_messages(&self, exchanges: &RankExchanges) -> f64 {
        let mut waiting = [0.0; 2];
        for timed in self.exchanges.iter().filter(|timed| exchanges.all[timed.exchange].step.is_some()) {
            let waits = timed.parts.iter().filter_map(|(rank, _)| timed.waiting(*rank));
            waiting[usize::from(timed.operation == CollectiveOperation::SendReceive)] += waits.sum::<i64>() as f64;
        }
        let [others, messages] = waiting;
        messages / (messages + others).max(1.0)
    }
}
