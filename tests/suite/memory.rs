//! Simulated memory.

use perf4sight::memory::{Optimizer, Simulation};
use perf4sight::network::zoo::{Dataset, build};
use perf4sight::target::Target;
use perf4sight::workload::Stage;

#[test]
fn try_it() {
    let target = Target::named("tx2").unwrap();
    for (name, batch, alloc, reserved) in [
        ("mnasnet", 2, 128.8171875, 142.4),
        ("mnasnet", 8, 384.727734375, 410.4),
        ("mnasnet", 64, 2796.4765625, 3410.0),
        ("resnet18", 4, 240.89384765625, 283.2),
        ("resnet18", 64, 1549.52236328125, 2211.2),
        ("resnet50", 8, 933.82, 1048.8),
    ] {
        let network = build(name, Dataset::Imagenet).unwrap();
        let simulation = Simulation::new(&network, Stage::Training, Optimizer::Momentum, &target);
        let peak = simulation.peak(batch);
        println!("{name} {batch} {} {alloc} {} {reserved}", peak.allocated.mib(), peak.reserved.mib());
        let alive = simulation.alive(batch);
        println!("{} {} {} {} {} {} {}", alive.weights, alive.gradients, alive.optimizer_state, alive.activation_gradients, alive.workspace, alive.fragmentation, alive.total());
    }
}
