//! What recording cost, how far corrected iterations are off plain ones, and what was recorded of them, of recordings in folders, as the
//! tables of `docs/accuracy/recording.md`: `cargo run --release -p perf4sight-breakdown --example recorded -- recording/*`. Of one that comes twice, as
//! `first/tiny_mlp` and `second/tiny_mlp`, the later one is printed next to the first.

use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::{mean, median};
use perf4sight_breakdown::{Breakdown, BreakdownOptions, RankBreakdown};
use perf4sight_record::{Recording, RecordingOverhead};
use perf4sight_traces::{EventCategory, Trace};
use std::path::Path;

fn main() -> Result<()> {
    let mut all: Vec<(String, Vec<Recorded>)> = Vec::new();
    for folder in std::env::args().skip(1) {
        let name = Path::new(&folder).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let recorded = Recorded::read(Path::new(&folder))?;
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, times)) => times.push(recorded),
            None => all.push((name, vec![recorded])),
        }
    }
    println!(
        "| recording (iterations) | plain, ms | recorded, ms | cost of recording, % (95 %) | corrected, ms (95 %) | corrected against plain | held out | iterations left out | cost in the second recording, % (95 %) |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    all.iter().for_each(|(name, times)| println!("| {name} {} |", costs(times)));
    println!(
        "\n| recording | operators | ranges | Python functions | built-in functions | added to an iteration, us | added for each event, us | iteration in the trace beyond the timed one, us | shortest operator, us | shortest built-in function, us | page faults of an iteration, by period | time of a page fault, us |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    all.iter().for_each(|(name, times)| {
        println!("| {name} | {} | {} |", times[0].events(), times[0].memory().unwrap_or_else(|| "|".to_owned()))
    });
    Ok(())
}

/// A recording of one rank.
struct Recorded {
    trace: Trace,
    rank: RankBreakdown,
    overhead: RecordingOverhead,
    /// Nanoseconds by which ranges are longer than what was timed in them, in the median.
    untimed: f64,
    recording: Recording,
}

impl Recorded {
    fn read(folder: &Path) -> Result<Self> {
        let nothing = || Error::input("has no iterations with and without recording").file(folder);
        let mut ranks = perf4sight_traces::read_ranks(&[folder.to_path_buf()])?;
        let mut rank = Breakdown::from_traces(&ranks, &BreakdownOptions::default())?.ranks.pop().ok_or_else(nothing)?;
        let trace = ranks.pop().ok_or_else(nothing)?.trace;
        let recording = Recording::next_to(&trace.file)?.ok_or_else(nothing)?;
        rank.correct(&trace, Some(&recording));
        rank.all_warnings().for_each(|warning| eprintln!("{}: {warning}", folder.display()));
        let timed = recording.wall.recorded.iter().flatten();
        let beyond = rank.iterations.iter().zip(timed).map(|(one, timed)| one.sets.total() as f64 - *timed as f64);
        let untimed = median(&beyond.collect::<Vec<f64>>());
        Ok(Recorded { trace, overhead: rank.correction.overhead.take().ok_or_else(nothing)?, rank, untimed, recording })
    }

    /// Mean nanoseconds of corrected iterations, of those that recording is measured by.
    fn corrected(&self) -> Option<f64> {
        let ordinary = self.rank.iterations.iter().zip(&self.overhead.ordinary).filter(|(_, ordinary)| **ordinary);
        let totals: Option<Vec<f64>> = ordinary.map(|(one, _)| Some(self.rank.corrected(one)?.total as f64)).collect();
        totals.map(|totals| mean(&totals))
    }

    /// `12.3 to 23.4`
    fn range(&self) -> String {
        let [low, high] = self.overhead.interval.map(|end| self.overhead.percent(end));
        format!("{low:.1} to {high:.1}")
    }

