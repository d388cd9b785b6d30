//! Simulated memory against a published device.

use crate::fixtures;
use perf4sight::memory::{Optimizer, Peak, Simulation};
use perf4sight::network::{Network, onnx};
use perf4sight::records::{self, Reading, Variant};
use perf4sight::stats::{Scores, mean};
use perf4sight::target::Target;
use perf4sight::units::Bytes;
use perf4sight::workload::{Quantity, Stage};
use std::path::Path;

const PUBLISHED: [&str; 5] = ["resnet18", "resnet50", "mobilenetv2", "squeezenet", "mnasnet"];

/// The unpruned network of the published profile, and per batch that passed its measured peaks in MiB: allocated, reserved.
fn published(folder: &Path, name: &str) -> (Network, Vec<(u64, [f64; 2])>) {
    let network = onnx::read(folder.join(format!("networks/{name}_0.onnx"))).unwrap().network;
    let file = records::log_file(&folder.join("profiling_csvs"), Quantity::Memory, &Variant::new(name, 0));
    let log = records::read(&file, Quantity::Memory, Stage::Training).unwrap();
    let measured = log.records.iter().filter(|record| record.outcome.passed());
    let rows = measured.map(|record| match &record.reading {
        Reading::Memory(memory) => {
            (record.workload.batch, [memory.allocated, memory.reserved].map(|bytes| bytes.unwrap().mib()))
        }
        other => panic!("{name}: {other:?} in a memory log"),
    });
    (network, rows.collect())
}

fn simulated(network: &Network, target: &Target, batch: u64) -> Peak {
    Simulation::new(network, Stage::Training, Optimizer::Momentum, target).peak(batch)
}

#[test]
fn a_published_device_is_reproduced_without_a_fitted_number() {
    let Some(folder) = fixtures::shared("tx2") else { return };
    let target = Target::named("tx2").unwrap();
    let errors = PUBLISHED.map(|name| {
        let (network, rows) = published(&folder, name);
        let peaks: Vec<Peak> = rows.iter().map(|(batch, _)| simulated(&network, &target, *batch)).collect();
        let error = |part: fn(&Peak) -> f64, index: usize| {
            let truth: Vec<f64> = rows.iter().map(|(_, measured)| measured[index]).collect();
            Scores::of(&truth, &peaks.iter().map(part).collect::<Vec<_>>()).unwrap().mape
        };
        let [allocated, reserved] = [error(|peak| peak.allocated.mib(), 0), error(|peak| peak.reserved.mib(), 1)];
        println!("{name:12} mem_alloc {allocated:.2} %, mem_reserved {reserved:.2} %");
        [allocated, reserved]
    });
    let [allocated, reserved] = [0, 1].map(|index| mean(&errors.map(|error| error[index])));
    println!("mean         mem_alloc {allocated:.2} %, mem_reserved {reserved:.2} %");
    assert!(allocated <= 1.0, "mem_alloc is off by {allocated:.2} % on average");
    assert!(reserved <= 2.6, "mem_reserved is off by {reserved:.2} % on average");
}

/// Depthwise networks borrow no workspace, so nothing is left to chance: five peaks added up, not one byte differs.
#[test]
fn depthwise_networks_are_reproduced_to_the_byte() {
    let Some(folder) = fixtures::shared("tx2") else { return };
    let target = Target::named("tx2").unwrap();
    for (name, largest) in [("mobilenetv2", 16), ("mnasnet", 8)] {
        let (network, rows) = published(&folder, name);
        for (batch, [allocated, _]) in rows.into_iter().filter(|(batch, _)| *batch <= largest) {
            let simulated = simulated(&network, &target, batch).allocated;
            assert_eq!(simulated, Bytes::from_mib(allocated), "{name}, batch {batch}");
        }
    }
}
