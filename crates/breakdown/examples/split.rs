//! Divides the iterations of traces and says how long that took:
//! `cargo run --release -p perf4sight-breakdown --example split -- trace.json.gz`.

use perf4sight_breakdown::{
    Breakdown, BreakdownOptions, GpuWork, IdleCause, Iteration, Metric, RankBreakdown, TimeCategory, TimeSets,
};
use perf4sight_traces::NameTable;
use std::time::Instant;

fn main() -> Result<(), perf4sight_base::error::Error> {
    for file in std::env::args().skip(1) {
        let ranks = perf4sight_traces::read_ranks(&[file.clone().into()])?;
        let begin = Instant::now();
        let mut breakdown = Breakdown::from_traces(&ranks, &BreakdownOptions::default())?;
        let seconds = begin.elapsed().as_secs_f64();
        let events: usize = ranks.iter().map(|ranked| ranked.trace.events.len()).sum();
        println!("{file}: {events} events in {seconds:.3} s {:?}", breakdown.warnings);
        for (rank, ranked) in breakdown.ranks.iter_mut().zip(&ranks) {
            rank.correct_from_file(&ranked.trace);
        }
        breakdown.ranks.iter().zip(&ranks).for_each(|(rank, ranked)| show(rank, &ranked.trace.names));
    }
    Ok(())
}

fn show(rank: &RankBreakdown, names: &NameTable) {
    println!(
        "  rank {} by {:?}, {:?}, {:?}",
        rank.rank,
        rank.markers,
        rank.warm_up,
        rank.all_warnings().collect::<Vec<_>>()
    );
    for iteration in &rank.iterations {
        let milliseconds = |nanoseconds: i64| nanoseconds as f64 / 1e6;
        println!("    {}: {:.3} ms", iteration.name, milliseconds(iteration.sets.total()));
        for (category, busy, nanoseconds) in iteration.sets.parts().filter(|(_, _, nanoseconds)| *nanoseconds > 0) {
            let gpu = if busy { " with GPU" } else { "" };
            println!("      {}{gpu} {:.3}", category.name(), milliseconds(nanoseconds));
        }
        for (operation, sets) in &iteration.operations {
            println!("      {}: {:.3}", operation.label(names), milliseconds(sets.total()));
        }
        if let Some(idle) = iteration.idle {
            println!("      idle {:?}", IdleCause::ALL.map(|cause| (cause.name(), idle.get(cause).map(milliseconds))));
        }
        let works =
            GpuWork::ALL.map(|work| (work.name(), iteration.device.total(work), iteration.device.exposed_time(work)));
        println!("      {works:?}");
    }
    println!("    {:?}", rank.correction.overhead);
    for category in TimeCategory::ALL {
        let mean = |sets: &dyn Fn(&Iteration) -> Option<TimeSets>| {
            let summary = rank
                .summary(|iteration| sets(iteration)?.category(category).map(|nanoseconds| nanoseconds as f64 / 1e6));
            summary.map(|summary| summary.mean)
        };
        let corrected = mean(&|iteration| rank.corrected(iteration)?.sets().copied());
        println!("    {} {:?} ms, corrected {corrected:?}", category.name(), mean(&|iteration| Some(iteration.sets)));
    }
    for metric in Metric::ALL {
        println!("    {} {:?}", metric.name(), rank.summary(|iteration| metric.compute(&iteration.sets)));
    }
}
