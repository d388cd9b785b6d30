//! The results of a sweep as tables and a sentence.

use super::store::Circumstances;
use super::timing::{StepTiming, waits_for_data};
use super::{RanSetting, SettingResult, SweepSetting, TriedSetting, share};
use perf4sight_base::stats::mean;
use perf4sight_base::units::{Bytes, Milliseconds, count_text};
use perf4sight_report::{Table, TableBuilder, TableColumn, significant};
use perf4sight_step::detection::StepSeconds;
use std::collections::BTreeMap;

/// Titles of the parts in [`StepSeconds::in_order`](perf4sight_step::detection::StepSeconds::in_order).
pub(super) const PARTS: [&str; 6] =
    ["waiting for data", "copying to the device", "forward", "backward", "optimizer", "other"];

/// "batch 4, 2 workers, prefetch 2".
pub(super) fn setting_text(setting: SweepSetting) -> String {
    format!("batch {}, {}", setting.batch, loading(setting.num_workers, setting.prefetch_factor))
}

/// "2 workers, prefetch 2".
pub(super) fn loading(num_workers: u64, prefetch_factor: u64) -> String {
    match num_workers {
        0 => "no workers".to_owned(),
        1 => format!("1 worker, prefetch {prefetch_factor}"),
        _ => format!("{num_workers} workers, prefetch {prefetch_factor}"),
    }
}

fn milliseconds(seconds: f64) -> Milliseconds {
    Milliseconds(1e3 * seconds)
}

pub(super) fn settings(tried: &[TriedSetting], epochs: u64) -> Table {
    let epoch = |one: &TriedSetting| Some(one.ran()?.timing.epoch(one.ran()?.measured.images, one.setting.batch));
    let timed = |one: &TriedSetting, of: fn(&StepTiming) -> f64| Some(milliseconds(of(&one.ran()?.timing)));
    let longer = |one: &TriedSetting| Some(share(one.ran()?.timing.exact / one.ran()?.timing.plain - 1.0));
    let waiting = |one: &TriedSetting| Some(share(one.ran()?.timing.waiting(&one.ran()?.measured)));
    let ahead = |setting: SweepSetting| (setting.num_workers > 0).then_some(setting.prefetch_factor);
    TableBuilder::new("Training", tried)
        .number("batch", "batch", |one| one.setting.batch)
        .number("num_workers", "workers", |one| one.setting.num_workers)
        .number("prefetch_factor", "prefetch", |one| ahead(one.setting))
        .text("outcome", "outcome", |one| outcome(one))
        .number("images_per_second", "images/s", |one| Some(one.ran()?.timing.rate))
        .number("images_per_second_low", "from", |one| Some(one.ran()?.timing.interval?.0))
        .number("images_per_second_high", "to", |one| Some(one.ran()?.timing.interval?.1))
        .number("step_ms", "step", |one| timed(one, |timing| timing.plain))
        .number("step_p90_ms", "9 of 10", |one| one.ran()?.timing.percentiles[0].map(milliseconds))
        .number("step_p99_ms", "99 of 100", |one| one.ran()?.timing.percentiles[1].map(milliseconds))
        .number("exact_step_ms", "exact step", |one| timed(one, |timing| timing.exact))
        .number("exact_longer_percent", "longer", |one| longer(one))
        .number("first_steps_ms", "first steps", |one| timed(one, |timing| timing.first))
        .number("waiting_percent", "waiting", |one| waiting(one))
        .number("epoch_ms", "an epoch", |one| epoch(one).map(milliseconds))
        .number("training_ms", count_text(epochs, "epoch"), |one| {
            epoch(one).map(|epoch| milliseconds(epochs as f64 * epoch))
        })
        .number("resident_bytes", "resident", |one| Some(Bytes(one.memory()?.resident)))
        .number("used_bytes", "used", |one| Some(Bytes(one.memory()?.used)))
        .number("loaders_bytes", "loaders", |one| Some(Bytes(one.memory()?.loaders)))
        .number("allocated_bytes", "allocated", |one| one.memory()?.allocated.map(Bytes))
        .number("reserved_bytes", "reserved", |one| one.memory()?.reserved.map(Bytes))
        .table()
}

fn outcome(one: &TriedSetting) -> &'static str {
    match &one.became {
        SettingResult::Ran(ran) if ran.doubt.is_some() => "doubtful",
        SettingResult::Ran(ran) if ran.disturbance.is_some() => "disturbed",
        SettingResult::Ran(_) => "ran",
        SettingResult::OutOfMemory(_) => "does not fit",
        SettingResult::Spared => "not tried: less did not fit",
        SettingResult::Failed(_) => "failed",
    }
}

