//! A profile in published formats: Synergy's three objects, and the table for schedulers' simulators.

use super::profile::{PredictedEpoch, SensitivityProfile, number};
use crate::EpochEstimate;
use perf4sight_base::units::Bytes;
use perf4sight_report::{Table, TableColumn};
use serde_json::{Map, Value, json};

/// Decimal gigabytes, the unit of the table.
const GB: f64 = 1e9;

/// `{cpu: seconds per iteration}`, `{cpu: {memory %: epoch seconds}}`, `{cpu: {memory %: MB/s needed}}`. A value that
/// is known only as an interval is its upper end, so that a request is never too small. Then the whole row of these
/// CPUs uses upper ends; otherwise more memory would seem to need more bandwidth.
pub(super) fn objects(profile: &SensitivityProfile) -> Value {
    let points = profile.curve().map_or(Vec::new(), |curve| curve.points().to_vec());
    let rates: Map<String, Value> =
        points.iter().map(|point| (point.cpus.to_string(), json!(1.0 / point.rate.per_second))).collect();
    let matrix = |of: &dyn Fn(&PredictedEpoch) -> Option<EpochEstimate>, unit: f64| {
        let mut all = Map::new();
        for (epoch, number) in numbers(&profile.matrix, of) {
            let row = all.entry(epoch.cpus.to_string()).or_insert_with(|| json!({}));
            row[epoch.memory_percent.to_string()] = json!(number.map(|number| number / unit));
        }
        Value::Object(all)
    };
    json!([rates, matrix(&|epoch| Some(epoch.seconds), 1.0), matrix(&|epoch| epoch.storage_needed, 1e6),])
}

/// Epochs with an estimate as one number: the most likely value, or upper ends in a row where one value is only known
/// as an interval.
fn numbers<'a>(
    epochs: &'a [PredictedEpoch],
    of: &dyn Fn(&PredictedEpoch) -> Option<EpochEstimate>,
) -> Vec<(&'a PredictedEpoch, Option<f64>)> {
    let row = |row: &'a [PredictedEpoch]| {
        let estimates: Vec<Option<EpochEstimate>> = row.iter().map(of).collect();
        let one = one_end(estimates.iter().flatten());
        row.iter().zip(estimates).map(move |(epoch, estimate)| (epoch, estimate.map(one)))
    };
    epochs.chunk_by(|a, b| a.cpus == b.cpus).flat_map(row).collect()
}

/// The most likely value of each, or the upper end of each where one is unknown: the two kinds cannot be compared.
fn one_end<'a>(mut estimates: impl Iterator<Item = &'a EpochEstimate>) -> fn(EpochEstimate) -> f64 {
    let likely = estimates.all(|estimate| estimate.likely.is_some());
    if likely { |estimate| number(&estimate) } else { |estimate| estimate.most }
}

/// Relative throughput over CPUs and memory, for schedulers' simulators: 1.0 is the rate with the share of the host
/// that is proportional to the job's GPUs. Without a model, only rates, with the memory of the host.
pub(super) fn throughput(profile: &SensitivityProfile, host: PublishedHost) -> Table {
    let columns = [
        TableColumn::number("cpus_per_gpu_of_the_server", "CPUs per GPU"),
        TableColumn::text("network", "network"),
        TableColumn::number("cpus", "CPUs"),
        TableColumn::number("memory_gb", "memory (GB)"),
        TableColumn::number("relative_throughput", "relative throughput"),
    ];
    let mut table = Table::new("Relative throughput", columns);
    let Some(curve) = profile.curve() else { return table };
    let share = f64::from(profile.job.gpus.max(1)) / f64::from(host.gpus.max(1));
    let (cpus, memory) = (host.cpus * share, Bytes((host.memory.0 as f64 * share) as u64));
    let per_gpu = host.cpus / f64::from(host.gpus.max(1));
    let mut add = |at: f64, bytes: Bytes, throughput: f64| {
        let name = profile.job.name.as_str();
        table.row([per_gpu.into(), name.into(), at.into(), (bytes.0 as f64 / GB).into(), throughput.into()]);
    };
    match profile.model() {
        None => {
            let whole = curve.bounds_at(cpus).least;
            curve.points().iter().for_each(|point| add(point.cpus, memory, point.rate.per_second / whole));
        }
        Some(model) => {
            let own = profile.own_memory.unwrap_or(Bytes(0)).0;
            let whole = model.epoch(cpus, memory.0.saturating_sub(own) as f64 / model.data.bytes);
            let one = one_end(profile.matrix.iter().map(|epoch| &epoch.seconds).chain([&whole]));
            for epoch in &profile.matrix {
                add(
                    epoch.cpus,
                    profile.memory(epoch.memory_percent).unwrap_or(memory),
                    one(whole) / one(epoch.seconds),
                );
            }
        }
    }
    table
}

