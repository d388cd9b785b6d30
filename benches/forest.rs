//! Fit, predict and load at the sizes the project promises; `benches/compare_sklearn.py` times scikit-learn on the same.
//! Compare only figures taken one after the other on the same machine: both use all its cores.

use criterion::{Criterion, criterion_group, criterion_main};
use linfa::prelude::*;
use ndarray::{Array1, Array2};
use perf4sight_cost::trees::{ExtraTrees, Forest};
use std::hint::black_box;

/// Rows like those of a profile: features that grow with a network's size and its batch, a target that saturates.
/// The same formulas stand in `compare_sklearn.py`.
fn profile(rows: usize) -> Dataset<f64, f64, ndarray::Ix1> {
    let (networks, batches) = (rows.div_ceil(25), 25);
    let size = |row: usize| 1.0 + (row / batches % networks) as f64 * 0.37;
    let batch = |row: usize| 2.0 + (row % batches) as f64 * 5.0;
    let features = Array2::from_shape_fn((rows, 56), |(row, feature)| {
        size(row).powf(1.0 + feature as f64 / 28.0) * (1e4 + batch(row) * (1 + feature % 7) as f64)
    });
    let targets = Array1::from_shape_fn(rows, |row| {
        let work = size(row) * batch(row);
        100.0 + work + 30.0 * (work / 50.0).sin()
    });
    Dataset::new(features, targets)
}

fn forest(criterion: &mut Criterion) {
    let (small, large) = (profile(44), profile(1100));
    let fit = |rows| ExtraTrees::params(1).fit(rows).expect("benchmark rows are finite");
    criterion.bench_function("fit 300 trees on 44 rows x 56", |bench| bench.iter(|| fit(black_box(&small))));
    criterion.bench_function("fit 300 trees on 1100 rows x 56", |bench| bench.iter(|| fit(black_box(&large))));

    let fitted = fit(&large);
    let rows: Vec<Vec<f64>> = large.records.rows().into_iter().map(|row| row.to_vec()).collect();
    let mut next = rows.iter().cycle();
    criterion.bench_function("predict one row, forest of 1100 rows", |bench| {
        bench.iter(|| fitted.predict_row(black_box(next.next().expect("a cycle never ends"))))
    });

    for (name, forest) in [("44", fit(&small)), ("1100", fitted)] {
        let json = serde_json::to_string(&forest).expect("a forest is plain data");
        let label = format!("load forest of {name} rows, {} nodes, {} kB", forest.nodes(), json.len() / 1000);
        criterion.bench_function(&label, |bench| bench.iter(|| serde_json::from_str::<Forest>(black_box(&json))));
    }
}

criterion_group!(benches, forest);
criterion_main!(benches);
