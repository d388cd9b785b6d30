//! Forests: against hand-derived expectations and scikit-learn, bounds, determinism, and what a damaged file does.

use linfa::prelude::*;
use ndarray::{Array1, Array2, array};
use perf4sight_base::error::Error;
use perf4sight_cost::trees::{ExtraTrees, Forest};
use proptest::prelude::*;

fn fit(trees: usize, seed: u64, features: &Array2<f64>, targets: &Array1<f64>) -> Result<Forest, Error> {
    Ok(ExtraTrees::params(seed).trees(trees).fit(&Dataset::new(features.clone(), targets.clone()))?)
}

/// 44 rows x 56 features, the size of the published resnet50 fit.
fn profile() -> (Array2<f64>, Array1<f64>) {
    let features = Array2::from_shape_fn((44, 56), |(row, feature)| ((row * (feature + 3)) % 47) as f64 * 1.7e9);
    let targets = Array1::from_shape_fn(44, |row| 100.0 + (row as f64).powf(1.3));
    (features, targets)
}

#[test]
fn a_threshold_is_uniform_between_the_smallest_and_largest_value() {
    // Two rows: the one split is uniform in [0, 10), so a row at 3 goes right (value 1) in 30 % of the trees.
    let forest = fit(10_000, 1, &array![[0.0], [10.0]], &array![0.0, 1.0]).unwrap();
    let share = forest.predict_row(&[3.0]);
    assert!((share - 0.3).abs() < 0.02, "{share} is more than four standard errors from 0.3");
}

#[test]
fn the_best_variance_reduction_wins_and_constant_features_are_skipped() {
    // Feature 0 parts the targets perfectly, feature 1 not at all, feature 2 is constant.
    let features = array![[0.0, 0.0, 7.0], [0.0, 1.0, 7.0], [1.0, 0.0, 7.0], [1.0, 1.0, 7.0]];
    let forest = fit(64, 2, &features, &array![5.0, 5.0, 9.0, 9.0]).unwrap();
    assert_eq!(forest.importance(), [1.0, 0.0, 0.0]);
    assert_eq!(forest.nodes(), 64 * 3);
}

#[test]
fn features_that_split_equally_well_share_the_splits() {
    let forest = fit(10_000, 3, &array![[0.0, 0.0], [1.0, 1.0]], &array![0.0, 1.0]).unwrap();
    // Either feature with probability 1/2; four standard errors are 0.02.
    assert!((forest.importance()[0] - 0.5).abs() < 0.02, "{:?}", forest.importance());
}

#[test]
fn rows_that_cannot_be_told_apart_give_their_mean() {
    let forest = fit(5, 4, &array![[1.0], [1.0], [2.0]], &array![10.0, 20.0, 40.0]).unwrap();
    assert_eq!(forest.predict_row(&[1.0]), 15.0);
    assert_eq!(forest.predict_row(&[2.0]), 40.0);
}

