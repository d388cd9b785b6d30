//! Tensor fusion: which gradients to reduce together, so that communication ends as early as it can.
//!
//! Gradients become ready one after the other during backward. A bucket of neighbours can be reduced once its last
//! gradient is ready and the link is free; it then takes `alpha + beta · bytes`. One link reduces one bucket at a
//! time, in order.

mod buckets;
mod formats;
mod jointly;
mod of_step;
mod optimum;
#[cfg(test)]
mod tests;

pub use buckets::{BucketChoice, best_cap, best_compiled_cap, buckets, choices};
pub use formats::{group_mapping, horovod_threshold, of_threshold, partitions, pytorch_arguments, pytorch_list};
pub use jointly::{BackwardSegment, JointFusion, jointly};
pub use of_step::of_step;
pub use optimum::optimum;

use perf4sight_base::error::{Error, Result};

/// A gradient, in the order in which they become ready.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadyGradient {
    /// When backward has computed it, in milliseconds.
    pub ready_ms: f64,
    /// Its size.
    pub bytes: u64,
    /// The number of its backward pass: a bucket has gradients of one pass alone.
    pub pass: u32,
}

/// The time of an all-reduce: `alpha_ms + bytes · ms_per_byte`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AllReduceLink {
    /// Latency of an all-reduce, in milliseconds.
    pub alpha_ms: f64,
    /// Milliseconds of each byte.
    pub ms_per_byte: f64,
}

/// Gradients in buckets, and when the last one is reduced.
#[derive(Debug, Clone, PartialEq)]
pub struct BucketFusion {
    /// The end of each bucket: the place behind its last gradient.
    pub ends: Vec<usize>,
    /// When the last bucket is reduced, in milliseconds.
    pub finished_ms: f64,
}

impl AllReduceLink {
    /// Milliseconds of an all-reduce of so many bytes.
    pub fn milliseconds(&self, bytes: u64) -> f64 {
        self.alpha_ms + bytes as f64 * self.ms_per_byte
    }
}

impl BucketFusion {
    /// Reduces buckets that end at these places, the last one behind the last gradient.
    pub fn of_ends(gradients: &[ReadyGradient], link: AllReduceLink, ends: Vec<usize>) -> Self {
        let (mut start, mut finished_ms) = (0, 0.0);
        for &end in &ends {
            finished_ms = reduction_end(&gradients[start..end], link, finished_ms);
            start = end;
        }
        BucketFusion { ends, finished_ms }
    }

    /// The places of each bucket's gradients.
    pub fn buckets(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| start..*end)
    }
}

/// When a bucket is reduced that the link may begin at `free_ms`.
fn reduction_end(bucket: &[ReadyGradient], link: AllReduceLink, free_ms: f64) -> f64 {
    let ready = bucket.last().map_or(0.0, |gradient| gradient.ready_ms);
    let bytes = bucket.iter().map(|gradient| gradient.bytes).sum();
    free_ms.max(ready) + link.milliseconds(bytes)
}

/// Refuses gradients that are out of order, and numbers that are none.
///
/// # Errors
/// No gradients; a time that is negative, no number, or before that of the gradient before; a link that is none.
pub fn check(gradients: &[ReadyGradient], link: AllReduceLink) -> Result<()> {
    let is_time = |time: f64| time.is_finite() && time >= 0.0;
    if !is_time(link.alpha_ms) || !is_time(link.ms_per_byte) {
        return Err(Error::input(format!("a link of {} ms and {} ms a byte", link.alpha_ms, link.ms_per_byte))
            .expected("a latency and a time a byte, each a number from 0"));
    }
    if gradients.is_empty() {
        return Err(Error::input("there are no gradients").expected("at least one"));
    }
    let is_late = |place: &usize| {
        let before = place.checked_sub(1).map_or(0.0, |before| gradients[before].ready_ms);
        !is_time(gradients[*place].ready_ms) || gradients[*place].ready_ms < before
    };
    match (0..gradients.len()).find(is_late) {
        None => Ok(()),
        Some(place) => Err(Error::input(format!("gradient {place} is ready after {} ms", gradients[place].ready_ms))
            .expected("times in milliseconds from 0, in ascending order")),
    }
}
