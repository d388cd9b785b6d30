//! `--dry-run`: what would run, which limits hold here, and about how long it takes.

use super::surroundings::Surroundings;
use super::throttled;
use super::{Nodes, Sensitivity};
use crate::frame::Summary;
use crate::machine::limit::Axis;
use crate::units::{Milliseconds, grouped};
use serde_json::json;

/// Points that a search takes: both ends at least; seven where a curve bends.
const POINTS: [u32; 2] = [2, 7];

/// What would be done.
pub(super) fn summary(asked: &Sensitivity, around: &Surroundings) -> Summary {
    let cpus = around.grid.cpus();
    let first = cpus.first().copied().unwrap_or(around.most);
    let points = POINTS.map(|points| points.min(cpus.len() as u32));
    let mostly_below = points[1] * asked.point_time;
    let mut lines = vec![
        format!("would run {}", around.command.words.join(" ")),
        format!(
            "with {} to {} CPUs, mostly {} to {} of {} numbers of them",
            first,
            around.most,
            points[0],
            points[1],
            cpus.len()
        ),
        format!(
            "mostly in less than {}, each run ending as soon as its rate is known to 3 %; runs that are disturbed, or have little memory, take longer",
            Milliseconds(mostly_below.as_secs_f64() * 1000.0)
        ),
    ];
    if let (Some(path), Some(size)) = (&asked.data, around.size) {
        lines.push(format!("reading {}: {} files, {}", path.display(), grouped(size.files), size.bytes()));
    }
    lines.extend(beyond(asked, around));
    lines.extend(around.storage.map(|storage| format!("storage gives {:.0} MB/s", storage / 1e6)));
    lines.extend(around.doubts.iter().cloned());
    lines.extend(asked.nodes.iter().map(Nodes::words));
    lines.push("limits:".to_owned());
    let survey = around.limiter.survey();
    lines.extend(survey.to_string().lines().map(|line| format!("  {line}")));
    let json = json!({
        "command": around.command.words,
        "cpus": cpus,
        "points": points,
        "seconds_mostly_below": mostly_below.as_secs_f64(),
        "storage_bandwidth": around.storage,
        "nodes": asked.nodes.as_ref().map(|nodes| json!({"nnodes": nodes.count, "node_rank": nodes.rank})),
        "limits": survey.to_string().lines().collect::<Vec<_>>(),
    });
    Summary { answer: lines.join("\n"), json, ..Summary::default() }
}

/// Runs beyond those with several numbers of CPUs: of an epoch, where that is known.
fn beyond(asked: &Sensitivity, around: &Surroundings) -> Vec<String> {
    let by = |axis: Axis| around.limiter.survey().by(axis).is_some();
    let known = asked.data.is_some() && asked.batch.is_some() && around.storage.is_some();
    let told = [
        (
            by(Axis::Storage),
            format!(
                "then {} parts of an epoch with storage held to a bandwidth, less than a minute each as a rule",
                throttled::POINTS
            ),
        ),
        (
            by(Axis::Memory),
            "then three epochs with little memory, where it matters how the machine keeps what was read".to_owned(),
        ),
    ];
    told.into_iter().filter(|(can, _)| *can && known).map(|(_, words)| words).collect()
}