    /// The fewest and the most pages that the iterations of a period got anew, and microseconds that each made a plain iteration longer, by
    /// least squares.
    fn memory(&self) -> Option<String> {
        let faults = self.recording.faults.as_ref()?;
        let periods = faults.plain.iter().chain(&faults.recorded).filter(|period| !period.is_empty());
        let means: Vec<f64> = periods.map(|period| mean(&floats(period))).collect();
        let (least, most) = (means.iter().copied().reduce(f64::min)?, means.iter().copied().reduce(f64::max)?);
        let [pages, times] = [faults, &self.recording.wall].map(|of| floats(&of.plain.concat()));
        let (middle, time) = (mean(&pages), mean(&times));
        let squares: f64 = pages.iter().map(|page| (page - middle).powi(2)).sum();
        let together: f64 = pages.iter().zip(&times).map(|(page, one)| (page - middle) * (one - time)).sum();
        let each = if squares > 0.0 { format!("{:.2}", together / squares / 1000.0) } else { String::new() };
        Some(format!("{least:.0} to {most:.0} | {each}"))
    }

    /// How many events an iteration has of each kind, and what recording added for each of all.
    fn events(&self) -> String {
        let inside = |start: i64| {
            let later = self.rank.iterations.partition_point(|one| one.window.1 <= start);
            self.rank.iterations.get(later).is_some_and(|one| one.window.0 <= start)
        };
        let of_iterations =
            self.trace.events.iter().filter(|event| Some(event.track) == self.rank.main && inside(event.start));
        let mut durations: [Vec<i64>; 4] = Default::default();
        for event in of_iterations {
            let kind = match event.category {
                EventCategory::Operator => 0,
                EventCategory::Annotation => 1,
                EventCategory::Python if self.trace.name(event).starts_with('<') => 3,
                EventCategory::Python => 2,
                // Of GPUs, or notes of the profiler: the five programs make none.
                EventCategory::Runtime
                | EventCategory::Kernel
                | EventCategory::Copy
                | EventCategory::Set
                | EventCategory::DeviceAnnotation => {
                    continue;
                }
                EventCategory::Synchronisation | EventCategory::Overhead | EventCategory::ForwardBackward => continue,
                EventCategory::Launch | EventCategory::Other => continue,
            };
            durations[kind].push(event.end() - event.start);
        }
        let iterations = self.rank.iterations.len() as f64;
        let counts = durations.each_ref().map(|kind| kind.len() as f64 / iterations);
        let microseconds = |nanoseconds: f64| nanoseconds / 1000.0;
        let [added, untimed] = [self.overhead.added, self.untimed].map(microseconds);
        let shortest = |kind: usize| {
            let shortest =
                durations[kind].iter().min().map(|shortest| format!("{:.3}", microseconds(*shortest as f64)));
            shortest.unwrap_or_default()
        };
        let counts_told = counts.map(|count| format!("{count:.0}")).join(" | ");
        let each = added / counts.iter().sum::<f64>();
        format!("{counts_told} | {added:.1} | {each:.2} | {untimed:.1} | {} | {}", shortest(0), shortest(3))
    }
}

fn floats(numbers: &[u64]) -> Vec<f64> {
    numbers.iter().map(|&number| number as f64).collect()
}

/// The numbers of a row.
fn costs(times: &[Recorded]) -> String {
    let first = &times[0];
    let overhead = &first.overhead;
    let milliseconds = |nanoseconds: f64| format!("{:.3}", nanoseconds / 1e6);
    let corrected = first.corrected();
    let ends = corrected.zip(overhead.either_way());
    let ends = ends.map(|(mean, ends)| format!(" ({})", ends.map(|end| milliseconds(mean + end)).join(" to ")));
    let corrected_told = corrected.map(|mean| format!("{}{}", milliseconds(mean), ends.unwrap_or_default()));
    let percent = |percent: Option<f64>| percent.map(|percent| format!("{percent:+.1} %")).unwrap_or_default();
    let left_out = overhead.ordinary.iter().filter(|ordinary| !**ordinary).count();
    let again: Vec<String> = times[1..].iter().map(Recorded::range).collect();
    let cells = [
        format!("({})", overhead.ordinary.len()),
        milliseconds(overhead.plain),
        milliseconds(overhead.recorded),
        first.range(),
        corrected_told.unwrap_or_default(),
        percent(corrected.map(|mean| overhead.percent_off(mean))),
        percent(overhead.off),
        left_out.to_string(),
        again.join(", "),
    ];
    cells.join(" | ")
}
