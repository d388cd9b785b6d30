//! What a pass of the module itself takes, with the memory that its kernels borrow, against what the graph says.

use crate::each_operation::{each_operation, sum};
use crate::run_through::{ExtraBytes, StepPeaks, run_through};
use crate::simulation_cache::SimulationCache;
use crate::step::{AllocationSchedule, StepPeriod};
use crate::tensor::{StepPhase, TensorRole};
use perf4sight_network::{FollowedPass, NodeId, OperatorKind};
use perf4sight_step::workload::{Accumulate, Optimizer, Step, ZeroGrad};
use std::collections::BTreeMap;

/// How many bytes more than the graph's step one with the followed pass takes; `inside` counts what kernels borrow, `outside` does not.
pub(crate) fn extra_bytes<'a>(
    inside: &SimulationCache<'a>,
    outside: &SimulationCache<'a>,
    step: Step,
    pass: &FollowedPass,
) -> ExtraBytes {
    // What becomes of gradients and weights is no part of a pass.
    let (optimizer, zero_grad) = (Optimizer::SgdWithoutMomentum, ZeroGrad::Free);
    let plain = Step { optimizer, zero_grad, accumulate: Accumulate::default(), ..step };
    let of_graph = |memo: &SimulationCache<'a>| -> StepPeaks {
        let (schedule, samples) = memo.schedule(plain, pass.samples);
        // As the graph has it: an outcome of the memo asks for what is found here.
        run_through(&schedule, memo.platform, samples, ExtraBytes::default())
    };
    let graph = of_graph(inside);
    let taken = peak_of_followed_pass(inside, outside, plain, pass)
        .unwrap_or_else(|| pass.most.saturating_add(graph.of_passes.saturating_sub(of_graph(outside).of_passes)));
    let kept = kept_by_libraries(&inside.schedule(plain, pass.samples).0);
    let more = |taken: u64, of_graph: u64| (taken + kept).cast_signed().saturating_sub(of_graph.cast_signed());
    ExtraBytes { in_pass: more(taken, graph.of_passes), after_pass: more(pass.left, graph.after_pass) }
}

/// Bytes that libraries keep from step to step: no tensors of the module's.
fn kept_by_libraries(schedule: &AllocationSchedule) -> u64 {
    let kept = schedule.segments(StepPeriod::SetUp).iter().flat_map(|placed| &placed.segment.tensors);
    kept.filter(|tensor| tensor.role == TensorRole::Workspace).map(|tensor| tensor.amount.bytes(1)).sum()
}

/// The most bytes of a followed pass, with what every operator's kernel borrows at its time; none where the graph has other operators.
fn peak_of_followed_pass<'a>(
    inside: &SimulationCache<'a>,
    outside: &SimulationCache<'a>,
    plain: Step,
    pass: &FollowedPass,
) -> Option<u64> {
    let [with, without] = [inside, outside].map(|memo| totals(memo, plain, pass.samples));
    let borrowed = |phase: StepPhase, node: NodeId| {
        let [with, without] = [&with, &without].map(|totals| totals.get(&(phase as usize, node)).copied().unwrap_or(0));
        with.saturating_sub(without)
    };
    let mut most = pass.most;
    for kind in OperatorKind::ALL {
        let nodes: Vec<NodeId> = kind.nodes(inside.network).collect();
        let Some([forward, backward]) = pass.operators.get(&kind) else { continue };
        let places = pass.places(kind, nodes.len());
        for (phase, alive) in [(StepPhase::Forward, forward), (StepPhase::Backward, backward)] {
            let alive: Vec<u64> = places.iter().filter_map(|&place| alive.get(place).copied()).collect();
            let borrows = nodes.iter().map(|&node| borrowed(phase, node));
            // PyTorch runs an LSTM with projections step by step, without such an operator.
            if alive.is_empty() || borrows.clone().all(|bytes| bytes == 0) {
                continue;
            }
            if alive.len() != nodes.len() {
                return None;
            }
            let peaks = alive.iter().zip(borrows).map(|(alive, borrowed)| alive.saturating_add(borrowed));
            most = most.max(peaks.max().unwrap_or(0));
        }
    }
    Some(most)
}

