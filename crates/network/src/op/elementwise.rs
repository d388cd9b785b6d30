//! Functions of one element and of two, choices, and dropout.

use super::activations::{Activation, AutocastTo, BinaryFamily, BinaryFunction, Overwrites};
use super::effects::{AuxiliaryResult, BackwardNeeds, BackwardTraffic, GradientFlow, MemoryTraffic, ResultStorage};
use super::facts::{ChannelCoupling, NodePosition, OperationFacts, OperationNature};
use crate::Shape;

impl Activation {
    /// What autocast on accelerators computes it in.
    pub(crate) fn autocast(self) -> AutocastTo {
        self.row().1
    }

    /// Whether modules write its result over its input.
    pub(crate) fn overwrites(self) -> Overwrites {
        self.row().2
    }

    pub(super) fn facts<'a>(self, at: NodePosition) -> OperationFacts<'a> {
        let outputs = at.outputs();
        // Truth values have no gradient.
        let gradient = if self == Activation::Not { GradientFlow::Ends } else { GradientFlow::Made };
        OperationFacts {
            needs: self.row().0,
            storage: ResultStorage::Needed,
            traffic: MemoryTraffic::new(2.0 * outputs, 3.0 * outputs),
            ..OperationFacts::new(OperationNature::Activation(self), ChannelCoupling::Same, gradient)
        }
    }
}

impl BinaryFunction {
    /// Whether it adds, so that gradients pass as they are.
    pub fn is_sum(self) -> bool {
        self.row() == BinaryFamily::Sum
    }

    /// Whether its result is a truth value.
    pub fn is_truth(self) -> bool {
        self.row() == BinaryFamily::Truth
    }

    /// What backward needs, for one operand and a constant or for two, and how the gradient is computed; as in derivatives.yaml.
    fn backward(self, operands: usize) -> (BackwardNeeds, GradientFlow) {
        match self.row() {
            BinaryFamily::Sum => (BackwardNeeds::Nothing, GradientFlow::Passed),
            BinaryFamily::Product if operands < 2 => (BackwardNeeds::Nothing, GradientFlow::Made),
            BinaryFamily::Power if operands > 1 => (BackwardNeeds::All, GradientFlow::Made),
            BinaryFamily::Product | BinaryFamily::Power | BinaryFamily::Choice => {
                (BackwardNeeds::Inputs, GradientFlow::Made)
            }
            BinaryFamily::Truth => (BackwardNeeds::Nothing, GradientFlow::Ends),
        }
    }

    pub(super) fn shape(inputs: &[&Shape]) -> Result<Shape, String> {
        match inputs {
            [one] => Ok((*one).clone()),
            [a, b] => broadcast(a, b),
            _ => Err(format!("takes one or two inputs, has {}", inputs.len())),
        }
    }

    /// Sums pass their gradient on unchanged; products multiply it by the other operand, for each operand with a gradient.
    pub(super) fn facts<'a>(self, at: NodePosition) -> OperationFacts<'a> {
        let outputs = at.outputs();
        let operands: Vec<f64> = at.inputs().map(|shape| shape.elements() as f64).collect();
        let backward = |&elements: &f64| match (self.is_sum(), elements < outputs) {
            (true, false) => 0.0,
            (true, true) => outputs + elements,
            (false, false) => 3.0 * outputs,
            // The full-size product is written, then summed over the broadcast axes.
            (false, true) => 4.0 * outputs + elements,
        };
        let traffic = MemoryTraffic {
            strided: operands.iter().any(|&elements| elements < outputs),
            backward: BackwardTraffic::Each(operands.iter().map(backward).collect()),
            ..MemoryTraffic::new(operands.iter().sum::<f64>() + outputs, 0.0)
        };
        let (needs, gradient) = self.backward(operands.len());
        let storage = if self == BinaryFunction::Pow { ResultStorage::Needed } else { ResultStorage::Own };
        OperationFacts {
            needs,
            storage,
            traffic,
            ..OperationFacts::new(OperationNature::Arithmetic(self), ChannelCoupling::Tied, gradient)
        }
    }
}

