//! Tests of `model`.

use super::*;
use crate::curve::RatePoint;
use crate::rate::IterationRate;

/// 600 MB at 60 MB/s, an epoch of 2.4 s: the published measurement of `facts` (epochs of 9.00, 7.29 and 2.45 s with
/// 200, 350 and 800 MB).
fn reader(cache: Option<DataCache>) -> EpochModel {
    let point = |cpus: f64, rate: f64| RatePoint { cpus, rate: IterationRate::exactly(rate) };
    let curve = RateCurve::new(&[point(1.0, 100.0 / 4.8), point(2.0, 100.0 / 2.4)]).unwrap();
    let data = JobData { bytes: 600e6, memory_bandwidth: 60e9, storage_bandwidth: 60e6, storage_between: None };
    EpochModel {
        curve,
        iterations: 100.0,
        data,
        cache,
        overlap: Some(MeasuredOverlap::exactly(ReadOverlap::SIDE_BY_SIDE)),
    }
}

#[test]
fn measured_epochs_lie_between_the_two_caches() {
    let model = reader(None);
    for (cached, measured) in [(200.0 / 600.0, 9.00), (350.0 / 600.0, 7.29), (800.0 / 600.0, 2.40)] {
        let EpochEstimate { least, most, .. } = model.epoch(2.0, cached);
        assert!((least..=most).contains(&measured), "{cached}: {least} to {most}, {measured}");
    }
    // 1 - 1/3 of 10 s; and 1 - (1/3 + 2/3 ln 2/3) of them; storage may be 3 % faster or slower.
    let EpochEstimate { least, likely, most } = model.epoch(2.0, 1.0 / 3.0);
    assert!((least - 6.47).abs() < 0.01 && (most - 9.66).abs() < 0.01 && likely.is_none(), "{least} {most}");
}

/// One measured point determines the exponent: the model predicts the other one within 5 %.
#[test]
fn one_measured_point_places_the_others() {
    let model = reader(None);
    let cached = model.worth_measuring(2.0, &[0.2, 200.0 / 600.0, 0.5, 350.0 / 600.0, 0.9]).unwrap();
    assert_eq!(cached, 350.0 / 600.0);
    let placed = reader(model.cache_of(2.0, cached, 7.29));
    let likely = placed.epoch(2.0, 200.0 / 600.0).likely.unwrap();
    assert!((likely / 9.00 - 1.0).abs() < 0.05, "{likely}");
    assert!(model.cache_of(2.0, cached, 2.0).is_none(), "no longer than computing");
}

/// An epoch of a job was measured as 2.472 s; in another run, the rate predicts 2.509 s with the interval 2.474 to
/// 2.515 s.
#[test]
fn another_run_may_differ_by_as_much_as_rates_are_known_to() {
    let point = RatePoint { cpus: 1.0, rate: IterationRate { per_second: 228.0, interval: [227.47, 231.20] } };
    let model = EpochModel { curve: RateCurve::new(&[point]).unwrap(), iterations: 572.0, ..reader(None) };
    let EpochEstimate { least, likely, most } = model.epoch(1.0, 1.31);
    assert!((2.4..=2.472).contains(&least) && (2.515..2.6).contains(&most), "{least} to {most}");
    assert!((likely.unwrap() - 2.509).abs() < 0.001, "both caches hold everything");
}

/// 600 MB at 50 to 75 MB/s.
#[test]
fn epochs_are_as_uncertain_as_the_storage_that_they_wait_for() {
    let model = reader(None);
    let wavering = EpochModel { data: JobData { storage_between: Some([50e6, 75e6]), ..model.data }, ..model };
    let EpochEstimate { least, likely, most } = wavering.epoch(2.0, 0.0);
    assert!((least - 8.0).abs() < 1e-6 && (most - 12.0).abs() < 1e-6 && likely == Some(10.0), "{least} {most}");
    let held = wavering.with_storage(60e6).epoch(2.0, 0.0);
    // 10 s / 1.03 and 10 s / 0.97.
    assert!((held.least - 9.709).abs() < 1e-3 && (held.most - 10.309).abs() < 1e-3, "as rates are: {held:?}");
}

