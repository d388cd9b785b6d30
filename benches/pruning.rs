//! The whole dataset of the published configuration: seven networks, nineteen levels, files included.
//!
//! The published pruner takes 137 s for it; ours is to take at most 2 s. The same by the real program:
//! `time target/release/perf4sight --config-file config.ini --only create_network_dataset` with all networks and levels.

use criterion::{Criterion, criterion_group, criterion_main};
use perf4sight_cost::pruning::{FilterRanking, Pruner, PruningGoal, generator};
use perf4sight_network::Network;
use perf4sight_network::zoo::{Dataset, build};
use perf4sight_onnx as onnx;
use rayon::prelude::*;
use std::path::Path;

const NETWORKS: [&str; 7] = ["alexnet", "resnet18", "resnet50", "mobilenetv2", "squeezenet", "mnasnet", "googlenet"];

fn prune_all(networks: &[Network], folder: &Path) {
    networks.par_iter().for_each(|network| {
        let pruner = Pruner::new(network);
        (0..19u8).into_par_iter().map(|step| 5 * step).for_each(|level| {
            let ranking = FilterRanking::random(&pruner, &mut generator(0, network.name(), level, 0));
            let goal = PruningGoal::percent(network, f64::from(level));
            let pruned = pruner.prune(&ranking, goal).expect("networks of the zoo can be pruned").network;
            let file = folder.join(format!("{}_{level}.onnx", network.name()));
            onnx::write(&pruned, file).expect("a writable folder");
        });
    });
}

fn dataset(criterion: &mut Criterion) {
    let networks = NETWORKS.map(|name| build(name, Dataset::Imagenet).expect("it is in the zoo"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    criterion.bench_function("7 networks x 19 levels, with files", |bench| {
        bench.iter(|| prune_all(&networks, folder.path()));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = dataset
}
criterion_main!(benches);
