//! Which networks are understood well enough to be predicted at all.

use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::{Percent, grouped_digits};
use perf4sight_network::{Network, Node};

/// Networks of which fewer than this share of the operations are understood get no prediction.
pub const LEAST_COVERAGE: f64 = 0.8;

/// Elements of all results and weights of a network for a single sample: 1 TiB of them. No device has more memory, so
/// larger shapes are wrong.
const MOST_ELEMENTS: u64 = 1 << 38;

/// Refuses a network with fewer than [`LEAST_COVERAGE`] of its operations understood, unless its module was followed, whose memory
/// needs no operation to be understood, or with impossibly large shapes.
///
/// # Errors
/// The network is refused; the message lists the operations that are not understood, or the largest result.
pub fn check_understood(network: &Network) -> Result<()> {
    check_sizes(network)?;
    let coverage = network.coverage();
    let share = (coverage.supported() + coverage.recurrent) as f64 / coverage.operations.max(1) as f64;
    if share >= LEAST_COVERAGE || network.followed().is_some() {
        return Ok(());
    }
    let names: Vec<&str> = coverage.unknown.keys().map(String::as_str).collect();
    let problem = format!(
        "only {} of the {} operations of {} are understood; unknown: {}",
        coverage.supported(),
        coverage.operations,
        network.name(),
        names.join(", ")
    );
    Err(Error::input(problem)
        .expected(format!("at least {} of them", Percent(100.0 * LEAST_COVERAGE)))
        .help("export without the loss, and with a batch that is open in all inputs or in none; write what else these compute with operators that ONNX has"))
}

fn check_sizes(network: &Network) -> Result<()> {
    let elements = |node: &Node| node.shape.elements().saturating_add(network.parameters_of(node));
    let all = network.nodes().iter().map(elements).fold(0, u64::saturating_add);
    match network.nodes().iter().max_by_key(|node| elements(node)) {
        Some(largest) if all > MOST_ELEMENTS => Err(Error::input(format!(
            "{} cannot be as described in its file: one sample of it takes {} numbers, the largest result being \"{}\" ({}, {})",
            network.name(),
            grouped_digits(all),
            largest.name,
            largest.op.kind(),
            largest.shape
        ))
        .expected(format!("at most {}, which is 1 TiB", grouped_digits(MOST_ELEMENTS)))
        .help("a shape was misread on the way there: export the network with fixed sizes and static shapes")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_network::{NetworkBuilder, Op, ReductionKind, Shape, UnknownOperation};

    #[test]
    fn shapes_that_no_device_holds_are_refused() {
        let with = |shape: Shape| {
            let mut builder = NetworkBuilder::new("odd", Shape::new([3, 8, 8]));
            let pooled = builder
                .add(
                    "pooled",
                    Op::Reduce { reduction: ReductionKind::Mean, axes: vec![1, 2], keep: false },
                    &[builder.input()],
                )
                .unwrap();
            let wrong = UnknownOperation::new("Odd", shape, 0);
            let wrong = builder.add("wrong", Op::Unknown(wrong), &[pooled]).unwrap();
            builder.finish(wrong)
        };
        assert!(check_sizes(&with(Shape::new([1 << 18, 1 << 12]))).is_ok());
        let refused = check_sizes(&with(Shape::new([1 << 20, 1 << 19]))).unwrap_err().to_string();
        assert!(refused.contains("\"wrong\"") && refused.contains("1 TiB"), "{refused}");
    }
}
