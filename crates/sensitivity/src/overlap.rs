//! How far reading data and computing overlap.
//!
//! The published model takes the slower of the two. A job without prefetching takes their sum. Most jobs are between
//! these: an epoch takes `(reading^(1/q) + computing^(1/q))^q`. Where both take as long, that is `2^q` times as long as
//! either, so one measurement there determines `q`.

use serde::{Deserialize, Serialize};

/// The overlap of reading and computing, as an exponent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReadOverlap {
    /// `q`: 0 where reading and computing overlap, 1 where one waits for the other.
    pub in_turn: f64,
}

/// A measured overlap with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeasuredOverlap {
    /// The most likely `q`.
    pub in_turn: f64,
    /// The interval of `q`; 0 to 1 where the measurement did not narrow it.
    #[serde(default = "anywhere")]
    pub between: [f64; 2],
}

fn anywhere() -> [f64; 2] {
    ReadOverlap::BOUNDS.map(|overlap| overlap.in_turn)
}

impl MeasuredOverlap {
    /// A measured overlap without uncertainty.
    pub fn exactly(overlap: ReadOverlap) -> Self {
        MeasuredOverlap { in_turn: overlap.in_turn, between: [overlap.in_turn; 2] }
    }

    /// The most likely overlap.
    pub fn likely(self) -> ReadOverlap {
        ReadOverlap { in_turn: self.in_turn }
    }

    /// The ends of the interval: the one with the most overlap first.
    pub fn ends(self) -> [ReadOverlap; 2] {
        self.between.map(|in_turn| ReadOverlap { in_turn })
    }

    /// The same, with an upper end that allows no overlap at all.
    #[must_use]
    pub fn at_least(self) -> Self {
        MeasuredOverlap { between: [self.between[0], ReadOverlap::IN_TURN.in_turn], ..self }
    }
}

/// Reading counts as slowing an epoch down where the epoch takes this many times as long as its computing.
pub const LONGER: f64 = 1.05;
/// Bisection steps, enough for the precision of `f64`.
const HALVINGS: usize = 60;

impl ReadOverlap {
    /// Complete overlap, as published.
    pub const SIDE_BY_SIDE: ReadOverlap = ReadOverlap { in_turn: 0.0 };
    /// No overlap: one after the other.
    pub const IN_TURN: ReadOverlap = ReadOverlap { in_turn: 1.0 };
    /// The two bounds of every overlap.
    pub const BOUNDS: [ReadOverlap; 2] = [ReadOverlap::SIDE_BY_SIDE, ReadOverlap::IN_TURN];

    /// Seconds of an epoch, from the seconds of reading alone and computing alone.
    ///
    /// ```
    /// use perf4sight_sensitivity::ReadOverlap;
    /// assert_eq!(ReadOverlap::SIDE_BY_SIDE.epoch(3.0, 4.0), 4.0);
    /// assert_eq!(ReadOverlap::IN_TURN.epoch(3.0, 4.0), 7.0);
    /// // Pythagoras
    /// assert_eq!(ReadOverlap { in_turn: 0.5 }.epoch(3.0, 4.0), 5.0);
    /// ```
    pub fn epoch(self, reading: f64, computing: f64) -> f64 {
        let (longer, shorter) = (reading.max(computing), reading.min(computing));
        match self.in_turn > 0.0 && longer > 0.0 {
            true => longer * (1.0 + (shorter / longer).powf(1.0 / self.in_turn)).powf(self.in_turn),
            false => longer,
        }
    }

    /// Seconds of reading alone, from those of an epoch and of computing; none where computing took all the time.
    pub fn reading(self, epoch: f64, computing: f64) -> Option<f64> {
        let left = |exponent: f64| epoch * (1.0 - (computing / epoch).powf(1.0 / exponent)).powf(exponent);
        (epoch > computing).then(|| if self.in_turn > 0.0 { left(self.in_turn) } else { epoch })
    }

    /// The longest reading that does not slow an epoch down: as long as computing, but the epoch takes at most
    /// [`LONGER`] times as long as computing.
    pub fn longest_hidden_reading(self, computing: f64) -> f64 {
        let share = (LONGER.powf(1.0 / self.in_turn) - 1.0).powf(self.in_turn);
        if self.in_turn > 0.0 { computing * share.min(1.0) } else { computing }
    }

    /// The overlap that explains an epoch; outside the two bounds, the nearer one. None where reading or computing
    /// takes so little that both bounds nearly agree.
    pub fn explaining(reading: f64, computing: f64, epoch: f64) -> Option<Self> {
        let [least, most] = ReadOverlap::BOUNDS.map(|overlap| overlap.epoch(reading, computing));
        (most > LONGER * least).then(|| {
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..HALVINGS {
                let middle = f64::midpoint(low, high);
                let longer = ReadOverlap { in_turn: middle }.epoch(reading, computing) > epoch.max(least);
                if longer { high = middle } else { low = middle }
            }
            ReadOverlap { in_turn: if epoch <= least { 0.0 } else { high } }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_measured_is_explained(in_turn in 0.05..=1.0, reading in 1.0..8.0, computing in 1.0..8.0) {
            let overlap = ReadOverlap { in_turn };
            let epoch = overlap.epoch(reading, computing);
            prop_assert!((reading.max(computing)..=reading + computing + 1e-9).contains(&epoch));
            let placed = ReadOverlap::explaining(reading, computing, epoch).unwrap();
            prop_assert!((placed.epoch(reading, computing) - epoch).abs() < 1e-6);
        }

        #[test]
        fn reading_is_told_from_an_epoch(in_turn in 0.1..=1.0, reading in 1.0..8.0) {
            let overlap = ReadOverlap { in_turn };
            prop_assert!((overlap.reading(overlap.epoch(reading, 2.0), 2.0).unwrap() - reading).abs() < 1e-3 * reading);
        }
    }

    #[test]
    fn one_epoch_where_both_take_as_long_tells_the_exponent() {
        // 2^0.5 = 1.414
        let placed = ReadOverlap::explaining(2.0, 2.0, 2.0 * 2f64.sqrt()).unwrap();
        assert!((placed.in_turn - 0.5).abs() < 1e-9, "{placed:?}");
        assert_eq!(ReadOverlap::explaining(2.0, 2.0, 1.9), Some(ReadOverlap::SIDE_BY_SIDE));
        assert!((ReadOverlap::explaining(2.0, 2.0, 5.0).unwrap().in_turn - 1.0).abs() < 1e-9);
        assert_eq!(ReadOverlap::explaining(0.05, 2.0, 2.0), None, "2.05 s at most");
        assert_eq!(ReadOverlap::SIDE_BY_SIDE.reading(2.0, 2.0), None);
    }

    /// Without overlap, 5 % of computing is left for reading; with complete overlap, all of it.
    #[test]
    fn reading_has_as_much_room_as_holds_nothing_back() {
        assert_eq!(ReadOverlap::SIDE_BY_SIDE.longest_hidden_reading(2.0), 2.0);
        assert!((ReadOverlap::IN_TURN.longest_hidden_reading(2.0) - 0.1).abs() < 1e-9);
        assert_eq!(ReadOverlap { in_turn: 0.001 }.longest_hidden_reading(2.0), 2.0, "an epoch is 0.07 % longer");
        let overlap = ReadOverlap { in_turn: 0.5 };
        assert!((overlap.epoch(overlap.longest_hidden_reading(2.0), 2.0) - 2.1).abs() < 1e-9);
    }
}
