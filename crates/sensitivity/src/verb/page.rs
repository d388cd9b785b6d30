//! `report.html`: the request, the curve, and heatmaps of epochs and of the storage they need, over CPUs, memory and
//! storage.

use super::derived::doubt_words;
use super::points::MeasuredPoint;
use super::points::cpus_words;
use super::profile::{PredictedEpoch, SensitivityProfile, StorageEpoch, number};
use super::tables;
use crate::Knee;
use perf4sight_base::shell::command_text;
use perf4sight_base::units::Bytes;
use perf4sight_report::{
    Axis, Block, CellContent, CellSign, Chart, Fact, HeatCell, Heatmap, Line, Page, Plot, Reference, Series, Value,
    sentence, significant,
};
use std::collections::BTreeSet;

/// Knees closer than this share of all CPUs share a label.
const CLOSE: f64 = 0.15;

pub(super) fn build_page(profile: &SensitivityProfile) -> Page {
    let job = &profile.job;
    let mut page = Page::new(format!("What {} needs", job.name), format!("Measured: {}", command_text(&job.command)));
    page.chapter("What to request", answers(profile));
    page.chapter("Rate over CPUs", curve(profile));
    if !profile.matrix.is_empty() {
        page.chapter("Epochs over CPUs and memory", maps(profile));
    }
    if !profile.storage_matrix.is_empty() {
        page.chapter("Epochs over storage and memory", storage(profile));
    }
    page.chapter("How it was measured", origin(profile));
    page
}

fn answers(profile: &SensitivityProfile) -> Vec<Block> {
    let mut blocks: Vec<Block> = profile.answer_text().lines().map(|line| Block::Text(sentence(line))).collect();
    if let Some(requested) = &profile.request {
        let cpus = Fact::new("CPUs", requested.request.cpus);
        let doubt =
            profile.knee().filter(|knee| !knee.verified).map(|knee| format!("not verified: {}", doubt_words(knee)));
        let mut facts = vec![match doubt {
            Some(doubt) => cpus.remark(doubt),
            None => cpus,
        }];
        facts.push(memory(profile, requested.request.memory));
        facts.extend(requested.storage.map(|storage| Fact::new("MB/s of storage", storage / 1e6)));
        blocks.push(Block::Headline(facts));
        for (title, text) in
            [("Kubernetes", &requested.kubernetes), ("Slurm", &requested.slurm), ("docker", &requested.docker)]
        {
            blocks.push(Block::Source(title.to_owned(), text.clone()));
        }
    }
    let warnings: Vec<String> = profile.warnings.iter().map(|warning| sentence(warning)).collect();
    blocks.extend((!warnings.is_empty()).then_some(Block::List(warnings)));
    blocks
}

fn memory(profile: &SensitivityProfile, memory: Option<Bytes>) -> Fact {
    let known = memory.map_or("not known".to_owned(), |memory| memory.to_string());
    let fact = Fact::new("memory", known);
    match profile.rise_words().or_else(|| profile.seen_words()) {
        Some(words) => fact.remark(words),
        None => fact,
    }
}

fn curve(profile: &SensitivityProfile) -> Vec<Block> {
    let series = rates(profile);
    if series.is_empty() {
        return vec![Block::Text("Nothing was measured.".to_owned())];
    }
    let mut line = Line::new(Axis::linear("CPUs"), Axis::linear("iterations/s"), series);
    line.references = references(profile);
    let caption = "Iterations a second over CPUs, with intervals of 95 %, or the lower end where only that is known; dashed, the fewest CPUs with shares of the best rate.";
    vec![Block::Chart(Chart::new("Rate over CPUs", caption, Plot::Line(line))), Block::Table(tables::curve(profile))]
}

