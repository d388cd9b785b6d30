//! Replays a graph: `cargo bench -p perf4sight-replay`. The published program (dPRO) replays 22 to 60 thousand nodes a
//! second: 133 thousand nodes in 5.1 s. To reach here: 5 million nodes a second, 133 thousand nodes in 50 ms.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use perf4sight_replay::simulate::simulate;
use perf4sight_replay::synthetic::{SyntheticCluster, cluster};
use std::hint::black_box;

fn replay(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("replay");
    for layers in [160, 2_000] {
        let shape = SyntheticCluster { ranks: 16, layers, ..SyntheticCluster::default() };
        let graph = cluster(&shape, 1).expect("a generated graph has no cycle").job.graph;
        let nodes = graph.nodes().len() as u64;
        group.throughput(Throughput::Elements(nodes)).sample_size(20);
        group.bench_function(format!("{nodes} nodes"), |bench| bench.iter(|| simulate(black_box(&graph))));
    }
    group.finish();
}

criterion_group!(benches, replay);
criterion_main!(benches);
