//! Tests of `answer`.

use super::super::points::ResourceConfiguration;
use super::super::points::tests::{profile_of, run};
use super::super::profile::JobFacts;
use super::*;

/// The same rate with 1, 2 and 3 CPUs: where others disturbed the job at 3, the knee may be anywhere up to there.
#[test]
fn what_a_knee_that_is_not_verified_leaves_open_is_said() {
    let point = |cpus: f64| MeasuredPoint {
        configuration: ResourceConfiguration { cpus, memory: None, storage: None },
        runs: vec![run(30.0, 10.0)],
    };
    let profile = SensitivityProfile {
        job: JobFacts { gpus: 1, ..profile_of(Vec::new(), 3.0).job },
        ..profile_of([1.0, 2.0, 3.0].map(point).to_vec(), 3.0)
    };
    let words = |verified, between| profile.waits_for_cpus(&Knee { share: 0.9, cpus: 1.0, verified, between }).unwrap();
    assert!(words(true, [1.0, 1.0]).starts_with("even with 1 CPU it does not wait for CPUs, but for "));
    let open = words(false, [1.0, 3.0]);
    assert!(open.starts_with("from 3 CPUs on it does not wait for CPUs, but for "), "{open}");
    assert!(open.ends_with("; with fewer that is open"), "{open}");
}

#[test]
fn what_storage_does_is_told_as_far_as_it_is_known() {
    assert_eq!(storage_words(None, None), "storage is fast enough with any amount of memory");
    assert_eq!(
        storage_words(Some(40), Some(70)),
        "storage holds it back while memory has room for at most 40 % of the data, and may up to 70 %"
    );
    assert!(storage_words(Some(40), Some(30)).ends_with("at most 40 % of the data"));
    assert!(storage_words(None, Some(30)).starts_with("storage may hold it back"));
}

/// 2^0.1 is 1.0718; an epoch that is less than 5 % longer is not reported.
#[test]
fn an_overlap_is_told_with_its_interval() {
    let overlap = |in_turn: f64, between: [f64; 2]| overlap_sentence(MeasuredOverlap { in_turn, between });
    assert_eq!(
        overlap(0.1, [0.0, 1.0]).unwrap(),
        "where reading and computing take as long, an epoch takes 7.2 % (0.0 % to 100.0 %) longer than either"
    );
    assert_eq!(overlap(0.005, [0.0, 0.02]), None);
}

/// Of a job that was always disturbed, only the measured rate is known.
#[test]
fn of_a_rate_that_may_be_ten_times_as_high_the_lower_end_is_told() {
    let point = |high: f64| {
        let mut run = run(9.74, 10.0);
        run.measured.as_mut().unwrap().rate.interval = [9.63, high];
        MeasuredPoint {
            configuration: ResourceConfiguration { cpus: 2.0, memory: None, storage: None },
            runs: vec![run],
        }
    };
    assert_eq!(rate_words(&point(99.5)).unwrap(), "at least 9.63 iterations/s (how many more is not known)");
    assert_eq!(rate_words(&point(9.9)).unwrap(), "9.74 iterations/s (9.63 to 9.90)");
}

/// The same measured rate with 0.25 and 2 CPUs, where others disturbed the job with 2; and one number of CPUs.
#[test]
fn rates_that_are_equal_are_not_called_waiting_for_cpus() {
    let point = |(cpus, high): (f64, f64)| {
        let mut run = run(19.9, 10.0);
        run.measured.as_mut().unwrap().rate.interval = [19.5, high];
        MeasuredPoint { configuration: ResourceConfiguration { cpus, memory: None, storage: None }, runs: vec![run] }
    };
    let words = |points: &[(f64, f64)], between: [f64; 2]| {
        let profile = profile_of(points.iter().copied().map(point).collect(), 2.0);
        profile.waits_for_cpus(&Knee { share: 0.95, cpus: between[0], verified: false, between }).unwrap()
    };
    let open = words(&[(0.25, 20.3), (2.0, 45.0)], [0.25, 2.0]);
    assert!(open.starts_with("with 0.25 CPUs it was about as fast as with more, but"), "{open}");
    let alone = words(&[(2.0, 20.3)], [2.0, 2.0]);
    assert!(alone.starts_with("with 2 CPUs, the only number that was tried, it is not known"), "{alone}");
}

#[test]
fn numbers_of_cpus_have_their_unit_and_an_interval_of_one_number_is_none() {
    let point = |(cpus, rate): (f64, f64)| {
        let mut run = run(rate, 10.0);
        run.measured.as_mut().unwrap().rate.interval = [rate - 0.01, rate + 0.01];
        MeasuredPoint { configuration: ResourceConfiguration { cpus, memory: None, storage: None }, runs: vec![run] }
    };
    let points = [(0.5, 10.0), (1.0, 19.9), (2.0, 19.9)];
    let profile = profile_of(points.map(point).to_vec(), 2.0);
    let knee = Knee { share: 0.9, cpus: 1.0, verified: true, between: [1.0, 2.0] };
    let words = profile.waits_for_cpus(&knee).unwrap();
    assert!(words.starts_with("with fewer than 1 CPU it waits for CPUs, from 2 CPUs on for "), "{words}");
    assert_eq!(rate_words(&point((1.0, 19.9))).unwrap(), "19.9 iterations/s (known to 1 %)");
}
