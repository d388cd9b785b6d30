//! The noise of a device, for people and for programs.

use super::floor::{NoiseDrift, NoiseFloor};
use perf4sight_base::units::{Milliseconds, Percent};
use perf4sight_report::{Table, TableBuilder};
use perf4sight_step::workload::Stage;
use serde_json::{Value, json};

pub(super) fn by_batch(noise: &NoiseFloor, what: &str) -> Table {
    TableBuilder::new(format!("{what}, every run in a fresh worker"), &noise.configurations)
        .number("batch", "batch size", |one| one.batch)
        .number("runs", "runs", |one| one.runs)
        .number("latency_ms", "latency", |one| Milliseconds(one.milliseconds))
        .number("within_run_percent", "within a run", |one| Percent(one.within))
        .number("run_to_run_percent", "run to run", |one| Percent(one.between))
        .number("worst_percent", "farthest run", |one| Percent(one.worst))
        .table()
}

/// The conditions of the machine during the check.
pub(super) fn of_machine(noise: &NoiseFloor) -> Table {
    let stolen = noise.stolen.map_or("not reported".to_owned(), |share| Percent(share).to_string());
    let facts = [
        ("time", Milliseconds(noise.seconds * 1e3).to_string()),
        ("drift from beginning to end", noise.drift.map_or("unknown".to_owned(), drift)),
        ("steps disturbed by other programs", Percent(noise.disturbed_steps).to_string()),
        ("processor time a hypervisor gave to others", stolen),
        ("runs a profile would measure once more", noise.doubtful.to_string()),
        ("at the beginning", noise.conditions.start.to_string()),
        ("at the end", noise.conditions.end.to_string()),
    ];
    TableBuilder::new("The machine meanwhile", facts)
        .text("what", "what", |(what, _)| *what)
        .text("value", "value", |(_, value)| value.clone())
        .table()
}

fn drift(NoiseDrift { percent, error }: NoiseDrift) -> String {
    format!("{percent:+.1} % ± {error:.1} %")
}

pub(super) fn verdict(noise: &NoiseFloor) -> String {
    let floor = Percent(noise.floor);
    let advice = match noise.repeats() {
        Some(1) => "measuring every configuration once is enough (repeats = 1)".to_owned(),
        Some(repeats) => {
            format!("repeats = {repeats} in [profile] would bring the mean of a configuration to within 1 %")
        }
        None => "repeats would have to be too many to make up for it".to_owned(),
    };
    let first = format!("A prediction cannot be closer than {floor} to single measurements here; {advice}.");
    std::iter::once(first).chain(main_problem(noise)).collect::<Vec<_>>().join("\n")
}

/// The most important problem to solve.
fn main_problem(noise: &NoiseFloor) -> Option<String> {
    if noise.doubtful > 0 {
        let why = "something else slowed the machine down or used it: find out what before profiling it";
        return Some(format!("{} of the runs are doubtful, for {why}.", noise.doubtful));
    }
    let found = noise.drift.filter(NoiseDrift::is_significant)?;
    let time = Milliseconds(noise.seconds * 1e3);
    Some(format!("The device drifts, {} in {time}: let it warm up, or cool it.", drift(found)))
}

/// The same for programs, with percentages as numbers.
pub(super) fn json(noise: &NoiseFloor, device: &str, network: &str, stage: Stage) -> Value {
    json!({
        "device": device,
        "network": network,
        "stage": stage,
        "seconds": noise.seconds,
        "noise_floor": noise.floor,
        "within_run": noise.within,
        "repeats": noise.repeats(),
        "drift": noise.drift.map(|drift| json!({
            "percent": drift.percent, "standard_error": drift.error, "significant": drift.is_significant(),
        })),
        "disturbed_steps": noise.disturbed_steps,
        "stolen": noise.stolen,
        "doubtful_runs": noise.doubtful,
        "conditions": noise.conditions,
        "configurations": by_batch(noise, "").to_json(),
    })
}
