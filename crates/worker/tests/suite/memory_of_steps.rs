//! Simulated memory of other steps than the published one, against what libtorch allocates on this processor.

use crate::memory_on_cpu::{Pair, check, compare};
use perf4sight::network::zoo::{self, Dataset};
use perf4sight::workload::{Optimizer, Stage, Step, ZeroGrad};

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
