//! How oneDNN divides the gradient of filters among threads: by samples, by blocks of outputs and by blocks of inputs.
//!
//! Threads that take samples of their own hold a sum of all the filters each, which is what it borrows. The costs are those of `balance` in
//! src/cpu/x64/jit_avx512_common_conv_kernel.cpp and jit_avx512_common_1x1_conv_kernel.cpp, the sums of a bias those of `reduce_balancer_t` in
//! src/cpu/x64/cpu_reducer.cpp.

use crate::amount::product;

/// Rows of a result from which on threads share them too (`min_oh_reduce`).
pub(super) const ROWS: u64 = 9;

#[derive(Debug, Clone, Copy)]
pub(super) struct FilterGradientWork {
    pub threads: u64,
    /// Parts of all images and of all results that threads may take: samples, or their rows.
    pub parts: [u64; 2],
    /// Numbers of such a part, in one block of channels.
    pub sizes: [u64; 2],
    /// Of how many numbers of the image one is read.
    pub step: u64,
    /// The most threads that share the parts.
    pub most: u64,
    /// Where more than half of all threads would share them, all do, up to so many.
    pub round_up_to: u64,
    /// Blocks of channels read and made.
    pub blocks: [u64; 2],
    /// Filters of a block of both.
    pub filters: u64,
    /// The cost of a filter, next to that of a number read or written.
    pub filter_cost: u64,
    /// Whether threads prefer to take as much work each, if that costs little.
    pub is_evened: bool,
}

/// How many threads share the samples, and how many compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ThreadDivision {
    pub sharing: u64,
    pub threads: u64,
}

impl FilterGradientWork {
    /// The division that reads and writes least.
    pub fn best_division(&self) -> ThreadDivision {
        let mut best = [1; 3];
        let mut least = self.cost(best);
        for division in self.divisions() {
            let cost = self.cost(division);
            if cost <= least {
                (best, least) = (division, cost);
            }
        }
        if self.is_evened {
            best = self.even_out(best, least);
        }
        let [mut sharing, inputs, outputs] = best;
        if sharing > self.threads / 2 && sharing < self.threads {
            sharing = self.round_up_to.min(self.threads);
        }
        ThreadDivision { sharing, threads: sharing * inputs * outputs }
    }

    /// The division with the least work of a thread: of those that cost up to a tenth more than the `least`, or with three quarters of the work at most.
    fn even_out(&self, mut best: [u64; 3], least: u64) -> [u64; 3] {
        let mut jobs = self.jobs(best);
        for division in self.divisions() {
            let found = self.jobs(division);
            let costs_little = product([10, self.cost(division)]) < product([11, least]);
            if found <= jobs && costs_little || product([4, found]) <= product([3, jobs]) {
                (best, jobs) = (division, found);
            }
        }
        best
    }

    /// Threads over shares, blocks of inputs and blocks of outputs.
    fn divisions(&self) -> impl Iterator<Item = [u64; 3]> {
        let [inputs, outputs] = self.blocks;
        (1..=self.most.min(self.threads)).flat_map(move |sharing| {
            let others = self.threads / sharing;
            (1..=others.min(outputs)).map(move |writing| [sharing, (others / writing).min(inputs), writing])
        })
    }

    /// What one thread reads and writes.
    fn cost(&self, [sharing, reading, writing]: [u64; 3]) -> u64 {
        let [inputs, outputs] = [self.blocks[0].div_ceil(reading), self.blocks[1].div_ceil(writing)];
        let [read, written] = [(0, inputs), (1, outputs)]
            .map(|(side, blocks)| product([self.parts[side].div_ceil(sharing), self.sizes[side], blocks]));
        let filters = product([self.filter_cost, inputs, outputs, self.filters]);
        (read / self.step).saturating_add(written).saturating_add(filters)
    }

    /// Blocks that one thread computes.
    fn jobs(&self, [sharing, reading, writing]: [u64; 3]) -> u64 {
        let [inputs, outputs] = [self.blocks[0].div_ceil(reading), self.blocks[1].div_ceil(writing)];
        product([self.parts[1].div_ceil(sharing), inputs, outputs])
    }
}

impl ThreadDivision {
    /// One thread computes.
    pub const NONE: ThreadDivision = ThreadDivision { sharing: 1, threads: 1 };
}

/// Groups of threads that share the samples of their jobs, and the sums that they hold beyond the gradient itself: one for each job and thread but the first.
pub(super) fn summed_jobs(threads: u64, jobs: u64, samples: u64) -> (u64, u64) {
    let least = (jobs / threads).max(1);
    let shared = |in_group: u64| {
        let groups = (jobs / in_group).min(threads);
        (groups, (threads / groups).min(samples.max(1)), jobs.div_ceil(groups))
    };
    // Jobs of a group, times the samples that one of its threads reads; one sum more where several threads do.
    let work =
        |(_, sharing, jobs): (u64, u64, u64)| product([jobs, samples.div_ceil(sharing) + u64::from(sharing > 1)]);
    let mut best = shared(least);
    let mut bound = product([jobs, samples]);
    // Every number of groups, from the largest on, by the jobs that each would have.
    let in_groups = (1..=threads).rev().map(|groups| (jobs / groups).min(jobs - 1));
    for found in in_groups.filter(|in_group| *in_group >= least).map(shared) {
        if work(found) < bound {
            (best, bound) = (found, work(found));
        }
    }
    let (groups, sharing, jobs) = best;
    (groups, groups * (sharing - 1) * jobs)
}

/// The size of parts, from `least` to `most`, that fills the last one most: the largest of those as good, or the smallest (`best_divider` of
/// src/cpu/x64/jit_uni_1x1_conv_utils.hpp).
pub(super) fn best_part(whole: u64, least: u64, most: u64, largest: bool) -> u64 {
    let most = most.min(whole).max(1);
    let least = least.min(most).max(1);
    let lost = |part: u64| 1.0 - whole as f64 / whole.next_multiple_of(part) as f64;
    let better = |found: u64, part: u64| {
        let is_better = if largest { lost(part) < lost(found) } else { lost(part) <= lost(found) };
        if is_better { part } else { found }
    };
    (least..=most).rev().fold(most, better)
}
