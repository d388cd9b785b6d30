//! The tables of a profile for the console and CSV files.

use super::points::cpus_words;
use super::points::{MeasuredPoint, remark};
use super::profile::{PredictedEpoch, RecommendedRequest, SensitivityProfile, ThrottledEpoch};
use crate::{EpochEstimate, ResourceRequest};
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_report::{Cell, Table, TableBuilder, TableColumn, significant};

/// The points of the curve, by CPUs.
pub(super) fn curve(profile: &SensitivityProfile) -> Table {
    let best = profile.curve().map(|curve| curve.highest());
    let is_best = |point: &&MeasuredPoint| best.is_some_and(|best| best.cpus == point.configuration.cpus);
    let best = best.filter(|_| !profile.curve_points().find(is_best).is_some_and(MeasuredPoint::is_open));
    let mut points: Vec<&MeasuredPoint> = profile.curve_points().collect();
    points.sort_by(|a, b| a.configuration.cpus.total_cmp(&b.configuration.cpus));
    let measured = |point: &MeasuredPoint| point.counts().map(|(_, measured)| measured);
    let rate = |point: &MeasuredPoint| Some(measured(point).filter(|_| !point.is_open())?.rate.per_second);
    let of_best = |point: &MeasuredPoint| Some(Percent(100.0 * rate(point)? / best?.rate.per_second));
    let waiting = |point: &MeasuredPoint| Some(Percent(100.0 * measured(point)?.waiting?));
    TableBuilder::new(format!("Rate of {} over CPUs", profile.job.name), points)
        .number("cpus", "CPUs", |point| point.configuration.cpus)
        .number("iterations_per_second", "iterations/s", |point| rate(point))
        .number("low", "95 % from", |point| Some(point.interval()?[0]))
        .number("high", "to", |point| Some(point.interval().filter(|_| !point.is_open())?[1]))
        .number("of_best_percent", "of the best", |point| of_best(point))
        .number("waiting_percent", "waits for data", |point| waiting(point))
        .number("iterations", "iterations", |point| Some(measured(point)?.iterations))
        .text("remark", "remark", |point| remark(point))
        .table()
}

/// Epochs over CPUs and memory, one row each.
pub(super) fn matrix(profile: &SensitivityProfile) -> Table {
    let needed =
        |epoch: &PredictedEpoch, of: fn(&EpochEstimate) -> Option<f64>| Some(of(epoch.storage_needed.as_ref()?)? / 1e6);
    TableBuilder::new("Epochs over CPUs and memory", &profile.matrix)
        .number("cpus", "CPUs", |epoch| epoch.cpus)
        .number("memory_percent", "data in memory", |epoch| Percent(epoch.memory_percent.into()))
        .number("memory_bytes", "memory", |epoch| profile.memory(epoch.memory_percent))
        .number("epoch_ms", "epoch", |epoch| epoch.seconds.likely.map(milliseconds))
        .number("least_ms", "at least", |epoch| milliseconds(epoch.seconds.least))
        .number("most_ms", "at most", |epoch| milliseconds(epoch.seconds.most))
        .number("storage_mb_s", "needs MB/s", |epoch| needed(epoch, |needed| needed.likely))
        .number("storage_least_mb_s", "at least", |epoch| needed(epoch, |needed| Some(needed.least)))
        .number("storage_most_mb_s", "at most", |epoch| needed(epoch, |needed| Some(needed.most)))
        .text("bound", "waits for", |epoch| bound(profile, epoch))
        .table()
}

fn bound(profile: &SensitivityProfile, epoch: &PredictedEpoch) -> &'static str {
    epoch.bound.map_or("unknown", |bound| profile.bound_words(bound))
}

/// Epochs over bandwidths of storage and memory, one row each.
pub(super) fn storage_matrix(profile: &SensitivityProfile) -> Table {
    TableBuilder::new("Epochs over storage and memory", &profile.storage_matrix)
        .number("cpus", "CPUs", |of| of.epoch.cpus)
        .number("storage_mb_s", "storage MB/s", |of| of.storage_bandwidth / 1e6)
        .number("memory_percent", "data in memory", |of| Percent(of.epoch.memory_percent.into()))
        .number("epoch_ms", "epoch", |of| of.epoch.seconds.likely.map(milliseconds))
        .number("least_ms", "at least", |of| milliseconds(of.epoch.seconds.least))
        .number("most_ms", "at most", |of| milliseconds(of.epoch.seconds.most))
        .text("bound", "waits for", |of| bound(profile, &of.epoch))
        .table()
}

/// The measured epochs with storage held to a bandwidth; none where there were none.
pub(super) fn throttled(profile: &SensitivityProfile) -> Option<Table> {
    let measures = profile.throttled.first().filter(|_| profile.model.is_some_and(|model| model.overlap.is_some()));
    let purpose =
        |held: &ThrottledEpoch| if measures == Some(held) { "measures the overlap" } else { "verifies the model" };
    let title = "Epochs from storage that was held to a bandwidth";
    (!profile.throttled.is_empty()).then(|| {
        TableBuilder::new(title, &profile.throttled)
            .number("cpus", "CPUs", |held| held.cpus)
            .number("storage_mb_s", "storage MB/s", |held| held.storage_bandwidth / 1e6)
            .number("measured_ms", "epoch", |held| milliseconds(held.seconds))
            .number("side_by_side_ms", "side by side", |held| milliseconds(held.side_by_side))
            .number("model_ms", "model", |held| held.model.likely.map(milliseconds))
            .text("use", "what for", |held| purpose(held))
            .table()
    })
}

