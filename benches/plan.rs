//! The adaptive plan: one decision among 1,300 configurations, at most 50 ms, and what preparing it costs.
//!
//! A decision takes note of one more row and chooses the next. The estimates that end a profile are fits, made a dozen times in a
//! whole profile, and are measured by themselves.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use perf4sight_base::units::{Bytes, Milliseconds};
use perf4sight_cost::plan::{
    AdaptivePlan, Configuration, MeasurementLedger, OfferedConfiguration, Plan, PlanDecision, PlanInputs,
};
use perf4sight_cost::pruning::{FilterRanking, Pruner, PruningGoal, generator};
use perf4sight_cost::records::{MeasurementOutcome, MemoryColumns, RowReading, RowRecord, Variant};
use perf4sight_network::Network;
use perf4sight_network::zoo::{Dataset, build};
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Stage, Variable, Workload};
use std::sync::Arc;

const NETWORKS: [&str; 5] = ["resnet18", "resnet50", "mobilenetv2", "squeezenet", "mnasnet"];

/// Five networks at thirteen levels and twenty batch sizes.
fn offers() -> Vec<OfferedConfiguration> {
    let mut offers = Vec::new();
    for name in NETWORKS {
        let network = build(name, Dataset::Imagenet).expect("it is in the zoo");
        let pruner = Pruner::new(&network);
        for level in (0..13u8).map(|step| 7 * step) {
            let ranking = FilterRanking::random(&pruner, &mut generator(0, name, level, 0));
            let pruned = pruner.prune(&ranking, PruningGoal::percent(&network, f64::from(level)));
            let network = Arc::new(pruned.expect("networks of the zoo can be pruned").network);
            offers.extend((1..=20).map(|step| offer(&network, Variant::new(name, level), 12 * step)));
        }
    }
    offers
}

fn offer(network: &Arc<Network>, variant: Variant, batch: u64) -> OfferedConfiguration {
    let workload = Workload::published(Stage::Training, batch);
    let variables = vec![Variable::Latency, Variable::Memory];
    OfferedConfiguration {
        configuration: Configuration { variant, workload, variables, round: 1 },
        network: network.clone(),
    }
}

/// A device of 8 GiB that follows the arithmetic: the rows of one configuration.
fn answer(configuration: &Configuration, offers: &[OfferedConfiguration]) -> [RowRecord; 2] {
    let found = offers.iter().find(|offer| offer.configuration.variant == configuration.variant);
    let network = &found.expect("what was offered").network;
    let workload = configuration.workload;
    let used = 12 * workload.batch * network.activations() + (1 << 30);
    let fits = used < 8 << 30;
    let latency = Milliseconds(30.0 + 1e-8 * (workload.batch * network.macs()) as f64);
    let memory = MemoryColumns { used: Some(Bytes(used)), ..MemoryColumns::default() };
    let outcome = if fits { MeasurementOutcome::Measured } else { MeasurementOutcome::OutOfMemory };
    let readings = [RowReading::Latency(fits.then_some(latency)), RowReading::Memory(memory)];
    readings.map(|reading| RowRecord::new(configuration.variant.clone(), workload, outcome, reading))
}

fn means() -> PlanInputs {
    let platform = Platform::for_name("tx2").expect("a known device");
    PlanInputs { platform, capacity: Some(Bytes(8 << 30)), repeats: false, seed: 0 }
}

/// A plan before its next decision, and the rows it has so far.
fn under_way(offers: &[OfferedConfiguration], rows: usize) -> (AdaptivePlan, MeasurementLedger) {
    let (mut plan, mut ledger) = (AdaptivePlan::new(offers.to_vec(), means()), MeasurementLedger::default());
    for _ in 0..rows {
        let PlanDecision::Measure(next) = plan.next(&ledger, 0.0).expect("a decision") else { break };
        answer(&next, offers).iter().for_each(|row| ledger.record(row));
    }
    (plan, ledger)
}

fn plan(criterion: &mut Criterion) {
    let offers = offers();
    for rows in [1, 50, 150] {
        let (plan, ledger) = under_way(&offers, rows);
        criterion.bench_function(&format!("a decision among 1,300 after {rows} measurements"), |bench| {
            bench.iter_batched(|| plan.clone(), |mut plan| plan.next(&ledger, 0.0), BatchSize::LargeInput);
        });
    }
    let mut slow = criterion.benchmark_group("slow");
    slow.sample_size(10);
    slow.bench_function("preparing 1,300 configurations", |bench| {
        bench.iter_batched(|| offers.clone(), |offers| AdaptivePlan::new(offers, means()), BatchSize::LargeInput);
    });
    // One of the counts at which the error is estimated: 60, 76, 96, 121, 153.
    let (plan, ledger) = under_way(&offers, 153);
    slow.bench_function("an estimate and a decision after 153 measurements", |bench| {
        bench.iter_batched(|| plan.clone(), |mut plan| plan.next(&ledger, 0.0), BatchSize::LargeInput);
    });
    slow.finish();
}

criterion_group!(benches, plan);
criterion_main!(benches);