/// The parts of the time of an exact step.
pub(super) fn parts(setting: SweepSetting, ran: &RanSetting) -> Table {
    let sum: f64 = ran.timing.parts.iter().sum();
    let trunk = ["of forward, the backbone", "of backward, the backbone"].into_iter().zip(trunk(ran));
    let trunk = trunk.filter_map(|(part, seconds)| Some((part, seconds?)));
    let rows = PARTS.into_iter().zip(ran.timing.parts).chain([("step", sum)]).chain(trunk);
    TableBuilder::new(format!("Where a step's time goes: {}", setting_text(setting)), rows)
        .text("part", "part", |(part, _)| *part)
        .number("mean_ms", "mean", |(_, seconds)| milliseconds(*seconds))
        .number("percent", "share", |(_, seconds)| share(seconds / sum))
        .table()
}

/// Mean seconds of an exact step that the backbone takes, forward and backward.
pub(super) fn trunk(ran: &RanSetting) -> [Option<f64>; 2] {
    let parts = &ran.measured.exact.parts;
    let mean = |of: &dyn Fn(&StepSeconds) -> Option<f64>| {
        let known: Vec<f64> = parts.iter().filter_map(of).collect();
        (known.len() == parts.len()).then(|| mean(&known))
    };
    [mean(&|parts| parts.trunk_forward), mean(&|parts| parts.trunk_backward)]
}

/// The state of the machine while settings ran; empty where it reported nothing.
pub(super) fn machine(ran: &[(SweepSetting, &RanSetting)]) -> Table {
    let columns = [
        TableColumn::text("setting", "setting"),
        TableColumn::text("what", "what"),
        TableColumn::text("name", "of"),
        TableColumn::number("value", "value"),
        TableColumn::text("unit", "unit"),
    ];
    let mut table = Table::new("The machine meanwhile", columns);
    for (setting, ran) in ran {
        let reported: [(&str, &BTreeMap<String, f64>, &str); 4] = [
            ("use", &ran.seen.uses, "%"),
            ("clock", &ran.seen.clocks, "MHz"),
            ("power", &ran.seen.powers, "W"),
            ("highest temperature", &ran.seen.temperatures, "degrees C"),
        ];
        for (what, values, unit) in reported {
            for (name, value) in values {
                table.row([
                    setting_text(*setting).into(),
                    what.into(),
                    name.as_str().into(),
                    (*value).into(),
                    unit.into(),
                ]);
            }
        }
    }
    table
}

/// The best setting of those that ran.
pub(super) struct BestSetting<'a> {
    pub setting: SweepSetting,
    pub best: &'a RanSetting,
    pub ran: &'a [(SweepSetting, &'a RanSetting)],
    /// Epochs of the whole training.
    pub epochs: u64,
    /// Processors of the machine that the training does not compute with, where known.
    pub processors: Option<u64>,
    pub circumstances: &'a Circumstances,
}

