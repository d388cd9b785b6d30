//! Tests of `curve`.

use super::*;

fn curve(points: &[(f64, f64)]) -> RateCurve {
    let points: Vec<RatePoint> =
        points.iter().map(|(cpus, rate)| RatePoint { cpus: *cpus, rate: IterationRate::exactly(*rate) }).collect();
    RateCurve::new(&points).unwrap()
}

/// Lines through (0, 0) and (2, 4), (2, 4) and (6, 6), (6, 6) and (8, 6).
#[test]
fn a_concave_curve_lies_between_chords_and_extended_lines() {
    let curve = curve(&[(2.0, 4.0), (6.0, 6.0), (8.0, 6.0)]);
    assert_eq!(curve.bounds_at(2.0), RateBounds { least: 4.0, most: 4.0 });
    // The chord (2, 4)-(6, 6) at 4: 5; the line from the origin would reach 8, the one from the right stays at 6.
    assert_eq!(curve.bounds_at(4.0), RateBounds { least: 5.0, most: 6.0 });
    // From the origin to (2, 4) at 1: 2; extended backwards (2, 4)-(6, 6) reaches 3.5.
    assert_eq!(curve.bounds_at(1.0), RateBounds { least: 2.0, most: 3.5 });
    assert_eq!(curve.bounds_at(7.0), RateBounds { least: 6.0, most: 6.0 });
    assert_eq!(curve.bounds_at(20.0), RateBounds { least: 6.0, most: 6.0 });
}

/// 10 and 10.2 iterations a second, known to 3 %: the job has enough. Where the second may be 30, that is unknown.
#[test]
fn whether_a_curve_levels_off_is_open_where_its_best_rate_is() {
    let levels = |least: f64, most: f64| {
        let first = RatePoint { cpus: 1.0, rate: IterationRate { per_second: 10.0, interval: [9.7, 10.3] } };
        let second = RatePoint { cpus: 2.0, rate: IterationRate { per_second: 10.2, interval: [least, most] } };
        RateCurve::new(&[first, second]).unwrap().levels_off(0.95)
    };
    assert!(levels(9.9, 10.5) && !levels(9.9, 30.0));
}

#[test]
fn bends_upwards_and_falls_are_told_and_noise_is_not() {
    assert_eq!(curve(&[(1.0, 1.0), (2.0, 1.2), (3.0, 3.0)]).oddities(), [CurveOddity::NotConcave(2.0)]);
    assert_eq!(curve(&[(1.0, 1.0), (2.0, 0.8)]).oddities(), [CurveOddity::Falls(2.0)]);
    let noisy = |per_second: f64| IterationRate { per_second, interval: [0.9 * per_second, 1.1 * per_second] };
    let points = [(1.0, 1.0), (2.0, 0.9)].map(|(cpus, rate)| RatePoint { cpus, rate: noisy(rate) });
    assert_eq!(RateCurve::new(&points).unwrap().oddities(), []);
}

/// Disturbed: 14.5 to 20.4 iterations a second at a quarter of a CPU and 14.8 to 57.1 at one.
#[test]
fn nothing_between_or_beyond_is_known_better_than_its_neighbours() {
    let point = |cpus: f64, per_second: f64, interval: [f64; 2]| RatePoint {
        cpus,
        rate: IterationRate { per_second, interval },
    };
    let curve = RateCurve::new(&[point(0.25, 15.1, [14.5, 20.4]), point(1.0, 15.5, [14.8, 57.1])]).unwrap();
    let near = |found: [f64; 2], expected: [f64; 2]| {
        assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-9), "{found:?}");
    };
    // The chord of 14.5 and 14.8; from the origin through 20.4 at a quarter to 40.8 at a half, and to at most 57.1
    // later.
    near(curve.interval(0.5), [14.6, 40.8]);
    near(curve.interval(0.7), [14.68, 57.1]);
    near(curve.interval(1.0), [14.8, 57.1]);
    near(curve.interval(2.0), [14.8, 57.1]);
    // From the origin to 14.5; extended backwards, the line from 20.4 to 14.8 rises, but more CPUs do not make the job
    // slower.
    near(curve.interval(0.125), [7.25, 20.4]);
    // 1, 1.2 and 3 are not concave: the curve between two of them may take any rate between theirs.
    let bent = [(1.0, 1.0), (2.0, 1.2), (3.0, 3.0)].map(|(cpus, rate)| point(cpus, rate, [rate; 2]));
    near(RateCurve::new(&bent).unwrap().interval(2.5), [1.2, 3.0]);
}
