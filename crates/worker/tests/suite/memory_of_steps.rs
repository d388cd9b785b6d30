//! Simulated memory of other steps than the published one, against what libtorch allocates on this processor.

use crate::memory_on_cpu::{Pair, check, compare};
use perf4sight::network::Network;
use perf4sight::network::zoo::{self, Dataset};
use perf4sight::workload::{Accumulate, FrozenNormalisation, Optimizer, Stage, Step, Trainable, ZeroGrad};

/// Every optimizer, with gradients kept and freed.
fn optimizers() -> impl Iterator<Item = Step> {
    let step = Step::published(Stage::Training);
    Optimizer::ALL
        .into_iter()
        .flat_map(move |optimizer| ZeroGrad::ALL.map(|zero_grad| Step { optimizer, zero_grad, ..step }))
}

#[test]
fn every_optimizer_takes_what_is_simulated() {
    let network = zoo::build("squeezenet", Dataset::Cifar10).unwrap();
    let pairs = optimizers().flat_map(|step| compare(&network, 0, step, &[2]));
    check(&pairs.collect::<Vec<_>>());
}

/// A table in `docs/accuracy/simulated-memory.md`.
#[test]
#[ignore = "takes minutes; run with: cargo test -p perf4sight-worker optimizers_of_whole_networks -- --ignored --nocapture"]
fn optimizers_of_whole_networks() {
    let mut all = Vec::new();
    println!("| network | step | batch 1 | batch 4 |\n|---|---|---|---|");
    for name in ["alexnet", "vgg11", "resnet50", "mobilenetv2", "squeezenet", "googlenet"] {
        let network = zoo::build(name, Dataset::Imagenet).unwrap();
        for step in optimizers() {
            let pairs = compare(&network, 0, step, &[1, 4]);
            println!("| {name} | {step} | {} |", pairs.iter().map(Pair::cell).collect::<Vec<_>>().join(" | "));
            all.extend(pairs);
        }
    }
    println!("\n{:?}", check(&all));
}

/// Every part of a network that can be trained, at its place with weights below and without.
const TRAINABLE: [&str; 5] = ["last 10", "classifier", "bias", "normalisation", "layer3.*,fc"];

fn part(trainable: &str) -> Step {
    Step { trainable: Trainable::parse(trainable).unwrap(), ..Step::published(Stage::Training) }
}

/// Shown, so that a failure says of what.
fn told(network: &Network, step: Step, batch: u64) -> Pair {
    let pair = compare(network, 0, step, &[batch]).remove(0);
    println!("{} {step}, batch {batch}: {}", network.name(), pair.cell());
    pair
}

#[test]
fn what_is_not_trained_is_not_kept() {
    let network = zoo::build("resnet18", Dataset::Cifar10).unwrap();
    let steps = TRAINABLE.map(part);
    let evaluated = Step { frozen_normalisation: FrozenNormalisation::Eval, ..part("last 10") };
    let pairs: Vec<Pair> = steps.into_iter().chain([evaluated]).map(|step| told(&network, step, 16)).collect();
    check(&pairs);
}

#[test]
fn gradients_of_several_passes_meet() {
    let network = zoo::build("mobilenetv2", Dataset::Cifar10).unwrap();
    let accumulate = Accumulate::new(4).unwrap();
    let published = Step::published(Stage::Training);
    let freed = Step { zero_grad: ZeroGrad::Free, optimizer: Optimizer::AdamW, ..published };
    let steps = [published, freed].map(|step| Step { accumulate, ..step });
    // The last has passes of a single sample.
    let pairs = steps.into_iter().flat_map(|step| [16, 4].map(|batch| told(&network, step, batch)));
    check(&pairs.collect::<Vec<_>>());
}

/// Networks x optimizers x what is trained x passes x batch sizes, of which every seventh, a stride that meets all of each.
#[test]
#[ignore = "takes an hour; run with: cargo test -p perf4sight-worker grid_of_steps -- --ignored --nocapture"]
fn grid_of_steps() {
    let networks = ["alexnet", "resnet18", "mobilenetv2", "squeezenet", "googlenet", "mnasnet"];
    let mut cells = Vec::new();
    for network in networks {
        for optimizer in Optimizer::ALL {
            for trainable in ["all", "last 10", "classifier", "bias"] {
                for passes in [1, 4] {
                    cells.extend([4, 16].map(|batch| (network, optimizer, trainable, passes, batch)));
                }
            }
        }
    }
    let mut all = Vec::new();
    for (name, optimizer, trainable, passes, batch) in cells.into_iter().step_by(7) {
        let (accumulate, zero_grad) = (Accumulate::new(passes).unwrap(), optimizer.zero_grad());
        let step = Step { optimizer, zero_grad, accumulate, ..part(trainable) };
        all.push(told(&zoo::build(name, Dataset::Imagenet).unwrap(), step, batch));
    }
    println!("{} cells: {:?}", all.len(), check(&all));
}
