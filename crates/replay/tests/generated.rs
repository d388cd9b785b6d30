//! Jobs that are made up, whose waiting, clocks and stragglers are known.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

use perf4sight_replay::Analysis;
use perf4sight_replay::collectives::{CollectiveOperation, GroupKnowledge, RankExchange, RankExchanges};
use perf4sight_replay::communication::UnknownLatency;
use perf4sight_replay::ranks::TrainingJob;
use perf4sight_replay::replayed_job::ReplayedJob;
use perf4sight_replay::request::ReplayRequest;
use perf4sight_replay::waiting::{JobWaiting, RankActivity};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// An event of the main thread, in microseconds.
fn event(category: &str, name: &str, [start, duration]: [f64; 2], args: &str) -> String {
    on(7, category, name, [start, duration], args)
}

fn on(thread: u32, category: &str, name: &str, [start, duration]: [f64; 2], args: &str) -> String {
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":7,"tid":{thread},"ts":{start:.3},"dur":{duration:.3},"args":{{{args}}}}}"#
    )
}

/// A gloo all-reduce of a thread of the library.
fn reduce(time: [f64; 2]) -> String {
    on(8, "user_annotation", "gloo:all_reduce", time, r#""Input Dims":[[100]],"Input type":["float"]"#)
}

fn step(number: u32, time: [f64; 2]) -> String {
    event("user_annotation", &format!("ProfilerStep#{number}"), time, "")
}

/// A launch at a moment of the main thread, and what it launches on a stream.
fn launched(correlation: u32, at: f64, (stream, name): (u32, &str), time: [f64; 2], args: &str) -> [String; 2] {
    let own = format!(r#""correlation":{correlation}"#);
    let call = event("cuda_runtime", "cudaLaunchKernel", [at, 5.0], &own);
    [call, on(stream, "kernel", name, time, &format!("{own}{args}"))]
}

const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
const OF_ALL_REDUCE: &str = r#","Collective name":"allreduce","In msg nelems":1000000,"dtype":"Float","Group size":2"#;

/// Writes the trace of a rank of `ranks`, whose clock is `base` nanoseconds off.
fn write(folder: &Path, rank: u32, ranks: u32, base: i64, events: &[String]) {
    write_with_groups(folder, [rank, ranks], base, &[], events);
}

/// The same with the process groups that the rank knows of.
fn write_with_groups(folder: &Path, [rank, ranks]: [u32; 2], base: i64, groups: &[&str], events: &[String]) {
    let groups: Vec<String> = groups.iter().map(|ranks| format!(r#"{{"pg_name":"0","ranks":{ranks}}}"#)).collect();
    let text = format!(
        r#"{{"distributedInfo":{{"rank":{rank},"world_size":{ranks},"pg_config":[{}]}},"baseTimeNanoseconds":{base},"traceEvents":[{}]}}"#,
        groups.join(","),
        events.join(",")
    );
    fs::write(folder.join(format!("rank{rank}.json")), text).unwrap();
}

fn read(folder: &TempDir) -> TrainingJob {
    TrainingJob::read(&[folder.path().to_owned()]).unwrap()
}

/// A job, replayed with a change.
fn asked(folder: &TempDir, what_if: &str) -> ReplayedJob {
    ReplayedJob::replay(&Analysis::new(read(folder)), &request(what_if)).unwrap()
}

fn request(what_if: &str) -> ReplayRequest {
    ReplayRequest { what_ifs: vec![what_if.to_owned()], ..ReplayRequest::default() }
}

/// Milliseconds of a job's step without a change and with it.
fn before_and_after(folder: &TempDir, what_if: &str) -> [f64; 2] {
    let replayed = asked(folder, what_if);
    let (_, outcome) = replayed.answered_scenarios().next().unwrap();
    [outcome.before as f64, outcome.after.time].map(|time| time / 1e6)
}

fn refused(folder: &TempDir) -> String {
    TrainingJob::read(&[folder.path().to_owned()]).unwrap_err().to_string()
}

/// Calculated by hand: starts at 10, 40 and 25, ends at 60, 61 and 60 us. Rank 1 comes last, at 40, so that rank 0 waits
/// 30 and rank 2 15 us, and the transfer takes 20.
#[test]
fn waiting_and_transfer_are_told_apart() {
    let folder = TempDir::new().unwrap();
    for (rank, [start, end]) in (0..).zip([[10.0, 60.0], [40.0, 61.0], [25.0, 60.0]]) {
        write(folder.path(), rank, 3, 0, &[step(1, [0.0, 70.0]), reduce([start, end - start])]);
    }
    let analysis = Analysis::new(read(&folder));
    let timed = &analysis.waiting.exchanges[0];
    assert_eq!((timed.last, timed.transfer()), (1, 20_000));
    assert_eq!([0, 1, 2].map(|rank| timed.waiting(rank)), [Some(30_000), Some(0), Some(15_000)]);
    let matrix = &analysis.waiting.steps[0];
    assert_eq!((matrix.waiting_time(0, 1), matrix.waiting_time(2, 1), matrix.waiting_time(1, 0)), (30_000, 15_000, 0));
    assert_eq!((matrix.caused_waiting(1), analysis.stragglers[0].rank), (22_500.0, 1));
}

/// Clocks of hosts that lie three seconds apart, and one that goes 40 ppm too fast: the ends of 200 exchanges over ten
/// seconds vary by 2 us.
#[test]
fn offsets_and_drift_of_clocks_are_found() {
    let folder = TempDir::new().unwrap();
    let seconds = 3_000_000_000;
    for (rank, base, rate) in [(0, 0, 0.0), (1, -seconds, 0.0), (2, 0, 40e-6)] {
        let mut events = Vec::new();
        for number in 0..200 {
            let begin = f64::from(number) * 50_000.0;
            let noise = f64::from((number * (37 + rank)) % 11) * 0.4 - 2.0;
            let own = |moment: f64| moment * (1.0 + rate);
            events.push(step(number, [own(begin), 49_000.0]));
            let start = own(begin + 1000.0);
            let args = r#""Collective name":"allreduce","In msg nelems":8,"dtype":"Float","Group size":3"#;
            let time = [start, own(begin + 20_000.0) + noise - start];
            events.push(on(20, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", time, args));
        }
        write(folder.path(), rank, 3, base, &events);
    }
    let analysis = Analysis::new(read(&folder));
    let [_, slow, fast] = analysis.clocks.ranks.as_slice() else { panic!("three ranks") };
    assert!((slow.offset - seconds as f64).abs() < 1000.0 && slow.drift.is_none(), "{slow:?}");
    let drift = fast.drift.unwrap();
    assert!((drift.rate + 40e-6).abs() < 1e-6, "{drift:?}");
    // 20,000 us after the beginning of the last step, on every clock.
    for rank in 0..3 {
        let end = analysis.exchanges.calls[rank][199].time.1;
        let common = analysis.clocks.common(rank, end) as f64 / 1e3;
        assert!((common - (199.0 * 50_000.0 + 20_000.0)).abs() < 6.0, "{rank}: {common}");
    }
}

/// The processor of rank 1 has its part of each exchange done 5 ms later than the others, of transfers that take 6: that is no
/// clock. A clock that is 20 ms off is one, for with it an exchange would end before it began.
#[test]
fn processors_that_end_exchanges_at_different_times_have_one_clock() {
    for (off, expected) in [(0.0, 0.0), (20_000.0, -20e6)] {
        let folder = TempDir::new().unwrap();
        for (rank, [start, end]) in (0..).zip([[0.0, 31_000.0], [30_000.0, 36_000.0], [8_000.0, 31_500.0]]) {
            let events = (0..12).flat_map(|number| {
                let begin = 50_000.0 * f64::from(number) + if rank == 1 { off } else { 0.0 };
                [step(number, [begin, 49_000.0]), reduce([begin + start, end - start])]
            });
            write(folder.path(), rank, 3, 0, &events.collect::<Vec<_>>());
        }
        let clocks = Analysis::new(read(&folder)).clocks;
        assert!((clocks.ranks[1].offset - expected).abs() < 6e6, "{:?}", clocks.ranks[1]);
        assert!(off > 0.0 || clocks.ranks.iter().all(|clock| clock.offset == 0.0), "{clocks:?}");
    }
}

/// Ranks 0 and 1 exchange something at 10 ms, as do ranks 2 and 3 at 60, and then all of them; rank 2 comes 50 ms late. Of gloo's
/// exchanges no trace says which group they are of, and all have the same size. The same on two hosts whose clocks are a second apart.
#[test]
fn exchanges_of_several_groups_without_names_are_told_apart_by_when_they_are_possible() {
    let parts = [
        (["[0, 1, 2, 3]", "[0, 1]"], [[10_000.0, 11_000.0], [12_000.0, 62_000.0]]),
        (["[0, 1, 2, 3]", "[0, 1]"], [[10_000.0, 11_000.0], [12_000.0, 62_000.0]]),
        (["[0, 1, 2, 3]", "[2, 3]"], [[60_000.0, 61_000.0], [61_200.0, 62_000.0]]),
        (["[0, 1, 2, 3]", "[2, 3]"], [[10_000.0, 61_000.0], [61_200.0, 62_000.0]]),
    ];
    for off in [0, 1_000_000_000] {
        let folder = TempDir::new().unwrap();
        for (rank, (groups, parts)) in (0..).zip(parts) {
            let events = (0..8).flat_map(|number| {
                let begin = 70_000.0 * f64::from(number);
                let [first, second] = parts.map(|[start, end]| reduce([begin + start, end - start]));
                [step(number, [begin, 69_000.0]), first, second]
            });
            write_with_groups(
                folder.path(),
                [rank, 4],
                if rank > 1 { off } else { 0 },
                &groups,
                &events.collect::<Vec<_>>(),
            );
        }
        let analysis = Analysis::new(read(&folder));
        assert_eq!(analysis.exchanges.groups, GroupKnowledge::Assumed);
        let mut sizes: Vec<(&str, usize)> =
            analysis.exchanges.all.iter().map(|exchange| (exchange.ranks.as_str(), exchange.parts.len())).collect();
        sizes.sort_unstable();
        sizes.dedup();
        assert_eq!(sizes, [("[0, 1, 2, 3]", 4), ("[0, 1]", 2), ("[2, 3]", 2)]);
        let step = &analysis.waiting.steps[3];
        assert_eq!([step.waiting_time(3, 2), step.waiting_time(0, 1)], [50_000_000, 0]);
        for (clock, off) in analysis.clocks.ranks.iter().zip([0, 0, off, off]) {
            // Which of two exchanges that end a millisecond apart is that of all ranks makes no other difference.
            assert!((clock.offset + off as f64).abs() < 1.5e6, "{:?}", analysis.clocks);
        }
    }
}

/// Four exchanges in a step of the pairs of ranks 0 and 1, and 2 and 3, which are tensor-parallel, then one of 0 and 2, and 1 and 3, which ends 0.3 to
/// 0.6 ms later, all without a name. Rank 3
/// takes 4 ms instead of 3 before each of the first four, which last 1 ms each: it makes rank 2 wait for 4 ms, and rank 1, not 0, for 4 ms in the last one,
/// where rank 2 is as late as it. The same with clocks that are seconds apart.
#[test]
fn pairs_of_tensor_and_data_parallel_ranks_are_told_apart() {
    for off in [0i64, 1_000_000_000] {
        let folder = TempDir::new().unwrap();
        let groups = ["[0, 1, 2, 3]", "[0, 1]", "[2, 3]", "[0, 2]", "[1, 3]"];
        for rank in 0..4u32 {
            let events = (0..8u32).flat_map(|number| {
                // Operations differ by up to 60 us from step to step.
                let takes = |rank: u32, nth: u32| {
                    let apart = f64::from((13 * number * number + (29 + number) * rank + 17 * nth * number) % 61);
                    apart + if rank == 3 { 4_000.0 } else { 3_000.0 }
                };
                let begin = 100_000.0 * f64::from(number);
                let end_of_pair = |pair: u32, nth: u32| {
                    let slowest = |nth| takes(2 * pair, nth).max(takes(2 * pair + 1, nth));
                    begin + (0..=nth).map(|nth| slowest(nth) + 1_000.0).sum::<f64>()
                };
                let mut events = vec![step(number, [begin, 30_000.0])];
                for nth in 0..4 {
                    let before = if nth == 0 { begin } else { end_of_pair(rank / 2, nth - 1) };
                    let ready = before + takes(rank, nth);
                    events.push(event("cpu_op", "aten::mm", [before, ready - before - 2.0], ""));
                    let end = end_of_pair(rank / 2, nth) + f64::from(rank) * 3.0;
                    events.push(reduce([ready, end - ready]));
                }
                let ready = end_of_pair(rank / 2, 3) + 50.0;
                let end = end_of_pair(0, 3).max(end_of_pair(1, 3)) + 2_000.0;
                let end =
                    end + f64::from((11 + number) * number % 61 + (300 + 7 * (number * number % 37)) * (rank % 2));
                events.push(reduce([ready, end - ready]));
                events
            });
            let clock = i64::from(rank) * off;
            write_with_groups(folder.path(), [rank, 4], clock, &groups, &events.collect::<Vec<_>>());
        }
        let analysis = Analysis::new(read(&folder));
        assert_eq!(analysis.exchanges.groups, GroupKnowledge::Assumed);
        let step = |exchange: &&RankExchange| exchange.step == Some(3);
        let of_step = analysis.exchanges.all.iter().filter(step).map(|exchange| exchange.ranks.as_str());
        let mut of_step: Vec<&str> = of_step.collect();
        of_step.sort_unstable();
        let pairs = [["[0, 1]"; 4].as_slice(), &["[0, 2]", "[1, 3]"], &["[2, 3]"; 4]].concat();
        assert_eq!(of_step, pairs);
        assert_eq!(analysis.stragglers[0].rank, 3);
        let waits = |rank, other| analysis.waiting.steps[3].waiting_time(rank, other) as f64 / 1e6;
        assert!((waits(2, 3) - 4.0).abs() < 0.3 && (waits(1, 3) - 4.0).abs() < 0.3, "{} {}", waits(2, 3), waits(1, 3));
    }
}

/// Ranks of one job whose last exchange ends 170 ms late on one of them, as where its thread got no processor, after 330 ms of training.
#[test]
fn a_single_exchange_that_ends_late_is_none_of_another_job() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2u32 {
        let events = (0..12u32).flat_map(|number| {
            let begin = 30_000.0 * f64::from(number);
            let late = if rank == 0 && number == 11 { 170_000.0 } else { 0.0 };
            [step(number, [begin, 29_000.0 + late]), reduce([begin + 20_000.0, 1_000.0 + late])]
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    assert_eq!(Analysis::new(read(&folder)).clocks.strangers, Vec::<String>::new());
}

/// Forty exchanges of eight ranks in each step, which end up to 9 ms apart, and groups of two that nobody uses: more ways to choose groups
/// than can be tried.
#[test]
fn groups_that_are_not_used_leave_the_exchanges_of_all_ranks() {
    let folder = TempDir::new().unwrap();
    let groups =
        ["[0, 1, 2, 3, 4, 5, 6, 7]", "[0, 1]", "[2, 3]", "[4, 5]", "[6, 7]", "[0, 2]", "[1, 3]", "[4, 6]", "[5, 7]"];
    for rank in 0..8 {
        let events = (0..4).flat_map(|number| {
            let begin = 1_000_000.0 * f64::from(number);
            let exchange = move |nth: u32| {
                let apart = 1_000.0 * f64::from((7 * nth * rank + 3 * nth + 5 * rank * rank) % 10);
                reduce([begin + 20_000.0 * f64::from(nth) + apart, 10_000.0])
            };
            std::iter::once(step(number, [begin, 900_000.0])).chain((0..40).map(exchange))
        });
        write_with_groups(folder.path(), [rank, 8], 0, &groups, &events.collect::<Vec<_>>());
    }
    let exchanges = RankExchanges::find(&read(&folder));
    assert_eq!(exchanges.groups, GroupKnowledge::Assumed);
    assert!(exchanges.all.iter().all(|exchange| exchange.parts.len() == 8), "{:?}", exchanges.all[0]);
}

/// A processor that reads a loss waits in the copy itself: 40 ms of a product, 10 of a transfer, and the copy behind both. A link twice as fast saves 5.
#[test]
fn a_copy_to_pageable_memory_is_waited_for() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let events = (0..6).flat_map(|number| {
            let begin = 60_000.0 * f64::from(number);
            let correlation = |place: u32| format!(r#""correlation":{}"#, 10 * number + place);
            let launch = |place: u32, name: &str, [start, duration]: [f64; 2]| {
                event("cuda_runtime", name, [begin + start, duration], &correlation(place))
            };
            let exchange = r#","Collective name":"allreduce","In msg nelems":1000000,"dtype":"Float","Group size":2"#;
            let exchange = format!("{}{exchange}", correlation(2));
            [
                step(number, [begin, 50_200.0]),
                launch(1, "cudaLaunchKernel", [10.0, 5.0]),
                launch(2, "cudaLaunchKernel", [20.0, 5.0]),
                launch(3, "cudaMemcpyAsync", [30.0, 50_100.0]),
                on(20, "kernel", "gemm", [begin + 50.0, 40_000.0], &correlation(1)),
                on(20, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", [begin + 40_050.0, 10_000.0], &exchange),
                on(20, "gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", [begin + 50_060.0, 10.0], &correlation(3)),
            ]
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    let [before, after] = before_and_after(&folder, "bandwidth x 2");
    assert!((before - after - 5.0).abs() < 0.3, "{before} {after}");
}

/// Two gradients of 4 ms each, reduced in 20 ms each on a stream of their own, the second behind the first: 44 ms. On a GPU of a tenth of the speed
/// gradients take 40 ms each and the second is reduced when it is there, which no recorded time shows: 40 + 40 + 20 ms.
#[test]
fn an_exchange_behind_another_waits_for_its_own_gradient() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let events = (0..6).flat_map(|number| {
            let begin = 50_000.0 * f64::from(number);
            let correlation = |place: u32| format!(r#""correlation":{}"#, 10 * number + place);
            let launch = |place: u32, name: &str, [start, duration]: [f64; 2]| {
                event("cuda_runtime", name, [begin + start, duration], &correlation(place))
            };
            let gradient =
                |place: u32, start: f64| on(20, "kernel", "gemm", [begin + start, 4000.0], &correlation(place));
            let reduce = |place: u32, start: f64| {
                let args = r#","Collective name":"allreduce","In msg nelems":1000000,"dtype":"Float","Group size":2"#;
                let args = correlation(place) + args;
                on(21, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", [begin + start, 20_000.0], &args)
            };
            [
                step(number, [begin, 44_100.0]),
                launch(1, "cudaLaunchKernel", [10.0, 5.0]),
                launch(2, "cudaLaunchKernelExC", [20.0, 5.0]),
                launch(3, "cudaLaunchKernel", [30.0, 5.0]),
                launch(4, "cudaLaunchKernelExC", [40.0, 5.0]),
                launch(5, "cudaDeviceSynchronize", [50.0, 44_020.0]),
                gradient(1, 60.0),
                reduce(2, 4060.0),
                gradient(3, 4060.0),
                reduce(4, 24_060.0),
            ]
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    let [before, after] = before_and_after(&folder, "gpu x 0.1");
    assert!((before - 44.1).abs() < 0.2 && (after - 100.1).abs() < 0.3, "{before} {after}");
}

/// A step of 20 ms of an operation on the CPU, then 30 ms of a kernel that it waits for in `aten::item`: 50 ms.
fn waiting_in_item() -> TempDir {
    waiting_in_item_but(|_, _, event| Some(event))
}

/// The same with what `edit` makes of each event of a rank and step.
fn waiting_in_item_but(edit: impl Fn(u32, u32, String) -> Option<String>) -> TempDir {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let edit = &edit;
        let events = (0..6).flat_map(|number| {
            let begin = 51_000.0 * f64::from(number);
            let correlation = |place: u32| format!(r#""correlation":{}"#, 10 * number + place);
            let exchange = r#","Collective name":"allreduce","In msg nelems":100,"dtype":"Float","Group size":2"#;
            let exchange = correlation(2) + exchange;
            [
                step(number, [begin, 50_100.0]),
                event("cpu_op", "aten::slice", [begin, 20_000.0], ""),
                event("cuda_runtime", "cudaLaunchKernel", [begin + 20_010.0, 5.0], &correlation(1)),
                event("cuda_runtime", "cudaLaunchKernelExC", [begin + 20_020.0, 5.0], &correlation(2)),
                event("cpu_op", "aten::item", [begin + 20_030.0, 30_060.0], ""),
                event("cuda_runtime", "cudaStreamSynchronize", [begin + 20_040.0, 30_045.0], &correlation(3)),
                on(20, "kernel", "gemm", [begin + 20_050.0, 30_000.0], &correlation(1)),
                on(21, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", [begin + 50_050.0, 20.0], &exchange),
            ]
            .into_iter()
            .filter_map(move |event| edit(rank, number, event))
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    folder
}

/// The warnings of a job, and why a change has no answer, if it has none.
fn warned(folder: &TempDir, what_if: &str) -> (String, Option<String>) {
    let warnings = Analysis::new(read(folder)).warnings().join("\n");
    let refused = asked(folder, what_if).unanswered_scenarios().next().map(|(_, error)| error.to_string());
    (warnings, refused)
}

/// Two kernels in each of 6 steps: without the calls of the runtime, or where all of these have one number, nobody knows which call launched which.
#[test]
fn what_a_kernel_waits_for_is_not_known_without_its_launch() {
    let without = waiting_in_item_but(|_, _, event| (!event.contains("cuda_runtime")).then_some(event));
    let alike = waiting_in_item_but(|_, _, event| {
        let Some((before, after)) = event.split_once("\"correlation\":") else { return Some(event) };
        Some(format!("{before}\"correlation\":1{}", after.trim_start_matches(|letter: char| letter.is_ascii_digit())))
    });
    for (folder, why) in [(without, "are not in the trace"), (alike, "18 calls of the runtime have the same number")] {
        let (warnings, refused) = warned(&folder, "cpu x 2");
        assert!(warnings.contains("which calls launched 12 of 12 kernels and copies is not known"), "{warnings}");
        assert!(warnings.contains(why), "{warnings}");
        assert!(refused.is_some_and(|refused| refused.contains("launched the kernels of ranks 0 and 1")));
    }
    let (warnings, refused) = warned(&waiting_in_item(), "cpu x 2");
    assert!(!warnings.contains("launched") && refused.is_none(), "{warnings} {refused:?}");
}

/// Of the first 2 of 6 steps rank 1 has lost the two kernels: 4 of its 12 launches. Of all it has lost them in a trace without any.
#[test]
fn launches_whose_kernels_are_lost_are_told() {
    let some = waiting_in_item_but(|rank, number, event| {
        (rank == 0 || number >= 2 || !event.contains("\"kernel\"")).then_some(event)
    });
    let analysis = Analysis::new(read(&some));
    let warnings = analysis.warnings().join("\n");
    assert!(warnings.contains("rank 1: 4 of 12 launched kernels are not in the trace"), "{warnings}");
    assert!(warnings.contains("2 of 6 steps are left out: kernels that were launched in them"), "{warnings}");
    assert_eq!((analysis.job.steps.len(), analysis.exchanges.complete().count()), (4, 4));
    let all = waiting_in_item_but(|rank, _, event| (rank == 0 || !event.contains("\"kernel\"")).then_some(event));
    let warnings = Analysis::new(read(&all)).warnings().join("\n");
    assert!(warnings.contains("rank 1: 12 of 12 launched kernels are not in the trace"), "{warnings}");
}

/// A kernel that begins 1 µs before its call, for the clocks of GPU and processor differ, still waits for it: an operation of 20 ms in front that takes half is 10 ms
/// less of 50.1. One that begins 1 ms before it is doubted.
#[test]
fn a_kernel_waits_for_its_call_though_clocks_differ_a_little() {
    let early = |lead: f64| {
        waiting_in_item_but(move |_, _, event| match event.contains("\"gemm\"") {
            true => {
                let (before, after) = event.split_once("\"ts\":")?;
                let (begin, after) = after.split_once(',')?;
                Some(format!("{before}\"ts\":{:.3},{after}", begin.parse::<f64>().ok()? - 40.0 - lead))
            }
            false => Some(event),
        })
    };
    let little = early(1.0);
    let (warnings, refused) = warned(&little, "operations 'aten::slice' x 0.5");
    assert!(!warnings.contains("launched") && refused.is_none(), "{warnings}");
    let [before, after] = before_and_after(&little, "operations 'aten::slice' x 0.5");
    assert!((before - 50.1).abs() < 0.2 && (after - 40.1).abs() < 0.2, "{before} {after}");
    let (warnings, refused) = warned(&early(1000.0), "cpu x 2");
    let told = "6 of 12 kernels and copies begin before the call that launched them, the furthest (gemm) by 1.00 ms";
    assert!(warnings.contains(told) && refused.is_some(), "{warnings}");
}

/// Rank 0 was further behind before the recording began: 3 exchanges that it launched before are in its trace, 1 in that of rank 1. They are of no step, and
/// those of the steps are matched among themselves: 6 of 6, on clocks that agree.
#[test]
fn exchanges_from_before_the_recording_are_of_no_step() {
    let folder = waiting_in_item_but(|rank, number, event| {
        let earlier = if rank == 0 { 3 } else { 1 };
        let exchange = r#""Collective name":"allreduce","In msg nelems":100,"dtype":"Float","Group size":2"#;
        let old = (0..if number == 0 && event.contains("ProfilerStep") { earlier } else { 0 }).map(|place| {
            let begin = 10.0 + 1000.0 * f64::from(place);
            on(
                21,
                "kernel",
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                [begin, 900.0],
                &format!(r#""correlation":{},{exchange}"#, 900 + place),
            )
        });
        Some(std::iter::once(event).chain(old).collect::<Vec<_>>().join(","))
    });
    let analysis = Analysis::new(read(&folder));
    assert_eq!(
        (analysis.job.steps.len(), analysis.exchanges.complete().filter(|one| one.step.is_some()).count()),
        (6, 6)
    );
    assert_eq!(analysis.clocks.ranks[1].offset, 0.0);
}

/// Rank 0 sends in each step of 10 ms and goes on; rank 1 is 5 steps behind, as a pipeline in one direction may be: on one clock each message arrives 50 ms
/// after it was sent, and no other clock is needed.
#[test]
fn who_sends_without_waiting_may_be_steps_ahead() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let events = (0..20).flat_map(|number| {
            let begin = 10_000.0 * f64::from(number) + 50_000.0 * f64::from(rank);
            let (name, peer) = if rank == 0 { ("send 0->1", 1) } else { ("recv 1<-0", 0) };
            let arguments =
                format!(r#""Input Dims":[[100]],"Input type":["float"],"Process Group Name":"0","Peer":{peer}"#);
            [
                step(number, [begin, 10_000.0]),
                event("cpu_op", "aten::mm", [begin, 9_000.0], ""),
                event("user_annotation", &format!("gloo:{name}"), [begin + 9_100.0, 100.0], &arguments),
            ]
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    let analysis = Analysis::new(read(&folder));
    assert_eq!(analysis.exchanges.complete().count(), 20);
    let clock = &analysis.clocks.ranks[1];
    assert!(clock.offset == 0.0 && clock.interval.is_some_and(|[low, high]| low <= -50e6 && high >= 0.0), "{clock:?}");
    assert!(!analysis.warnings().join("\n").contains("jobs"));
}

/// Without that wait both go on at the same time, and the longer one counts.
#[test]
fn without_the_operation_that_waits_for_a_gpu_nothing_waits() {
    let [before, after] = before_and_after(&waiting_in_item(), "remove operations 'aten::item'");
    assert!((before - 50.1).abs() < 0.2 && (after - 30.05).abs() < 0.2, "{before} {after}");
}

/// Without the profiler a thread may take 0.6 of its time: 42 ms, of which 12 stay on a GPU without end, as 14.3 of 50.1.
#[test]
fn threads_may_be_faster_without_the_profiler() {
    let replayed = asked(&waiting_in_item(), "gpu x 1000");
    let (_, outcome) = replayed.answered_scenarios().next().unwrap();
    let least = 50.1 * 12.0 / 42.0;
    assert!((outcome.after.time / 1e6 - 20.1).abs() < 0.2, "{outcome:?}");
    assert!((outcome.after.low / 1e6 / (0.96 * least) - 1.0).abs() < 0.02, "{outcome:?}");
    assert!(outcome.assumptions.iter().any(|said| said.contains("the profiler slows the threads")), "{outcome:?}");
}

/// Which GPU it was is not in these traces.
#[test]
fn tf32_on_an_unknown_gpu_has_no_answer_and_ends_nothing() {
    assert!(asked(&waiting_in_item(), "precision = tf32").answered_scenarios().next().is_none());
}

/// A processor that runs ahead: an exchange of 10 ms is what a step launches first, and waits for the product of the step before; a product of
/// 40 ms follows, 50 ms in all. On a GPU twice as fast 10 and 20 ms.
#[test]
fn the_first_exchange_of_a_step_waits_for_the_work_of_the_step_before() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let events = (0..12).flat_map(|number| {
            let (begin, on_gpu) = (1000.0 * f64::from(number), 100.0 + 50_000.0 * f64::from(number));
            let exchange = launched(10 * number + 1, begin + 10.0, (21, ALL_REDUCE), [on_gpu, 10_000.0], OF_ALL_REDUCE);
            let product = [on_gpu + 10_000.0, 40_000.0];
            let product = launched(10 * number + 2, begin + 20.0, (20, "gemm"), product, "");
            [vec![step(number, [begin, 1000.0])], exchange.to_vec(), product.to_vec()].concat()
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    let [before, after] = before_and_after(&folder, "gpu x 2");
    assert!((before - 50.0).abs() < 0.2 && (after - 30.0).abs() < 0.2, "{before} {after}");
}

/// Two gradients of 4 MB that a GPU computes for 20 ms each, long after the processor launched all, reduced together in 10 ms: 50 ms. Each by itself takes
/// half as long, the first while the second is computed: 45 ms, and not 40, as if they were there when they were launched.
#[test]
fn buckets_wait_for_the_kernels_that_compute_their_gradients() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let events = (0..6).flat_map(|number| {
            let begin = 60_000.0 * f64::from(number);
            let own = |place: u32| 10 * number + place + 1;
            let mut events = vec![step(number, [begin, 50_100.0])];
            for place in 0..2 {
                let at = begin + 10.0 + 60.0 * f64::from(place);
                let dims = r#""Input Dims":[[1000000]],"Input type":["float"]"#;
                events.push(event("cpu_op", "aten::mm", [at, 20.0], ""));
                let time = [begin + 100.0 + 20_000.0 * f64::from(place), 20_000.0];
                events.extend(launched(own(place), at + 5.0, (20, "gemm"), time, ""));
                events.push(event("cpu_op", "torch::autograd::AccumulateGrad", [at + 25.0, 20.0], dims));
            }
            let at = begin + 120.0;
            let dims = r#""Input Dims":[[2000000]],"Input type":["float"]"#;
            events.push(event("cpu_op", "c10d::allreduce_", [at, 10.0], dims));
            let of_both = OF_ALL_REDUCE.replace("1000000", "2000000");
            let reduce = (21, ALL_REDUCE);
            events.extend(launched(own(2), at + 2.0, reduce, [begin + 40_100.0, 9900.0], &of_both));
            events.push(event(
                "cuda_runtime",
                "cudaDeviceSynchronize",
                [begin + 200.0, 49_850.0],
                r#""correlation":9999"#,
            ));
            events
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    let replayed = asked(&folder, "bucket_cap_mb = 1");
    let (_, outcome) = replayed.answered_scenarios().next().unwrap_or_else(|| panic!("{:?}", replayed.what_ifs));
    let [before, after] = [outcome.before as f64, outcome.after.time].map(|time| time / 1e6);
    assert!((before - 50.0).abs() < 0.5 && (after - 45.1).abs() < 0.5, "{before} {after}");
}

/// Twelve steps of four ranks, in which each works 40 ms and `more` of rank and step, and all exchange for 10 ms then.
fn write_steps(folder: &Path, more: impl Fn(u32, u32) -> f64) {
    let work = |rank, number| 40_000.0 + 1000.0 * more(rank, number);
    let longest = |number| (0..4).map(|rank| work(rank, number)).fold(0.0, f64::max);
    for rank in 0..4 {
        let mut begin = 0.0;
        let events = (0..12).flat_map(|number| {
            let args = r#""Collective name":"allreduce","In msg nelems":1000000,"dtype":"Float","Group size":4"#;
            let (own, end) = (work(rank, number), longest(number) + 10_000.0);
            let events = [
                step(number, [begin, end + 5000.0]),
                on(20, "kernel", "gemm", [begin, own], ""),
                on(20, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", [begin + own, end - own], args),
            ];
            begin += end + 10_000.0;
            events
        });
        write(folder, rank, 4, 0, &events.collect::<Vec<_>>());
    }
}

/// Milliseconds of a step on average, whose rank that takes longest decides.
fn mean_step(more: impl Fn(u32, u32) -> f64) -> f64 {
    let longest = |number| (0..4).map(|rank| more(rank, number)).fold(0.0, f64::max);
    50.0 + (0..12).map(longest).sum::<f64>() / 12.0
}

/// Milliseconds by which a rank takes longer in a step.
type Delay<'a> = &'a dyn Fn(u32, u32) -> f64;

/// What a step takes without a rank's delay is calculated from the delays, whatever their pattern: of each rank in turn, of one rank in some
/// steps and another in the others, now and then, and more in every step.
#[test]
fn steps_that_differ_are_answered_by_their_mean() {
    let turns = |rank: u32, number: u32| if number % 4 == rank { 100.0 } else { 0.0 };
    let two = |rank: u32, number: u32| if rank == if number < 7 { 1 } else { 3 } { 40.0 } else { 0.0 };
    let sometimes = |rank: u32, number: u32| match rank {
        2 => 30.0,
        0 if number.is_multiple_of(4) => 100.0,
        _ => 0.0,
    };
    let seldom = |rank: u32, number: u32| if rank == 1 && number % 4 == 1 { 25.0 } else { 0.0 };
    let grows = |rank: u32, number: u32| if rank == 2 { 5.0 * f64::from(number) } else { 0.0 };
    let all: [(Delay<'_>, &[u32]); 5] =
        [(&turns, &[1]), (&two, &[1, 3]), (&sometimes, &[0, 2]), (&seldom, &[1]), (&grows, &[2])];
    for (case, (more, ranks)) in all.into_iter().enumerate() {
        let folder = TempDir::new().unwrap();
        write_steps(folder.path(), more);
        for rank in ranks {
            let replayed = asked(&folder, &format!("rank {rank} as the others"));
            let (_, outcome) = replayed.answered_scenarios().next().unwrap();
            let truth =
                mean_step(|other, number| if other == *rank { 0.0 } else { more(other, number) }) / mean_step(more);
            let answer = outcome.after.time / outcome.before as f64;
            assert!((answer - truth).abs() < 0.01, "case {case}, rank {rank}: {answer:.3} for {truth:.3}, {outcome:?}");
            let [low, high] = [outcome.after.low, outcome.after.high].map(|bound| bound / outcome.before as f64);
            assert!(low <= truth && truth <= high, "case {case}, rank {rank}: {truth:.3} is not {low:.3} to {high:.3}");
            let nothing = asked(&folder, "gpu x 1");
            let (_, outcome) = nothing.answered_scenarios().next().unwrap();
            assert_eq!(outcome.after.time, outcome.before as f64, "case {case}");
        }
    }
}

/// Work of two ranks that varies by chance takes as long for both: that one does as the other brings nothing. If it takes 30 % longer on rank 1, without
/// that the ranks take what two such take on average: the mean over all pairs of the other's steps.
#[test]
fn ranks_that_vary_by_chance_stay_as_they_are_if_one_does_as_the_other() {
    let drawn = |rank: u32, number: u32| {
        f64::from((7919 * (number + 1) * (rank + 3) + 104_729 * (number * number + 5 * rank)) % 1000) / 50.0
    };
    for slower in [1.0, 1.3] {
        let folder = TempDir::new().unwrap();
        let work =
            |rank: u32, number: u32| 1000.0 * (20.0 + drawn(rank, number)) * if rank == 1 { slower } else { 1.0 };
        for rank in 0..2 {
            let mut begin = 0.0;
            let events = (0..24).flat_map(|number| {
                let (own, end) = (work(rank, number), work(0, number).max(work(1, number)) + 5_000.0);
                let reduced = on(20, "kernel", ALL_REDUCE, [begin + own, end - own], &OF_ALL_REDUCE[1..]);
                let events = [step(number, [begin, end + 100.0]), on(20, "kernel", "gemm", [begin, own], ""), reduced];
                begin += end + 200.0;
                events
            });
            write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
        }
        let all: Vec<f64> = (0..24).map(|number| 20.0 + drawn(0, number)).collect();
        let pairs = all.iter().flat_map(|one| all.iter().map(|other| one.max(*other)));
        let truth = 5.1 + pairs.sum::<f64>() / 576.0;
        let replayed = asked(&folder, "rank 1 as the others");
        let (_, outcome) = replayed.answered_scenarios().next().unwrap();
        let [time, low, high] = [outcome.after.time, outcome.after.low, outcome.after.high].map(|time| time / 1e6);
        assert!(
            (low..=high).contains(&truth) && (time / truth - 1.0).abs() < 0.05,
            "{slower}: {time} ({low} to {high}) for {truth}"
        );
    }
}

/// All-reduces of one size do not show what of their 10 ms is latency: all of it is communication, of a step of 50.
#[test]
fn communication_is_stretched_whatever_it_is_made_of() {
    let folder = TempDir::new().unwrap();
    write_steps(folder.path(), |_, _| 0.0);
    let [before, after] = before_and_after(&folder, "communication x 2");
    assert!((after - before - 10.0).abs() < 0.5, "{before} {after}");
}

/// Eight steps of two ranks that multiply for 10 ms, then enqueue all-reduces of 1, 3 and 5 MiB, each of which takes 3 ms and 1 ms for each 250,000 bytes by itself,
/// and add for 1 ms when all are done. The library begins each when the one before is done, or `ahead` microseconds earlier.
fn write_queued_all_reduces(folder: &Path, ahead: f64) {
    for rank in 0..2 {
        let events = (0..8).flat_map(|number| {
            let begin = 100_000.0 * f64::from(number);
            let mut now = begin + 10_042.0;
            let mut events = vec![event("cpu_op", "aten::mm", [begin + 10.0, 10_000.0], "")];
            for (place, elements) in (0..).zip([262_144, 786_432, 1_310_720]) {
                let sizes = format!(r#""Input Dims":[[{elements}]],"Input type":["float"]"#);
                let called = begin + 10_020.0 + 30.0 * f64::from(place);
                events.push(event("cpu_op", "c10d::allreduce_", [called, 20.0], &sizes));
                let (taken, early) = (3000.0 + 4.0 * f64::from(elements) / 250.0, ahead * f64::from(place.min(1)));
                let range = [now - early, taken + early];
                events.push(on(8 + place % 2, "user_annotation", "gloo:all_reduce", range, &sizes));
                now += taken;
            }
            events.push(event("cpu_op", "aten::add_", [now + 10.0, 1000.0], ""));
            events.push(step(number, [begin, now + 1020.0 - begin]));
            events
        });
        write(folder, rank, 2, 0, &events.collect::<Vec<_>>());
    }
}

/// What waits in a queue takes as long as it does alone: three times 3 ms are of messages, and 9 MiB take 37.75 ms of bytes, of which nine tenths are gone at
/// ten times the bandwidth.
#[test]
fn all_reduces_in_a_queue_show_what_a_message_takes() {
    let folder = TempDir::new().unwrap();
    write_queued_all_reduces(folder.path(), 0.0);
    for (what_if, longer) in [("latency x 2", 9.0), ("bandwidth x 10", -33.97)] {
        let [before, after] = before_and_after(&folder, what_if);
        assert!((after - before - longer).abs() < 0.1, "{what_if}: {before} {after}");
    }
}

/// Two threads of the library share the link: how much of the time of both is one's own is not known, and the reason is not that they were of one size.
#[test]
fn all_reduces_that_share_the_link_do_not_show_what_a_message_takes() {
    let folder = TempDir::new().unwrap();
    write_queued_all_reduces(folder.path(), 2000.0);
    let replayed = asked(&folder, "latency x 2");
    let unknown = replayed.communication.groups.iter().flatten().map(|cost| cost.unknown_latency);
    assert_eq!(unknown.collect::<Vec<_>>(), [Some(UnknownLatency::Overlapping)]);
    assert!(replayed.answered_scenarios().next().is_none());
}

/// Steps whose kernels take 29, 9 and 19 ms, each with a kernel more than the one before, and an all-reduce that nothing waits for: that of 19 stands for all.
#[test]
fn of_steps_that_are_all_of_another_kind_that_of_median_length_is_replayed() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let events = [30_000.0, 10_000.0, 20_000.0].into_iter().enumerate().flat_map(|(nth, length)| {
            let begin = 100_000.0 * nth as f64;
            let each = (length - 1_000.0) / (nth + 1) as f64;
            let kernel = |place: usize| on(20, "kernel", "gemm", [begin + each * place as f64, each], "");
            let reduced = reduce([begin + length - 1_000.0, 1_000.0]);
            (0..=nth).map(kernel).chain([step(nth as u32, [begin, length]), reduced]).collect::<Vec<_>>()
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    let [before, _] = before_and_after(&folder, "gpu x 1");
    assert!((before - 19.0).abs() < 0.1, "{before}");
}

/// The first three of twelve steps take 160 ms, the others 65 with their pauses, of which replay answers; two in the middle are no warm-up, nor is one alone.
#[test]
fn a_warm_up_is_left_out() {
    let slow = [([0, 1, 2].as_slice(), 9), (&[5, 6], 12), (&[0], 12), (&[0, 1, 2, 3, 4], 12)];
    for (slow, left) in slow {
        let folder = TempDir::new().unwrap();
        write_steps(folder.path(), |_, number| if slow.contains(&number) { 95.0 } else { 0.0 });
        let analysis = Analysis::new(read(&folder));
        assert_eq!(analysis.job.steps.len(), left, "{slow:?}");
        assert_eq!(analysis.warnings().iter().any(|warning| warning.contains("warms up")), left < 12);
    }
}

/// Ranks 0 and 1 of three are in an exchange for 90 of 100 ms, most of it because rank 2 is late, of which there is no trace: a link
/// twice as fast need not bring anything.
#[test]
fn what_waits_for_a_rank_without_a_trace_may_stay() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let events = (0..8).flat_map(|number| {
            let begin = 110_000.0 * f64::from(number);
            let args = r#""Collective name":"allreduce","In msg nelems":1000000,"dtype":"Float","Group size":3"#;
            [
                step(number, [begin, 105_000.0]),
                on(20, "kernel", "gemm", [begin, 10_000.0], ""),
                on(20, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", [begin + 10_000.0, 90_000.0], args),
            ]
        });
        write(folder.path(), rank, 3, 0, &events.collect::<Vec<_>>());
    }
    let replayed = asked(&folder, "bandwidth x 2");
    let (_, outcome) = replayed.answered_scenarios().next().unwrap();
    assert!(outcome.after.time < 60e6 && outcome.after.high >= 100e6, "{outcome:?}");
}

/// The arguments of NCCL's exchanges in PyTorch 2.12 and later. Rank 1 enqueued the two in the other order.
#[test]
fn exchanges_are_matched_by_their_numbers_where_traces_have_them() {
    let kernel = |sequence: u32, id: Option<u32>, start: f64| {
        let id = id.map_or(String::new(), |id| format!(r#","Comms Id":"{id}""#));
        let args = format!(
            r#""Collective name":"allreduce","In msg nelems":8,"Out msg nelems":8,"dtype":"Float","Group size":2,"Process Group Name":"0","Process Group Ranks":"[0, 1]","Seq":{sequence}{id}"#
        );
        on(20, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", [start, 5.0], &args)
    };
    for ids in [[None, None], [Some(71), Some(72)]] {
        let folder = TempDir::new().unwrap();
        write(folder.path(), 0, 2, 0, &[step(1, [0.0, 90.0]), kernel(5, ids[0], 10.0), kernel(6, ids[1], 20.0)]);
        write(folder.path(), 1, 2, 0, &[step(1, [0.0, 90.0]), kernel(6, ids[1], 11.0), kernel(5, ids[0], 21.0)]);
        let job = read(&folder);
        let exchanges = RankExchanges::find(&job);
        let starts: Vec<Vec<i64>> = exchanges
            .complete()
            .map(|exchange| exchange.parts.iter().map(|part| exchanges.call(*part).time.0 / 1000).collect())
            .collect();
        assert_eq!(starts, [[10, 21], [20, 11]]);
        assert_eq!(exchanges.all[0].bytes, Some(32));
    }
}

/// Traces without steps of two ranks on one clock, each of three exchanges: those of rank 1 begin one exchange later. One step shows no other numbers.
#[test]
fn traces_without_steps_may_begin_at_different_exchanges() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let kernels = (rank..rank + 3).map(|sequence| {
            let args = format!(
                r#""Collective name":"allreduce","In msg nelems":8,"dtype":"Float","Group size":2,"Process Group Name":"0","Process Group Ranks":"[0, 1]","Seq":{sequence}"#
            );
            on(20, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", [1_000.0 * f64::from(sequence), 500.0], &args)
        });
        write(folder.path(), rank, 2, 0, &kernels.collect::<Vec<_>>());
    }
    let analysis = Analysis::new(read(&folder));
    assert_eq!((analysis.exchanges.complete().count(), analysis.clocks.ranks[1].offset), (2, 0.0));
    assert!(!analysis.warnings().iter().any(|warning| warning.contains("numbers its exchanges")));
}

/// Four stages of a pipeline, of which the third has no trace: what `batch_isend_irecv` of PyTorch enqueues has its arguments in
/// calls that end before the kernel is launched. The second stage sends to the third before it receives from the first.
#[test]
fn batches_of_sends_and_receives_are_matched_by_peer_size_and_order() {
    let call = |operation: &str, [source, destination]: [u32; 2], elements: u32, start: f64| {
        let args = format!(
            r#""Collective name":"{operation}","In msg nelems":{elements},"Out msg nelems":{elements},"dtype":"Float","Src Rank":{source},"Dst Rank":{destination}"#
        );
        event("cpu_op", "record_param_comms", [start, 1.0], &args)
    };
    let launched = |number: u32, start: f64, kernel: [f64; 2]| {
        let correlation = format!(r#""correlation":{number}"#);
        let kernel = on(20, "kernel", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", kernel, &correlation);
        [event("cuda_runtime", "cudaLaunchKernelExC", [start, 1.0], &correlation), kernel]
    };
    let folder = TempDir::new().unwrap();
    let first =
        [vec![step(1, [0.0, 90.0]), call("send", [0, 1], 8, 2.0)], launched(1, 4.0, [10.0, 20.0]).to_vec()].concat();
    let second = [
        vec![step(1, [0.0, 90.0]), call("send", [1, 2], 16, 2.0)],
        launched(1, 4.0, [5.0, 3.0]).to_vec(),
        vec![call("recv", [0, 1], 8, 12.0), call("send", [1, 3], 4, 13.5)],
        launched(2, 15.0, [18.0, 12.0]).to_vec(),
    ]
    .concat();
    let last =
        [vec![step(1, [0.0, 90.0]), call("recv", [1, 3], 4, 2.0)], launched(1, 4.0, [6.0, 24.0]).to_vec()].concat();
    for (rank, events) in [(0, first), (1, second), (3, last)] {
        write(folder.path(), rank, 4, 0, &events);
    }
    let exchanges = RankExchanges::find(&read(&folder));
    let starts = |exchange: &RankExchange| -> Vec<(usize, i64)> {
        exchange.parts.iter().map(|part| (part.rank, exchanges.call(*part).time.0 / 1000)).collect()
    };
    let whole: Vec<_> = exchanges.complete().map(starts).collect();
    assert_eq!(whole, [vec![(0, 10), (1, 18), (2, 6)]]);
    let lone: Vec<_> = exchanges.all.iter().filter(|exchange| !exchange.whole).map(starts).collect();
    assert_eq!(lone, [vec![(1, 5)]]);
    assert_eq!(
        exchanges.complete().next().map(|exchange| (exchange.bytes, exchange.operation)),
        Some((Some(32), CollectiveOperation::SendReceive))
    );
}

/// A ring of three: each sends to the next and receives from the one before; only the names hold the peers.
#[test]
fn sends_and_receives_are_matched_by_peer_and_order() {
    let folder = TempDir::new().unwrap();
    for rank in 0..3u32 {
        let (to, from) = ((rank + 1) % 3, (rank + 2) % 3);
        let send = |start: f64| on(8, "user_annotation", &format!("gloo:send {rank}->{to}"), [start, 5.0], "");
        let receive = |start: f64| on(9, "user_annotation", &format!("gloo:recv {rank}<-{from}"), [start, 5.0], "");
        let own = f64::from(rank);
        let events =
            [step(1, [0.0, 90.0]), send(10.0 + own), send(20.0 + own), receive(10.5 + own), receive(22.0 + own)];
        write(folder.path(), rank, 3, 0, &events);
    }
    let job = read(&folder);
    let exchanges = RankExchanges::find(&job);
    assert!(exchanges.unmatched(&job).is_empty() && exchanges.complete().count() == 6);
    for exchange in exchanges.complete() {
        let [one, other] = exchange.parts.as_slice() else { panic!("two parts") };
        let operations = [exchanges.call(*one).operation, exchanges.call(*other).operation];
        assert_eq!(
            BTreeSet::from(operations),
            BTreeSet::from([CollectiveOperation::Send, CollectiveOperation::Receive])
        );
        assert_ne!(one.rank, other.rank);
    }
}

/// Four ways to be late by 100 us, all before an exchange at which every rank's step ends together.
#[test]
fn what_a_straggler_does_longer_is_named() {
    const LOADER: &str = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    let kinds = [
        (7, "cpu_op", "aten::gelu", RankActivity::Operation("aten::gelu".to_owned())),
        (7, "user_annotation", LOADER, RankActivity::DataLoading(LOADER.to_owned())),
        (7, "python_function", "train.py(12): augment", RankActivity::Python("train.py(12): augment".to_owned())),
        (20, "kernel", "gemm", RankActivity::Kernel("gemm".to_owned())),
    ];
    for (thread, category, name, expected) in kinds {
        let folder = TempDir::new().unwrap();
        for rank in 0..3 {
            let late = if rank == 2 { 100.0 } else { 0.0 };
            let events = (0..3).flat_map(|number| {
                let begin = 1000.0 * f64::from(number);
                let busy = on(thread, category, name, [begin + 20.0, 50.0 + late], "");
                [step(number, [begin, 300.0]), busy, reduce([begin + 80.0 + late, 170.0 - late])]
            });
            write(folder.path(), rank, 3, 0, &events.collect::<Vec<_>>());
        }
        let analysis = Analysis::new(read(&folder));
        let first = &analysis.stragglers[0];
        assert_eq!((first.rank, first.excess.first().map(|one| &one.activity)), (2, Some(&expected)), "{first:?}");
        assert!((first.caused.mean - 0.1).abs() < 1e-9 && (first.excess[0].longer() - 0.1).abs() < 1e-9, "{first:?}");
    }
}

#[test]
fn traces_of_no_one_job_are_refused() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), 0, 2, 0, &[step(1, [0.0, 9.0])]);
    write(folder.path(), 1, 4, 0, &[step(1, [0.0, 9.0])]);
    assert!(refused(&folder).contains("jobs of 2 and 4 ranks"), "{}", refused(&folder));
    write(folder.path(), 1, 2, 0, &[step(5, [0.0, 9.0])]);
    let steps = "rank 0 (rank0.json) has ProfilerStep#1 alone, rank 1 (rank1.json) has ProfilerStep#5 alone";
    assert!(refused(&folder).contains(&format!("no step is on all ranks: {steps}")), "{}", refused(&folder));
    write(folder.path(), 1, 2, 0, &[]);
    let alone = read(&folder).single_rank_error().unwrap().to_string();
    assert!(alone.contains("is rank 0 of 2, alone; rank 1 counts as missing: "), "{alone}");
    assert!(alone.contains("rank1.json has no event that takes time"), "{alone}");
    write(folder.path(), 9, 2, 0, &[step(1, [0.0, 9.0])]);
    assert!(refused(&folder).contains("rank 9 cannot be of a job of 2 ranks"), "{}", refused(&folder));
    fs::remove_file(folder.path().join("rank9.json")).unwrap();
    fs::copy(folder.path().join("rank0.json"), folder.path().join("again.json")).unwrap();
    assert!(refused(&folder).contains("is of rank 0, as is"), "{}", refused(&folder));
}

/// Rank 1 has no event, all events of rank 2 are at impossible times, and the gzipped file of rank 3 is damaged within its first
/// step: what is left of ranks 0 and 4 is compared.
#[test]
fn ranks_whose_traces_are_of_no_use_count_as_missing() {
    let folder = TempDir::new().unwrap();
    let events = [step(1, [0.0, 90.0]), reduce([10.0, 10.0])];
    [0, 3, 4].iter().for_each(|rank| write(folder.path(), *rank, 5, 0, &events));
    write(folder.path(), 1, 5, 0, &[]);
    write(folder.path(), 2, 5, 0, &[step(1, [1e300, 9.0])]);
    let third = folder.path().join("rank3.json");
    let text = fs::read_to_string(&third)
        .unwrap()
        .replace("\"traceEvents\":[", &format!("\"traceEvents\":[{},", event("cpu_op", "aten::mm", [1.0, 2.0], "")));
    fs::write(&third, &text[..text.find("ProfilerStep").unwrap()]).unwrap();
    let job = read(&folder);
    assert_eq!(job.ranks.iter().map(|rank| rank.number).collect::<Vec<_>>(), [0, 4]);
    let warnings = job.warnings().join("\n");
    for why in [
        "rank 1 counts as missing: ",
        "rank1.json has no event that takes time\n",
        "rank2.json has no event left that takes time: 1 event was left out: at a time that no clock shows",
        "rank3.json has no whole step: the trace is cut off or damaged at byte",
        "ranks 1 to 3 of 5 are missing",
    ] {
        assert!(warnings.contains(why), "{why} {warnings}");
    }
}

/// A number of ranks that no job has, and one that is none.
#[test]
fn numbers_of_ranks_that_no_job_has_are_named() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), 0, u32::MAX, 0, &[step(1, [0.0, 90.0])]);
    let file = folder.path().join("rank1.json");
    fs::write(
        &file,
        fs::read_to_string(folder.path().join("rank0.json"))
            .unwrap()
            .replace("4294967295", "1e15")
            .replace(r#""rank":0"#, r#""rank":1"#),
    )
    .unwrap();
    let job = read(&folder);
    let warnings = job.warnings().join("\n");
    assert!(
        job.missing().is_empty() && warnings.contains("is of a job of 4294967295 ranks, which no job has"),
        "{warnings}"
    );
    assert!(
        warnings.contains("rank 1: the trace names world_size 1000000000000000.0, which is not a number of ranks"),
        "{warnings}"
    );
    write(folder.path(), 3_000_000_000, 2, 0, &[step(1, [0.0, 90.0])]);
    assert!(refused(&folder).contains("the trace is of rank 3000000000, which no job has"));
}

/// All-reduce 0 is a broadcast on rank 2, rank 0 passes 4 bytes in to all-reduce 1, and the group of rank 1 is that of others.
#[test]
fn what_ranks_contradict_each_other_in_is_named() {
    let folder = TempDir::new().unwrap();
    for rank in 0..3 {
        let kernel = |sequence: u32, name: &str, elements: u32| {
            let group = if rank == 1 && sequence == 2 { "[4, 5]" } else { "[0, 1, 2]" };
            let args = format!(
                r#""Collective name":"{name}","In msg nelems":{elements},"Out msg nelems":{elements},"dtype":"Float","Group size":3,"Process Group Name":"0","Process Group Ranks":"{group}","Seq":{sequence}"#
            );
            on(8, "kernel", "ncclDevKernel", [10.0 + 20.0 * f64::from(sequence), 10.0], &args)
        };
        let first = if rank == 2 { "broadcast" } else { "allreduce" };
        let events = [
            step(1, [0.0, 90.0]),
            kernel(0, first, 256),
            kernel(1, "allreduce", if rank == 0 { 1 } else { 256 }),
            kernel(2, "allreduce", 256),
        ];
        write(folder.path(), rank, 3, 0, &events);
    }
    let analysis = Analysis::new(read(&folder));
    // So they do in the only step.
    assert!(analysis.check_one_job().unwrap_err().to_string().contains("cannot be of one job"));
    let warnings = analysis.warnings().join("\n");
    for contradiction in [
        "in 1 exchange rank 2 has broadcast where ranks 0 and 1 have all-reduce under the same number",
        "in 1 exchange rank 0 has 4 B where ranks 1 and 2 have 1.0 KiB under the same number",
        "rank 1 takes part in exchanges of process groups that do not contain it, such as rank 1 in [4, 5]",
    ] {
        assert!(warnings.contains(contradiction), "{warnings}");
    }
}

#[test]
fn missing_ranks_and_calls_that_match_nowhere_are_reported() {
    let folder = TempDir::new().unwrap();
    let calls = |count: u32| (0..count).map(|at| reduce([10.0 + 20.0 * f64::from(at), 10.0]));
    for (rank, count) in [(0, 3), (2, 2)] {
        let events: Vec<String> = std::iter::once(step(1, [0.0, 90.0])).chain(calls(count)).collect();
        write(folder.path(), rank, 4, 0, &events);
    }
    let analysis = Analysis::new(read(&folder));
    let warnings = analysis.warnings().join("\n");
    assert!(warnings.contains("ranks 1 and 3 of 4 are missing"), "{warnings}");
    assert!(warnings.contains("rank 0: 1 call of all-reduce has no counterpart"), "{warnings}");
    assert_eq!(analysis.exchanges.complete().count(), 2);
}

/// Ranks 0 and 1 compute for 20 ms and wait until 60 ms for rank 2, without a trace, which computes for 55: a step of 32.5 ms where its GPU is
/// twice as fast, of 115 where it is half as fast, of 60.03 where its time is none of the GPU.
#[test]
fn intervals_hold_what_a_rank_without_a_trace_may_do() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let events = (0..4).flat_map(|number| {
            let begin = 1e5 * f64::from(number);
            let product = launched(10 * number + 1, begin + 10.0, (20, "gemm"), [begin + 20.0, 20_000.0], "");
            let waits = [begin + 20_020.0, 40_000.0];
            let reduce = launched(10 * number + 2, begin + 20.0, (21, ALL_REDUCE), waits, OF_ALL_REDUCE);
            let wait = event(
                "cuda_runtime",
                "cudaDeviceSynchronize",
                [begin + 40.0, 59_980.0],
                &format!(r#""correlation":{}"#, 10 * number + 3),
            );
            [step(number, [begin, 60_030.0]), wait].into_iter().chain(product).chain(reduce)
        });
        write(folder.path(), rank, 3, 0, &events.collect::<Vec<_>>());
    }
    for (what_if, truths) in [("gpu x 2", [32.5, 60.03]), ("gpu x 0.5", [60.03, 115.0])] {
        let replayed = asked(&folder, what_if);
        let after = replayed.answered_scenarios().next().unwrap().1.after;
        assert!(truths.iter().all(|truth| (after.low..=after.high).contains(&(truth * 1e6))), "{what_if}: {after:?}");
    }
}

/// Older versions of PyTorch write no number of ranks: of 0, 1 and 3 one is missing, of 1, 2 and 3 the first may be named so.
#[test]
fn gaps_between_numbers_are_ranks_without_a_trace() {
    for (ranks, missing) in [([0, 1, 3], vec![2]), ([1, 2, 3], vec![])] {
        let folder = TempDir::new().unwrap();
        for rank in ranks {
            let events = [step(1, [0.0, 90.0]), reduce([10.0, 10.0])].join(",");
            let text = format!(r#"{{"traceEvents":[{events}]}}"#);
            fs::write(folder.path().join(format!("rank{rank}.json")), text).unwrap();
        }
        assert_eq!(read(&folder).missing().into_iter().collect::<Vec<u32>>(), missing, "{ranks:?}");
    }
}

/// The file of rank 1 ends within its second step, as of a process that was killed while it wrote.
#[test]
fn a_rank_that_is_cut_off_is_compared_as_far_as_it_goes() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let events: Vec<String> = (0..3)
            .flat_map(|number| {
                let begin = 100.0 * f64::from(number);
                [step(number, [begin, 90.0]), reduce([begin + 10.0 + f64::from(rank), 20.0 - f64::from(rank)])]
            })
            .collect();
        write(folder.path(), rank, 2, 0, &events);
    }
    let file = folder.path().join("rank1.json");
    let text = fs::read_to_string(&file).unwrap();
    let cut = text.find("ProfilerStep#2").unwrap();
    fs::write(&file, &text[..cut]).unwrap();
    let analysis = Analysis::new(read(&folder));
    let warnings = analysis.warnings().join("\n");
    assert_eq!((analysis.job.steps.len(), analysis.waiting.exchanges.len()), (2, 2), "{warnings}");
    assert!(warnings.contains("only 2 of up to 3 steps are on all ranks: rank 0 recorded more"), "{warnings}");
    assert!(warnings.contains("cut off"), "{warnings}");
}

/// Twelve steps of 60 ms of four ranks, of which rank 3 works 40 ms and the others 10, before all exchange for 10; the numbers of rank 1's
/// exchanges and steps are higher by so much.
fn write_numbered(folder: &Path, [exchanges, steps]: [u32; 2]) {
    for rank in 0..4 {
        let events = (0..12).flat_map(|number| {
            let (begin, work) = (60_000.0 * f64::from(number), if rank == 3 { 40_000.0 } else { 10_000.0 });
            let [sequence, name] = [number + exchanges, number + steps].map(|own| if rank == 1 { own } else { number });
            let args = format!(
                r#""Collective name":"allreduce","In msg nelems":64,"dtype":"Float","Group size":4,"Process Group Name":"0","Process Group Ranks":"[0, 1, 2, 3]","Seq":{sequence}"#
            );
            [
                step(name, [begin, 55_000.0]),
                on(20, "kernel", "gemm", [begin, work], ""),
                on(20, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", [begin + work, 50_000.0 - work], &args),
            ]
        });
        write(folder, rank, 4, 0, &events.collect::<Vec<_>>());
    }
}

/// Whatever is numbered otherwise, the others wait 30 ms for rank 3.
#[test]
fn numbers_of_exchanges_and_steps_that_are_shifted_on_a_rank_are_seen() {
    for (shifts, steps, warning) in [
        ([0, 0], 12, None),
        ([1, 0], 12, Some("rank 1 numbers its exchanges (Seq) otherwise")),
        ([0, 1], 11, Some("rank 1 numbers its steps by 1 more")),
    ] {
        let folder = TempDir::new().unwrap();
        write_numbered(folder.path(), shifts);
        let analysis = Analysis::new(read(&folder));
        assert_eq!(analysis.job.steps.len(), steps, "{warning:?}");
        for step in &analysis.waiting.steps {
            assert_eq!([0, 1, 2].map(|rank| step.waiting_time(rank, 3)), [30_000_000; 3], "{warning:?}");
        }
        assert_eq!(analysis.clocks.ranks[1].offset, 0.0, "{warning:?}");
        let warnings = analysis.warnings();
        assert!(
            warning.is_none_or(|expected| warnings.iter().any(|warning| warning.contains(expected))),
            "{warnings:?}"
        );
        assert!(warning.is_some() || !warnings.iter().any(|warning| warning.contains("numbers")), "{warnings:?}");
    }
}

/// Fourteen steps of two ranks without numbers of exchanges, of which rank 1 works 30 ms longer before both exchange. Steps take 60 ms and
/// up to `varies` more. Rank 1 numbers its steps by 2 more, and its clock is `base` nanoseconds off.
fn write_unnumbered(folder: &Path, names: [&str; 2], varies: f64, [by, base]: [i64; 2]) {
    // Drawn once.
    let longer = [0.0, 0.31, 0.87, 0.12, 0.64, 0.9, 0.05, 0.48, 0.77, 0.23, 0.69, 0.41, 0.84, 0.16];
    let begin = |number: usize| 60_000.0 * number as f64 + varies * longer[..number].iter().sum::<f64>();
    for (rank, name) in (0..).zip(names) {
        let events = (0..longer.len()).flat_map(|number| {
            let (begin, work) = (begin(number), if rank == 1 { 40_000.0 } else { 10_000.0 });
            let named = number as u32 + if rank == 1 { u32::try_from(by).unwrap() } else { 0 };
            [step(named, [begin, 55_000.0]), reduce([begin + work, 50_000.0 - work])]
        });
        write(folder, rank, 2, if rank == 1 { base } else { 0 }, &events.collect::<Vec<_>>());
        fs::rename(folder.join(format!("rank{rank}.json")), folder.join(name)).unwrap();
    }
}

/// Ends that scatter by as much as steps differ are of different steps; where all steps take equally long, one host has one clock. A clock
/// that is off by as long as steps take is one, if the steps that are named alike end together otherwise.
#[test]
fn steps_that_a_rank_numbers_otherwise_are_seen_without_numbers_of_exchanges() {
    let (two, one_host) = (["rank0.json", "rank1.json"], ["a_7.1.pt.trace.json", "a_8.2.pt.trace.json"]);
    for (names, varies, shift, steps) in [
        (two, 900.0, [2, 40_000_000], 12),
        (two, 900.0, [0, 121_000_000], 14),
        (one_host, 0.0, [2, 0], 12),
        (two, 0.0, [0, 40_000_000], 14),
    ] {
        let folder = TempDir::new().unwrap();
        write_unnumbered(folder.path(), names, varies, shift);
        let file = folder.path().join(names[1]);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace(r#""pid":7"#, r#""pid":8"#)).unwrap();
        let analysis = Analysis::new(read(&folder));
        let warnings = analysis.warnings().join("\n");
        assert_eq!(analysis.job.steps.len(), steps, "{names:?} {varies} {shift:?}: {warnings}");
        assert_eq!(warnings.contains("rank 1 numbers its steps by 2 more"), shift[0] == 2, "{shift:?}: {warnings}");
        for step in &analysis.waiting.steps {
            assert_eq!(step.waiting_time(0, 1), 30_000_000, "{names:?} {varies} {shift:?}: {warnings}");
        }
        assert_eq!(analysis.clocks.ranks[1].offset, -shift[1] as f64, "{names:?} {varies} {shift:?}");
    }
}

/// Rank 1 has batches for seven of ten steps, and exchanges on for the others as `DistributedDataParallel.join()` does; before the steps
/// and after them both exchange something else.
#[test]
fn a_rank_that_runs_out_of_steps_is_compared_in_those_that_all_have() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let late = if rank == 1 { 20_000.0 } else { 0.0 };
        let events = (0..12).flat_map(|number| {
            let begin = 100_000.0 * f64::from(number);
            let is_step = (1..if rank == 1 { 8 } else { 11 }).contains(&number);
            let exchange = reduce([begin + 10_000.0 + late, 30_000.0 - late]);
            is_step.then(|| step(number, [begin, 90_000.0])).into_iter().chain([exchange])
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    let analysis = Analysis::new(read(&folder));
    assert_eq!((analysis.job.steps.len(), analysis.clocks.strangers.len()), (7, 0), "{:?}", analysis.clocks.strangers);
    assert!(
        analysis.waiting.steps.iter().all(|step| step.waiting_time(0, 1) == 20_000_000),
        "{:?}",
        analysis.waiting.steps
    );
    let is_joined = || Analysis::new(read(&folder)).warnings().iter().any(|warning| warning.contains("join()"));
    assert!(is_joined());
    // Of a file that is cut off, marks of steps may be what is missing.
    let file = folder.path().join("rank1.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.strip_suffix("]}").unwrap()).unwrap();
    assert!(!is_joined());
}

/// Eight steps of two ranks, of which rank 1 enters the all-reduce of each 20 ms later. Of rank 1, the range of the all-reduce in step 3, the call in
/// step 5 and the event of step 6 have a negative duration. Its calls are as many as its ranges, and those after step 3 do not belong together by
/// their order.
#[test]
fn what_follows_a_lost_event_is_of_its_own_step() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let late = if rank == 1 { 20_000.0 } else { 0.0 };
        let lost = |number: u32, of: u32| if rank == 1 && number == of { -1.0 } else { 1.0 };
        let events = (0..8).flat_map(|number| {
            let begin = 100_000.0 * f64::from(number);
            let sized = r#""Input Dims":[[[100]]],"Input type":["TensorList"]"#;
            let call = [begin + late + 9_900.0, 50.0 * lost(number, 5)];
            [
                step(number, [begin, 95_000.0 * lost(number, 6)]),
                event("cpu_op", "c10d::allreduce_", call, sized),
                reduce([begin + 10_000.0 + late, (40_000.0 - late) * lost(number, 3)]),
            ]
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    let analysis = Analysis::new(read(&folder));
    let warnings = analysis.warnings().join("\n");
    let steps: Vec<&str> = analysis.job.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(steps, [0, 1, 2, 4, 5, 7].map(|number| format!("ProfilerStep#{number}")), "{warnings}");
    for step in &analysis.waiting.steps {
        assert_eq!([step.waiting_time(0, 1), step.waiting_time(1, 0)], [20_000_000, 0], "{warnings}");
    }
    assert_eq!(analysis.clocks.ranks[1].offset, 0.0);
    assert!(
        warnings.contains("rank 1 lacks steps of the others between its own, whose event is missing: ProfilerStep#6;"),
        "{warnings}"
    );
}

/// Rank 0 records steps 0 to 7 of a job, rank 1 steps 3 to 9: both went on all the time.
#[test]
fn a_rank_that_recorded_later_steps_did_not_run_out_of_them() {
    let folder = TempDir::new().unwrap();
    for (rank, recorded) in [(0, 0..8u32), (1, 3..10)] {
        let events = recorded.flat_map(|number| {
            let begin = 100_000.0 * f64::from(number);
            [step(number, [begin, 90_000.0]), reduce([begin + 10_000.0, 30_000.0])]
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    let analysis = Analysis::new(read(&folder));
    assert_eq!(analysis.job.steps.len(), 5);
    assert!(!analysis.warnings().iter().any(|warning| warning.contains("join()")), "{:?}", analysis.warnings());
}

/// Rank 1 takes 30 ms more in every third step of 50: on average a step takes 60, and 50 without that, though in the typical one nothing is different.
#[test]
fn what_a_straggler_costs_now_and_then_is_the_mean_of_all_steps() {
    let folder = TempDir::new().unwrap();
    write_steps(folder.path(), |rank, number| if rank == 1 && number % 3 == 1 { 30.0 } else { 0.0 });
    let replayed = ReplayedJob::replay(&Analysis::new(read(&folder)), &ReplayRequest::default()).unwrap();
    let outcome = replayed.without_straggler.unwrap();
    let [step, without] = [outcome.before as f64, outcome.after.time].map(|time| time / 1e6);
    assert!((step - 60.0).abs() < 0.5 && (without - 50.0).abs() < 0.5, "{step} {without}");
}

/// Rank 1 takes 25 ms more in every fourth step: what a change brings, and to which step, is the same whatever else is asked.
#[test]
fn an_answer_does_not_depend_on_what_else_is_asked() {
    let folder = TempDir::new().unwrap();
    write_steps(folder.path(), |rank, number| if rank == 1 && number % 4 == 1 { 25.0 } else { 0.0 });
    let what_ifs = ["gpu x 1", "rank 1 as the others", "bandwidth x 2"];
    let alone = what_ifs.map(|what_if| before_and_after(&folder, what_if));
    let request = ReplayRequest { what_ifs: what_ifs.map(str::to_owned).to_vec(), ..ReplayRequest::default() };
    let replayed = ReplayedJob::replay(&Analysis::new(read(&folder)), &request).unwrap();
    let together =
        replayed.answered_scenarios().map(|(_, one)| [one.before as f64, one.after.time].map(|time| time / 1e6));
    assert_eq!(together.collect::<Vec<_>>(), alone);
}

/// The clock of rank 1 is set on by a second in the middle of forty steps, in which rank 0 waits 30 ms for it.
#[test]
fn a_clock_that_was_set_is_told_and_taken_back() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let late = if rank == 1 { 30_000.0 } else { 0.0 };
        let events = (0..40).flat_map(|number| {
            let set = if rank == 1 && number >= 20 { 1e6 } else { 0.0 };
            let begin = 100_000.0 * f64::from(number) + set;
            let args = r#""Collective name":"allreduce","In msg nelems":8,"dtype":"Float","Group size":2"#;
            let time = [begin + 10_000.0 + late, 40_000.0 - late];
            [step(number, [begin, 90_000.0]), on(20, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", time, args)]
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    let analysis = Analysis::new(read(&folder));
    assert!(analysis.clocks.strangers.is_empty() && analysis.job.steps.len() == 38, "{}", analysis.job.steps.len());
    assert!(analysis.waiting.steps.iter().all(|step| (step.waiting_time(0, 1) - 30_000_000).abs() < 1_000_000));
    let warnings = analysis.warnings();
    assert!(
        warnings.iter().any(|warning| warning.contains("rank 1 was set") && warning.contains("1.00 s on")),
        "{warnings:?}"
    );
}

/// Ranks 0 and 1 take 50 ms for a step, and ranks 2 and 3 take 100, which they never exchange with: after twelve steps they are 600 ms apart,
/// which is no later start. Without what rank 2 works longer, the step of the others is the longest.
#[test]
fn ranks_that_nothing_synchronises_begin_their_steps_by_themselves() {
    let folder = TempDir::new().unwrap();
    for (rank, (pair, work, long)) in
        (0..).zip([("[0, 1]", 10.0, 50.0), ("[0, 1]", 40.0, 50.0), ("[2, 3]", 90.0, 100.0), ("[2, 3]", 10.0, 100.0)])
    {
        let events = (0..12).flat_map(|number| {
            let (begin, work, end) = (1000.0 * long * f64::from(number), 1000.0 * work, 1000.0 * (long - 5.0));
            let args = format!(
                r#""Collective name":"allreduce","In msg nelems":64,"dtype":"Float","Group size":2,"Process Group Name":"{pair}","Process Group Ranks":"{pair}""#
            );
            [
                step(number, [begin, end]),
                on(20, "kernel", "gemm", [begin, work], ""),
                on(20, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", [begin + work, end - work], &args),
            ]
        });
        write(folder.path(), rank, 4, 0, &events.collect::<Vec<_>>());
    }
    let replayed = asked(&folder, "rank 2 as the others");
    let (_, outcome) = replayed.answered_scenarios().next().unwrap();
    let [before, after] = [outcome.before as f64, outcome.after.time].map(|time| (time / 1e6).round());
    assert_eq!([before, after], [95.0, 45.0], "{outcome:?}");
    let analysis = Analysis::new(read(&folder));
    let longer = &analysis.stragglers[0];
    assert!(longer.rank == 2 && longer.excess.iter().all(|one| one.activity != RankActivity::LaterStart), "{longer:?}");
}

/// gloo's calls name their peer by its number in the group: both pairs send to 1 and receive from 0.
#[test]
fn peers_of_groups_are_ranks_of_the_job() {
    let folder = TempDir::new().unwrap();
    for rank in 0..4u32 {
        let own = if rank < 2 { "[0, 1]" } else { "[2, 3]" };
        let (call, range, peer) = if rank % 2 == 0 { ("send", "send", 1) } else { ("recv_", "recv", 0) };
        let events = (0..4).flat_map(|number| {
            let begin = 50_000.0 * f64::from(number);
            let shapes = r#""Input Dims":[[[100]],[],[],[]],"Input type":["float","","Scalar","Scalar"]"#;
            let inputs = format!(r#"{shapes},"Concrete Inputs":["","","{peer}","0"]"#);
            [
                step(number, [begin, 40_000.0]),
                event("cpu_op", &format!("c10d::{call}"), [begin + 5_000.0, 1_000.0], &inputs),
                event(
                    "user_annotation",
                    &format!("gloo:{range}"),
                    [begin + 5_500.0, 10_000.0],
                    r#""Input Dims":[[100]],"Input type":["float"]"#,
                ),
            ]
        });
        write_with_groups(folder.path(), [rank, 4], 0, &["[0, 1, 2, 3]", own], &events.collect::<Vec<_>>());
    }
    let exchanges = RankExchanges::find(&read(&folder));
    let pairs: BTreeSet<Vec<usize>> =
        exchanges.complete().map(|exchange| exchange.parts.iter().map(|part| part.rank).collect()).collect();
    assert_eq!(pairs, BTreeSet::from([vec![0, 1], vec![2, 3]]));
    assert!(exchanges.all.iter().all(|exchange| exchange.whole), "{:?}", exchanges.all);
}

/// The root of a broadcast waits in it for rank 2, which is 40 ms late, and rank 1 goes on at once: a step takes 52 ms, without the delay 12.
#[test]
fn who_need_not_wait_for_all_is_not_waited_for_twice() {
    let folder = TempDir::new().unwrap();
    let [root, other, late] = [
        [[0, 5], [5, 45], [45, 50], [50, 51]],
        [[0, 5], [5, 6], [6, 11], [11, 51]],
        [[40, 44], [44, 45], [45, 50], [50, 51]],
    ];
    for (rank, parts) in (0..).zip([root, other, late]) {
        let events = (0..12).flat_map(|number| {
            let begin = 60_000.0 * f64::from(number);
            let at = |[from, to]: [u32; 2]| [begin + 1000.0 * f64::from(from), 1000.0 * f64::from(to - from)];
            let range =
                |name, part| on(8, "user_annotation", name, at(part), r#""Input Dims":[[100]],"Input type":["float"]"#);
            let work = |part| event("cpu_op", "aten::mm", at(part), "");
            [
                step(number, at([0, 52])),
                work(parts[0]),
                range("gloo:broadcast", parts[1]),
                work(parts[2]),
                range("gloo:barrier", parts[3]),
                work([51, 52]),
            ]
        });
        write(folder.path(), rank, 3, 0, &events.collect::<Vec<_>>());
    }
    let [before, after] = before_and_after(&folder, "rank 2 as the others");
    assert!((before - 52.0).abs() < 0.5 && (after - 12.0).abs() < 2.0, "{before} {after}");
}

/// When three ranks begin, call, have done and end each of 12 steps, in ms: 5 of work, an exchange with rank 0 and 2 of work; one rank is
/// late. A message takes 1 and waits for its receiver.
fn rooted(is_broadcast: bool, late: Option<(usize, f64)>) -> Vec<[[f64; 4]; 3]> {
    let mut begins = [0.0; 3];
    let step = |_| {
        let called =
            [0, 1, 2].map(|rank| begins[rank] + 5.0 + late.map_or(0.0, |(own, by)| if own == rank { by } else { 0.0 }));
        let all = called.into_iter().fold(0.0, f64::max);
        let done = [0, 1, 2].map(|rank| match rank {
            0 => 1.0 + all,
            _ => 1.0 + f64::max(called[rank], called[0]),
        });
        let done = if is_broadcast { [1.0 + all, done[1], done[2]] } else { done };
        let step = [0, 1, 2].map(|rank| [begins[rank], called[rank], done[rank], done[rank] + 2.0]);
        begins = done.map(|done| done + 2.0);
        step
    };
    (0..12).map(step).collect()
}

/// Of a broadcast the others wait for the root, of a gather the root for all others; the other ranks may be ahead of each other by a step.
/// What the late rank waits for its own message, 1, is not in the times of the others.
#[test]
fn who_is_late_for_a_broadcast_or_a_gather_is_waited_for() {
    for (name, late) in [("broadcast", 0), ("broadcast", 1), ("gather", 1)] {
        let folder = TempDir::new().unwrap();
        let steps = rooted(name == "broadcast", Some((late, 50.0)));
        for rank in 0..3 {
            let events = (0..).zip(&steps).flat_map(|(number, step)| {
                let [begin, called, done, end] = step[rank].map(|time| 1000.0 * (time + 10.0));
                let worked = begin + 5000.0;
                let range = on(8, "user_annotation", &format!("gloo:{name}"), [called, done - called], "");
                let call = event("cpu_op", &format!("c10d::{name}_"), [called - 100.0, 90.0], "");
                let work = |from: f64, to: f64| event("cpu_op", "aten::mm", [from, to - from], "");
                [
                    self::step(number, [begin, end - begin]),
                    work(begin, worked - 200.0),
                    call,
                    range,
                    work(done, end - 100.0),
                ]
            });
            write(folder.path(), rank as u32, 3, 0, &events.collect::<Vec<_>>());
        }
        let quick = rooted(name == "broadcast", None);
        let truth = quick[11][0][3] - quick[10][0][3];
        let [_, after] = before_and_after(&folder, &format!("rank {late} as the others"));
        assert!((after - truth).abs() < 1.2, "{name}, rank {late}: {after} for {truth}");
    }
}

/// Both ranks work 10 ms and exchange 1; then rank 0 writes for 40 ms, and rank 1 begins the next step and waits. Without writing a step
/// takes 11 ms instead of 51.
#[test]
fn what_a_rank_does_after_the_last_exchange_is_not_waited_for_when_it_is_gone() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let events = (0..12).flat_map(|number| {
            let at = 1000.0 * (50.0 + 51.0 * f64::from(number));
            let begin = if rank == 0 || number == 0 { at } else { at - 40_000.0 };
            let exchange = [begin + 10_000.0, at + 11_000.0 - begin - 10_000.0];
            let end = if rank == 0 { at + 51_000.0 } else { at + 11_000.0 };
            let range = on(8, "user_annotation", "gloo:all_reduce", exchange, "");
            let work = event("cpu_op", "aten::mm", [begin, 9_950.0], "");
            let write = event("cpu_op", "write_checkpoint", [at + 11_000.0, end - at - 11_000.0 - 1.0], "");
            let step = self::step(number, [begin, end - begin]);
            [Some(step), Some(work), Some(range), (rank == 0).then_some(write)].into_iter().flatten()
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    let [before, after] = before_and_after(&folder, "remove operations 'write_checkpoint'");
    assert!((before - 51.0).abs() < 0.5 && (after - 11.0).abs() < 0.5, "{before} {after}");
}

/// Ranks work 10 ms, rank 1 5 more, and exchange in every third step: a cycle of three is 3 x 15 + 1 ms long, and 31 if rank 1 does as the
/// others.
#[test]
fn steps_between_exchanges_of_gradients_are_one() {
    let folder = TempDir::new().unwrap();
    for rank in 0..3 {
        let mut now = 0.0;
        let mut events = Vec::new();
        for number in 0..15 {
            let work = if rank == 1 { 15_000.0 } else { 10_000.0 };
            let until = if number % 3 == 2 { f64::from(number / 3 + 1) * 46_000.0 } else { now + work };
            events.push(event("cpu_op", "aten::mm", [now, work - 10.0], ""));
            if number % 3 == 2 {
                events.push(on(8, "user_annotation", "gloo:all_reduce", [now + work, until - now - work], ""));
            }
            events.push(step(number, [now, until - now]));
            now = until;
        }
        write(folder.path(), rank, 3, 0, &events);
    }
    let [before, after] = before_and_after(&folder, "rank 1 as the others");
    assert!((before - 46.0).abs() < 0.2 && (after - 31.0).abs() < 0.2, "{before} {after}");
}

/// Both ranks multiply for 10 ms, of which all but the first two they exchange something for 5. Nothing goes on when that is done: at a quarter of the speed it takes 20 ms,
/// until 22 behind the beginning, and whether the step waits for it no trace tells.
#[test]
fn an_answer_that_rests_on_nobody_waiting_says_so() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let events = (0..10).flat_map(|number| {
            let begin = 30_000.0 * f64::from(number);
            let sizes = r#""Input Dims":[[2500000]],"Input type":["float"]"#;
            let call = event("cpu_op", "c10d::allreduce_", [begin + 1_950.0, 40.0], sizes);
            let range = on(8, "user_annotation", "gloo:all_reduce", [begin + 2_000.0, 5_000.0], sizes);
            let work = [[10.0, 1_900.0], [2_000.0, 7_900.0]];
            let [first, second] = work.map(|[from, time]| event("cpu_op", "aten::mm", [begin + from, time], ""));
            [step(number, [begin, 10_000.0]), first, call, range, second]
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    let replayed = asked(&folder, "bandwidth x 0.25");
    let (_, outcome) = replayed.answered_scenarios().next().unwrap();
    assert!((outcome.after.time / 1e6 - 10.0).abs() < 0.1 && outcome.after.high > 21.5e6, "{outcome:?}");
    assert!(outcome.assumptions.iter().any(|said| said.contains("no thread is seen to wait for 1 of 1 exchanges")));
    let replayed = asked(&folder, "operations 'aten::mm' x 2");
    let (_, outcome) = replayed.answered_scenarios().next().unwrap();
    assert!(!outcome.assumptions.iter().any(|said| said.contains("is seen to wait")), "{outcome:?}");
}

/// Rank 1 records the second exchange of a step without its size.
#[test]
fn exchanges_without_a_size_on_a_rank_are_matched_by_order() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let events = (0..4).flat_map(|number| {
            let begin = 30_000.0 * f64::from(number);
            let range = |from: f64, args| on(8, "user_annotation", "gloo:all_reduce", [begin + from, 5000.0], args);
            let [small, large] = [100, 200].map(|size| format!(r#""Input Dims":[[{size}]],"Input type":["float"]"#));
            let second = if rank == 1 { "" } else { &large };
            [step(number, [begin, 25_000.0]), range(2000.0, &small), range(10_000.0, second), range(18_000.0, &small)]
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    let analysis = Analysis::new(read(&folder));
    assert_eq!(analysis.job.steps.len(), 4, "{:?}", analysis.warnings());
    assert_eq!(analysis.exchanges.complete().count(), 12);
}

/// A rank whose step `number` begins at `10 * number`, in ms, launches a kernel of 10 that begins `late` after it, and synchronises with
/// the GPU until `synchronised`, if it does.
fn write_launches(folder: &Path, late: f64, synchronised: Option<f64>) {
    let events = (0..12).flat_map(|number| {
        let begin = 10_000.0 * f64::from(number);
        let correlation = |place: u32| format!(r#""correlation":{}"#, 10 * number + place);
        let launch = event("cuda_runtime", "cudaLaunchKernel", [begin + 10.0, 5.0], &correlation(1));
        let kernel = on(20, "kernel", "gemm", [begin + 1000.0 * late, 9_900.0], &correlation(1));
        let wait = |end: f64| [begin + 50.0, 1000.0 * end - 50.0];
        let wait = synchronised.map(|end| event("cuda_runtime", "cudaDeviceSynchronize", wait(end), &correlation(2)));
        [Some(step(number, [begin, 10_000.0])), Some(launch), Some(kernel), wait].into_iter().flatten()
    });
    write(folder, 0, 1, 0, &events.collect::<Vec<_>>());
}

/// Half of a kernel of 9.9 ms is gone from a step of 10, whose last call waits for it up to the step's very end.
#[test]
fn a_synchronisation_that_ends_with_the_step_waits_for_the_gpu() {
    let folder = TempDir::new().unwrap();
    write_launches(folder.path(), 0.1, Some(10.0));
    let replayed = asked(&folder, "gpu x 2");
    let (_, outcome) = replayed.answered_scenarios().next().unwrap();
    assert!((outcome.before as f64 / 1e6 - outcome.after.time / 1e6 - 4.95).abs() < 0.1, "{outcome:?}");
    assert_eq!(replayed.ahead, None);
}

/// Kernels begin 8 ms after their steps of 10: what a step launches is done 18 after its begin, and the stream takes 10 from one step to
/// the next. With kernels of half the length that is 5, if the threads' 10 were waiting for the GPU, for the GPU is never idle; else 10.
#[test]
fn work_that_goes_on_after_its_step_is_no_longer_step() {
    let folder = TempDir::new().unwrap();
    write_launches(folder.path(), 8.0, None);
    let replayed = asked(&folder, "gpu x 2");
    assert_eq!((replayed.ahead, replayed.typical), (None, 10_000_000));
    let (_, outcome) = replayed.answered_scenarios().next().unwrap();
    let bounds = outcome.after.low / 1e6..=outcome.after.high / 1e6;
    assert!(bounds.contains(&5.05) && bounds.contains(&10.0), "{outcome:?}");
}

/// The times of a launch and of a kernel for a queue of `places`: `launches` a step and kernels of 1 ms, one after the other. A call takes
/// 0.01 ms, and waits until the kernel `places` before it has begun.
fn queued(launches: usize, places: usize, steps: usize) -> Vec<[[f64; 2]; 2]> {
    let mut times: Vec<[[f64; 2]; 2]> = Vec::new();
    for _ in 0..launches * steps {
        let begin = times.last().map_or(0.0, |[[begin, took], _]| begin + took);
        let room = times.len().checked_sub(places).map_or(0.0, |place| times[place][1][0]);
        let launch = [begin, (begin + 10.0).max(room) - begin];
        let free = times.last().map_or(0.0, |[_, [begin, took]]| begin + took);
        times.push([launch, [free.max(begin + launch[1]), 1000.0]]);
    }
    times
}

/// Steps of 20 kernels of 1 ms that nothing synchronises; `places` in the queue of the GPU, after as many steps as fill it.
fn write_queue(folder: &Path, places: usize) {
    let [launches, steps, filled] = [20, 24, 12];
    let times = queued(launches, places, steps);
    let begin = |step: usize| {
        times.get(launches * step).map_or(times[times.len() - 1][0].iter().sum(), |[launch, _]| launch[0])
    };
    let marks = (filled..steps).map(|number| step(number as u32, [begin(number), begin(number + 1) - begin(number)]));
    let call = |(place, [launch, kernel]): (usize, &[[f64; 2]; 2])| {
        let correlation = format!(r#""correlation":{}"#, place + 1);
        let kernel = on(20, "kernel", "gemm", *kernel, &correlation);
        let launch =
            (place >= launches * filled).then(|| event("cuda_runtime", "cudaLaunchKernel", *launch, &correlation));
        launch.into_iter().chain([kernel])
    };
    let calls = times.iter().enumerate().flat_map(call);
    write(folder, 0, 1, 0, &marks.chain(calls).collect::<Vec<_>>());
}

/// 20 kernels of 1 ms are 20 from one step to the next, of half the length 10, whether threads wait for room in the queue or there is
/// room for all: they launch a step in 0.2.
#[test]
fn a_step_that_nothing_synchronises_is_as_long_as_its_stream_needs() {
    for (places, ahead) in [(100, false), (10_000, true)] {
        let folder = TempDir::new().unwrap();
        write_queue(folder.path(), places);
        let replayed = asked(&folder, "gpu x 2");
        let (_, outcome) = replayed.answered_scenarios().next().unwrap();
        let times = [replayed.typical as f64, outcome.before as f64, outcome.after.time].map(|time| time / 1e6);
        let truths = [20.0, 20.0, 10.0];
        assert!(times.iter().zip(truths).all(|(time, truth)| (time / truth - 1.0).abs() < 0.02), "{places}: {times:?}");
        assert!(
            outcome.after.low < 10e6 && 10e6 < outcome.after.high && outcome.after.low > 9e6,
            "{places}: {outcome:?}"
        );
        assert_eq!(replayed.ahead.is_some(), ahead, "{places}");
    }
}

/// Threads of 10 ms a step and one that takes 70 in every fourth, which no GPU notices: 30 ms of a product and 1 of an exchange are 31 from one
/// step to the next. By how much threads are ahead is another in each step.
#[test]
fn what_threads_that_are_ahead_do_now_and_then_is_hidden() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let mut begin = 0.0;
        let mut events = Vec::new();
        for number in 0..20 {
            let takes = if rank == 0 && number % 4 == 2 { 70_000.0 } else { 10_000.0 };
            let on_gpu = 20.0 + 31_000.0 * f64::from(number);
            let product = launched(10 * number + 1, begin + 10.0, (20, "gemm"), [on_gpu, 30_000.0], "");
            let reduce = [on_gpu + 30_000.0, 1000.0];
            let reduce = launched(10 * number + 2, begin + 20.0, (21, ALL_REDUCE), reduce, OF_ALL_REDUCE);
            events.push(step(number, [begin, takes]));
            events.extend([product, reduce].concat());
            begin += takes;
        }
        write(folder.path(), rank, 2, 0, &events);
    }
    let [before, _] = before_and_after(&folder, "gpu x 2");
    assert!((before - 31.0).abs() < 0.2, "{before}");
}

/// One rank whose steps take 10 ms, and 30 with a checkpoint in every third: 8 of 12 are replayed, and a plain step of 50/3 ms on average is one
/// of 10 of these.
#[test]
fn a_plain_step_is_the_mean_of_all_steps_where_some_are_replayed() {
    let folder = TempDir::new().unwrap();
    let (mut events, mut begin) = (Vec::new(), 0.0);
    for number in 0..12 {
        let saves = number % 3 == 2;
        let length = if saves { 30_000.0 } else { 10_000.0 };
        events.push(step(number, [begin, length]));
        events.push(on(7, "cpu_op", "aten::mm", [begin, 9_990.0], ""));
        events.extend(saves.then(|| on(7, "cpu_op", "save", [begin + 10_000.0, 19_990.0], "")));
        begin += length;
    }
    write(folder.path(), 0, 1, 0, &events);
    let request = ReplayRequest { plain: Some(50_000_000 / 3), ..request("operations 'aten::mm' x 0.5") };
    let replayed = ReplayedJob::replay(&Analysis::new(read(&folder)), &request).unwrap();
    let (_, distortion) = replayed.distortion.unwrap();
    assert!((distortion.plain as f64 / 10e6 - 1.0).abs() < 1e-3, "{distortion:?}");
    let after = replayed.answered_scenarios().next().unwrap().1.after.time;
    assert!((after / 5e6 - 1.0).abs() < 0.02, "{after}");
}

/// Rank 2 is late by 100 us in each step: by ten operators that take 10 us longer each, or by one whose name is another one every time.
#[test]
fn what_a_straggler_does_longer_under_many_names_is_named_by_its_kind() {
    for names in [10, 1] {
        let folder = TempDir::new().unwrap();
        for rank in 0..3 {
            let late = if rank == 2 { 100.0 } else { 0.0 };
            let takes = (50.0 + late) / f64::from(names);
            let events = (0..3).flat_map(|number| {
                let begin = 1000.0 * f64::from(number);
                let name =
                    move |one| if names == 1 { format!("save part_{number}.pt") } else { format!("fused_{one}") };
                let busy = (0..names)
                    .map(move |one| on(7, "cpu_op", &name(one), [begin + 20.0 + takes * f64::from(one), takes], ""));
                busy.chain([step(number, [begin, 300.0]), reduce([begin + 80.0 + late, 170.0 - late])])
            });
            write(folder.path(), rank, 3, 0, &events.collect::<Vec<_>>());
        }
        let analysis = Analysis::new(read(&folder));
        let longest = &analysis.stragglers[0].excess[0];
        assert_eq!(longest.activity, RankActivity::Operation("all together".to_owned()), "{names}");
        assert!((longest.longer() - 0.1).abs() < 1e-9, "{longest:?}");
    }
}

/// Rank 1 takes 30 ms more in every fourth step, which is in no median over all of them.
#[test]
fn what_a_rank_does_longer_now_and_then_is_named() {
    let folder = TempDir::new().unwrap();
    write_steps(folder.path(), |rank, number| if rank == 1 && number.is_multiple_of(4) { 30.0 } else { 0.0 });
    let analysis = Analysis::new(read(&folder));
    let first = analysis.first_straggler().unwrap();
    assert!(first.rank == 1 && first.on_occasions && first.occasions.len() == 3, "{first:?}");
    assert_eq!(first.excess[0].activity, RankActivity::Kernel("gemm".to_owned()));
    assert!((first.excess[0].longer() - 30.0).abs() < 0.1 && (first.to_explain() - 30.0).abs() < 0.1, "{first:?}");
}

/// Ranks 0 and 1 exchange, rank 2 has no part in that and takes 90 ms for a step of 100: work of half the length makes it shorter by 45 if
/// nothing keeps it from that, and by nothing if it waits for something that was not recorded. Of an exchange that one of three has no part
/// in, nobody knows who waits.
#[test]
fn a_rank_that_exchanges_nothing_may_wait_for_others_all_the_same() {
    let folder = TempDir::new().unwrap();
    for rank in 0..3 {
        let events = (0..8).flat_map(|number| {
            let begin = 100_000.0 * f64::from(number);
            let work = event("cpu_op", "aten::mm", [begin, if rank == 2 { 90_000.0 } else { 20_000.0 }], "");
            let exchange = (rank < 2).then(|| reduce([begin + 21_000.0, 5_000.0]));
            [step(number, [begin, 100_000.0]), work].into_iter().chain(exchange)
        });
        write(folder.path(), rank, 3, 0, &events.collect::<Vec<_>>());
    }
    let unknown = Analysis::new(read(&folder)).unknown_waiting();
    assert_eq!(unknown, Some(BTreeSet::from([0, 1, 2])));
    let replayed = asked(&folder, "operations 'aten::mm' x 0.5");
    let (_, outcome) = replayed.answered_scenarios().next().unwrap();
    assert!(outcome.after.low <= 90e6 && outcome.after.high >= 100e6, "{outcome:?}");
}

/// No two processes do everything in the same nanosecond; one that ends 3 ns later once is another.
#[test]
fn one_trace_under_two_names_is_told() {
    let told = |later: f64| {
        let folder = TempDir::new().unwrap();
        for rank in 0..2 {
            let events = (0..40).flat_map(|number| {
                let begin = 10_000.0 * f64::from(number);
                let more = if rank == 1 && number == 39 { later } else { 0.0 };
                [
                    step(number, [begin, 10_000.0]),
                    event("cpu_op", "aten::mm", [begin, 2_000.0 + more], ""),
                    reduce([begin + 3_000.0, 500.0]),
                ]
            });
            write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
        }
        Analysis::new(read(&folder)).warnings().iter().any(|warning| warning.contains("under another name"))
    };
    assert!(told(0.0) && !told(0.003));
}

/// Products of 6 ms, each followed by an update of 4 on another stream, for which the product of the next step waits. The thread needs 1 ms for a step, and
/// is either ahead, or waits for the work of the step before the last.
fn write_waits_for_earlier_steps(folder: &Path, is_ahead: bool) {
    let events = (0..20).flat_map(|number| {
        let (begin, on_gpu) = match is_ahead {
            true => (1000.0 * f64::from(number), 10_000.0 * f64::from(number) + 1000.0),
            false => (10_000.0 * f64::from(number), 10_000.0 * f64::from(number + 2) - 80.0),
        };
        let wait = (!is_ahead).then(|| {
            let number = format!(r#""correlation":{}"#, 10 * number + 3);
            event("cuda_runtime", "cudaEventSynchronize", [begin + 40.0, 9_900.0], &number)
        });
        let length = if is_ahead { 1000.0 } else { 10_000.0 };
        let at = begin + length - 40.0;
        let product = launched(10 * number + 1, at, (20, "gemm"), [on_gpu, 6000.0], "");
        let update = launched(10 * number + 2, at + 10.0, (21, "update"), [on_gpu + 6000.0, 4000.0], "");
        [vec![step(number, [begin, length])], wait.into_iter().collect(), product.to_vec(), update.to_vec()].concat()
    });
    write(folder, 0, 1, 0, &events.collect::<Vec<_>>());
}

/// A quarter of 4 ms is left of the update: 6 + 1.
#[test]
fn streams_wait_for_work_of_earlier_steps() {
    for is_ahead in [true, false] {
        let folder = TempDir::new().unwrap();
        write_waits_for_earlier_steps(folder.path(), is_ahead);
        let [before, after] = before_and_after(&folder, "operations 'update' x 0.25");
        assert!((before - 10.0).abs() < 0.1 && (after - 7.0).abs() < 0.1, "{is_ahead}: {before} {after}");
    }
}

/// Two products of 5 ms, and beside the second one 3 ms of something on another stream. A thread that waits for the products alone needs 6 of 10.1 ms
/// if the second takes 1; one that waits for all of the device 8.
#[test]
fn a_call_that_waits_for_a_stream_waits_for_no_other() {
    for (call, expected) in [("cudaStreamSynchronize", 6.1), ("cudaDeviceSynchronize", 8.1)] {
        let folder = TempDir::new().unwrap();
        let events = (0..12).flat_map(|number| {
            let begin = 10_100.0 * f64::from(number);
            let own = |place: u32| 10 * number + place;
            let wait = [begin + 60.0, 10_025.0 - 60.0];
            let wait = event("cuda_runtime", call, wait, &format!(r#""correlation":{}"#, own(4)));
            [
                vec![step(number, [begin, 10_100.0]), wait],
                launched(own(1), begin + 10.0, (20, "first"), [begin + 20.0, 5000.0], "").to_vec(),
                launched(own(2), begin + 20.0, (20, "second"), [begin + 5020.0, 5000.0], "").to_vec(),
                launched(own(3), begin + 30.0, (22, "beside"), [begin + 5020.0, 3000.0], "").to_vec(),
            ]
            .concat()
        });
        write(folder.path(), 0, 1, 0, &events.collect::<Vec<_>>());
        let [before, after] = before_and_after(&folder, "operations 'second' x 0.2");
        assert!((before - 10.1).abs() < 0.1 && (after - expected).abs() < 0.1, "{call}: {before} {after}");
    }
}

/// Twelve steps of 5 ms, the first one of 8.5 ms, in each of which the script numbers a range of its own: they are steps in which the rank does the same.
#[test]
fn steps_with_ranges_that_the_script_numbers_are_alike() {
    let folder = TempDir::new().unwrap();
    let events = (0..12).flat_map(|number| {
        let (begin, takes) = (10_000.0 * f64::from(number), if number == 0 { 8_500.0 } else { 5_000.0 });
        [
            step(number, [begin, takes]),
            event("user_annotation", &format!("batch {number}"), [begin, takes], ""),
            event("cpu_op", "busy", [begin, takes], ""),
        ]
    });
    write(folder.path(), 0, 1, 0, &events.collect::<Vec<_>>());
    let [before, after] = before_and_after(&folder, "operations 'busy' x 0.5");
    assert!((before - 5.0).abs() < 0.01 && (after - 2.5).abs() < 0.01, "{before} {after}");
}

/// A product of 3 ms, an exchange of 2 ms that is launched 1 ms behind its end, and another product that waits for that. The trace says which streams wait for each
/// other, and that of the exchange waits for none, as gathers of FSDP: with the first product in 5.4 ms the step takes as long.
#[test]
fn exchanges_wait_for_no_stream_of_which_a_trace_with_waits_says_nothing() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let events = (0..12).flat_map(|number| {
            let begin = 10_000.0 * f64::from(number);
            let own = |place: u32| format!(r#""correlation":{}"#, 10 * number + place);
            let of_wait = format!(
                r#"{},"wait_on_stream":30,"wait_on_cuda_event_record_corr_id":{},"stream":20"#,
                own(4),
                10 * number + 3
            );
            let calls = [
                step(number, [begin, 9_990.0]),
                event("cpu_op", "busy", [begin + 40.0, 3_950.0], ""),
                event("cuda_runtime", "cudaEventRecord", [begin + 4_020.0, 2.0], &own(3)),
                event("cuda_runtime", "cudaStreamWaitEvent", [begin + 4_025.0, 2.0], &own(4)),
                on(20, "cuda_sync", "Stream Wait Event", [begin + 4_025.0, 2.0], &of_wait),
                event("cuda_runtime", "cudaDeviceSynchronize", [begin + 4_060.0, 4_980.0], &own(6)),
            ];
            let launched =
                |place, at, kernel, time, args| launched(10 * number + place, begin + at, kernel, time, args);
            [
                calls.to_vec(),
                launched(1, 10.0, (20, "first"), [begin + 20.0, 3_000.0], "").to_vec(),
                launched(2, 4_000.0, (30, ALL_REDUCE), [begin + 4_010.0, 2_000.0], OF_ALL_REDUCE).to_vec(),
                launched(5, 4_040.0, (20, "last"), [begin + 6_020.0, 3_000.0], "").to_vec(),
            ]
            .concat()
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    let [before, after] = before_and_after(&folder, "operations 'first' x 1.8");
    assert!((after - before).abs() < 0.05, "{before} {after}");
    // From 6 ms on the last product waits for it on their own stream.
    let [before, after] = before_and_after(&folder, "operations 'first' x 3");
    assert!((after - before - 2.98).abs() < 0.1, "{before} {after}");
}

/// A product of 2 ms, 4 ms of others, and beside these 3 ms of something on another stream, which waits for the first and which the last 2 ms wait for. The trace
/// has the two calls of `cudaStreamWaitEvent`, and not of which streams. With what is beside taking 9 ms a step takes 2 + 9 + 2; if nothing waited for it, its 9 ms and
/// what comes before them.
#[test]
fn streams_wait_for_each_other_by_the_order_of_calls() {
    let folder = TempDir::new().unwrap();
    let events = (0..12).flat_map(|number| {
        let begin = 8_100.0 * f64::from(number);
        let own = |place: u32| 10 * number + place;
        let call = |place, name, [at, takes]: [f64; 2]| {
            let correlation = format!(r#""correlation":{}"#, own(place));
            event("cuda_runtime", name, [begin + at, takes], &correlation)
        };
        let calls = [
            step(number, [begin, 8_100.0]),
            call(5, "cudaStreamWaitEvent", [16.0, 2.0]),
            call(6, "cudaStreamWaitEvent", [36.0, 2.0]),
            call(7, "cudaDeviceSynchronize", [60.0, 7_970.0]),
        ];
        [
            calls.to_vec(),
            launched(own(1), begin + 10.0, (20, "first"), [begin + 20.0, 2000.0], "").to_vec(),
            launched(own(2), begin + 20.0, (22, "beside"), [begin + 2025.0, 3000.0], "").to_vec(),
            launched(own(3), begin + 30.0, (20, "others"), [begin + 2020.0, 4000.0], "").to_vec(),
            launched(own(4), begin + 40.0, (20, "last"), [begin + 6020.0, 2000.0], "").to_vec(),
        ]
        .concat()
    });
    write(folder.path(), 0, 1, 0, &events.collect::<Vec<_>>());
    let replayed = asked(&folder, "operations 'beside' x 3");
    let (_, outcome) = replayed.answered_scenarios().next().unwrap();
    let [time, low, high] = [outcome.after.time, outcome.after.low, outcome.after.high].map(|time| time / 1e6);
    assert!((time - 13.1).abs() < 0.1 && low < 11.1 && 13.1 < high, "{low} {time} {high}");
    assert!(
        outcome.assumptions.iter().any(|text| text.contains("enable_cuda_sync_events")),
        "{:?}",
        outcome.assumptions
    );
}

/// Four operations of 1 ms, each with a kernel of 0.1 ms, and a wait for the last: 4.1 ms. Behind each operation its thread works 2 ms more, 4 x 3 ms, and the last
/// kernel is done by then: it was launched 2.5 ms before. Behind each kernel there are 2 ms more on the stream, the first from 0.5 ms on: 0.5 + 4 x 2.1 ms.
#[test]
fn work_is_added_where_the_named_operation_runs() {
    for synchronize in ["cudaDeviceSynchronize", "cudaStreamSynchronize"] {
        let folder = TempDir::new().unwrap();
        let events = (0..12).flat_map(|number| {
            let begin = 4_110.0 * f64::from(number);
            let operation = |place: u32| {
                let at = begin + 1_000.0 * f64::from(place);
                let kernel = (20, "gemm");
                let [call, kernel] = launched(10 * number + place + 1, at + 495.0, kernel, [at + 500.0, 100.0], "");
                vec![event("cpu_op", "aten::linear", [at, 1_000.0], ""), call, kernel]
            };
            let wait = event("cuda_runtime", synchronize, [begin + 4_000.0, 100.0], r#""correlation":9000"#);
            [vec![step(number, [begin, 4_110.0]), wait], (0..4).flat_map(operation).collect()].concat()
        });
        write(folder.path(), 0, 1, 0, &events.collect::<Vec<_>>());
        for (name, expected) in [("aten::linear", 12.1), ("gemm", 8.9)] {
            let [_, after] = before_and_after(&folder, &format!("add 2 ms after operations '{name}'"));
            assert!((after - expected).abs() < 0.15, "{synchronize}, {name}: {after}");
        }
    }
}

/// Twenty operations of 5 ms, of which eight others in each step take 15: each at its usual time would be 100 ms, and steps take 180, with the profiler or, 175,
/// without. Of what steps take here, not of what nobody sees, half of all operations is 87.5 ms.
#[test]
fn steps_that_are_disturbed_without_the_profiler_too_are_what_changes_are_of() {
    let folder = TempDir::new().unwrap();
    let events = (0..20).flat_map(|number| {
        let mut now = 180_000.0 * f64::from(number);
        let begin = now;
        let operation = |place: u32| {
            let takes = if (place + 7 * number) % 5 < 2 { 15_000.0 } else { 5_000.0 };
            now += takes;
            event("cpu_op", &format!("aten::op{place}"), [now - takes, takes], "")
        };
        let operations: Vec<String> = (0..20).map(operation).collect();
        [vec![step(number, [begin, 180_000.0])], operations].concat()
    });
    write(folder.path(), 0, 1, 0, &events.collect::<Vec<_>>());
    let request = ReplayRequest { plain: Some(175_000_000), ..request("operations 'op*' x 0.5") };
    let replayed = ReplayedJob::replay(&Analysis::new(read(&folder)), &request).unwrap();
    let (_, outcome) = replayed.answered_scenarios().next().unwrap();
    let [before, after] = [outcome.before as f64, outcome.after.time].map(|time| time / 1e6);
    assert!((before - 175.0).abs() < 1.0 && (after - 87.5).abs() < 1.0, "{before} {after}");
    let in_seconds = ReplayRequest { plain: Some(175_000), ..request };
    let refused = ReplayedJob::replay(&Analysis::new(read(&folder)), &in_seconds).map(drop).unwrap_err().to_string();
    assert!(refused.contains("plain_step_ms is 0.175 ms"), "{refused}");
}

/// Threads are ahead of GPUs that take 7 and 10 ms for their products, of which a step has ten, in steps of 11 ms. Rank 1 has no event of the step `lost`.
fn write_ahead(folder: &Path, lost: Option<u32>) {
    for rank in 0..2 {
        let takes = if rank == 0 { 700.0 } else { 1000.0 };
        let events = (0..20).flat_map(|number| {
            let (begin, on_gpu) = (1000.0 * f64::from(number), 11_000.0 * f64::from(number) + 1000.0);
            let product = |place: u32| {
                let time = [on_gpu + takes * f64::from(place), takes];
                launched(20 * number + place + 1, begin + 10.0 * f64::from(place), (20, "gemm"), time, "")
            };
            let reduce = [on_gpu + 10.0 * takes, 11_000.0 - 10.0 * takes];
            let reduce = launched(20 * number + 12, begin + 900.0, (21, ALL_REDUCE), reduce, OF_ALL_REDUCE);
            let enqueue = [begin + 895.0, 20.0];
            let enqueue =
                event("cpu_op", "c10d::allreduce_", enqueue, r#""Input Dims":[[1000000]],"Input type":["float"]"#);
            let mark = (rank == 0 || lost != Some(number)).then(|| step(number, [begin, 1000.0]));
            let marks = mark.into_iter().chain([enqueue]).collect();
            [marks, (0..10).flat_map(product).collect(), reduce.to_vec()].concat()
        });
        write(folder, rank, 2, 0, &events.collect::<Vec<_>>());
    }
}

/// The products that a lost step launched are of no other step.
#[test]
fn the_work_of_a_gpu_in_a_lost_step_is_of_no_other() {
    let folder = TempDir::new().unwrap();
    write_ahead(folder.path(), Some(10));
    let job = read(&folder);
    assert_eq!(job.steps.len(), 19);
    for step in &job.ranks[1].steps {
        assert_eq!(step.work.1 - step.work.0, 11_000_000, "{}", step.name);
    }
}

/// Rank 0 waits 3 ms for rank 1, whose products are longer.
#[test]
fn the_work_of_a_gpu_counts_in_the_step_that_launched_it() {
    let folder = TempDir::new().unwrap();
    write_ahead(folder.path(), None);
    let analysis = Analysis::new(read(&folder));
    let first = analysis.first_straggler().unwrap();
    assert_eq!((first.rank, &first.excess[0].activity), (1, &RankActivity::Kernel("gemm".to_owned())));
    assert!((first.excess[0].longer() - 3.0).abs() < 0.2 && (first.share - 3.0 / 11.0).abs() < 0.02, "{first:?}");
    let operations = perf4sight_replay::statistic::operations(&analysis.job);
    let product = operations.iter().find(|one| one.name == "gemm").unwrap();
    assert!((product.count - 10.0).abs() < 1e-9 && (product.share - 8.5 / 11.0).abs() < 0.02, "{product:?}");
}

/// NCCL connects ranks 0 and 1, gloo alone rank 2 with them, whose clock is 3 s behind.
#[test]
fn exchanges_that_alone_connect_ranks_tell_their_clocks() {
    let folder = TempDir::new().unwrap();
    let of_both = r#""Collective name":"allreduce","In msg nelems":8,"dtype":"Float","Group size":2,"Process Group Name":"1","Process Group Ranks":"[0, 1]""#;
    for rank in 0..3 {
        let events = (0..20).flat_map(|number| {
            let begin = 10_000.0 * f64::from(number);
            let message =
                |name: &str, start: f64| on(8, "user_annotation", &format!("gloo:{name}"), [start, 100.0], "");
            let reduce = on(20, "kernel", ALL_REDUCE, [begin + 1000.0, 1000.0], of_both);
            let work = event("cpu_op", "aten::mm", [begin, 9_000.0], "");
            let own = match rank {
                0 => vec![reduce],
                1 => vec![reduce, message("send 1->2", begin + 9_100.0)],
                _ => vec![message("recv 2<-1", begin + 9_150.0)],
            };
            [vec![step(number, [begin, 10_000.0]), work], own].concat()
        });
        write(folder.path(), rank, 3, if rank == 2 { -3_000_000_000 } else { 0 }, &events.collect::<Vec<_>>());
    }
    let clock = &Analysis::new(read(&folder)).clocks.ranks[2];
    assert!((clock.offset - 3e9).abs() < 1e6, "{clock:?}");
}

/// Of two ranks that do the same one is slower; whichever stream comes first in its trace, it can do as the other.
#[test]
fn the_order_of_streams_in_a_trace_is_none_of_what_a_rank_does() {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 {
        let takes = if rank == 0 { 4000.0 } else { 8000.0 };
        let events = (0..12).flat_map(|number| {
            let begin = 10_000.0 * f64::from(number);
            let reduce = [begin + 4020.0, 5000.0];
            let product = launched(10 * number + 1, begin + 10.0, (20, "gemm"), [begin + 20.0, takes], "");
            let reduce = [reduce[0].max(begin + 20.0 + takes), begin + 9020.0 - reduce[0].max(begin + 20.0 + takes)];
            let reduce = launched(10 * number + 2, begin + 20.0, (21, ALL_REDUCE), reduce, OF_ALL_REDUCE);
            let wait = event("cuda_runtime", "cudaDeviceSynchronize", [begin + 60.0, 9_000.0], r#""correlation":0"#);
            let mut own = [vec![step(number, [begin, 10_000.0]), wait], product.to_vec(), reduce.to_vec()].concat();
            if rank == 1 {
                own.reverse();
            }
            own
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    let [before, after] = before_and_after(&folder, "rank 1 as the others");
    assert!((before - 10.0).abs() < 0.1 && (after - 6.0).abs() < 0.2, "{before} {after}");
}

/// Two operators of 10 ms on the processor, then 3 ms to enqueue an all-reduce, which takes 1 ms: 24. With one all-reduce for each gradient, half as long, the processor
/// enqueues twice, and 3 - 0.5 ms are added. The copies out of buckets are launched at once, before the all-reduces are done.
#[test]
fn enqueueing_more_all_reduces_of_a_gpu_takes_the_processor() {
    let folder = TempDir::new().unwrap();
    let sized = |elements: u32| format!(r#""Input Dims":[[{elements}]],"Input type":["float"]"#);
    for rank in 0..2 {
        let events = (0..6).flat_map(|number| {
            let (begin, own) = (30_000.0 * f64::from(number), |place: u32| 10 * number + place);
            let gradient = |place: u32| {
                let at = begin + 10_000.0 * f64::from(place);
                let work = event("cpu_op", "aten::mm", [at + 20.0, 9_970.0], "");
                let done = event("cpu_op", "torch::autograd::AccumulateGrad", [at + 9_995.0, 10.0], &sized(1_000_000));
                let kernel = launched(own(place + 1), at + 9_980.0, (20, "gemm"), [at + 9_990.0, 1000.0], "");
                [vec![work, done], kernel.to_vec()].concat()
            };
            let copy = |place: u32| {
                let at = begin + 23_040.0 + 20.0 * f64::from(place);
                let name = "torch::distributed::reducer::copy_bucket_to_grad";
                let time = [begin + 23_950.0 + 10.0 * f64::from(place), 5.0];
                let kernel = launched(own(place + 4), at + 2.0, (20, "copy"), time, "");
                [vec![event("cpu_op", name, [at, 10.0], &sized(1_000_000))], kernel.to_vec()].concat()
            };
            let enqueue = event("cpu_op", "c10d::allreduce_", [begin + 20_010.0, 3_000.0], &sized(2_000_000));
            let of_both = OF_ALL_REDUCE.replace("1000000", "2000000");
            let reduce = (21, ALL_REDUCE);
            let reduce = launched(own(3), begin + 22_980.0, reduce, [begin + 22_990.0, 950.0], &of_both);
            let wait =
                event("cuda_runtime", "cudaDeviceSynchronize", [begin + 23_100.0, 880.0], r#""correlation":9999"#);
            [
                vec![step(number, [begin, 24_000.0]), enqueue, wait],
                (0..2).flat_map(gradient).chain(reduce).chain((0..2).flat_map(copy)).collect(),
            ]
            .concat()
        });
        write(folder.path(), rank, 2, 0, &events.collect::<Vec<_>>());
    }
    let [before, after] = before_and_after(&folder, "bucket_cap_mb = 1");
    assert!((before - 24.0).abs() < 0.3 && (after - before - 2.5).abs() < 0.3, "{before} {after}");
}

/// Four stages send 4 MB on after each other: messages take 10 us, that between the second and third 60; each receives from the begin of its step on, so that the third
/// waits for what the first two do, and nobody is slow.
#[test]
fn stages_of_a_pipeline_wait_in_turn_and_a_slow_link_is_told() {
    let folder = TempDir::new().unwrap();
    for rank in 0..4 {
        let (mut events, ends) = (Vec::new(), [0.0, 110.0, 270.0, 380.0, 480.0]);
        for nth in 0..4 {
            let begin = 1_000.0 * f64::from(nth);
            events.push(step(nth + 1, [begin, 600.0]));
            let message = |correlation, name: &str, [source, destination]: [usize; 2], [start, end]: [f64; 2]| {
                let args = format!(
                    r#","Collective name":"{name}","In msg nelems":1000000,"Out msg nelems":1000000,"dtype":"Float","Group size":4,"Src Rank":{source},"Dst Rank":{destination}"#
                );
                let time = [begin + start, end - start];
                launched(correlation, begin + start - 8.0, (20, "ncclDevKernel_SendRecv"), time, &args)
            };
            if rank > 0 {
                let time = [10.0, ends[rank]];
                events.extend(message(8 * nth + 1, "recv", [rank - 1, rank], time));
            }
            let compute = [begin + ends[rank] + 1.0, 98.0];
            events.extend(launched(8 * nth + 2, begin + ends[rank] - 8.0, (7, "gemm"), compute, ""));
            if rank < 3 {
                let time = [ends[rank] + 100.0, ends[rank + 1]];
                events.extend(message(8 * nth + 3, "send", [rank, rank + 1], time));
            }
        }
        write(folder.path(), rank as u32, 4, 0, &events);
    }
    let analysis = Analysis::new(read(&folder));
    assert_eq!(analysis.waiting.share_of_messages(&analysis.exchanges), 1.0);
    let link = analysis.waiting.slow_link(&analysis.exchanges).unwrap();
    assert_eq!((link.ranks, link.times.round(), (1e3 * link.longer).round()), (vec![1, 2], 6.0, 50.0));
    // By clocks that may be 60 us off it need not be slow.
    let unsure = JobWaiting { uncertainty: 0.06, ..analysis.waiting.clone() };
    assert_eq!(unsure.slow_link(&analysis.exchanges), None);
    assert!(analysis.stragglers.iter().all(|one| one.busier < 0.005), "{:?}", analysis.stragglers);
}

/// A rank evaluates for 30 ms, or does what no trace shows, after every second or third step of 6 ms, and the other one waits for it in the step that follows: a
/// step takes 6 ms and a half or a third of 30, and 6 without that. A change that changes nothing leaves the mean of all steps within its interval.
#[test]
fn what_a_rank_did_until_it_began_its_step_is_told() {
    for (every, is_recorded) in [(2, true), (3, true), (2, false), (3, false)] {
        let folder = TempDir::new().unwrap();
        write_evaluations(folder.path(), every, is_recorded);
        let first = Analysis::new(read(&folder)).stragglers.swap_remove(0);
        let doing = match is_recorded {
            true => RankActivity::Kernel("evaluate".to_owned()),
            false => RankActivity::Nothing { before: None },
        };
        let told = [RankActivity::Before(Box::new(doing.clone())), doing];
        let longest = first.excess.iter().find(|one| told.contains(&one.activity)).unwrap();
        assert!(first.rank == 1 && longest.longer() > 14.9, "{first:?}");
        let mean = 6.0 + 30.0 / f64::from(every);
        let [before, after] = before_and_after(&folder, "rank 1 as the others");
        assert!((before - mean).abs() < 0.1 && (after - 6.0).abs() < 0.1, "{every}: {before} {after}");
        let replayed = asked(&folder, "gpu x 1");
        let (_, nothing) = replayed.answered_scenarios().next().unwrap();
        let [low, high] = [nothing.after.low, nothing.after.high].map(|bound| bound / 1e6);
        assert!(nothing.after.time == nothing.before as f64 && low < mean && mean < high, "{nothing:?}");
    }
}

/// Twelve steps of two ranks, of which rank 1 takes 30 ms more after every so many, with a kernel or without any event.
fn write_evaluations(folder: &Path, every: u32, is_recorded: bool) {
    let (mut begins, mut events) = ([0.0; 2], [Vec::new(), Vec::new()]);
    for number in 0..12 {
        let end = begins[1] + 6_000.0;
        for (rank, events) in events.iter_mut().enumerate() {
            let begin = begins[rank];
            let evaluation = if rank == 1 && number % every == every - 1 { 30_000.0 } else { 0.0 };
            let args = r#""Collective name":"allreduce","In msg nelems":64,"dtype":"Float","Group size":2"#;
            events.push(on(20, "kernel", "gemm", [begin, 5_000.0], ""));
            events.push(on(21, "kernel", ALL_REDUCE, [begin + 5_000.0, end - begin - 5_100.0], args));
            events.push(event("cuda_runtime", "cudaDeviceSynchronize", [begin + 10.0, end - begin - 60.0], ""));
            if evaluation > 0.0 && is_recorded {
                events.push(on(20, "kernel", "evaluate", [end, evaluation], ""));
            }
            events.push(step(number, [begin, end + evaluation - begin]));
            begins[rank] = end + evaluation;
        }
    }
    (0..).zip(&events).for_each(|(rank, events)| write(folder, rank, 2, 0, events));
}

/// Pairs of ranks that reduce 4 MB in 10 us, the second one in 60; all ranks then reduce together, and wait 50 us for these two, which work no longer.
fn pairs_with_a_slow_link(pairs: u32) -> Analysis {
    let folder = TempDir::new().unwrap();
    for rank in 0..2 * pairs {
        let mut events = Vec::new();
        for nth in 0..5 {
            let begin = 1_000.0 * f64::from(nth);
            let reduce = |ranks: &[u32], [start, end]: [f64; 2]| {
                let (ranks, size) = (format!("{ranks:?}"), ranks.len());
                let args = format!(
                    r#""Collective name":"allreduce","In msg nelems":1000000,"Out msg nelems":1000000,"dtype":"Float","Group size":{size},"Process Group Name":"{ranks}","Process Group Ranks":"{ranks}""#
                );
                on(20, "kernel", ALL_REDUCE, [begin + start, end - start], &args)
            };
            let done = if rank % pairs == 1 { 161.0 } else { 111.0 };
            let all: Vec<u32> = (0..2 * pairs).collect();
            events.push(step(nth, [begin, 300.0]));
            events.push(on(7, "kernel", "gemm", [begin, 100.0], ""));
            events.push(reduce(&[rank % pairs, rank % pairs + pairs], [101.0, done]));
            events.push(reduce(&all, [done + 1.0, 200.0]));
        }
        write(folder.path(), rank, 2 * pairs, 0, &events);
    }
    Analysis::new(read(&folder))
}

#[test]
fn a_pair_whose_link_is_slow_is_told() {
    let analysis = pairs_with_a_slow_link(3);
    let link = analysis.waiting.slow_link(&analysis.exchanges).unwrap();
    assert_eq!((link.operation, link.ranks), (CollectiveOperation::AllReduce, vec![1, 4]));
    assert_eq!([link.times, 1e3 * link.longer].map(f64::round), [6.0, 50.0]);
    // Of two, it takes several times as long, or is the one whose ranks the others wait for.
    let analysis = pairs_with_a_slow_link(2);
    assert_eq!(analysis.waiting.slow_link(&analysis.exchanges).unwrap().ranks, [1, 3]);
    let of = |rank: usize| analysis.waiting.slow_link_of(&analysis.exchanges, rank);
    assert_eq!(of(0), None);
    let link = of(analysis.stragglers[0].rank).unwrap();
    assert_eq!((link.ranks, link.times.round(), (1e3 * link.longer).round()), (vec![1, 3], 6.0, 50.0));
}

/// Which calls a trace of [`write_backward_thread`] has beside ranges of the library.
#[derive(Clone, Copy, PartialEq)]
enum Issues {
    Recorded,
    NotRecorded,
}

/// Two ranks whose backward runs on a thread of its own: a forward of 4 ms on the main thread, then four gradients of 2 ms each, each reduced in `transfer` ms
/// over one link by two threads of the library, which take the next one when they are done with one. The main thread waits until all is done, within an event or none, and an optimizer
/// follows that takes `optimizer` ms. Returns the step's time.
fn write_backward_thread(
    folder: &Path,
    issues: Issues,
    [transfer, optimizer]: [f64; 2],
    waits_in: Option<&str>,
) -> f64 {
    let sizes = r#""Input Dims":[[1000000]],"Input type":["float"]"#;
    let list = r#""Input Dims":[[[1000000]]],"Input type":["TensorList"]"#;
    let mut length = 0.0;
    for rank in 0..2 {
        let mut events = Vec::new();
        for number in 0..6 {
            // A step is up to 0.1 ms longer than the one before, for waits are seen by what differs.
            let forward = 4_000.0 + 20.0 * f64::from((3 * number) % 5);
            let begin = 200_000.0 * f64::from(number);
            let mut free = [0.0f64; 2];
            let (mut link, mut ready) = (0.0f64, forward + 50.0);
            events.push(event("cpu_op", "aten::linear", [begin + 10.0, forward - 10.0], ""));
            for layer in 0..4 {
                let engine = "autograd::engine::evaluate_function: ";
                events.push(on(9, "cpu_op", &format!("{engine}AddmmBackward0"), [begin + ready, 2_000.0], ""));
                events.push(on(9, "cpu_op", "aten::mm", [begin + ready + 5.0, 1_990.0], ""));
                let accumulate = format!("{engine}torch::autograd::AccumulateGrad");
                events.push(on(9, "cpu_op", &accumulate, [begin + ready + 2_005.0, 90.0], ""));
                let accumulated = [begin + ready + 2_010.0, 80.0];
                events.push(on(9, "cpu_op", "torch::autograd::AccumulateGrad", accumulated, sizes));
                if issues == Issues::Recorded {
                    events.push(on(9, "cpu_op", "c10d::allreduce_", [begin + ready + 2_050.0, 30.0], list));
                }
                let start = free[layer % 2].max(ready + 2_070.0) + 10.0;
                link = link.max(start) + 1_000.0 * transfer;
                free[layer % 2] = link;
                events.push(on(
                    20 + layer as u32 % 2,
                    "user_annotation",
                    "gloo:all_reduce",
                    [begin + start, link - start],
                    sizes,
                ));
                ready += 2_100.0;
            }
            let waited = link.max(ready) + 20.0;
            let wait = [begin + forward + 20.0, waited - forward - 20.0];
            waits_in.into_iter().for_each(|name| events.push(event("cpu_op", name, wait, "")));
            if optimizer > 0.0 {
                let time = [begin + waited, 1_000.0 * optimizer];
                events.push(event("user_annotation", "Optimizer.step#SGD.step", time, ""));
            }
            length = waited + 1_000.0 * optimizer;
            events.push(step(number, [begin, length]));
        }
        write(folder, rank, 2, 0, &events);
    }
    length / 1e3
}

/// A thread that calls `backward`, which runs on another one, waits for what that one launched: a link of half the speed makes transfers of 5 ms last 10, and those of 1 ms, of
/// which one outlasts the backward, last 2. In traces before PyTorch 2.0 no call enqueues what the library does, which may have waited in its queue.
#[test]
fn exchanges_of_a_backward_thread_are_waited_for_on_the_main_thread() {
    for transfer in [0.5, 1.0, 5.0] {
        for (issues, optimizer, waits_in) in [
            (Issues::Recorded, 0.0, None),
            (Issues::Recorded, 3.0, None),
            (Issues::Recorded, 3.0, Some("backward")),
            (Issues::NotRecorded, 0.0, None),
            (Issues::NotRecorded, 3.0, None),
            (Issues::NotRecorded, 0.0, Some("backward")),
        ] {
            let other = TempDir::new().unwrap();
            let truth = [0.5, 2.0]
                .map(|factor| write_backward_thread(other.path(), issues, [transfer / factor, optimizer], waits_in));
            let folder = TempDir::new().unwrap();
            write_backward_thread(folder.path(), issues, [transfer, optimizer], waits_in);
            for (change, truth) in ["bandwidth x 0.5", "bandwidth x 2"].into_iter().zip(truth) {
                let [_, after] = before_and_after(&folder, change);
                // How long messages take is assumed, 0.1 ms each of eight.
                assert!((after - truth).abs() < 0.04 * truth, "{transfer} {waits_in:?} {change}: {after} for {truth}");
            }
        }
    }
}

/// All gradients in one bucket are reduced in 20 ms when the last one is there: 4 ms of forward, 8.4 of backward, and 20.
#[test]
fn other_buckets_of_a_backward_thread_are_waited_for() {
    for issues in [Issues::Recorded, Issues::NotRecorded] {
        let folder = TempDir::new().unwrap();
        write_backward_thread(folder.path(), issues, [5.0, 0.0], None);
        let [_, after] = before_and_after(&folder, "bucket_cap_mb = 100");
        assert!((after - 32.5).abs() < 0.04 * 32.5, "{after}");
    }
}
