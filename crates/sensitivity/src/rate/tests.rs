//! Tests of `rate`.

use super::*;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use statrs::distribution::{ContinuousCDF, Exp, Normal, StudentsT};

fn steps(durations: &[f64]) -> Vec<ReportedStep> {
    let mut time = 0.0;
    let end = |(number, duration): (usize, &f64)| {
        time += duration;
        ReportedStep { number: number as u64 + 1, time, wait: None }
    };
    durations.iter().enumerate().map(end).collect()
}

/// Runs at 4.0 and 4.4 a second, known to 0.1, of a job with a limit of half a CPU; it used 0.44 CPUs, and may have
/// waited half of the time.
#[test]
fn what_others_disturbed_lies_as_far_off_as_runs_differ_and_as_others_may_have_held_it_back() {
    let rate = |per_second: f64| IterationRate { per_second, interval: [per_second - 0.1, per_second + 0.1] };
    let by = |used: f64, waited: f64| Some(Disturbance { limit: 0.5, used, waited });
    let close = |rate: Option<IterationRate>, low: f64, high: f64| {
        let rate = rate.unwrap();
        assert_eq!(rate.per_second, 4.4);
        assert!((rate.interval[0] - low).abs() < 1e-9 && (rate.interval[1] - high).abs() < 1e-9, "{rate:?}");
    };
    close(IterationRate::disturbed(&[(rate(4.0), None), (rate(4.4), None)]), 3.9, 4.9);
    // At its limit it is 0.5 / 0.44 as fast.
    close(IterationRate::disturbed(&[(rate(4.4), by(0.44, 0.5))]), 4.3, 4.5 * 0.5 / 0.44);
    // It hardly uses its CPU, and waited a fifth of the time at most.
    close(IterationRate::disturbed(&[(rate(4.4), by(0.1, 0.2))]), 4.3, 4.5 / 0.8);
    assert!(IterationRate::disturbed(&[]).is_none());
}

#[test]
fn quantiles_are_those_of_students_t() {
    for (freedom, quantile) in (6..).zip(STUDENT) {
        let exact = StudentsT::new(0.0, 1.0, f64::from(freedom)).unwrap().inverse_cdf(1.0 - 0.01 / 2.0);
        assert!((quantile - exact).abs() < 1e-3, "{freedom}: {quantile}, {exact}");
    }
}

#[test]
fn the_rate_is_that_behind_the_warm_up() {
    let durations: Vec<f64> = [[2.0; 3].as_slice(), &[0.1; 100]].concat();
    let measured = MeasuredRate::from_steps(&steps(&durations), StepSpan::after_warm_up(3)).unwrap();
    assert!((measured.rate.per_second - 10.0).abs() < 1e-9 && measured.is_known(), "{measured:?}");
    assert_eq!((measured.iterations, measured.waiting), (99, None));
    assert!(MeasuredRate::from_steps(&steps(&durations), StepSpan::after_warm_up(103)).is_none(), "nothing is left");
    assert!(
        MeasuredRate::from_steps(&steps(&[0.5; 8]), StepSpan::after_warm_up(0)).is_none(),
        "seven blocks have no interval"
    );
}

/// Steps that slow down gradually from 0.1 s to 0.2 s; steps of two phases; and steps of 0.1 s with 30 % noise, or with
/// a stall.
#[test]
fn a_rate_that_changes_while_it_is_measured_is_told() {
    let changed =
        |durations: &[f64]| MeasuredRate::from_steps(&steps(durations), StepSpan::after_warm_up(0)).unwrap().changed;
    let slower: Vec<f64> = (0..200).map(|step| 0.1 + 0.1 * f64::from(step) / 200.0).collect();
    let [before, after] = changed(&slower).unwrap();
    assert!((before - 8.0).abs() < 0.2 && (after - 5.7).abs() < 0.2, "{before} {after}");
    let phases = [[0.1; 60], [0.2; 60]].concat();
    let [before, after] = changed(&phases).unwrap();
    assert!((before - 10.0).abs() < 0.2 && (after - 5.0).abs() < 0.2, "{before} {after}");
    let normal = Normal::new(0.1, 0.03).unwrap();
    let reported = (0..200).filter(|seed| {
        let mut draws = Xoshiro256PlusPlus::seed_from_u64(*seed);
        let noisy: Vec<f64> = (0..60).map(|_| normal.inverse_cdf(draws.random()).max(0.01)).collect();
        changed(&noisy).is_some()
    });
    assert!(reported.count() <= 2);
    let mut stalled = vec![0.1; 100];
    stalled[20] = 5.0;
    assert_eq!(changed(&stalled), None);
}

/// An epoch of ten iterations at 10 and ten at 2.5 a second: a mean of 4 a second, whatever follows it.
#[test]
fn whole_epochs_have_a_mean_which_what_follows_does_not_move() {
    let epoch = [[0.1; 10], [0.4; 10]].concat();
    let durations = [&[1.0; 4], epoch.as_slice(), &epoch, &[0.1; 7]].concat();
    let measured = MeasuredRate::from_steps(&steps(&durations), StepSpan { warm_up: 3, most: Some(40) }).unwrap();
    assert_eq!(measured.iterations, 40);
    assert!((measured.mean() - 4.0).abs() < 1e-9, "{measured:?}");
}