#[test]
fn expectations_equal_scikit_learns() {
    let features = Array2::from_shape_fn((12, 3), |(i, feature)| match feature {
        0 => (i % 4) as f64,
        1 => (i * i % 7) as f64,
        _ => i as f64 / 2.0,
    });
    let targets = Array1::from_shape_fn(12, |i| (3 * (i % 4) + (i * i % 7).pow(2) + i / 3) as f64);
    let forest = fit(20_000, 5, &features, &targets).unwrap();
    // Mean of 40 forests of 1,000 trees of scikit-learn 1.9.1's ExtraTreesRegressor, and its standard error plus that of
    // the 20,000 trees here.
    let expected = [
        ([0.5, 3.0, 1.2], 12.8346, 0.105),
        ([2.2, 1.5, 4.0], 11.4207, 0.028),
        ([1.0, 5.5, 5.0], 21.9595, 0.007),
        ([2.9, 0.3, 0.1], 9.1339, 0.044),
    ];
    for (row, value, error) in expected {
        let ours = forest.predict_row(&row);
        assert!((ours - value).abs() < 4.0 * error, "{row:?}: {ours} is not {value}");
    }
    for (ours, value) in forest.importance().iter().zip([0.2942, 0.6558, 0.0499]) {
        assert!((ours - value).abs() < 0.005, "importance {ours} is not {value}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_the_number_of_threads() {
    let (features, targets) = profile();
    let bytes = |threads: usize, seed: u64| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let forest = pool.install(|| fit(50, seed, &features, &targets).unwrap());
        serde_json::to_vec(&forest).unwrap()
    };
    assert_eq!(bytes(1, 6), bytes(4, 6));
    assert_ne!(bytes(1, 6), bytes(1, 7));
}

#[test]
fn a_saved_forest_is_compact_and_predicts_exactly_the_same() {
    let (features, targets) = profile();
    let forest = fit(300, 8, &features, &targets).unwrap();
    let text = serde_json::to_string(&forest).unwrap();
    // The published pickle of 300 trees on 44 rows takes 1.7 MB.
    assert!(forest.nodes() > 25_000 && text.len() < 150_000, "{} nodes in {} bytes", forest.nodes(), text.len());
    let loaded: Forest = serde_json::from_str(&text).unwrap();
    assert_eq!(loaded, forest);
    assert_eq!(loaded.predict(&(features.clone() * 1.01)), forest.predict(&(features * 1.01)));
}

#[test]
fn damaged_files_are_refused_with_the_key() {
    let (features, targets) = profile();
    let good = serde_json::to_value(fit(3, 9, &features, &targets).unwrap()).unwrap();
    let refusal = |key: &str, value: serde_json::Value| {
        let mut edited = good.clone();
        edited[key] = value;
        serde_json::from_value::<Forest>(edited).unwrap_err().to_string()
    };
    let text = |key: &str| good[key].as_str().unwrap().to_string();
    for key in ["shape", "feature", "threshold", "leaf", "value"] {
        let cut = &text(key)[..text(key).len() - 8];
        assert!(refusal(key, cut.into()).contains("forest"), "{key} cut short");
        assert!(refusal(key, "no base64!".into()).contains(key));
    }
    assert!(refusal("trees", 4.into()).contains("do not fit together"));
    assert!(refusal("trees", 0.into()).contains("0 trees"));
    assert!(refusal("importance", serde_json::json!([])).contains("0 features"));
    assert!(refusal("importance", serde_json::json!([1.0, 0.0])).contains("feature"), "features beyond the two");
    // All ones: splits without end; all zeros: leaves only.
    let bits = text("shape").len() / 4 * 3;
    assert!(refusal("shape", encode(&vec![0xff; bits])).contains("shape"));
    assert!(refusal("shape", encode(&vec![0; bits])).contains("shape"));
    assert!(refusal("threshold", encode(&vec![0xff; 4 * splits(&good)])).contains("not a number"));
}

fn encode(bytes: &[u8]) -> serde_json::Value {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes).into()
}

/// One byte per split while there are at most 256 features.
fn splits(forest: &serde_json::Value) -> usize {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(forest["feature"].as_str().unwrap()).unwrap().len()
}

#[test]
fn what_cannot_be_fitted_is_refused() {
    let refused = |trees, features: &Array2<f64>, targets: &Array1<f64>| fit(trees, 0, features, targets).unwrap_err();
    assert!(refused(0, &array![[1.0]], &array![1.0]).to_string().contains("0 trees"));
    assert!(refused(1, &array![[f64::NAN]], &array![1.0]).to_string().contains("not a number"));
    assert!(refused(1, &array![[1.0]], &array![f64::INFINITY]).to_string().contains("not a number"));
    assert!(refused(1, &array![[1e300]], &array![1.0]).to_string().contains("single precision"));
    assert!(refused(1, &Array2::zeros((0, 2)), &array![]).to_string().contains("0 rows"));
    assert!(refused(1, &Array2::zeros((1, 0)), &array![1.0]).to_string().contains("0 features"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn predictions_stay_within_the_targets(
        rows in prop::collection::vec((prop::array::uniform3(-1e6..1e6f64), -1e3..1e3f64), 1..40),
        asked in prop::array::uniform3(-2e6..2e6f64),
        seed: u64,
    ) {
        let features = Array2::from_shape_fn((rows.len(), 3), |(row, feature)| rows[row].0[feature]);
        let targets: Array1<f64> = rows.iter().map(|row| row.1).collect();
        let forest = fit(10, seed, &features, &targets).unwrap();
        let low = targets.fold(f64::INFINITY, |a, &b| a.min(b));
        let high = targets.fold(f64::NEG_INFINITY, |a, &b| a.max(b));
        let predicted = forest.predict_row(&asked);
        prop_assert!(low - 1e-9 <= predicted && predicted <= high + 1e-9, "{predicted} outside {low}..{high}");
        let json = serde_json::to_string(&forest).unwrap();
        prop_assert_eq!(serde_json::from_str::<Forest>(&json).unwrap(), forest);
    }
}
