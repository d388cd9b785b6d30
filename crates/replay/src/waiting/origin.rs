//! The rank that causes a wait in the end: a rank that waited itself only passes on the delay of another one.

use perf4sight_traces::intervals::Interval;

/// A time that a rank waits, on the common timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RankWait {
    /// From when to when.
    pub time: Interval,
    /// The rank that has not come yet.
    pub awaited: usize,
    /// Whether the rank does nothing else meanwhile, so that the wait delays it.
    pub is_held: bool,
    /// The step that it counts in.
    pub step: Option<usize>,
}

/// A part of the time that a rank waits, and the rank that makes it wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WaitPiece {
    /// From when to when.
    pub time: Interval,
    /// The rank that makes it wait.
    pub origin: usize,
    /// The step that it counts in.
    pub step: Option<usize>,
}

impl RankWait {
    fn piece(&self, time: Interval, origin: usize) -> WaitPiece {
        WaitPiece { time, origin, step: self.step }
    }
}

impl WaitPiece {
    /// Its nanoseconds.
    pub fn length(&self) -> i64 {
        self.time.1 - self.time.0
    }
}

/// The parts of each rank's waits. The waits of a rank are in order and do not overlap.
pub(super) fn origins(waits: &[Vec<RankWait>]) -> Vec<Vec<WaitPiece>> {
    let mut all: Vec<(usize, RankWait)> =
        waits.iter().enumerate().flat_map(|(rank, own)| own.iter().map(move |wait| (rank, *wait))).collect();
    // What the awaited rank waited for before is known by then.
    all.sort_by_key(|(rank, wait)| (wait.time.1, wait.time.0, *rank));
    let mut known: Vec<Vec<WaitPiece>> = vec![Vec::new(); waits.len()];
    let mut held = known.clone();
    for (rank, wait) in all {
        let pieces = pieces(&known[wait.awaited], collect_origins(&held, rank, &wait), rank, &wait);
        held[rank].extend(pieces.iter().filter(|_| wait.is_held));
        known[rank].extend(pieces);
    }
    known
}

/// The parts of a wait: those in which the awaited rank waits itself, and the rest, part of which is delay that it collected before.
fn pieces(of_awaited: &[WaitPiece], mut collected: Vec<(usize, i64)>, rank: usize, wait: &RankWait) -> Vec<WaitPiece> {
    let first = of_awaited.partition_point(|piece| piece.time.1 <= wait.time.0);
    let (mut found, mut own, mut at) = (Vec::new(), Vec::new(), wait.time.0);
    // Two ranks that wait for each other are a cycle, which only uncertain clocks show.
    for piece in of_awaited[first..].iter().filter(|piece| piece.origin != rank) {
        let (begin, end) = (piece.time.0.max(at), piece.time.1.min(wait.time.1));
        if begin < end {
            own.push((at, begin));
            found.push(wait.piece((begin, end), piece.origin));
            at = end;
        }
    }
    own.push((at, wait.time.1));
    for time in own {
        passed_on(time, &mut collected, wait, &mut found);
    }
    found.retain(|piece| piece.length() > 0);
    found.sort_by_key(|piece| piece.time);
    found
}

/// How much longer than `rank` the awaited rank was held by others, earlier in the step: nanoseconds by the ranks that held it.
fn collect_origins(held: &[Vec<WaitPiece>], rank: usize, wait: &RankWait) -> Vec<(usize, i64)> {
    let held = |of: usize| {
        let pieces = held[of].iter().rev().skip_while(|piece| piece.time.1 > wait.time.0);
        let in_step = pieces.take_while(|piece| piece.step == wait.step);
        in_step.filter(|piece| piece.origin != rank && piece.origin != wait.awaited)
    };
    let mut of_awaited: Vec<(usize, i64)> = Vec::new();
    for piece in held(wait.awaited) {
        match of_awaited.iter_mut().find(|(origin, _)| *origin == piece.origin) {
            Some((_, time)) => *time += piece.length(),
            None => of_awaited.push((piece.origin, piece.length())),
        }
    }
    let all: i64 = of_awaited.iter().map(|(_, time)| time).sum();
    let longer = all - held(rank).map(WaitPiece::length).sum::<i64>();
    if longer <= 0 {
        return Vec::new();
    }
    of_awaited.into_iter().map(|(origin, time)| (origin, (time as f64 * longer as f64 / all as f64) as i64)).collect()
}

/// Adds a time in which the awaited rank does not wait: first the delay that it collected, then its own.
fn passed_on((from, until): Interval, collected: &mut [(usize, i64)], wait: &RankWait, found: &mut Vec<WaitPiece>) {
    let mut at = from;
    for (origin, left) in collected {
        let end = until.min(at + *left);
        found.push(wait.piece((at, end), *origin));
        *left -= end - at;
        at = end;
    }
    found.push(wait.piece((at, until), wait.awaited));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(time: Interval, awaited: usize) -> RankWait {
        RankWait { time, awaited, is_held: true, step: None }
    }

    fn sums(pieces: &[WaitPiece], ranks: usize) -> Vec<i64> {
        let of = |rank: usize| pieces.iter().filter(|piece| piece.origin == rank).map(WaitPiece::length).sum();
        (0..ranks).map(of).collect()
    }

    /// Rank 0 comes at 100; rank 1 waits for it from 10 on and takes 5 more, for which rank 2 waits from 20 on, and rank 3 for that from 30 on.
    #[test]
    fn who_passes_a_delay_on_is_not_waited_for() {
        let waits = [Vec::new(), vec![wait((10, 100), 0)], vec![wait((20, 105), 1)], vec![wait((30, 106), 2)]];
        let origins = origins(&waits);
        assert_eq!(sums(&origins[2], 4), [80, 5, 0, 0]);
        assert_eq!(sums(&origins[3], 4), [70, 5, 1, 0]);
        // By uncertain clocks two ranks may wait for each other.
        let circle = [vec![wait((0, 10), 1)], vec![wait((5, 12), 0)]];
        assert_eq!(sums(&super::origins(&circle)[0], 2), [0, 10]);
    }

    /// Rank 2 waits for rank 3 in two exchanges of their own, 30 and 20 long; rank 0 waits 8 for its own partner, rank 1, and later 45 for rank 2: 42 of that is what
    /// rank 2 waited longer for rank 3.
    #[test]
    fn a_delay_of_earlier_exchanges_is_passed_on() {
        let of_two = vec![wait((10, 40), 3), wait((60, 80), 3)];
        let waits = [vec![wait((50, 58), 1), wait((200, 245), 2)], Vec::new(), of_two, Vec::new()];
        assert_eq!(sums(&origins(&waits)[0], 4), [0, 8, 3, 42]);
        // Who computes while it waits is no later for it.
        let waits = waits.map(|own| own.into_iter().map(|wait| RankWait { is_held: false, ..wait }).collect());
        assert_eq!(sums(&origins(&waits)[0], 4), [0, 8, 45, 0]);
    }
}
