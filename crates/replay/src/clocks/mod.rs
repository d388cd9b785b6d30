//! The clocks of the ranks: how far each is from that of the first rank, and how certain that is.
//!
//! The same collective operation ends on all its ranks nearly together, so the differences of its ends are those of the
//! clocks, and their median is robust against single operations that end late somewhere.

mod drift;
mod estimate;
mod order;
mod possible;
mod set;
mod strangers;

use crate::collectives::RankExchanges;
use crate::ranks::TrainingJob;
use perf4sight_base::units::{Milliseconds, Percent};
use set::ClockSetting;
use std::collections::BTreeSet;

/// The clocks of a job's ranks.
#[derive(Debug, Clone, PartialEq)]
pub struct RankClocks {
    /// The clock of each rank, in the order of [`TrainingJob::ranks`].
    pub ranks: Vec<RankClock>,
    /// Nanoseconds from the Unix epoch, by the first rank's clock, to zero of the common timeline: the beginning of its
    /// first step.
    pub origin: i64,
    /// Which traces look like those of different jobs, in sentences.
    pub strangers: Vec<String>,
}

/// The clock of a rank.
#[derive(Debug, Clone, PartialEq)]
pub struct RankClock {
    /// The offset of its trace from the Unix epoch, in nanoseconds.
    base: i64,
    /// Nanoseconds that are added to its time to get that of the first rank.
    pub offset: f64,
    /// The 95 % interval of the offset that was found; none for a rank that shares no exchange with others, whose clock
    /// is taken as it is.
    pub interval: Option<[f64; 2]>,
    /// The number of exchanges that the offset rests on.
    pub exchanges: usize,
    /// How much faster it goes, if the trace is long enough to show it.
    pub drift: Option<ClockDrift>,
    /// When it was set.
    settings: Vec<ClockSetting>,
    /// Whether it is that of the first rank, for both ran on one host.
    pub is_first: bool,
}

/// The drift of a clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockDrift {
    /// Nanoseconds that have to be added per nanosecond.
    pub rate: f64,
    /// The 99.9 % interval of the rate.
    pub interval: [f64; 2],
    /// The moment, from the Unix epoch by its own clock, at which [`RankClock::offset`] holds; in nanoseconds.
    pub around: i64,
}

impl RankClocks {
    /// Estimates the clocks of a job's ranks from its exchanges. A clock whose interval contains zero is left as it is:
    /// the ranks of one host share their clock.
    pub fn estimate(job: &TrainingJob, exchanges: &RankExchanges) -> Self {
        let mut parts = estimate::parts(job, exchanges);
        let settings: Vec<Vec<ClockSetting>> =
            (0..job.ranks.len()).map(|rank| set::find_settings(rank, &parts)).collect();
        for part in parts.iter_mut().flatten() {
            [part.start, part.end] = [part.start, part.end].map(|moment| set::without(&settings[part.rank], moment));
        }
        let ranks = estimate::clocks(job, &parts).into_iter().zip(settings);
        let ranks = ranks.map(|(clock, settings)| RankClock { settings, ..clock }).collect();
        let strangers = strangers::unrelated_ranks(job, &parts);
        let first = &job.ranks[0];
        let begin = job.steps[0].of[0];
        RankClocks { origin: first.steps[begin].window.0.saturating_add(first.trace.header.base), ranks, strangers }
    }

    /// A moment of a rank's trace on the common timeline, in nanoseconds.
    pub fn common(&self, rank: usize, moment: i64) -> i64 {
        let clock = &self.ranks[rank];
        let own = set::without(&clock.settings, moment.saturating_add(clock.base));
        own.saturating_add(clock.correction(own)).saturating_sub(self.origin)
    }

    /// A moment of the common timeline in the trace of the first rank, whose clock all are compared with; in nanoseconds.
    pub fn in_first_trace(&self, moment: i64) -> i64 {
        moment.saturating_add(self.origin).saturating_sub(self.ranks[0].base)
    }

    /// The largest half of an interval of an offset in nanoseconds: how far moments of different ranks may be off.
    pub fn uncertainty(&self) -> f64 {
        let half = |clock: &RankClock| clock.interval.map_or(0.0, |[low, high]| (high - low) / 2.0);
        self.ranks.iter().map(half).fold(0.0, f64::max)
    }

