//! How far the replay of each recorded step is from its recorded time: `cargo run --release -p perf4sight-replay
//! --example replayed -- FOLDER ...`.

use perf4sight_base::error::Result;
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
        let recorded = Recorded::of(&job, &exchanges, &clocks)?;
        for (index, time) in recorded.recorded.iter().enumerate() {
            let step = recorded.step(index);
            let replayed = step.time(&simulate(&step.graph));
            let error = 100.0 * (replayed as f64 / *time as f64 - 1.0);
            println!("  step {:3}: {:9.3} ms, replayed {error:+.3} %", recorded.steps[index], *time as f64 / 1e6);
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
