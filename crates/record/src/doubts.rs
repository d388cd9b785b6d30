//! Reasons to doubt a measured overhead of recording, in sentences.

use crate::long_iterations::LongIterations;
use crate::overhead::{AddedOverhead, DOUBTFUL, OverheadClock, RecordingOverhead, average};
use crate::recording::PeriodTimes;

/// More long iterations than this share of all are many.
const MANY: f64 = 0.1;
/// Nanoseconds that the system needs to give a process a new page of memory: about 700 to 1,000 on one machine
/// (`docs/accuracy/recording.md`).
const PAGE: f64 = 700.0;

/// Whether long iterations are many, or make the mean much longer.
pub(crate) fn weighs(long: &LongIterations) -> bool {
    long.count as f64 > MANY * long.of as f64 || long.adds > DOUBTFUL * long.others
}

/// Whether wall-clock time and processor time give different overheads. If wall-clock time is used, the overhead in
/// processor time may be larger for a script that waits or works in several threads.
pub(crate) fn clocks_differ(wall: &AddedOverhead, processor: &AddedOverhead, clock: OverheadClock) -> bool {
    let more = (wall.mean - processor.mean) / wall.plain;
    match clock {
        OverheadClock::Processor => more.abs() > DOUBTFUL,
        OverheadClock::Wall => more > DOUBTFUL,
    }
}

pub(crate) fn clocks(wall: &AddedOverhead, processor: &AddedOverhead, clock: OverheadClock) -> String {
    let therefore = match clock {
        OverheadClock::Processor => "other programs used the machine, and what those took is not subtracted",
        OverheadClock::Wall => {
            "other programs used the machine, or the script waited more; either may be the cost of recording, which is that much less sure"
        }
    };
    format!(
        "compared with those without recording, recorded iterations take {:+.3} ms by the wall clock and {:+.3} ms by processor time: {therefore}",
        wall.mean / 1e6,
        processor.mean / 1e6
    )
}

/// The doubt that the speed changed between the first and the last plain iterations.
pub(crate) fn speed([first, last]: [f64; 2]) -> Option<String> {
    let change = last / first - 1.0;
    (change.abs() > DOUBTFUL).then(|| {
        let percent = 100.0 * change;
        format!("iterations without recording took {percent:+.0} % after the recorded ones, compared with before: speed changed meanwhile")
    })
}

/// The doubt that iterations without recording get many more new pages of memory in some periods than in others, which
/// changes their time. Pages of recorded iterations are not compared, because they include those of the profiler.
pub(crate) fn memory(faults: &PeriodTimes, plain: f64) -> Option<String> {
    let pages = || faults.plain.iter().filter_map(|period| average(period));
    let (least, most) = (pages().reduce(f64::min)?, pages().reduce(f64::max)?);
    let share = PAGE * (most - least) / plain;
    (share > DOUBTFUL).then(|| {
        format!(
            "the iterations without recording get {least:.0} to {most:.0} pages of memory anew from the system, in one period or another; \
             so many take some {:.0} % of an iteration. Perhaps an allocator gives memory back and asks for it again: to try, record -- \
             env MALLOC_TRIM_THRESHOLD_=1000000000 MALLOC_MMAP_MAX_=0 before the command (docs/accuracy/recording.md)",
            100.0 * share
        )
    })
}

pub(crate) fn faster([low, high]: [f64; 2]) -> String {
    let (least, most) = (-high, -low);
    format!(
        "recorded iterations took {least:.1} to {most:.1} % less than those without recording, which recording cannot do"
    )
}

/// The doubt that the overhead may be zero or seems negative; none if it is certainly positive.
pub(crate) fn cost(overhead: &RecordingOverhead) -> Option<String> {
    let [low, high] = overhead.interval.map(|nanoseconds| overhead.percent(nanoseconds));
    if high < 0.0 {
        let why = match overhead.varies {
            Some([least, most]) => format!(
                "iterations vary too much to know what it costs ({:.3} to {:.3} ms without it), or something else changed meanwhile",
                least / 1e6,
                most / 1e6
            ),
            None => "something else changed meanwhile".to_owned(),
        };
        return Some(format!("{}: {why}; nothing is subtracted", faster([low, high])));
    }
    let taken = overhead.percent(overhead.added.max(0.0));
    let taken = if taken > 0.0 { format!("{taken:.1} % were subtracted") } else { "nothing was subtracted".to_owned() };
    (low <= 0.0).then(|| {
        format!("the cost of recording is not known here ({low:+.1} to {high:+.1} % of an iteration); {taken}")
    })
}

/// The doubt that the correction was wrong for the iterations it was tested on.
pub(crate) fn correction_doubt(off: f64, together: bool) -> Option<String> {
    (off.abs() > 100.0 * DOUBTFUL).then(|| match together {
        true => format!("the correction is unreliable: tested on iterations it had not seen, it was {off:+.0} % off"),
        false => {
            format!(
                "recorded iterations are {off:+.0} % off those without recording, and nothing of that is subtracted"
            )
        }
    })
}