    /// The steps in which a clock was set, by their index in [`TrainingJob::steps`].
    pub(crate) fn set_during(&self, job: &TrainingJob) -> BTreeSet<usize> {
        self.ranks.iter().enumerate().flat_map(|(rank, clock)| set::steps(job, rank, &clock.settings)).collect()
    }

    /// Warnings about clocks that are not known.
    pub fn warnings(&self, job: &TrainingJob) -> Vec<String> {
        let unknown = self.ranks.iter().zip(&job.ranks).skip(1).filter(|(clock, _)| clock.interval.is_none());
        let unknown = unknown.map(|(_, rank)| {
            format!("rank {} shares no exchange with the others: its clock is taken as it is", rank.number)
        });
        let step = job.steps.iter().map(|step| {
            let (begin, end) = job.ranks[0].steps[step.of[0]].window;
            end - begin
        });
        let shortest = step.min().unwrap_or(0) as f64;
        let uncertain = (self.uncertainty() > COARSE * shortest).then(|| {
            let [own, step] = [self.uncertainty(), shortest].map(|time| Milliseconds(time / 1e6));
            format!("the clocks of the ranks are known to {own} only, and the shortest step takes {step}: waiting is as uncertain")
        });
        let drifts = self.ranks.iter().zip(&job.ranks).filter_map(|(clock, rank)| Some((rank.number, clock.drift?)));
        let drifts = drifts.filter(|(_, drift)| drift.rate.abs() > FAST).map(|(rank, drift)| {
            let percent = Percent(100.0 * drift.rate.abs());
            let slower = if drift.rate > 0.0 { "slower" } else { "faster" };
            format!("the clock of rank {rank} goes {percent} {slower} than that of the first rank; its times are corrected by that")
        });
        let unsure =
            self.ranks.iter().zip(&job.ranks).enumerate().filter(|(rank, _)| !job.renumbered.contains_key(rank));
        let by_steps = unsure.filter(|(_, (clock, _))| is_whole_steps(clock.offset, median_step(job)));
        let by_steps = by_steps.map(|(_, (clock, rank))| {
            format!(
                "the clock of rank {} is off by about as long as whole steps take, {}: if its host is that of the first rank, its steps are numbered otherwise",
                rank.number,
                Milliseconds(clock.offset.abs() / 1e6)
            )
        });
        let set = self.ranks.iter().enumerate().filter_map(|(rank, clock)| set::sentence(job, rank, &clock.settings));
        unknown
            .chain(uncertain)
            .chain(by_steps)
            .chain(set)
            .chain(drifts)
            .chain(self.strangers.iter().cloned())
            .collect()
    }
}

/// Steps that are numbered otherwise are by a few.
const FEW_STEPS: f64 = 3.0;
/// The share of a step that an offset is off whole steps at most.
const ABOUT: f64 = 0.15;

/// Whether an offset is about as long as one step or a few.
fn is_whole_steps(offset: f64, step: f64) -> bool {
    let steps = offset.abs() / step.max(1.0);
    (1.0 - ABOUT..FEW_STEPS + ABOUT).contains(&steps) && (steps - steps.round()).abs() < ABOUT
}

/// The median step of the first rank in nanoseconds.
fn median_step(job: &TrainingJob) -> f64 {
    let length = |step: &crate::ranks::JobStep| {
        let (begin, end) = job.ranks[0].steps[step.of[0]].window;
        (end - begin) as f64
    };
    order::median(&job.steps.iter().map(length).collect::<Vec<_>>())
}

/// Clocks that NTP slews go wrong by at most this rate (RFC 5905); a faster one is reported.
const FAST: f64 = 500e-6;

/// From this share of a step on, the uncertainty of clocks is reported.
const COARSE: f64 = 0.02;

impl RankClock {
    /// Nanoseconds to add at a moment of its own time.
    fn correction(&self, moment: i64) -> i64 {
        let drift = self.drift.map_or(0.0, |drift| drift.rate * moment.saturating_sub(drift.around) as f64);
        (self.offset + drift).round() as i64
    }
}