/// 10 s of reading and 2.4 s of computing, or 12.4 s without overlap; with 0.9 of the data cached, 1 s for MinIO, or
/// 4.3 s for LRU.
#[test]
fn where_nobody_knows_the_overlap_an_epoch_lies_between_both_bounds() {
    let model = EpochModel { overlap: None, ..reader(Some(DataCache::MINIO)) };
    let EpochEstimate { least, likely, most } = model.epoch(2.0, 0.0);
    assert!((least - 9.709).abs() < 1e-3 && likely.is_none(), "{least} {likely:?}");
    // 10 s / 0.97 and 2.4 s / 0.97.
    assert!((most - 12.783).abs() < 1e-2, "{most}");
    assert_eq!(model.bound(2.0, 0.0), Some(EpochBound::Storage), "either way");
    assert_eq!(model.bound(2.0, 0.9), None, "1 s during the 2.4 s, or after them");
    let all = model.epoch(2.0, 1.0);
    assert!(all.likely.is_some_and(|likely| (likely - 2.41).abs() < 1e-6), "memory takes 0.01 s: {all:?}");
}

/// Reading and computing take 2.4 s each: an epoch of 2.41 s is 0.4 % longer than either, and rates are known to 3 %.
#[test]
fn an_overlap_is_as_uncertain_as_the_epoch_that_tells_it() {
    let model = reader(None).with_storage(250e6);
    let MeasuredOverlap { in_turn, between: [low, high] } = model.overlap_of(2.0, 2.41, [2.40, 2.42]).unwrap();
    // log2(2.41 / 2.4); 2.41 * 1.03, compared with 2.4 / 1.03 and 2.4, is 5 % more than the longer one: q is between
    // log2 of 1.034 and of 1.065.
    assert!(
        (in_turn - 0.006).abs() < 1e-3 && low == 0.0 && (0.048..0.091).contains(&high),
        "{in_turn}: {low} to {high}"
    );
    let wide = model.overlap_of(2.0, 2.41, [2.0, 3.0]).unwrap();
    assert!(wide.between[1] > 0.3, "{wide:?}");
    let overlapped = EpochModel { overlap: Some(wide), ..model };
    let EpochEstimate { least, likely, most } = overlapped.epoch(2.0, 0.0);
    assert!(least < 2.34 && likely.is_some_and(|likely| (likely - 2.41).abs() < 1e-3) && most > 3.0, "{least} {most}");
}

#[test]
fn what_an_epoch_waits_for_changes_with_cpus_and_memory() {
    let model = reader(None);
    assert_eq!(model.bound(2.0, 0.2), Some(EpochBound::Storage));
    assert_eq!(model.bound(1.0, 1.0), Some(EpochBound::Cpu));
    assert_eq!(model.bound(2.0, 1.0), None, "the rate doubled from one CPU to two: what a third brings is open");
    let level = [(1.0, 100.0 / 4.8), (2.0, 100.0 / 2.4), (3.0, 100.0 / 2.38)];
    let level = level.map(|(cpus, rate)| RatePoint { cpus, rate: IterationRate::exactly(rate) });
    let level = EpochModel { curve: RateCurve::new(&level).unwrap(), ..reader(None) };
    assert_eq!(level.bound(2.0, 1.0), Some(EpochBound::Accelerator));
    // MinIO misses 15 %, which takes 1.5 s; LRU 43 %, which takes longer than computing.
    assert_eq!(model.bound(2.0, 0.85), None);
    assert_eq!(reader(Some(DataCache::LRU)).bound(2.0, 0.85), Some(EpochBound::Storage));
}

/// 600 MB, half of them cache misses, in 2.4 s less the time of reading from memory.
#[test]
fn needed_storage_feeds_what_is_missed() {
    let needed = reader(Some(DataCache::MINIO)).needed_bandwidth(2.0, 0.5).unwrap();
    assert!((needed.likely.unwrap() - 300e6 / (2.4 - 0.005)).abs() < 1.0, "{needed:?}");
    let nothing = reader(None).needed_bandwidth(2.0, 0.0).unwrap();
    assert!((nothing.likely.unwrap() - 250e6).abs() < 1.0, "no cache finds anything without room: {nothing:?}");
    assert!(reader(None).needed_bandwidth(2.0, 0.5).unwrap().likely.is_none());
    let slow = JobData { memory_bandwidth: 100e6, ..reader(None).data };
    assert_eq!(EpochModel { data: slow, ..reader(None) }.needed_bandwidth(2.0, 1.0), None, "memory alone takes 6 s");
}