#[derive(Debug, Clone, Copy)]
pub(super) struct PublishedHost {
    pub cpus: f64,
    pub memory: Bytes,
    pub gpus: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verb::profile::SensitivityProfile;

    /// 30.4 MB/s is likely with no memory, and up to 60 possible; with 10 % of the data in memory only 20 to 55 is
    /// known.
    #[test]
    fn more_memory_never_seems_to_need_more() {
        let epoch = |memory_percent: u32, likely: Option<f64>, most: f64| {
            let estimate = EpochEstimate { least: 20.0, likely, most };
            PredictedEpoch { cpus: 1.0, memory_percent, seconds: estimate, storage_needed: Some(estimate), bound: None }
        };
        let bandwidths = |epochs: &[PredictedEpoch]| -> Vec<Option<f64>> {
            numbers(epochs, &|epoch| epoch.storage_needed).into_iter().map(|(_, number)| number).collect()
        };
        assert_eq!(bandwidths(&[epoch(0, Some(30.4), 60.0), epoch(10, None, 55.0)]), [Some(60.0), Some(55.0)]);
        assert_eq!(bandwidths(&[epoch(0, Some(30.4), 60.0), epoch(10, Some(28.0), 55.0)]), [Some(30.4), Some(28.0)]);
    }

    /// Where some values are only known as intervals, all are compared by their upper ends: no ratio mixes an upper end
    /// with a likely value.
    #[test]
    fn one_end_of_all_is_compared() {
        let known = EpochEstimate { least: 9.0, likely: Some(10.0), most: 11.0 };
        let open = EpochEstimate { least: 9.0, likely: None, most: 14.0 };
        let ratio = |all: &[EpochEstimate], [one, other]: [EpochEstimate; 2]| {
            let end = one_end(all.iter());
            end(one) / end(other)
        };
        assert_eq!(ratio(&[known, open], [known, open]), 11.0 / 14.0);
        assert_eq!(ratio(&[known, open], [known, known]), 1.0);
    }

    /// One GPU of eight has 3 of 24 CPUs. Rates rise to 30 iterations a second with 3 CPUs, so one CPU's 15 are half.
    #[test]
    fn a_whole_throughput_is_the_share_of_the_host_for_the_gpus_of_the_job() {
        let point = |cpus: f64, rate: f64| {
            json!({"cpus": cpus, "memory": null, "runs": [{
                "outcome": {"what": "sound"}, "way": "file", "seconds": 10.0, "cpu_seconds": null, "throttled_seconds": null,
                "peak_memory": null, "bytes_read": null, "pressure": null,
                "measured": {"rate": {"per_second": rate, "interval": [rate, rate]}, "iterations": 100, "seconds": 10.0, "blocks": 12,
                    "waiting": null}}]})
        };
        let profile = json!({"format": 1, "host": {}, "limits": [], "knees": [], "oddities": [], "own_memory": null, "model": null,
            "matrix": [], "request": null, "warnings": [], "points": [point(1.0, 15.0), point(3.0, 30.0), point(6.0, 36.0)],
            "job": {"name": "job", "command": ["job"], "gpus": 1, "batch": null, "most_cpus": 6.0, "memory": null, "data": null},
            "provenance": {"perf4sight": "0", "date": "", "complete": true}});
        let profile: SensitivityProfile = serde_json::from_value(profile).unwrap();
        let table = throughput(&profile, PublishedHost { cpus: 24.0, memory: Bytes(240_000_000_000), gpus: 8 });
        let rows: Vec<String> = table.to_csv().lines().skip(1).map(str::to_owned).collect();
        assert_eq!(rows, ["3,job,1,30,0.5", "3,job,3,30,1", "3,job,6,30,1.2"]);
    }
}