/// The rates that are known, and the others, which are at least the values shown.
fn rates(profile: &SensitivityProfile) -> Vec<Series<Value>> {
    let value = |point: &MeasuredPoint| {
        let rate = point.rate()?;
        let y = if point.is_open() { rate.interval[0] } else { rate.per_second };
        let interval = point.interval().filter(|_| !point.is_open()).map(|[low, high]| (low, high));
        Some(Value { x: point.configuration.cpus, y, interval })
    };
    let of = |is_open: bool| {
        let mut values: Vec<Value> =
            profile.curve_points().filter(|point| point.is_open() == is_open).filter_map(value).collect();
        values.sort_by(|a, b| a.x.total_cmp(&b.x));
        values
    };
    let series = [Series::new("measured", of(false)), Series::new("at least", of(true))];
    series.into_iter().filter(|series| !series.data.is_empty()).collect()
}

/// A line at each knee; knees whose labels would overlap share one label at the last of them.
fn references(profile: &SensitivityProfile) -> Vec<Reference> {
    let close = CLOSE * profile.job.most_cpus;
    let near = profile.knees.chunk_by(|a, b| b.cpus - a.cpus < close);
    near.flat_map(|knees| {
        let shares: Vec<String> = knees.iter().map(|knee| format!("{:.0}", 100.0 * knee.share)).collect();
        let label = |knee: &Knee| match knees.last() {
            Some(last) if last == knee => format!("{} % of the best", shares.join(" and ")),
            _ => String::new(),
        };
        knees.iter().map(move |knee| Reference::Upright(knee.cpus, label(knee))).collect::<Vec<_>>()
    })
    .collect()
}

fn maps(profile: &SensitivityProfile) -> Vec<Block> {
    let seconds = |epoch: &PredictedEpoch| Some(number(&epoch.seconds));
    let needed = |epoch: &PredictedEpoch| epoch.storage_needed.as_ref().map(|needed| number(needed) / 1e6);
    let upper = "Where only an interval is known, its upper end.";
    let maps = [
        ("Epoch in seconds", "s", &seconds as &dyn Fn(&PredictedEpoch) -> Option<f64>),
        ("Storage bandwidth that is needed, in MB/s", "MB/s", &needed),
    ];
    let epochs: Vec<(String, &PredictedEpoch)> =
        profile.matrix.iter().map(|epoch| (epoch.cpus.to_string(), epoch)).collect();
    let charts = maps.map(|(title, unit, of)| {
        let map = Heatmap { row_label: "CPUs".to_owned(), value: Axis::linear(unit), ..map(profile, &epochs, of) };
        Block::Chart(Chart::new(title, upper, Plot::Heatmap(map)))
    });
    charts.into_iter().chain([Block::Folded(tables::matrix(profile))]).collect()
}

fn storage(profile: &SensitivityProfile) -> Vec<Block> {
    let row = |of: &StorageEpoch| significant(of.storage_bandwidth / 1e6);
    let epochs: Vec<(String, &PredictedEpoch)> = profile.storage_matrix.iter().map(|of| (row(of), &of.epoch)).collect();
    let seconds = |epoch: &PredictedEpoch| Some(number(&epoch.seconds));
    let map =
        Heatmap { row_label: "storage MB/s".to_owned(), value: Axis::linear("s"), ..map(profile, &epochs, &seconds) };
    let cpus = cpus_words(epochs[0].1.cpus);
    let caption = format!("With {cpus}. Where only an interval is known, its upper end.");
    let chart = Block::Chart(Chart::new("Epoch in seconds over storage and memory", caption, Plot::Heatmap(map)));
    let measured = tables::throttled(profile).map(Block::Table);
    [chart].into_iter().chain(measured).chain([Block::Folded(tables::storage_matrix(profile))]).collect()
}

