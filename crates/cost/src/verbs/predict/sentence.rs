//! The answer first, in a sentence: does it fit, how sure that is, and how large a batch may be.

use super::answer::{Answer, Point};
use super::devices::UNLIMITED;
use super::tell::Answers;
use crate::fingerprint::{Call, Counts, Verdict};
use crate::verbs::verdict::sure;
use perf4sight_base::units::{Bytes, grouped};

/// More networks than this are not named.
const NAMED: usize = 5;

impl Answers {
    /// Whether what was asked for fits; `asked` is the limit it was asked for, where it was not the device's.
    pub fn sentences(&self, asked: Option<Bytes>) -> String {
        match self.answers.as_slice() {
            [] => String::new(),
            [answer] => self.sentence(answer, asked),
            answers => self.of_many(answers, asked),
        }
    }

    /// What is said of one network: of the largest batch asked for, and where it may not fit of the largest that does.
    pub fn sentence(&self, answer: &Answer, asked: Option<Bytes>) -> String {
        if self.fingerprints.memory.is_none() {
            return String::new();
        }
        let fits = |point: &&Point| point.fits();
        let largest = |points: &mut dyn Iterator<Item = &Point>| -> Option<String> {
            let point = points.max_by_key(|point| point.batch)?;
            Some(self.judged(answer, point, asked))
        };
        let all_fit = answer.points.iter().all(|point| fits(&point));
        let fitting = largest(&mut answer.points.iter().filter(fits).filter(|_| !all_fit));
        let asked_for = largest(&mut answer.points.iter());
        let safe = answer.max_batch.map(|max| match max.safe {
            0 => "not even a single sample is safe".to_owned(),
            safe => format!("the largest safe batch is {}", grouped(safe)),
        });
        fitting.into_iter().chain(asked_for).chain(safe).collect::<Vec<_>>().join("; ")
    }

    /// "a step of 16 samples needs 5.10 GiB and fits into 8 GiB (> 99.9 % sure)".
    fn judged(&self, answer: &Answer, point: &Point, asked: Option<Bytes>) -> String {
        let step = step(point.batch);
        let tensors = answer.limit.is_some_and(|limit| limit.counts == Counts::Tensors);
        let need = point.need.map_or(String::new(), |need| need.to_string());
        // The tables say what a step takes in all.
        let whole = point.memory.as_ref().filter(|_| tensors);
        let of = whole.map(|memory| format!(" for its tensors, of {} in all,", memory.value)).unwrap_or_default();
        let needs = match self.believed(point) {
            Some(believed) => format!("{step} needs {believed}"),
            None => format!("{step} needs {need}{of}"),
        };
        let ended = needs.trim_end_matches(',');
        let place = self.place(answer, asked);
        match point.verdict {
            None if self.fingerprints.are_priors() => format!("{ended}; {UNLIMITED}"),
            None if asked.is_some() => format!("{needs}; whether it fits into {place} the published method cannot say"),
            None => format!("{needs}; nothing says how much {place} gives it"),
            Some(Verdict { call: Call::Fits, fits }) => format!("{needs} and fits into {place} ({} sure)", sure(fits)),
            Some(Verdict { call: Call::DoesNotFit, fits }) => {
                format!("{needs} and does not fit into {place} ({} sure)", sure(1.0 - fits))
            }
            Some(Verdict { call: Call::Borderline, fits }) => {
                format!("{ended}: whether it fits into {place} is open ({} that it does)", sure(fits))
            }
        }
    }

    /// "691 MiB for its tensors, of 870 MiB – 2.54 GiB in all," of a device that nobody measured.
    fn believed(&self, point: &Point) -> Option<String> {
        let interval = point.memory.as_ref().filter(|_| self.fingerprints.are_priors())?.interval?;
        Some(format!("{} for its tensors, of {} – {} in all,", point.tensors?, interval.low, interval.high))
    }

    /// What a step must fit into.
    fn place(&self, answer: &Answer, asked: Option<Bytes>) -> String {
        let device = &self.fingerprints.subject().device;
        match (asked, answer.limit) {
            (Some(asked), _) => asked.in_full(),
            (None, None) => device.clone(),
            (None, Some(limit)) => match limit.counts {
                Counts::All => format!("the {} of {device}", limit.bytes.in_full()),
                Counts::Tensors => format!("the {} that the profile of {device} allowed them", limit.bytes.in_full()),
            },
        }
    }

    fn of_many(&self, answers: &[Answer], asked: Option<Bytes>) -> String {
        if answers.iter().flat_map(|answer| &answer.points).all(|point| point.verdict.is_none()) {
            return if self.fingerprints.are_priors() { UNLIMITED.to_owned() } else { String::new() };
        }
        let unfit: Vec<&str> = unfit(answers).map(|answer| answer.network.as_str()).collect();
        let place = self.place(&answers[0], asked);
        let (fit, all) = (grouped((answers.len() - unfit.len()) as u64), grouped(answers.len() as u64));
        let sentence = format!("{fit} of {all} networks fit into {place} at every batch size asked for");
        match unfit.is_empty() {
            true => sentence,
            false => format!("{sentence}; not sure to fit: {}", listed(&unfit)),
        }
    }
}

/// "a step of 16 samples".
pub(super) fn step(batch: u64) -> String {
    let samples = if batch == 1 { "sample" } else { "samples" };
    format!("a step of {} {samples}", grouped(batch))
}

/// Networks by name, as far as anybody reads on.
pub(super) fn listed(networks: &[&str]) -> String {
    match networks.len().checked_sub(NAMED) {
        Some(more @ 1..) => format!("{} and {more} more", networks[..NAMED].join(", ")),
        _ => networks.join(", "),
    }
}

/// Networks of which some batch size asked for may not fit.
pub(super) fn unfit(answers: &[Answer]) -> impl Iterator<Item = &Answer> {
    answers.iter().filter(|answer| !answer.points.iter().all(Point::fits))
}
