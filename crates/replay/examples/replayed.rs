//! How far the replay of each recorded step is from its recorded time, and how far a graph without the step is: `cargo run --release -p perf4sight-replay
//! --example replayed -- FOLDER ...`.

use perf4sight_base::error::Result;
use perf4sight_base::stats::median;
use perf4sight_replay::clocks::RankClocks;
use perf4sight_replay::collectives::RankExchanges;
use perf4sight_replay::graph::StepGraph;
use perf4sight_replay::graph::recorded::{LeftOutStep, RecordedSteps};
use perf4sight_replay::ranks::TrainingJob;
use perf4sight_replay::simulate::{critical_path, shares, simulate};

fn main() -> Result<()> {
    for folder in std::env::args_os().skip(1) {
        println!("{}", folder.to_string_lossy());
        let job = TrainingJob::read(&[folder.into()])?;
        let exchanges = RankExchanges::find(&job);
        let clocks = RankClocks::estimate(&job, &exchanges);
        let (recorded, left_out) = RecordedSteps::with_left_out(&job, &exchanges, &clocks)?;
        steps(&recorded, &left_out);
        println!(
            "  {} of {} steps alike, {} nodes",
            recorded.steps.len(),
            job.steps.len(),
            recorded.typical.graph.nodes().len()
        );
        typical(&recorded);
        transfers(&recorded.typical);
    }
    Ok(())
}

fn time(step: &StepGraph) -> f64 {
    step.time(&simulate(&step.graph)) as f64
}

/// Each step as it was recorded, replayed with its own durations, and predicted from the others.
fn steps(recorded: &RecordedSteps, left_out: &[LeftOutStep]) {
    for (index, recorded_time) in recorded.recorded.iter().enumerate() {
        let error = 100.0 * (time(&recorded.step(index)) / *recorded_time as f64 - 1.0);
        let without = left_out.get(index).map_or(String::new(), |one| {
            format!(", predicted without it {:+.2} %, under its load {:+.2} %", one.error(), one.error_under_load())
        });
        let milliseconds = *recorded_time as f64 / 1e6;
        println!("  step {:3}: {milliseconds:9.3} ms, replayed {error:+.3} %{without}", recorded.steps[index]);
    }
    let errors = |of: fn(&LeftOutStep) -> f64| left_out.iter().map(|one| of(one).abs()).collect::<Vec<f64>>();
    for (what, errors) in
        [("others", errors(LeftOutStep::error)), ("others and load", errors(LeftOutStep::error_under_load))]
    {
        if !errors.is_empty() {
            let worst = errors.iter().copied().fold(0.0, f64::max);
            println!("  by {what}: median {:.2} %, worst {worst:.2} %", median(&errors));
        }
    }
}

/// The replayed steps beside the median of the recorded ones.
fn typical(recorded: &RecordedSteps) {
    let lengths: Vec<f64> = recorded.recorded.iter().map(|time| *time as f64).collect();
    let middle = median(&lengths);
    let steps = [
        ("undisturbed", time(&recorded.typical)),
        ("as recorded", time(&recorded.as_recorded())),
        ("every operation at its shortest", time(&recorded.least())),
    ];
    println!("  median {:.3} ms", middle / 1e6);
    for (what, time) in steps {
        println!("  {what}: {:.3} ms, {:+.2} % of the median", time / 1e6, 100.0 * (time / middle - 1.0));
    }
    let graph = &recorded.typical.graph;
    for share in shares(graph, &critical_path(graph, &simulate(graph)), u64::MAX) {
        println!("    {:?} {:?} {:.3} ms", share.rank, share.kind, share.time as f64 / 1e6);
    }
}

fn transfers(typical: &StepGraph) {
    let schedule = simulate(&typical.graph);
    let start = |node| schedule.start(node) as f64 / 1e6;
    for transfer in &typical.transfers {
        let waits: Vec<Option<f64>> = transfer.parts.iter().map(|part| part.wait.map(start)).collect();
        println!(
            "    {:20} {:?} B, starts {:.3}, takes {:.3} ms, waits {waits:?}",
            transfer.operation,
            transfer.bytes,
            start(transfer.node),
            typical.graph.node(transfer.node).duration as f64 / 1e6,
        );
    }
    for rank in &typical.ranks {
        println!("    rank {}: {} gradients, {} copies", rank.number, rank.gradients.len(), rank.copies.len());
    }
}
