//! Tensors that the formula of a derivative makes on the way to a gradient.
//!
//! The formulas are those of tools/autograd/derivatives.yaml and torch/csrc/autograd/FunctionsManual.cpp. All but the fused ones are
//! expressions of several operators, whose results C++ keeps until the whole expression is evaluated.

use super::operation::StepOperation;
use super::rule::{MemoryRule, borrowing};
use crate::amount::{BatchBytes, product as times};
use perf4sight_network::{Activation, BinaryFunction, Op, OperationFacts, OperationNature, ReductionKind};

/// Tensors of the size of the input that are there when its gradient is made.
#[derive(Default)]
struct DerivativeTensors {
    numbers: usize,
    /// One byte for each element.
    truths: u64,
}

/// The rule of an operation with one input whose gradient a formula makes.
pub(super) fn of_expression(rule: MemoryRule, operation: StepOperation, facts: &OperationFacts) -> MemoryRule {
    let DerivativeTensors { numbers, truths } = derivative_tensors(operation, facts.nature);
    let all = (0..numbers).map(|_| operation.input(0)).chain((truths > 0).then(|| {
        let elements = operation.network.input_of(operation.node, 0).elements();
        BatchBytes::per_sample(times([truths, elements]))
    }));
    all.fold(rule, |rule, made| MemoryRule { backward: borrowing(rule.backward, made), ..rule })
}

fn derivative_tensors(operation: StepOperation, nature: OperationNature) -> DerivativeTensors {
    let numbers = |numbers: usize| DerivativeTensors { numbers, ..DerivativeTensors::default() };
    if let OperationNature::Activation(activation) = nature {
        return of_function(activation);
    }
    // grad * (exponent * self.pow(exponent - 1))
    if matches!(nature, OperationNature::Arithmetic(BinaryFunction::Pow)) {
        return numbers(2);
    }
    // where(self >= min, grad, 0)
    if matches!(nature, OperationNature::Arithmetic(BinaryFunction::Max | BinaryFunction::Min)) {
        return DerivativeTensors { truths: 1, ..DerivativeTensors::default() };
    }
    let Op::Reduce { reduction, .. } = &operation.node.op else { return DerivativeTensors::default() };
    // grad * (self / norm).masked_fill_(norm == 0, 0), self.sgn() * grad
    if matches!(reduction, ReductionKind::L2 | ReductionKind::L1) {
        return numbers(1);
    }
    // (grad / mask.sum(dim)) * mask, where mask is result == self, which the product reads as numbers; prod_backward likewise
    match matches!(reduction, ReductionKind::Max | ReductionKind::Min | ReductionKind::Product) {
        true => DerivativeTensors { numbers: 1, truths: 1 },
        false => DerivativeTensors::default(),
    }
}

fn of_function(activation: Activation) -> DerivativeTensors {
    let numbers = |numbers: usize| DerivativeTensors { numbers, ..DerivativeTensors::default() };
    match activation {
        // grad * self.sgn(), grad / (2 * result), grad * self.cos()
        Activation::Abs | Activation::Sqrt | Activation::Sin => numbers(1),
        // -grad * (result * result), grad * -self.sin()
        Activation::Reciprocal | Activation::Cos => numbers(2),
        // 2 / sqrt(pi) * exp(-(self.pow(2))) * grad
        Activation::Erf => numbers(4),
        // where((self >= min).logical_and_(self <= max), grad, 0)
        Activation::Clip => DerivativeTensors { truths: 2, ..DerivativeTensors::default() },
        // A kernel of their own, or one operator.
        Activation::Relu
        | Activation::Relu6
        | Activation::LeakyRelu
        | Activation::Elu
        | Activation::Selu
        | Activation::Celu
        | Activation::Sigmoid
        | Activation::HardSigmoid
        | Activation::Tanh
        | Activation::Silu
        | Activation::HardSwish
        | Activation::Gelu
        | Activation::Mish
        | Activation::Softplus
        | Activation::Neg
        | Activation::Exp
        | Activation::Log
        | Activation::Sign
        | Activation::Floor
        | Activation::Ceil
        | Activation::Round
        | Activation::Not => DerivativeTensors::default(),
    }
}

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use perf4sight_network::{Activation, BinaryFunction, Linear, NetworkBuilder, Op, ReductionKind, Shape};
    use perf4sight_platform::Platform;
    use perf4sight_step::workload::{Optimizer, Stage, Step, ZeroGrad};

    const SAMPLES: u64 = 64;

    /// The peak of a step where the operation's backward needs most.
    fn peak(op: Op) -> u64 {
        let mut builder = NetworkBuilder::new("formula", Shape::new([4, 16]));
        let linear = Op::Linear(Linear { out_features: 1024, bias: true });
        let wide = builder.add("wide", linear, &[builder.input()]).unwrap();
        let one = builder.add("one", op, &[wide]).unwrap();
        let mean = Op::Reduce { reduction: ReductionKind::Mean, axes: vec![1], keep: false };
        let network = builder.add("mean", mean, &[one]).map(|mean| builder.finish(mean)).unwrap();
        let step = Step {
            optimizer: Optimizer::SgdWithoutMomentum,
            zero_grad: ZeroGrad::Free,
            ..Step::published(Stage::Training)
        };
        Simulation::new(&network, step, &Platform::for_name("cpu").unwrap()).peak(SAMPLES).allocated.0
    }

    /// Bytes that PyTorch 2.11 has at most in the backward of an operation on a processor, less the gradient (its profiler's memory
    /// events): `tanh` makes the gradient alone.
    #[test]
    fn formulas_make_tensors_on_the_way() {
        let full = 4 * SAMPLES * 4 * 1024;
        let plain = peak(Op::Activation(Activation::Tanh));
        let quarters = [
            (Op::Activation(Activation::Erf), 16),
            (Op::Activation(Activation::Reciprocal), 8),
            (Op::Activation(Activation::Cos), 8),
            (Op::Binary(BinaryFunction::Pow), 8),
            (Op::Activation(Activation::Sqrt), 4),
            (Op::Activation(Activation::Sin), 4),
            (Op::Activation(Activation::Abs), 4),
            (Op::Activation(Activation::Clip), 2),
            (Op::Activation(Activation::Gelu), 0),
        ];
        for (op, more) in quarters {
            assert_eq!(peak(op.clone()) - plain, more * full / 4, "{op:?}");
        }
    }
}