#[test]
fn a_stall_does_not_count_and_waiting_does() {
    let mut durations = vec![0.1; 100];
    durations[50] = 5.0;
    let mut steps = steps(&durations);
    steps.iter_mut().for_each(|step| step.wait = Some(0.025));
    let measured = MeasuredRate::from_steps(&steps, StepSpan::after_warm_up(0)).unwrap();
    assert!((measured.rate.per_second - 10.0).abs() < 1e-9, "{measured:?}");
    // 99 times 0.025 of 9.8 + 5 seconds.
    assert!((measured.waiting.unwrap() - 2.475 / 14.8).abs() < 1e-9, "{measured:?}");
}

#[test]
fn the_slowest_rank_counts_and_none_may_be_missing() {
    let (slow, fast, short) = (steps(&[0.2; 50]), steps(&[0.1; 50]), steps(&[0.1; 3]));
    let rate = |ranks: &[&[ReportedStep]]| {
        slowest(ranks.iter().copied(), StepSpan::after_warm_up(0)).map(|measured| measured.rate.per_second)
    };
    assert!((rate(&[&fast, &slow]).unwrap() - 5.0).abs() < 1e-9);
    assert_eq!(rate(&[&fast, &short]), None);
}

/// How often the interval contains the true rate, where a point ends as soon as its rate is known to 3 %.
fn holds(mut duration: impl FnMut(&mut Xoshiro256PlusPlus, usize) -> f64, truth: f64) -> f64 {
    let held = (0..400).filter(|seed| {
        let mut draws = Xoshiro256PlusPlus::seed_from_u64(*seed);
        let durations: Vec<f64> = (0..3000).map(|step| duration(&mut draws, step)).collect();
        let all = steps(&durations);
        let known = |until: usize| {
            MeasuredRate::from_steps(&all[..until], StepSpan::after_warm_up(5)).filter(|measured| measured.is_known())
        };
        let looks = std::iter::successors(Some(20), |at| Some(at + at / 10 + 1)).take_while(|at| *at < 3000);
        let measured = looks.into_iter().find_map(known).expect("3000 steps are enough");
        let [low, high] = measured.rate.interval;
        low <= truth && truth <= high
    });
    held.count() as f64 / 400.0
}

/// Steps of 0.25 s and of 0.13 s that end in periods of 0.1 s, as those of a job with a CPU limit.
#[test]
fn intervals_hold_though_steps_end_in_turns() {
    let shares = [0.25, 0.13].map(|mean| {
        let noise = Normal::new(mean, 0.02).unwrap();
        let (mut free, mut ended) = (0.0, 0.0);
        holds(
            |draws, step| {
                let before = if step == 0 { (0.0, 0.0) } else { (free, ended) };
                free = before.0 + f64::max(noise.inverse_cdf(draws.random()), 0.01);
                ended = (free / 0.1_f64).ceil() * 0.1;
                f64::max(ended - before.1, 1e-9)
            },
            1.0 / mean,
        )
    });
    assert!(shares.iter().all(|share| *share >= 0.95), "{shares:?}");
}

/// Four workers deliver batches at once, every 0.4 s: after 200 batches, 20 s, the ends of the run change its rate by
/// at most 2 %.
#[test]
fn bursts_are_no_doubt_of_the_rate() {
    let durations: Vec<f64> = (0..200).map(|step| if step % 4 == 0 { 0.37 } else { 0.01 }).collect();
    let measured = MeasuredRate::from_steps(&steps(&durations), StepSpan::after_warm_up(0)).unwrap();
    let [low, high] = measured.rate.interval;
    assert!(measured.is_known() && low <= 10.0 && 10.0 <= high, "{measured:?}");
}

/// Steps of 0.1 s: with 10 % normal noise; with exponential pauses; in bursts of four, as data loaders with four
/// workers deliver.
#[test]
fn intervals_hold_though_points_end_when_they_are_narrow() {
    let normal = Normal::new(0.1, 0.01).unwrap();
    let pause = Exp::new(1.0 / 0.02).unwrap();
    let shares = [
        holds(|draws, _| normal.inverse_cdf(draws.random()).max(0.01), 10.0),
        holds(|draws, _| 0.08 + pause.inverse_cdf(draws.random()), 10.0),
        holds(|draws, step| if step % 4 == 0 { 0.37 } else { 0.01 } * draws.random_range(0.9..1.1), 10.0),
    ];
    assert!(shares.iter().all(|share| *share >= 0.95), "{shares:?}");
}

/// Steps of 0.1 s with autocorrelated noise: 0.7 of the previous deviation and 4 % of new noise. Groups are then not
/// independent, and some intervals are too short.
#[test]
fn intervals_of_steps_that_are_alike_hold_a_little_less() {
    let (normal, mut off) = (Normal::new(0.0, 0.004).unwrap(), 0.0);
    let share = holds(
        |draws, step| {
            off = 0.7 * if step == 0 { 0.0 } else { off } + normal.inverse_cdf(draws.random());
            f64::max(0.1 + off, 0.01)
        },
        10.0,
    );
    assert!((0.92..0.95).contains(&share), "{share}");
}
