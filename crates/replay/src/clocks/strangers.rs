//! Traces that look like those of different jobs, or a clock was set back: between the same exchanges the time that passes differs.

use super::estimate::ExchangeParts;
use crate::ranks::TrainingJob;
use perf4sight_base::units::Milliseconds;

/// From this difference on, no clocks explain it: those of hosts differ by less than a thousandth.
const FAR: f64 = 0.05;
/// Exchanges end at different times on busy hosts: shorter differences are none, in nanoseconds.
const SHORTEST: f64 = 50e6;

/// For each rank that does not seem to be of the first one's job, a sentence.
pub(super) fn unrelated_ranks(job: &TrainingJob, exchanges: &[ExchangeParts]) -> Vec<String> {
    let strange = |rank: &usize| elapsed_on_both(exchanges, *rank).is_some_and(is_strange);
    // Times that cannot be true show nothing of jobs.
    let is_clear = |rank: &usize| [0, *rank].iter().all(|rank| !job.ranks[*rank].is_doubtful());
    let strangers = (1..job.ranks.len()).filter(strange).filter(is_clear);
    strangers.filter_map(|rank| Some(sentence(job, rank, elapsed_on_both(exchanges, rank)?))).collect()
}

/// The nanoseconds between the ends of an early and a late exchange that a rank has with the first rank, on both.
fn elapsed_on_both(exchanges: &[ExchangeParts], rank: usize) -> Option<[f64; 2]> {
    let end = |parts: &ExchangeParts, wanted: usize| Some(parts.iter().find(|part| part.rank == wanted)?.end);
    let together = exchanges.iter().filter(|parts| parts.iter().all(|part| part.operation.synchronises()));
    let mut both: Vec<[i64; 2]> = together.filter_map(|parts| Some([end(parts, 0)?, end(parts, rank)?])).collect();
    both.sort_unstable();
    let third = both.len().div_ceil(3);
    let early = median_exchange(both.get(..third)?)?;
    let late = median_exchange(&both[both.len() - third..])?;
    Some([0, 1].map(|place| late[place].saturating_sub(early[place]) as f64))
}

/// The exchange whose ends are as far apart as those of half of them: single ones end late where a thread gets no processor.
fn median_exchange(ends: &[[i64; 2]]) -> Option<[i64; 2]> {
    let mut ends = ends.to_vec();
    ends.sort_by_key(|[first, own]| own.saturating_sub(*first));
    ends.get(ends.len() / 2).copied()
}

fn is_strange([first, own]: [f64; 2]) -> bool {
    let off = (own - first).abs();
    off > FAR * first.max(own) && off > SHORTEST
}

fn sentence(job: &TrainingJob, rank: usize, [first, own]: [f64; 2]) -> String {
    format!(
        "the traces of ranks {} and {} look like those of different jobs, or a clock was set back: between the same exchanges {} pass on one and {} on the other",
        job.ranks[0].number,
        job.ranks[rank].number,
        Milliseconds(first / 1e6),
        Milliseconds(own / 1e6)
    )
}
