//! `report.html`: the best setting, rates over settings, the parts of a step's time, memory, and the method of
//! measurement.

use super::tables::{self, BestSetting, setting_text};
use super::{Detection, RanSetting, SettingResult, SweepSetting, TriedSetting};
use perf4sight_base::units::Bytes;
use perf4sight_report::{
    AnswerTone, Axis, BarGroup, BarLength, Block, Chart, Fact, Line, Page, Plot, Series, StackedBars, Value, sentence,
};

pub(super) fn build_page(
    asked: &Detection,
    tried: &[TriedSetting],
    answer: &BestSetting<'_>,
    warnings: &[String],
) -> Page {
    let network = &asked.task.network;
    let place = &answer.circumstances.place;
    let mut page = Page::new(format!("Training {network}"), format!("Measured on {place}, some steps of each setting"));
    page.chapter("What suits", suits(tried, answer, warnings));
    page.chapter("Settings", settings(asked, tried, answer.ran));
    page.chapter("Where a step's time goes", parts(answer));
    page.chapter("Memory", memory(answer.ran));
    page.chapter("Losses", losses(answer.best));
    page.chapter("How it was measured", origin(asked, answer));
    page
}

/// The verdict. It is cautious where one of the settings failed, was disturbed, or has steps that are not those of a
/// training.
fn suits(tried: &[TriedSetting], answer: &BestSetting<'_>, warnings: &[String]) -> Vec<Block> {
    let timing = &answer.best.timing;
    let sound = tried.iter().all(|one| match &one.became {
        SettingResult::Ran(ran) => ran.doubt.is_none() && ran.disturbance.is_none(),
        SettingResult::OutOfMemory(_) | SettingResult::Spared => true,
        SettingResult::Failed(_) => false,
    });
    let tone = if sound { AnswerTone::Good } else { AnswerTone::Caution };
    let facts = vec![
        Fact::new("images/s", timing.rate),
        Fact::new("resident", Bytes(answer.best.measured.memory.resident)),
        Fact::new("waiting for data", super::share(timing.waiting(&answer.best.measured))),
    ];
    let warnings: Vec<String> = warnings.iter().map(|warning| sentence(warning)).collect();
    let listed = (!warnings.is_empty()).then_some(Block::List(warnings));
    [Block::Verdict(tone, sentence(&answer.sentence())), Block::Headline(facts)].into_iter().chain(listed).collect()
}

/// The table, and rates over batch sizes where there are several.
fn settings(asked: &Detection, tried: &[TriedSetting], ran: &[(SweepSetting, &RanSetting)]) -> Vec<Block> {
    let mut loads: Vec<(u64, u64)> =
        ran.iter().map(|(setting, _)| (setting.num_workers, setting.prefetch_factor)).collect();
    loads.sort_unstable();
    loads.dedup();
    let series = loads.into_iter().map(|(num_workers, prefetch_factor)| {
        let of = |(setting, ran): &(SweepSetting, &RanSetting)| {
            let same = (setting.num_workers, setting.prefetch_factor) == (num_workers, prefetch_factor);
            same.then_some(Value { x: setting.batch as f64, y: ran.timing.rate, interval: ran.timing.interval })
        };
        let mut values: Vec<Value> = ran.iter().filter_map(of).collect();
        values.sort_by(|one, other| one.x.total_cmp(&other.x));
        Series::new(tables::loading(num_workers, prefetch_factor), values)
    });
    let series: Vec<Series<Value>> = series.collect();
    let chart = series.iter().any(|series| series.data.len() > 1).then(|| {
        let caption = "Images a second over batch sizes, with Student's intervals of 95 %.";
        let line = Line::new(Axis::linear("batch size"), Axis::linear("images/s"), series);
        Block::Chart(Chart::new("Rate over batch sizes", caption, Plot::Line(line)))
    });
    let failed = tried.iter().filter_map(|one| match &one.became {
        SettingResult::Failed(reason) => Some(format!("{}: {}", setting_text(one.setting), sentence(reason))),
        SettingResult::Ran(_) | SettingResult::OutOfMemory(_) | SettingResult::Spared => None,
    });
    let failed: Vec<String> = failed.collect();
    let failed = (!failed.is_empty()).then_some(Block::List(failed));
    chart.into_iter().chain([Block::Table(tables::settings(tried, asked.epochs))]).chain(failed).collect()
}

