//! How far the replay of each recorded step is from its recorded time, and how far a graph without the step is: `cargo run --release -p perf4sight-replay
//! --example replayed -- FOLDER ...`.

use perf4sight_base::error::Result;
use perf4sight_base::stats::median;
use perf4sight_replay::clocks::Clocks;
use perf4sight_replay::collectives::Exchanges;
use perf4sight_replay::graph::recorded::Recorded;
use perf4sight_replay::ranks::Job;
use perf4sight_replay::simulate::{critical_path, shares, simulate};

fn main() -> Result<()> {
    for folder in std::env::args_os().skip(1) {
        println!("{}", folder.to_string_lossy());
        let job = Job::read(&[folder.into()])?;
        let exchanges = Exchanges::of(&job);
        let clocks = Clocks::of(&job, &exchanges);
        let (recorded, left_out) = Recorded::with_left_out(&job, &exchanges, &clocks)?;
        for (index, time) in recorded.recorded.iter().enumerate() {
            let step = recorded.step(index);
            let replayed = step.time(&simulate(&step.graph));
            let error = 100.0 * (replayed as f64 / *time as f64 - 1.0);
            let without = left_out
                .get(index)
                .map_or(String::new(), |one| format!(", predicted without it {:+.2} %", one.error()));
            println!(
                "  step {:3}: {:9.3} ms, replayed {error:+.3} %{without}",
                recorded.steps[index],
                *time as f64 / 1e6
            );
        }
        let errors: Vec<f64> = left_out.iter().map(|one| one.error().abs()).collect();
        if !errors.is_empty() {
            println!(
                "  left-out steps: median {:.2} %, worst {:.2} %",
                median(&errors),
                errors.iter().copied().fold(0.0, f64::max)
            );
        }
        let typical = &recorded.typical;
        let schedule = simulate(&typical.graph);
        println!(
            "  {} of {} steps alike, {} nodes; typical {:.3} ms",
            recorded.steps.len(),
            job.steps.len(),
            typical.graph.nodes().len(),
            typical.time(&schedule) as f64 / 1e6
        );
        for share in shares(&typical.graph, &critical_path(&typical.graph, &schedule)) {
            println!("    {:?} {:?} {:.3} ms", share.rank, share.kind, share.time as f64 / 1e6);
        }
        for transfer in &typical.transfers {
            let node = transfer.node;
            println!(
                "    {:20} {:?} B, starts {:.3}, takes {:.3} ms, waits {:?}",
                transfer.operation,
                transfer.bytes,
                schedule.start(node) as f64 / 1e6,
                typical.graph.node(node).duration as f64 / 1e6,
                transfer
                    .parts
                    .iter()
                    .map(|part| part.wait.map(|wait| schedule.start(wait) as f64 / 1e6))
                    .collect::<Vec<_>>()
            );
        }
        for rank in &typical.ranks {
            println!("    rank {}: {} gradients, {} copies", rank.number, rank.gradients.len(), rank.copies.len());
        }
    }
    Ok(())
}
