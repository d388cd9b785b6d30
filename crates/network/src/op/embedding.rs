//! Lookups of rows of a table by number: words, positions, types.

use super::attributes::Embedding;
use super::effects::{GradientFlow, ResultStorage, TrainedTensor, WeightSpans};
use super::facts::{ChannelCoupling, OperationFacts, OperationNature};
use super::one_input;
use crate::Shape;

impl Embedding {
    pub(super) fn shape(&self, inputs: &[&Shape]) -> Result<Shape, String> {
        let numbers = match (&self.fixed, inputs) {
            (Some(numbers), []) => numbers,
            (Some(_), _) => return Err(format!("looks up the same for every sample, has {} inputs", inputs.len())),
            (None, _) => one_input(inputs)?,
        };
        Ok(Shape::new([numbers.dims(), &[self.width]].concat()))
    }

    /// Its gradient is as large as the table (`embedding_dense_backward`), for any lookup.
    pub(super) fn facts<'a>(&'a self) -> OperationFacts<'a> {
        // A result that is the same for all samples is read by each of them, so it stays unchanged.
        let storage = if self.fixed.is_some() { ResultStorage::Needed } else { ResultStorage::Own };
        let table = TrainedTensor { dims: Shape::new([self.rows, self.width]), spans: WeightSpans::Rows };
        OperationFacts {
            weights: vec![table],
            storage,
            ..OperationFacts::new(OperationNature::Embedding(self), ChannelCoupling::Rows(self), GradientFlow::Ends)
        }
    }
}
