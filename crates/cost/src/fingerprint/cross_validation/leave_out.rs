//! Parts left out in turns.

use rayon::prelude::*;
use std::collections::BTreeSet;

/// What `ask` answers to every group of parts and all others, in the order of the groups; parts of no group are never left out.
pub(in crate::fingerprint) fn leave_out<'a, T: Sync, G: Ord + Send + Sync, A: Send>(
    parts: &'a [T],
    group: impl Fn(&'a T) -> Option<G> + Sync,
    ask: impl Fn(&[&'a T], &[&'a T]) -> A + Sync,
) -> Vec<A> {
    let groups: BTreeSet<G> = parts.iter().filter_map(&group).collect();
    let groups: Vec<G> = groups.into_iter().collect();
    let answers = groups.par_iter().map(|name| {
        let (own, others): (Vec<&T>, Vec<&T>) = parts.iter().partition(|part| group(part).as_ref() == Some(name));
        ask(&own, &others)
    });
    answers.collect()
}
