//! Moves of the search of operator fusion on a graph of 10 thousand operations, to be 1,000 a second at least; the published program
//! takes 7.6 s for one: `cargo bench -p perf4sight-optimize --bench search`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use perf4sight_optimize::search::{
    FusionState, FusionUnit, SearchMethod, SearchOptions, SearchWalk, UnitGraph, operation,
};
use std::hint::black_box;

/// Operations of a block of a transformer in their order, again and again, with an all-reduce behind every tenth block.
const BLOCK: [&str; 8] = ["native_layer_norm", "addmm", "gelu", "mul", "addmm", "native_dropout", "add", "sum"];
const OPERATIONS: usize = 10_000;
const MOVES: u64 = 2_000;

fn graph() -> UnitGraph {
    let mut graph = UnitGraph::default();
    while graph.units.len() < OPERATIONS {
        let last = graph.units.len();
        let name = format!("aten::{}", BLOCK[last % BLOCK.len()]);
        add(&mut graph, &name, 0, 20_000 + 1_000 * (last as u64 % 17));
        if last % (10 * BLOCK.len()) == 0 {
            add(&mut graph, "all-reduce", 1, 500_000);
            graph.outputs[last].push(last as u32 + 1);
            graph.inputs[last + 1].push(last as u32);
        }
    }
    let fused = |unit: usize| graph.units[unit].operation.is_some();
    let readers = (0..graph.units.len()).map(|unit| {
        let next = unit + 1;
        if next < graph.units.len() && fused(unit) && fused(next) && !graph.units[next].name.ends_with("mm") {
            vec![next as u32]
        } else {
            Vec::new()
        }
    });
    graph.readers = readers.collect();
    graph
}

fn add(graph: &mut UnitGraph, name: &str, resource: u32, duration: u64) {
    let operation = operation(name);
    let (nodes, launches) = (Vec::new(), Vec::new());
    graph.units.push(FusionUnit { nodes, duration, resource, operation, name: name.to_owned(), fixed: 0, launches });
    graph.inputs.push(Vec::new());
    graph.outputs.push(Vec::new());
}

fn moves(criterion: &mut Criterion) {
    let graph = graph();
    let mut group = criterion.benchmark_group("moves");
    group.throughput(Throughput::Elements(MOVES)).sample_size(10);
    for optimizer in SearchMethod::ALL {
        let search = SearchOptions { optimizer, seed: 0, moves: MOVES };
        group.bench_function(optimizer.name(), |bench| {
            bench.iter(|| {
                let mut walk = SearchWalk::new(search, &FusionState::new(black_box(&graph), false));
                walk.run(&mut |_| true);
                walk.evaluated()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, moves);
criterion_main!(benches);