impl BestSetting<'_> {
    /// The best setting, its uncertainty, its memory and its bottleneck.
    pub fn sentence(&self) -> String {
        let place = match (self.ran.len(), self.rivals()) {
            (..=1, _) => "",
            (_, 0) => " is the fastest",
            (_, 1..) => " is among the fastest",
        };
        let (what, rate, interval) = (setting_text(self.setting), significant(self.best.timing.rate), self.interval());
        let doubt = self.unverified().map_or(String::new(), |why| format!("; not verified: {why}"));
        format!(
            "{what}{place}: {rate} images/s ({interval}){}{doubt}; {}; {}; {}.",
            self.rivals_text(),
            self.memory(),
            self.time(),
            self.bottleneck()
        )
    }

    /// Why it is not certain that it is the best: settings were disturbed, and may be faster, or slower beside it, than they seem.
    pub fn unverified(&self) -> Option<String> {
        let disturbed = self.ran.iter().filter(|(_, ran)| ran.disturbance.is_some()).count();
        let own = self.best.disturbance.as_ref();
        match (disturbed, self.ran.len(), own) {
            (0, ..) => None,
            (_, 1, Some(how)) => Some(how.clone()),
            (_, all, Some(how)) => Some(format!("{disturbed} of {all} settings were disturbed, this one too: {how}")),
            (_, all, None) => Some(format!("{disturbed} of {all} settings were disturbed, but not this one")),
        }
    }

    fn interval(&self) -> String {
        match self.best.timing.interval {
            Some((low, high)) => {
                format!("{} to {} in 19 of 20 runs, if steps differ by chance", significant(low), significant(high))
            }
            None => "of too few steps for an interval".to_owned(),
        }
    }

    /// The other settings that are compared with it: a training that diverges takes other times.
    fn others(&self) -> impl Iterator<Item = &(SweepSetting, &RanSetting)> {
        let alike = |ran: &RanSetting| ran.doubt.is_none() || self.best.doubt.is_some();
        self.ran.iter().filter(move |(other, ran)| *other != self.setting && alike(ran))
    }

    fn may_be_as_fast(&self, ran: &RanSetting) -> bool {
        let low = self.best.timing.interval.map_or(0.0, |(low, _)| low);
        ran.timing.interval.is_none_or(|(_, high)| high >= low)
    }

    /// How many others may be as fast.
    pub fn rivals(&self) -> usize {
        self.others().filter(|(_, ran)| self.may_be_as_fast(ran)).count()
    }

    fn rivals_text(&self) -> String {
        match self.rivals() {
            0 => String::new(),
            1 => "; one other may be as fast".to_owned(),
            rivals => format!("; {rivals} others may be as fast"),
        }
    }

    /// Its memory, and that of the leanest other setting that may be as fast, where one is leaner.
    fn memory(&self) -> String {
        let takes = |ran: &RanSetting| ran.measured.memory.resident.saturating_add(ran.measured.memory.loaders);
        let own = takes(self.best);
        let leaner = || self.others().filter(|(_, ran)| takes(ran) < own);
        let rival = leaner().filter(|(_, ran)| self.may_be_as_fast(ran)).min_by_key(|(_, ran)| takes(ran));
        let compared =
            rival.or_else(|| leaner().min_by_key(|(_, ran)| takes(ran))).map_or(String::new(), |(setting, ran)| {
                let slower = match self.may_be_as_fast(ran) {
                    true => "may be as fast".to_owned(),
                    false => format!("is {} slower", share(1.0 - ran.timing.rate / self.best.timing.rate)),
                };
                format!(", {} more than {}, which {slower}", Bytes(own - takes(ran)), setting_text(*setting))
            });
        let loaders = if self.best.measured.memory.loaders > 0 { " with its loading processes" } else { "" };
        format!("{} resident{loaders}{compared}", Bytes(own))
    }

    fn time(&self) -> String {
        let epoch = self.best.timing.epoch(self.best.measured.images, self.setting.batch);
        let [one, all] = [epoch, self.epochs as f64 * epoch].map(|seconds| Milliseconds(1e3 * seconds));
        format!("an epoch takes {one}, {} {all}", count_text(self.epochs, "epoch"))
    }

    /// Whether data or the device is the bottleneck, and the remedy.
    pub fn bottleneck(&self) -> String {
        let waiting = self.best.timing.waiting(&self.best.measured);
        if !waits_for_data(waiting) {
            return format!("the device is what takes the time: {} of a step goes by waiting for data", share(waiting));
        }
        format!("it waits for data {} of a step: {}", share(waiting), self.remedy())
    }

    fn remedy(&self) -> String {
        let waits = |ran: &RanSetting| ran.timing.waiting(&ran.measured);
        let same =
            self.ran.iter().filter(|(other, ran)| other.batch == self.setting.batch && !waits_for_data(waits(ran)));
        if let Some((other, ran)) = same.min_by(|(_, one), (_, other)| waits(one).total_cmp(&waits(other))) {
            return format!("{} waits {}, and is no faster all the same", setting_text(*other), share(waits(ran)));
        }
        let needed = self.best.timing.workers_needed(&self.best.measured, self.setting.num_workers);
        let many = if needed == 1 { "1 loading process".to_owned() } else { format!("{needed} loading processes") };
        let more = |(other, _): &&(SweepSetting, &RanSetting)| {
            other.batch == self.setting.batch && other.num_workers >= needed
        };
        if let Some((other, ran)) = self.ran.iter().filter(more).max_by(|one, other| RanSetting::compare(one, other)) {
            let rate = significant(ran.timing.rate);
            return format!(
                "at the present loading speed {many} would be enough, but {} gave {rate} images/s",
                setting_text(*other)
            );
        }
        match self.processors.filter(|left| needed > *left) {
            Some(left) => format!(
                "{many} would keep up if the training left enough processors, and {left} are: store smaller images, or load them elsewhere"
            ),
            None => format!("{many} would keep up (num_workers)"),
        }
    }
}
