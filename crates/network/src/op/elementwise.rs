//! Functions of one element and of two, choices, and dropout.

use super::activations::{Activation, Binary, Family};
use super::effects::{Auxiliary, Backward, Gradient, Needs, Storage, Traffic};
use super::facts::{At, Coupling, Facts, Nature};
use crate::Shape;

impl Activation {
    pub(super) fn facts<'a>(self, at: At) -> Facts<'a> {
        let outputs = at.outputs();
        // Truth values have no gradient.
        let gradient = if self == Activation::Not { Gradient::Ends } else { Gradient::Made };
        Facts {
            needs: self.row(),
            storage: Storage::Needed,
            traffic: Traffic::new(2.0 * outputs, 3.0 * outputs),
            ..Facts::new(Nature::Activation(self), Coupling::Same, gradient)
        }
    }
}

impl Binary {
    /// Whether it adds, so that gradients pass as they are.
    pub fn is_sum(self) -> bool {
        self.row() == Family::Sum
    }

    /// Whether its result is a truth value.
    pub fn is_truth(self) -> bool {
        self.row() == Family::Truth
    }

    /// What backward needs, for one operand and a constant or for two, and how the gradient is computed; as in derivatives.yaml.
    fn backward(self, operands: usize) -> (Needs, Gradient) {
        match self.row() {
            Family::Sum => (Needs::Nothing, Gradient::Passed),
            Family::Product if operands < 2 => (Needs::Nothing, Gradient::Made),
            Family::Power if operands > 1 => (Needs::All, Gradient::Made),
            Family::Product | Family::Power | Family::Choice => (Needs::Inputs, Gradient::Made),
            Family::Truth => (Needs::Nothing, Gradient::Ends),
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
    pub(super) fn facts<'a>(self, at: At) -> Facts<'a> {
        let outputs = at.outputs();
        let operands: Vec<f64> = at.inputs().map(|shape| shape.elements() as f64).collect();
        let backward = |&elements: &f64| match (self.is_sum(), elements < outputs) {
            (true, false) => 0.0,
            (true, true) => outputs + elements,
            (false, false) => 3.0 * outputs,
            // The full-size product is written, then summed over the broadcast axes.
            (false, true) => 4.0 * outputs + elements,
        };
        let traffic = Traffic {
            strided: operands.iter().any(|&elements| elements < outputs),
            backward: Backward::Each(operands.iter().map(backward).collect()),
            ..Traffic::new(operands.iter().sum::<f64>() + outputs, 0.0)
        };
        let (needs, gradient) = self.backward(operands.len());
        let storage = if self == Binary::Pow { Storage::Needed } else { Storage::Own };
        Facts { needs, storage, traffic, ..Facts::new(Nature::Arithmetic(self), Coupling::Tied, gradient) }
    }
}

/// A copy with another element type. Only numbers have a gradient.
pub(super) fn cast<'a>(at: At) -> Facts<'a> {
    let traffic = Traffic::new(2.0 * at.outputs(), 0.0);
    let storage = Storage::Needed;
    Facts { storage, traffic, ..Facts::new(Nature::Movement, Coupling::Same, Gradient::Ends) }
}

/// The shape of `where`: the condition and both choices are broadcast to one shape.
pub(super) fn choice_shape(inputs: &[&Shape]) -> Result<Shape, String> {
    match inputs {
        [condition, yes, no] => broadcast(&broadcast(condition, yes)?, no),
        _ => Err(format!("takes three inputs, has {}", inputs.len())),
    }
}

/// `where` saves its condition; each choice gets the gradient where it was chosen, and zeros elsewhere.
pub(super) fn choice<'a>(at: At) -> Facts<'a> {
    let outputs = at.outputs();
    let read: f64 = at.inputs().map(|shape| shape.elements() as f64).sum();
    let traffic = Traffic {
        backward: Backward::Each(vec![0.0, 3.0 * outputs, 3.0 * outputs]),
        ..Traffic::new(read + outputs, 0.0)
    };
    Facts { needs: Needs::First, traffic, ..Facts::new(Nature::Choice, Coupling::Tied, Gradient::Made) }
}

/// Draws a number for every sample in training: torchvision's `stochastic_depth` and timm's `drop_path` multiply by it. The
/// gradient needs only the drawn numbers.
pub(super) fn drop_path<'a>(rate: f32, at: At) -> Facts<'a> {
    let outputs = at.outputs();
    let traffic = Traffic { inference: 0.0, ..Traffic::new(2.0 * outputs, 2.0 * outputs) };
    Facts { traffic, auxiliary: Some(Auxiliary::Draw), ..dropout(rate, at) }
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
pub(super) fn dropout<'a>(rate: f32, at: At) -> Facts<'a> {
    if rate == 0.0 {
        return Facts { storage: Storage::View, ..Facts::new(Nature::Dropout, Coupling::Same, Gradient::Passed) };
    }
    let outputs = at.outputs();
    let traffic = Traffic { inference: 0.0, ..Traffic::new(2.25 * outputs, 2.25 * outputs) };
    Facts {
        storage: Storage::Needed,
        traffic,
        auxiliary: Some(Auxiliary::Mask),
        ..Facts::new(Nature::Dropout, Coupling::Same, Gradient::Made)
    }
}
