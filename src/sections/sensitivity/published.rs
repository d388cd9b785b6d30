//! A profile in published forms: Synergy's three objects, and the table that a scheduler's simulator reads.

use super::profile::{Epoch, Profile, number};
use crate::report::{Column, Table};
use crate::units::Bytes;
use serde_json::{Map, Value, json};

/// Decimal gigabytes, the unit of the table.
const GB: f64 = 1e9;

/// `{cpu: seconds per iteration}`, `{cpu: {memory %: epoch seconds}}`, `{cpu: {memory %: MB/s needed}}`. What is known as an interval only
/// is told as its upper end, with which nobody requests too little.
pub(super) fn objects(profile: &Profile) -> Value {
    let points = profile.curve().map_or(Vec::new(), |curve| curve.points().to_vec());
    let rates: Map<String, Value> =
        points.iter().map(|point| (point.cpus.to_string(), json!(1.0 / point.rate.per_second))).collect();
    let matrix = |of: &dyn Fn(&Epoch) -> Option<f64>| {
        let mut all = Map::new();
        for epoch in &profile.matrix {
            let row = all.entry(epoch.cpus.to_string()).or_insert_with(|| json!({}));
            row[epoch.memory_percent.to_string()] = json!(of(epoch));
        }
        Value::Object(all)
    };
    json!([
        rates,
        matrix(&|epoch| Some(number(&epoch.seconds))),
        matrix(&|epoch| epoch.storage_needed.as_ref().map(|needed| number(needed) / 1e6)),
    ])
}

/// Relative throughput over CPUs and memory, as schedulers' simulators read it: 1.0 is the share of the host that is proportional to the
/// job's GPUs. Without a model, rates alone, with the memory of the host.
pub(super) fn throughput(profile: &Profile, host: Host) -> Table {
    let columns = [
        Column::number("cpus_per_gpu_of_the_server", "CPUs per GPU"),
        Column::text("network", "network"),
        Column::number("cpus", "CPUs"),
        Column::number("memory_gb", "memory (GB)"),
        Column::number("relative_throughput", "relative throughput"),
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
            let whole = curve.at(cpus).least;
            curve.points().iter().for_each(|point| add(point.cpus, memory, point.rate.per_second / whole));
        }
        Some(model) => {
            let own = profile.own_memory.unwrap_or(Bytes(0)).0;
            let whole = number(&model.epoch(cpus, memory.0.saturating_sub(own) as f64 / model.data.bytes));
            for epoch in &profile.matrix {
                let bytes = profile.memory(epoch.memory_percent).unwrap_or(memory);
                add(epoch.cpus, bytes, whole / number(&epoch.seconds));
            }
        }
    }
    table
}

/// What a host has in all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Host {
    /// CPUs.
    pub cpus: f64,
    /// Memory.
    pub memory: Bytes,
    /// GPUs.
    pub gpus: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections::sensitivity::profile::Profile;

    /// One GPU of eight has 3 of 24 CPUs. Rates rise to 30 iterations a second with 3 CPUs, so that one CPU's 15 are half.
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
        let profile: Profile = serde_json::from_value(profile).unwrap();
        let table = throughput(&profile, Host { cpus: 24.0, memory: Bytes(240_000_000_000), gpus: 8 });
        let rows: Vec<String> = table.to_csv().lines().skip(1).map(str::to_owned).collect();
        assert_eq!(rows, ["3,job,1,30,0.5", "3,job,3,30,1", "3,job,6,30,1.2"]);
    }
}