/// A heatmap of epochs, given row by row with the label of each row.
fn map(
    profile: &SensitivityProfile,
    epochs: &[(String, &PredictedEpoch)],
    of: &dyn Fn(&PredictedEpoch) -> Option<f64>,
) -> Heatmap {
    let rows: Vec<&[(String, &PredictedEpoch)]> = epochs.chunk_by(|(a, _), (b, _)| a == b).collect();
    let cell = |(_, epoch): &(String, &PredictedEpoch)| {
        let waits = epoch.bound.map(|bound| format!("waits for {}", profile.bound_words(bound)));
        let waits = waits.unwrap_or("the reason for its waiting is unknown".to_owned());
        let label = format!("{}, {} % of the data in memory: {waits}", cpus_words(epoch.cpus), epoch.memory_percent);
        HeatCell { content: of(epoch).map_or(CellContent::Sign(CellSign::Dot), CellContent::Number), label }
    };
    Heatmap {
        row_label: String::new(),
        column_label: "% of the data that has room in memory".to_owned(),
        rows: rows.iter().map(|row| row[0].0.clone()).collect(),
        columns: rows
            .first()
            .map_or(Vec::new(), |row| row.iter().map(|(_, epoch)| epoch.memory_percent.to_string()).collect()),
        cells: epochs.iter().map(cell).collect(),
        value: Axis::linear("s"),
        range: None,
        printed: true,
        signs: vec![(CellSign::Dot, "memory itself is too slow".to_owned())],
    }
}

fn origin(profile: &SensitivityProfile) -> Vec<Block> {
    let mut facts: Vec<Fact> = profile
        .limits
        .iter()
        .map(|limit| Fact::new(format!("limits on {}", limit.axis), limit.by.clone().unwrap_or("none".to_owned())))
        .collect();
    let ways: BTreeSet<&str> =
        profile.points.iter().flat_map(|point| &point.runs).filter_map(|run| Some(run.way?.to_text())).collect();
    facts.push(Fact::new("iterations are known by", ways.into_iter().collect::<Vec<_>>().join(", ")));
    if let Some(data) = &profile.job.data {
        facts.push(Fact::new("data", data.path.display().to_string()));
        facts.push(Fact::new("in its files", data.bytes).remark(format!("{} files", data.files)));
    }
    for (rank, host) in profile.hosts.iter().enumerate() {
        let of = if profile.hosts.len() > 1 { format!(" of node {rank}") } else { String::new() };
        let named = |name: &str| format!("{}{of}", name.replace('_', " "));
        facts.extend(host.iter().map(|(name, fact)| Fact::new(named(name), fact.clone())));
    }
    facts.push(Fact::new("perf4sight", profile.provenance.perf4sight.clone()));
    facts.push(Fact::new("date", profile.provenance.date.clone()));
    vec![Block::Facts(facts)]
}

#[cfg(test)]
mod tests {
    use super::super::points::ResourceConfiguration;
    use super::super::points::tests::{profile_of, run};
    use super::*;

    /// With 1 CPU the rate is between 8 and 80, with 2 it is 20.
    #[test]
    fn a_rate_whose_lower_end_alone_is_known_is_shown_as_at_least_that() {
        let point = |cpus: f64, per_second: f64, interval: [f64; 2]| {
            let mut run = run(per_second, 10.0);
            run.measured.iter_mut().for_each(|measured| measured.rate.interval = interval);
            let configuration = ResourceConfiguration { cpus, memory: None, storage: None };
            MeasuredPoint { configuration, runs: vec![run] }
        };
        let series = rates(&profile_of(vec![point(1.0, 10.0, [8.0, 80.0]), point(2.0, 20.0, [19.0, 21.0])], 2.0));
        let shown = |series: &Series<Value>| (series.name.clone(), series.data[0].x, series.data[0].y);
        let expected = [("measured".to_owned(), 2.0, 20.0), ("at least".to_owned(), 1.0, 8.0)];
        assert_eq!(series.iter().map(shown).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn labels_of_knees_side_by_side_are_one() {
        let labels = |cpus: [f64; 2]| {
            let knee = |(share, cpus)| Knee { share, cpus, verified: true, between: [cpus; 2] };
            let knees = [0.9, 0.95].into_iter().zip(cpus).map(knee).collect();
            references(&SensitivityProfile { knees, ..profile_of(Vec::new(), 8.0) })
        };
        let label = |cpus: f64, label: &str| Reference::Upright(cpus, label.to_owned());
        assert_eq!(labels([2.0, 3.0]), [label(2.0, ""), label(3.0, "90 and 95 % of the best")]);
        assert_eq!(labels([2.0, 6.0]), [label(2.0, "90 % of the best"), label(6.0, "95 % of the best")]);
    }
}