/// A copy with another element type. Only numbers have a gradient.
pub(super) fn cast<'a>(at: NodePosition) -> OperationFacts<'a> {
    let traffic = MemoryTraffic::new(2.0 * at.outputs(), 0.0);
    let storage = ResultStorage::Needed;
    OperationFacts {
        storage,
        traffic,
        ..OperationFacts::new(OperationNature::Movement, ChannelCoupling::Same, GradientFlow::Ends)
    }
}

/// The shape of `where`: the condition and both choices are broadcast to one shape.
pub(super) fn choice_shape(inputs: &[&Shape]) -> Result<Shape, String> {
    match inputs {
        [condition, yes, no] => broadcast(&broadcast(condition, yes)?, no),
        _ => Err(format!("takes three inputs, has {}", inputs.len())),
    }
}

/// `where` saves its condition; each choice gets the gradient where it was chosen, and zeros elsewhere.
pub(super) fn choice<'a>(at: NodePosition) -> OperationFacts<'a> {
    let outputs = at.outputs();
    let read: f64 = at.inputs().map(|shape| shape.elements() as f64).sum();
    let traffic = MemoryTraffic {
        backward: BackwardTraffic::Each(vec![0.0, 3.0 * outputs, 3.0 * outputs]),
        ..MemoryTraffic::new(read + outputs, 0.0)
    };
    OperationFacts {
        needs: BackwardNeeds::First,
        traffic,
        ..OperationFacts::new(OperationNature::Choice, ChannelCoupling::Tied, GradientFlow::Made)
    }
}

/// Draws a number for every sample in training: torchvision's `stochastic_depth` and timm's `drop_path` multiply by it. The
/// gradient needs only the drawn numbers.
pub(super) fn drop_path<'a>(rate: f32, at: NodePosition) -> OperationFacts<'a> {
    let outputs = at.outputs();
    let traffic = MemoryTraffic { inference: 0.0, ..MemoryTraffic::new(2.0 * outputs, 2.0 * outputs) };
    OperationFacts { traffic, auxiliary: Some(AuxiliaryResult::Draw), ..dropout(rate, at) }
}

/// Axes of length 1 are broadcast. The ranks must be equal: with the batch in front, shorter shapes would be aligned with the
/// wrong axes.
fn broadcast(a: &Shape, b: &Shape) -> Result<Shape, String> {
    let misfit = || format!("cannot combine {a} and {b} element by element");
    let stretched = |(&x, &y): (&usize, &usize)| match (x, y) {
        _ if x == y || y == 1 => Ok(x),
        (1, _) => Ok(y),
        _ => Err(misfit()),
    };
    if a.rank() != b.rank() {
        return Err(misfit());
    }
    Ok(Shape::new(a.dims().iter().zip(b.dims()).map(stretched).collect::<Result<Vec<_>, _>>()?))
}

/// Draws a number for every element in training. It does nothing in inference or with a rate of 0: then `_dropout_impl` of
/// aten/src/ATen/native/Dropout.cpp returns its input itself.
pub(super) fn dropout<'a>(rate: f32, at: NodePosition) -> OperationFacts<'a> {
    if rate == 0.0 {
        return OperationFacts {
            storage: ResultStorage::View,
            ..OperationFacts::new(OperationNature::Dropout, ChannelCoupling::Same, GradientFlow::Passed)
        };
    }
    let outputs = at.outputs();
    let traffic = MemoryTraffic { inference: 0.0, ..MemoryTraffic::new(2.25 * outputs, 2.25 * outputs) };
    OperationFacts {
        storage: ResultStorage::Needed,
        traffic,
        auxiliary: Some(AuxiliaryResult::Mask),
        ..OperationFacts::new(OperationNature::Dropout, ChannelCoupling::Same, GradientFlow::Made)
    }
}