/// Epochs over CPUs and memory, for the console.
pub(super) fn epochs(profile: &SensitivityProfile) -> Option<Table> {
    let epochs = profile.matrix.iter().map(|epoch| (epoch.cpus, epoch));
    memory_table(
        "Epoch, by the share of the data that has room in memory",
        TableColumn::number("cpus", "CPUs"),
        epochs.collect(),
    )
}

/// Epochs over storage and memory, for the console.
pub(super) fn epochs_over_storage(profile: &SensitivityProfile) -> Option<Table> {
    let epochs: Vec<(f64, &PredictedEpoch)> =
        profile.storage_matrix.iter().map(|of| (of.storage_bandwidth / 1e6, &of.epoch)).collect();
    let title = format!(
        "Epoch with {} by what storage gives, and the share of the data in memory",
        cpus_words(epochs.first()?.1.cpus)
    );
    memory_table(&title, TableColumn::number("storage_mb_s", "storage MB/s"), epochs)
}

/// A table with one row for each first value, and a column for some memory sizes.
fn memory_table(title: &str, of: TableColumn, epochs: Vec<(f64, &PredictedEpoch)>) -> Option<Table> {
    const SHOWN: [u32; 5] = [0, 20, 50, 80, 100];
    let rough = epochs.iter().any(|(_, epoch)| SHOWN.contains(&epoch.memory_percent) && is_rough(&epoch.seconds));
    let title = if rough { format!("{title}; ~ may be off by more than a tenth") } else { title.to_owned() };
    let heads = SHOWN.map(|percent| TableColumn::number(format!("memory_{percent}_percent"), format!("{percent} %")));
    let mut table = Table::new(title, [of].into_iter().chain(heads));
    for row in epochs.chunk_by(|(a, _), (b, _)| a == b) {
        // An edited profile may lack some.
        let shown = SHOWN.map(|percent| row.iter().find(|(_, epoch)| epoch.memory_percent == percent));
        let cells = shown.map(|found| Cell::from(found.map(|(_, epoch)| Cell::Text(estimate(&epoch.seconds)))));
        table.row([Cell::from(row[0].0)].into_iter().chain(cells));
    }
    (!epochs.is_empty()).then_some(table)
}

/// Whether a likely time may be off by more than a tenth, as that of a disturbed job.
fn is_rough(seconds: &EpochEstimate) -> bool {
    seconds.likely.is_some_and(|likely| (likely - seconds.least).max(seconds.most - likely) > 0.1 * likely)
}

/// The likely time, marked where it is rough, or else its bounds.
fn estimate(seconds: &EpochEstimate) -> String {
    match seconds.likely {
        Some(likely) if is_rough(seconds) => format!("~{}", milliseconds(likely)),
        Some(likely) => milliseconds(likely).to_string(),
        None => format!("{} – {}", milliseconds(seconds.least), milliseconds(seconds.most)),
    }
}

fn milliseconds(seconds: f64) -> Milliseconds {
    Milliseconds(1000.0 * seconds)
}

/// "120 MB/s", with a remark where the storage here is slower.
fn storage_heading(profile: &SensitivityProfile, storage: f64) -> String {
    let megabytes = |bytes: f64| format!("{} MB/s", significant(bytes / 1e6));
    let here = profile.model.map(|model| model.data.storage_bandwidth).filter(|here| *here < storage);
    let less = here.map(|here| format!("no such storage was measured: this gives {}", megabytes(here)));
    let open = profile.uncertain_epoch().map(|EpochEstimate { least, most, .. }| {
        format!("not certain: an epoch then takes {} to {}", milliseconds(least), milliseconds(most))
    });
    let remarks: Vec<String> = less.into_iter().chain(open).collect();
    let remarks = if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join("; ")) };
    format!("{}{remarks}", megabytes(storage))
}

/// " and 4.1 GiB (seen for 4.05 s at the longest: ...)", or why there is none
fn memory(profile: &SensitivityProfile, requested: &RecommendedRequest) -> String {
    let Some(memory) = requested.request.memory else {
        return profile.rise_words().map_or(String::new(), |rise| format!(", without a limit on memory, for {rise}"));
    };
    let floor = requested
        .request
        .is_below_floor()
        .then(|| format!("in the lines {}, for pods and jobs do not start with less", ResourceRequest::LEAST_MEMORY));
    let remarks: Vec<String> = floor.into_iter().chain(profile.seen_words()).collect();
    let remarks = if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join("; ")) };
    format!(" and {memory}{remarks}")
}

/// The request, ready to copy.
pub(super) fn requests(profile: &SensitivityProfile) -> String {
    let Some(requested) = &profile.request else { return String::new() };
    let doubt = if profile.knee().is_some_and(|knee| !knee.verified) { " (not verified)" } else { "" };
    let cpus = format!("{}{doubt}", cpus_words(requested.request.cpus));
    let memory = memory(profile, requested);
    let each = match profile.hosts.len() {
        0 | 1 => String::new(),
        nodes => format!(", on each of {nodes} nodes"),
    };
    let storage = requested
        .storage
        .filter(|storage| *storage > 0.0)
        .map_or(String::new(), |storage| format!(", on storage that gives {}", storage_heading(profile, storage)));
    format!(
        "\nrequest {cpus}{memory}{each}{storage}:\n\n{}\n\n{}\n\n{}",
        requested.kubernetes, requested.slurm, requested.docker
    )
}
