//! Buckets against every possible cut, and against PyTorch's own.

use super::*;
use perf4sight_replay::buckets::BucketLimits;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::json;

const MIB: u64 = 1 << 20;

fn gradients(ready_and_bytes: &[(f64, u64)]) -> Vec<ReadyGradient> {
    ready_and_bytes.iter().map(|&(ready_ms, bytes)| ReadyGradient { ready_ms, bytes, pass: 0 }).collect()
}

fn invented(seed: u64, count: usize) -> (Vec<ReadyGradient>, AllReduceLink) {
    let mut draws = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut ready_ms = 0.0;
    let gradients = (0..count).map(|_| {
        ready_ms += draws.random_range(0.0..5.0);
        ReadyGradient { ready_ms, bytes: draws.random_range(1..20 * MIB), pass: 0 }
    });
    let gradients = gradients.collect();
    let link = AllReduceLink { alpha_ms: draws.random_range(0.0..10.0), ms_per_byte: draws.random_range(0.0..1e-6) };
    (gradients, link)
}

/// The earliest end over all 2^(n-1) ways to cut, by walking the clock through each: no dynamic programming.
fn brute_force(gradients: &[ReadyGradient], link: AllReduceLink) -> f64 {
    let cuts = gradients.len() - 1;
    let ends = (0..1_u32 << cuts).map(|cut_after| {
        let (mut clock, mut waiting) = (0.0_f64, 0);
        for (place, gradient) in gradients.iter().enumerate() {
            waiting += gradient.bytes;
            if place == cuts || cut_after & (1 << place) != 0 {
                clock = if gradient.ready_ms > clock { gradient.ready_ms } else { clock };
                clock += link.alpha_ms + link.ms_per_byte * waiting as f64;
                waiting = 0;
            }
        }
        clock
    });
    ends.fold(f64::INFINITY, f64::min)
}

#[test]
fn the_optimum_is_that_of_all_possible_cuts() {
    for seed in 0..300 {
        let (gradients, link) = invented(seed, 1 + seed as usize % 12);
        let found = optimum(&gradients, link);
        let best = brute_force(&gradients, link);
        assert!((found.finished_ms - best).abs() < 1e-9 * best.max(1.0), "{seed}: {} for {best}", found.finished_ms);
        let walked = BucketFusion::of_ends(&gradients, link, found.ends.clone());
        assert!((walked.finished_ms - best).abs() < 1e-9 * best.max(1.0), "{seed}: the buckets give another end");
    }
}

#[test]
fn no_cap_is_better_than_the_optimum_and_the_best_cap_is_no_worse_than_the_default() {
    for seed in 0..30 {
        let (gradients, link) = invented(seed, 200);
        let (exact, best) = (optimum(&gradients, link), best_cap(&gradients, link));
        let default = buckets(&gradients, link, BucketLimits::DEFAULT);
        assert!(exact.finished_ms <= best.fusion.finished_ms + 1e-9, "{seed}");
        assert!(best.fusion.finished_ms <= default.finished_ms, "{seed}");
    }
}

/// By hand: the first bucket is full with its first gradient (1 MiB); the second reaches 25 MiB with its third one,
/// 10 + 10 + 10; the last holds the rest.
#[test]
fn buckets_close_as_pytorch_closes_them() {
    let gradients = gradients(&[(1.0, MIB), (2.0, 10 * MIB), (3.0, 10 * MIB), (4.0, 10 * MIB), (5.0, 2 * MIB)]);
    let link = AllReduceLink { alpha_ms: 1.0, ms_per_byte: 1.0 / MIB as f64 };
    let fusion = buckets(&gradients, link, BucketLimits::DEFAULT);
    assert_eq!(fusion.ends, [1, 4, 5]);
    // 1 + 1 + 1 = 3; then ready at 4: 4 + 1 + 30 = 35; then 35 + 1 + 2 = 38.
    assert!((fusion.finished_ms - 38.0).abs() < 1e-9, "{}", fusion.finished_ms);
}

