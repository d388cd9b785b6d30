//! The hang in a sentence: who waits in what, for whom, and who waits for those.

use super::{BlockedOperation, HangCause, HangReport};
use perf4sight_traces::rank_list;
use std::collections::BTreeSet;

/// Ranks that wait for those that wait are named at most so often.
const NAMED: usize = 3;

impl HangReport {
    /// The answer in a sentence; none if nothing hangs.
    pub fn headline(&self) -> Option<String> {
        let first = self.blocked.first()?;
        let missing: BTreeSet<u32> = first.missing.keys().copied().collect();
        let mut sentence = first.sentence();
        let chain = self.chain(first);
        if first.cause(&self.culprits) == HangCause::Others {
            sentence += "; the ranks wait for each other";
        } else if !self.culprits.is_empty() && !missing.is_subset(&self.culprits) {
            sentence += &format!("; {} in no operation, and may be the cause", are(&self.culprits));
        }
        let waits_elsewhere = |blocked: &&BlockedOperation| *blocked != first && !blocked.waiting.is_disjoint(&missing);
        for blocked in
            self.blocked.iter().filter(waits_elsewhere).filter(|blocked| !chain.contains(blocked)).take(NAMED)
        {
            let who: BTreeSet<u32> = blocked.waiting.intersection(&missing).copied().collect();
            sentence += &format!("; {} {} in {}", rank_list(&who), verb(&who, "waits", "wait"), blocked.call());
        }
        for blocked in chain.iter().take(NAMED) {
            let [who, awaited] = [blocked.waiting.clone(), blocked.awaited().collect()].map(|ranks| rank_list(&ranks));
            let wait = verb(&blocked.waiting, "waits", "wait");
            sentence += &format!("; {who} {wait} for {awaited} in {}", blocked.call());
        }
        if chain.len() > NAMED {
            sentence += &format!("; so do others in {} more operations", chain.len() - NAMED);
        }
        Some(sentence)
    }

    /// The operations whose ranks wait for ranks that wait in `first`, and for those that wait for these.
    fn chain(&self, first: &BlockedOperation) -> Vec<&BlockedOperation> {
        let mut reached: BTreeSet<u32> = first.waiting.clone();
        let mut left: Vec<&BlockedOperation> = self.blocked.iter().filter(|blocked| *blocked != first).collect();
        let mut chain = Vec::new();
        while let Some(at) = left.iter().position(|blocked| blocked.missing.keys().any(|rank| reached.contains(rank))) {
            let blocked = left.remove(at);
            reached.extend(&blocked.waiting);
            chain.push(blocked);
        }
        chain
    }
}

fn verb<'a>(ranks: &BTreeSet<u32>, of_one: &'a str, of_several: &'a str) -> &'a str {
    if ranks.len() == 1 { of_one } else { of_several }
}

fn ranks_have(ranks: &BTreeSet<u32>) -> String {
    format!("{} {}", rank_list(ranks), verb(ranks, "has", "have"))
}

fn are(ranks: &BTreeSet<u32>) -> String {
    format!("{} {}", rank_list(ranks), verb(ranks, "is", "are"))
}

impl BlockedOperation {
    /// Its name in sentences: `all_reduce 7 of group default_pg`.
    pub fn call(&self) -> String {
        let number = self.sequence.map_or(String::new(), |sequence| format!(" {sequence}"));
        format!("{}{number} of group {}", self.operation, self.group)
    }

    /// Who waits in it, and for whom.
    fn sentence(&self) -> String {
        let call = self.call();
        let at = self.place.as_ref().map_or(String::new(), |place| format!(", enqueued at {place}"));
        let wait = format!("{} {}", rank_list(&self.waiting), verb(&self.waiting, "waits", "wait"));
        let waits_in = format!("{wait} in {call}{at}");
        let answer = match (self.different.is_empty(), self.missing.is_empty(), self.silent.is_empty()) {
            (false, ..) => format!("{waits_in}, under whose number {}{}", self.others(), self.also_missing()),
            (true, false, _) if self.sequence.is_none() => format!("{waits_in}, for which {}", self.no_peer()),
            (true, false, _) => {
                format!("{} {}, in which {wait}{at}{}", self.not_come(), self.call(), self.last_of_missing())
            }
            (true, true, false) => return format!("{waits_in}; {}", self.no_dump()),
            (true, true, true) if !self.all_known => format!(
                "{waits_in}, which does not end; no dump tells which ranks belong to it, and whether one of them has not come"
            ),
            (true, true, true) if !self.behind.is_empty() => format!(
                "{waits_in}, which {} enqueued and not begun: an earlier kernel there does not end",
                ranks_have(&self.behind)
            ),
            (true, true, true) => format!(
                "{waits_in}, which {} enqueued: a link or a GPU fails, or an earlier kernel does not end",
                if self.sequence.is_none() { "sender and receiver have" } else { "all ranks of the group have" }
            ),
        };
        let silent = (!self.silent.is_empty())
            .then(|| format!("; whether {} came is not known, for there is no dump of it", rank_list(&self.silent)));
        answer + &silent.unwrap_or_default()
    }

    fn others(&self) -> String {
        let others = self.different.iter().map(|(rank, what)| format!("rank {rank} {what}"));
        others.collect::<Vec<_>>().join(", ")
    }

    fn missing_ranks(&self) -> BTreeSet<u32> {
        self.missing.keys().copied().collect()
    }

    /// `rank 2 has not come to`
    fn not_come(&self) -> String {
        format!("{} not come to", ranks_have(&self.missing_ranks()))
    }

    fn also_missing(&self) -> String {
        if self.missing.is_empty() { String::new() } else { format!("; {} it", self.not_come()) }
    }

    fn last_of_missing(&self) -> String {
        match self.missing.first_key_value() {
            Some((rank, Some(last))) => format!("; the last of rank {rank} in that group is {last}"),
            _ => String::new(),
        }
    }

    /// `rank 2 has enqueued no send`
    fn no_peer(&self) -> String {
        let counterpart = if self.operation.contains("->") { "receive" } else { "send" };
        format!("{} enqueued no {counterpart}", ranks_have(&self.missing_ranks()))
    }

    fn no_dump(&self) -> String {
        let those = verb(&self.silent, "it", "them");
        format!(
            "{} not there: no dump of {those}, so that {} died, {} elsewhere, or the file is missing",
            are(&self.silent),
            verb(&self.silent, "it", "they"),
            verb(&self.silent, "hangs", "hang")
        )
    }
}