fn bars(ran: &[(SweepSetting, &RanSetting)]) -> Vec<BarGroup> {
    vec![BarGroup { name: String::new(), bars: ran.iter().map(|(setting, _)| setting_text(*setting)).collect() }]
}

fn parts(answer: &BestSetting<'_>) -> Vec<Block> {
    let series = tables::PARTS.iter().enumerate().map(|(part, name)| {
        let milliseconds: Vec<f64> = answer.ran.iter().map(|(_, ran)| 1e3 * ran.timing.parts[part]).collect();
        Series::new(*name, milliseconds)
    });
    let stacked = StackedBars {
        groups: bars(answer.ran),
        value: Axis::linear("ms"),
        series: series.collect(),
        whole: BarLength::Sum,
        keys: Vec::new(),
        intervals: Vec::new(),
    };
    let caption = "Mean parts of a step in which the device had finished at the end of each.";
    vec![
        Block::Chart(Chart::new("Parts of a step", caption, Plot::StackedBars(stacked))),
        Block::Table(tables::parts(answer.setting, answer.best)),
    ]
}

fn memory(ran: &[(SweepSetting, &RanSetting)]) -> Vec<Block> {
    let mib = |of: &dyn Fn(&RanSetting) -> u64| ran.iter().map(|(_, ran)| Bytes(of(ran)).mib()).collect::<Vec<f64>>();
    let series = vec![
        Series::new("the process", mib(&|ran| ran.measured.memory.resident)),
        Series::new("its loading processes", mib(&|ran| ran.measured.memory.loaders)),
    ];
    let stacked = StackedBars {
        groups: bars(ran),
        value: Axis::linear("MiB"),
        series,
        whole: BarLength::Sum,
        keys: Vec::new(),
        intervals: Vec::new(),
    };
    let caption = "Main memory at its peak.";
    vec![Block::Chart(Chart::new("Resident memory", caption, Plot::StackedBars(stacked)))]
}

fn losses(best: &RanSetting) -> Vec<Block> {
    let value =
        |(step, loss): (usize, &Option<f64>)| loss.map(|loss| Value { x: (step + 1) as f64, y: loss, interval: None });
    let values: Vec<Value> = best.measured.losses.iter().enumerate().filter_map(value).collect();
    let line = Line::new(Axis::linear("step"), Axis::linear("loss"), vec![Series::new("loss", values)]);
    vec![Block::Chart(Chart::new(
        "Loss of the fastest setting",
        "The sum of the network's losses in each step.",
        Plot::Line(line),
    ))]
}

fn origin(asked: &Detection, answer: &BestSetting<'_>) -> Vec<Block> {
    let task = &asked.task;
    let (measured, circumstances) = (&answer.best.measured, answer.circumstances);
    let size = task.size.map_or("the network's own".to_owned(), |size| format!("{size} px"));
    let facts = vec![
        Fact::new("network", task.network.clone()),
        Fact::new("weights", if task.weights { "of the backbone downloaded" } else { "random" }),
        Fact::new("data", task.data.display().to_string()).remark(format!("{} images", measured.images)),
        Fact::new("boxes", task.boxes.name()),
        Fact::new("shorter side of images", size),
        Fact::new("device", circumstances.place.clone()),
        Fact::new("threads", circumstances.threads.to_string()),
        Fact::new("precision", task.precision.name()),
        Fact::new("optimizer", task.optimizer.name()).remark(format!("learning rate {}", task.learning_rate)),
        Fact::new("steps", format!("{} first, {} free, {} exact", task.warm_up, task.steps, task.steps)),
        Fact::new("perf4sight", env!("CARGO_PKG_VERSION")),
    ];
    let software = circumstances.software.iter().map(|(name, what)| Fact::new(name.clone(), what.clone()));
    let host = circumstances.host.iter().map(|host| Fact::new("machine", host.clone()));
    let facts: Vec<Fact> = facts.into_iter().chain(host).chain(software).collect();
    let machine = tables::machine(answer.ran);
    let seen = (!machine.is_empty()).then_some(Block::Folded(machine));
    [Block::Facts(facts)].into_iter().chain(seen).collect()
}