#[test]
fn frameworks_get_their_formats() {
    let gradients = gradients(&[(0.0, 3 * MIB), (0.0, 2 * MIB), (0.0, MIB), (9.0, MIB), (9.0, MIB)]);
    let link = AllReduceLink { alpha_ms: 0.1, ms_per_byte: 1.0 / MIB as f64 };
    let fusion = BucketFusion::of_ends(&gradients, link, vec![3, 5]);
    assert_eq!(group_mapping(&fusion), json!({ "mapping": ["0+1+2", "3+4"] }));
    assert_eq!(horovod_threshold(&gradients, &fusion), 6 * MIB);
    let lines =
        "Distributed_Push_Pull/BytePSPushPull.0_1_2 6291456\nDistributed_Push_Pull/BytePSPushPull.3_4 2097152\n";
    assert_eq!(partitions(&gradients, &fusion), lines);
    assert!(pytorch_arguments(BucketLimits::of_cap(8.0)).contains("bucket_cap_mb=8"));
    let first = BucketLimits { first: 4 * MIB, ..BucketLimits::DEFAULT };
    assert!(pytorch_arguments(first).starts_with("dist._DEFAULT_FIRST_BUCKET_BYTES = 4194304"));
}

#[test]
fn what_cannot_be_fused_is_refused() {
    let link = AllReduceLink { alpha_ms: 1.0, ms_per_byte: 0.0 };
    assert!(check(&gradients(&[(0.0, 1), (1.0, 1)]), link).is_ok());
    for (list, link) in [
        (vec![], link),
        (vec![(2.0, 1), (1.0, 1)], link),
        (vec![(f64::NAN, 1)], link),
        (vec![(0.0, 1), (f64::NAN, 1)], link),
        (vec![(0.0, 1)], AllReduceLink { alpha_ms: -1.0, ..link }),
        (vec![(0.0, 1)], AllReduceLink { ms_per_byte: f64::INFINITY, ..link }),
    ] {
        assert!(check(&gradients(&list), link).is_err(), "{list:?}");
    }
}

/// Two passes of the same gradients: as the optimum of each by itself, one after the other.
#[test]
fn the_optimum_of_two_passes_has_no_bucket_of_both() {
    let (pass, link) = invented(7, 9);
    let ends = optimum(&pass, link).ends;
    let later = pass.iter().map(|one| ReadyGradient { ready_ms: one.ready_ms + 1e6, pass: 1, ..*one });
    let both: Vec<ReadyGradient> = pass.iter().copied().chain(later).collect();
    let expected: Vec<usize> = ends.iter().copied().chain(ends.iter().map(|end| end + pass.len())).collect();
    assert_eq!(optimum(&both, link).ends, expected);
    assert!(choices(&both, link).iter().all(|choice| choice.fusion.ends.contains(&pass.len())));
}

/// 1 + 8 + 22 + 4 MB with a threshold of 22: Horovod fills the first bucket with both small ones.
#[test]
fn horovod_fills_buckets_up_to_its_threshold() {
    let gradients = gradients(&[(1.0, 1), (2.0, 8), (3.0, 22), (4.0, 4)]);
    let link = AllReduceLink { alpha_ms: 1.0, ms_per_byte: 0.0 };
    assert_eq!(of_threshold(&gradients, link, 22).ends, [2, 3, 4]);
    assert_eq!(of_threshold(&gradients, link, 100).ends, [4]);
}

#[test]
fn a_list_of_caps_makes_pytorch_make_these_buckets() {
    // Gradients of twelve linear layers in the order in which they are ready. PyTorch 2.15 (gloo, one rank, a communication hook that
    // writes down sizes) made buckets of 690480, 1877600, 2531200 and 1195040 bytes of them with this list.
    let layers = (0..12).rev().map(|layer| (300 + 10 * layer, 310 + 10 * layer));
    let sizes = layers.flat_map(|(inputs, outputs)| [4 * outputs, 4 * inputs * outputs]);
    let gradients = gradients(&sizes.map(|bytes| (0.0, bytes)).collect::<Vec<_>>());
    let link = AllReduceLink { alpha_ms: 1.0, ms_per_byte: 1e-6 };
    let fusion = BucketFusion::of_ends(&gradients, link, vec![2, 8, 18, 24]);
    let bytes: Vec<u64> = fusion.buckets().map(|one| gradients[one].iter().map(|one| one.bytes).sum()).collect();
    assert_eq!(bytes, [690480, 1877600, 2531200, 1195040]);
    assert_eq!(pytorch_list(&gradients, &fusion), "DistributedDataParallel(..., bucket_cap_mb_list=[0.6, 1.7, 2, 1])");
}
