//! What is known of operations of PyTorch, as data: whether compilers fuse them, and what they read and write.

use perf4sight_base::words;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::LazyLock;

words! {
    /// How a compiler treats an operation.
    pub enum FusionClass: "class of operations" {
        /// Each element of its result from the same elements of its inputs.
        Pointwise = "pointwise",
        /// Sums and the like over some dimensions; its inputs may be computed as it reads them.
        Reduction = "reduction",
        /// A product of matrices or a convolution; what follows may be computed as it writes.
        Product = "product",
        /// Nothing is computed.
        View = "view",
    }
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FusableOperation {
    /// How it is fused.
    pub class: FusionClass,
    /// Tensors that it reads, of the size of its result; of a product none, since they are not what takes its time.
    pub reads: f64,
    /// Tensors that it writes.
    pub writes: f64,
    /// Whether backward reads its input again, so that it has to be written.
    pub keeps_input: bool,
    /// Whether autocast computes it in half precision.
    pub lower: bool,
    /// Whether autocast computes it in single precision.
    pub single: bool,
}

#[derive(Deserialize)]
struct FusableRow {
    name: String,
    class: String,
    reads: f64,
    writes: f64,
    kept: String,
    autocast: String,
}

static OPERATIONS: LazyLock<HashMap<String, FusableOperation>> = LazyLock::new(read);

/// The table of this program; a test reads every row.
fn read() -> HashMap<String, FusableOperation> {
    let mut reader =
        csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(include_bytes!("../data/operations.csv").as_slice());
    let operation = |row: FusableRow| {
        let class = FusionClass::parse(&row.class).ok()?;
        let (keeps_input, lower) = (row.kept == "input", row.autocast == "lower");
        let single = row.autocast == "fp32";
        Some((row.name, FusableOperation { class, reads: row.reads, writes: row.writes, keeps_input, lower, single }))
    };
    reader.deserialize().flatten().filter_map(operation).collect()
}

/// What is known of an operation, by its name in traces.
pub fn operation(name: &str) -> Option<FusableOperation> {
    OPERATIONS.get(name.strip_prefix("aten::")?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_network::Activation;
    use perf4sight_operations::class_of;

    #[test]
    fn every_row_of_the_table_is_read() {
        let rows = include_str!("../data/operations.csv").lines().filter(|line| !line.starts_with('#')).count() - 1;
        assert_eq!(OPERATIONS.len(), rows);
        let gelu = operation("aten::gelu").unwrap();
        assert_eq!((gelu.class, gelu.keeps_input, gelu.lower), (FusionClass::Pointwise, true, false));
        assert!(operation("aten::addmm").is_some_and(|one| one.lower) && operation("gelu").is_none());
    }

    /// The name in native_functions.yaml.
    fn of_pytorch(function: Activation) -> &'static str {
        match function {
            Activation::Relu => "relu",
            Activation::Relu6 => "relu6",
            Activation::LeakyRelu => "leaky_relu",
            Activation::Elu => "elu",
            Activation::Selu => "selu",
            Activation::Celu => "celu",
            Activation::Sigmoid => "sigmoid",
            Activation::HardSigmoid => "hardsigmoid",
            Activation::Tanh => "tanh",
            Activation::Silu => "silu",
            Activation::HardSwish => "hardswish",
            Activation::Gelu => "gelu",
            Activation::Mish => "mish",
            Activation::Softplus => "softplus",
            Activation::Clip => "clamp",
            Activation::Abs => "abs",
            Activation::Neg => "neg",
            Activation::Exp => "exp",
            Activation::Log => "log",
            Activation::Sqrt => "sqrt",
            Activation::Reciprocal => "reciprocal",
            Activation::Erf => "erf",
            Activation::Sin => "sin",
            Activation::Cos => "cos",
            Activation::Sign => "sign",
            Activation::Floor => "floor",
            Activation::Ceil => "ceil",
            Activation::Round => "round",
            Activation::Not => "logical_not",
        }
    }

    #[test]
    fn every_function_of_networks_is_known_in_traces() {
        for function in Activation::ALL {
            let name = format!("aten::{}", of_pytorch(function));
            assert!(operation(&name).is_some(), "{name} has no row in operations.csv");
            assert!(class_of(&name).is_some(), "{name} has no row in crates/operations/src/data/classes.csv");
        }
    }
}
