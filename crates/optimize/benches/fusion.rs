//! Tensor fusion of 400 gradients, as many as a large transformer has: the exact optimum and the best `bucket_cap_mb`,
//! each to be below 50 ms. `cargo bench -p perf4sight-optimize --bench fusion`.

use criterion::{Criterion, criterion_group, criterion_main};
use perf4sight_optimize::fusion::{AllReduceLink, ReadyGradient, best_cap, optimum};
use std::hint::black_box;

/// 400 gradients that become ready every half millisecond, of 1, 2 and 4 MiB in turn.
fn gradients() -> Vec<ReadyGradient> {
    let gradient =
        |place: u32| ReadyGradient { ready_ms: 0.5 * f64::from(place), bytes: (1 << 20) << (place % 3), pass: 0 };
    (0..400).map(gradient).collect()
}

fn fuse(criterion: &mut Criterion) {
    let gradients = gradients();
    // 10 Gb/s, with 0.3 ms of latency.
    let link = AllReduceLink { alpha_ms: 0.3, ms_per_byte: 8e-7 };
    criterion.bench_function("exact optimum of 400", |bench| bench.iter(|| optimum(black_box(&gradients), link)));
    criterion.bench_function("best cap of 400", |bench| bench.iter(|| best_cap(black_box(&gradients), link)));
}

criterion_group!(benches, fuse);
criterion_main!(benches);