/// The most bytes while each operation of the first step runs.
pub(crate) fn totals(memo: &SimulationCache, plain: Step, samples: u64) -> BTreeMap<(usize, NodeId), u64> {
    let (schedule, samples) = memo.schedule(plain, samples);
    let each = each_operation(&schedule, samples, StepPeriod::First).into_iter();
    each.map(|(mark, bytes)| ((mark.phase as usize, mark.node), sum(&bytes))).collect()
}

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use perf4sight_base::error::Result;
    use perf4sight_base::units::Bytes;
    use perf4sight_network::{Activation, FollowedModule, FollowedPass, Linear, Network, NetworkBuilder, Op, Shape};
    use perf4sight_platform::Platform;
    use perf4sight_step::workload::{Checkpoint, Optimizer, Stage, Step, ZeroGrad};
    use std::collections::BTreeMap;

    const PLAIN: Step = Step {
        optimizer: Optimizer::SgdWithoutMomentum,
        zero_grad: ZeroGrad::Free,
        ..Step::published(Stage::Training)
    };

    fn network() -> Result<Network> {
        let mut builder = NetworkBuilder::new("perceptron", Shape::new([64]));
        let read = builder.add("read", Op::Linear(Linear { out_features: 512, bias: true }), &[builder.input()])?;
        let bent = builder.add("bent", Op::Activation(Activation::Gelu), &[read])?;
        let write = builder.add("write", Op::Linear(Linear { out_features: 10, bias: true }), &[bent])?;
        Ok(builder.finish(write))
    }

    /// Passes that take so many bytes more than the graph's, of 64 samples and of 128.
    fn with(network: &Network, platform: &Platform, more: u64) -> Network {
        let simulation = Simulation::new(network, PLAIN, platform);
        let pass = |samples| FollowedPass {
            samples,
            most: simulation.peak(samples).allocated.0 + more * samples,
            left: 0,
            spread: 0,
            operators: BTreeMap::new(),
        };
        network.clone().following(FollowedModule::new(PLAIN, [64, 128].map(pass).to_vec()))
    }

    #[test]
    fn a_pass_takes_what_the_module_takes_whatever_becomes_of_its_gradients() -> Result<()> {
        let (network, cpu) = (network()?, Platform::for_name("cpu")?);
        let peak = |network: &Network, step| Simulation::new(network, step, &cpu).peak(256).allocated;
        for optimizer in Optimizer::ALL {
            let step = Step { optimizer, ..PLAIN };
            let own = peak(&network, step);
            assert_eq!(peak(&with(&network, &cpu, 0), step), own);
            assert_eq!(peak(&with(&network, &cpu, 4096), step), Bytes(own.0 + 256 * 4096), "{optimizer:?}");
        }
        let again = Step { checkpoint: Checkpoint::EveryBlock, ..PLAIN };
        assert_eq!(peak(&with(&network, &cpu, 4096), again), peak(&network, again));
        Ok(())
    }

    /// A GPU's library keeps its workspace whatever the module's own tensors take: forward and backward, 4096 x 2 + 16 x 8 KiB each.
    #[test]
    fn what_libraries_keep_is_no_tensor_of_the_module() -> Result<()> {
        let network = network()?;
        let cuda = Platform::for_name("cuda")?;
        let mut bare = cuda.clone();
        bare.framework.products = None;
        let followed = with(&network, &bare, 4096);
        let peak = |platform: &Platform| Simulation::new(&followed, PLAIN, platform).peak(64).allocated.0;
        assert_eq!(peak(&cuda) - peak(&bare), 2 * (4096 * 2 + 16 * 8) * 1024);
        Ok(())
    }

    #[test]
    fn an_optimizer_finds_what_the_module_left_and_changes_its_weights() -> Result<()> {
        let (network, cpu) = (network()?, Platform::for_name("cpu")?);
        // What a graph does not have: a table of 400,000 bytes, and a weight of 262,144 that it reads as part of another.
        let (sizes, left) = (vec![131_072, 2048, 20_480, 40, 262_144], 1_500_000);
        let pass = |samples| FollowedPass { samples, most: left, left, spread: 0, operators: BTreeMap::new() };
        let followed = FollowedModule::new(PLAIN, [1, 2].map(pass).to_vec()).map(|one| one.with_weights(sizes.clone()));
        let (network, step) = (network.following(followed), Step { optimizer: Optimizer::AdamW, ..PLAIN });
        // `_single_tensor_adam`: two averages of every weight; beside them a root and a denominator of the last, while `denom` is that of the one before.
        let expected = left + 2 * sizes.iter().sum::<u64>() + 2 * 262_144 + 40;
        let simulation = Simulation::new(&network, step, &cpu);
        assert_eq!(simulation.peak(1).allocated, Bytes(expected));
        assert_eq!(simulation.alive(1).tensors.iter().map(|tensor| tensor.bytes.0).sum::<u64>(), expected);
        Ok(())
    }

    #[test]
    fn what_is_alive_at_the_peak_adds_up_to_it() -> Result<()> {
        let (network, cpu) = (network()?, Platform::for_name("cpu")?);
        let more = with(&network, &cpu, 4096);
        let simulation = Simulation::new(&more, PLAIN, &cpu);
        let alive: u64 = simulation.alive(128).tensors.iter().map(|tensor| tensor.bytes.0).sum();
        assert_eq!(Bytes(alive), simulation.peak(128).allocated);
        Ok(())
    }
}
