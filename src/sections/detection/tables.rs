//! What came of a sweep as tables and a sentence.

use super::timing::waits_for_data;
use super::{Became, Ran, Setting, Tried, share};
use crate::report::{Cell, Column, Table, significant};
use crate::units::{Bytes, Milliseconds};

/// What each of [`Parts::each`](perf4sight_step::detection::Parts::each) is, for people.
const PARTS: [&str; 6] = ["waiting for data", "copying to the device", "forward", "backward", "optimizer", "other"];

/// "batch 4, 2 workers, prefetch 2".
pub(super) fn words(setting: Setting) -> String {
    let Setting { batch, num_workers, prefetch_factor } = setting;
    match num_workers {
        0 => format!("batch {batch}, no workers"),
        1 => format!("batch {batch}, 1 worker, prefetch {prefetch_factor}"),
        _ => format!("batch {batch}, {num_workers} workers, prefetch {prefetch_factor}"),
    }
}

fn milliseconds(seconds: f64) -> Cell {
    Milliseconds(1e3 * seconds).into()
}

/// One line a setting.
pub(super) fn settings(tried: &[Tried]) -> Table {
    let columns = [
        Column::number("batch", "batch"),
        Column::number("num_workers", "workers"),
        Column::number("prefetch_factor", "prefetch"),
        Column::text("outcome", "outcome"),
        Column::number("images_per_second", "images/s"),
        Column::number("images_per_second_low", "from"),
        Column::number("images_per_second_high", "to"),
        Column::number("step_ms", "step"),
        Column::number("step_p90_ms", "9 of 10"),
        Column::number("step_p99_ms", "99 of 100"),
        Column::number("exact_step_ms", "exact step"),
        Column::number("first_steps_ms", "first steps"),
        Column::number("waiting_percent", "waiting"),
        Column::number("epoch_ms", "an epoch"),
        Column::number("resident_bytes", "resident"),
        Column::number("used_bytes", "used"),
        Column::number("loaders_bytes", "loaders"),
        Column::number("allocated_bytes", "allocated"),
        Column::number("reserved_bytes", "reserved"),
    ];
    let mut table = Table::new("Training", columns);
    for one in tried {
        let Setting { batch, num_workers, prefetch_factor } = one.setting;
        let ahead = (num_workers > 0).then_some(prefetch_factor);
        let named: [Cell; 3] = [batch.into(), num_workers.into(), ahead.into()];
        table.row(named.into_iter().chain(told(one)));
    }
    table
}

/// What became of a setting: its outcome, times and memory.
fn told(one: &Tried) -> Vec<Cell> {
    let (outcome, memory) = match &one.became {
        Became::Ran(ran) if ran.doubt.is_some() => ("doubtful", Some(ran.measured.memory)),
        Became::Ran(ran) => ("ran", Some(ran.measured.memory)),
        Became::OutOfMemory(memory) => ("does not fit", Some(*memory)),
        Became::Failed(_) => ("failed", None),
    };
    let times = one.ran().map_or([const { Cell::Missing }; 10], |ran| times(one.setting, ran));
    let bytes = |amount: Option<u64>| -> Cell { amount.map(Bytes).into() };
    let memory = [
        bytes(memory.map(|memory| memory.resident)),
        bytes(memory.map(|memory| memory.used)),
        bytes(memory.map(|memory| memory.loaders)),
        bytes(memory.and_then(|memory| memory.allocated)),
        bytes(memory.and_then(|memory| memory.reserved)),
    ];
    [Cell::from(outcome)].into_iter().chain(times).chain(memory).collect()
}

fn times(setting: Setting, Ran { measured, timing, .. }: &Ran) -> [Cell; 10] {
    let [nine_of_ten, ninety_nine] = timing.percentiles.map(|seconds| seconds.map_or(Cell::Missing, milliseconds));
    [
        timing.rate.into(),
        timing.interval.map(|(low, _)| low).into(),
        timing.interval.map(|(_, high)| high).into(),
        milliseconds(timing.plain),
        nine_of_ten,
        ninety_nine,
        milliseconds(timing.exact),
        milliseconds(timing.first),
        share(timing.waiting(measured)).into(),
        milliseconds(timing.epoch(measured.images, setting.batch)),
    ]
}

/// Where the time of an exact step goes.
pub(super) fn parts(setting: Setting, ran: &Ran) -> Table {
    let columns = [Column::text("part", "part"), Column::number("mean_ms", "mean"), Column::number("percent", "share")];
    let mut table = Table::new(format!("Where a step's time goes: {}", words(setting)), columns);
    let sum: f64 = ran.timing.parts.iter().sum();
    for (told, seconds) in PARTS.into_iter().zip(ran.timing.parts) {
        table.row([told.into(), milliseconds(seconds), share(seconds / sum).into()]);
    }
    table.row(["step".into(), milliseconds(sum), share(1.0).into()]);
    table
}

/// What is best, how sure that is, what it waits for.
pub(super) fn sentence(setting: Setting, best: &Ran, all: &[(Setting, &Ran)]) -> String {
    let timing = &best.timing;
    let (rate, waiting) = (significant(timing.rate), timing.waiting(&best.measured));
    let interval = match timing.interval {
        Some((low, high)) => {
            format!("{} to {} in 19 of 20 runs, if steps differ by chance", significant(low), significant(high))
        }
        None => "of too few steps for an interval".to_owned(),
    };
    let what = if all.len() > 1 { format!("{} is the fastest", words(setting)) } else { words(setting) };
    let low = timing.interval.map_or(0.0, |(low, _)| low);
    let may_be_as_fast = |ran: &Ran| ran.timing.interval.is_none_or(|(_, high)| high > low);
    let rivals = all.iter().filter(|(other, ran)| *other != setting && may_be_as_fast(ran)).count();
    let unsure = match rivals {
        0 => String::new(),
        1 => "; one other may be as fast".to_owned(),
        _ => format!("; {rivals} others may be as fast"),
    };
    let bottleneck = match waits_for_data(waiting) {
        true => format!(
            "it waits for data {} of a step: {}",
            share(waiting),
            if setting.num_workers == 0 {
                "let other processes load them (--num-workers)"
            } else {
                "try more --num-workers"
            }
        ),
        false => format!("the device is what takes the time: {} of a step goes by waiting for data", share(waiting)),
    };
    let resident = Bytes(best.measured.memory.resident);
    format!("{what}: {rate} images/s ({interval}){unsure}; {resident} resident; {bottleneck}.")
}