/// A job without prefetching: 10 s of reading from storage and 2.4 s of computing take 12.4 s, at 120 MB/s 7.4 s.
/// Reading may take 5 % of computing, that is 600 MB in 0.12 s.
#[test]
fn one_epoch_from_storage_tells_whether_reading_goes_on_beside_computing() {
    let model = reader(Some(DataCache::MINIO));
    let overlap = model.overlap_of(2.0, 12.4, [12.4; 2]).map(|measured| MeasuredOverlap::exactly(measured.likely()));
    assert!((overlap.unwrap().in_turn - 1.0).abs() < 1e-6, "{overlap:?}");
    let in_turn = EpochModel { overlap, ..model.clone() };
    let likely = |model: &EpochModel| model.epoch(2.0, 0.0).likely.unwrap();
    assert!((likely(&in_turn.with_storage(120e6)) - 7.4).abs() < 1e-3);
    assert!((likely(&model.with_storage(120e6)) - 5.0).abs() < 1e-3);
    let needed = |model: &EpochModel| model.needed_bandwidth(2.0, 0.0).unwrap().likely.unwrap() / 1e6;
    assert!((needed(&in_turn) - 5000.0).abs() < 1.0 && (needed(&model) - 250.0).abs() < 0.1);
    assert_eq!(
        in_turn.with_storage(300e6).bound(2.0, 0.0),
        Some(EpochBound::Storage),
        "it would be enough side by side"
    );
    // Half of the data is cached: 5 s of reading and 2.4 s of computing.
    let placed = in_turn.cache_of(2.0, 0.5, 7.4).unwrap();
    assert!(placed.lru < 0.01, "{placed:?}");
}

/// An epoch of 10 iterations of 0.1 s, with 0.5 s of reading. It took 1 s, but may take up to 1.5 s, because such short
/// iterations do not show the overlap. So storage may slow it down, and the needed bandwidth is between 50 MB in 1 s
/// and 50 MB in 5 % of that.
#[test]
fn what_an_overlap_leaves_open_stays_open() {
    let curve = RateCurve::new(&[RatePoint { cpus: 1.0, rate: IterationRate::exactly(10.0) }]).unwrap();
    let data = JobData { bytes: 50e6, memory_bandwidth: 1e15, storage_bandwidth: 100e6, storage_between: None };
    let seen = MeasuredOverlap { in_turn: 0.0, between: [0.0, 0.0] };
    let known = EpochModel { curve, iterations: 10.0, data, cache: Some(DataCache::MINIO), overlap: Some(seen) };
    assert_eq!((known.waits_for_storage(1.0, 0.0), known.bound(1.0, 0.0)), (Some(false), None));
    let open = EpochModel { overlap: Some(seen.at_least()), ..known.clone() };
    assert!(open.epoch(1.0, 0.0).most > 1.5);
    assert_eq!((open.waits_for_storage(1.0, 0.0), open.waits_for_storage(1.0, 1.0)), (None, Some(false)));
    let needed =
        |model: &EpochModel| model.needed_bandwidth(1.0, 0.0).map(|needed| [needed.least, needed.most]).unwrap();
    // Another run may compute 3 % faster or slower.
    let close = |of: [f64; 2], by: [f64; 2]| of.iter().zip(by).all(|(of, by)| (of / by - 1.0).abs() < 0.031);
    assert!(close(needed(&known), [50e6; 2]), "{:?}", needed(&known));
    assert!(close(needed(&open), [50e6, 1e9]), "{:?}", needed(&open));
    // 0.1 s from memory, but reading may take only 0.05 s without overlap.
    let slow = EpochModel { data: JobData { memory_bandwidth: 0.5e9, ..data }, ..open };
    assert_eq!(slow.needed_bandwidth(1.0, 0.99), None, "one after the other, memory alone may take too long");
}

#[test]
fn memory_is_enough_where_no_cache_would_wait() {
    let shares: Vec<f64> = (0..=10).map(|tenth| f64::from(tenth) / 10.0).collect();
    // MinIO misses 20 % in 2 s; LRU with 90 % cached still misses 1 - (0.9 + 0.1 ln 0.1), or 3.3 s.
    assert_eq!(reader(Some(DataCache::MINIO)).enough_memory(2.0, 2.5, &shares), Some(0.8));
    assert_eq!(reader(None).enough_memory(2.0, 2.5, &shares), Some(1.0));
    assert_eq!(reader(None).enough_memory(2.0, 2.0, &shares), None);
}
