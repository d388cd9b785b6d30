//! Lookups of rows of a table by number: words, positions, types.

use super::attributes::Embedding;
use super::effects::{Gradient, Spans, Storage, Weight};
use super::facts::{Coupling, Facts, Nature};
use super::one;
use crate::Shape;

impl Embedding {
    pub(super) fn shape(&self, inputs: &[&Shape]) -> Result<Shape, String> {
        let numbers = match (&self.fixed, inputs) {
            (Some(numbers), []) => numbers,
            (Some(_), _) => return Err(format!("looks up the same for every sample, has {} inputs", inputs.len())),
            (None, _) => one(inputs)?,
        };
        Ok(Shape::new([numbers.dims(), &[self.width]].concat()))
    }

    /// Its gradient is as large as the table (`embedding_dense_backward`), for any lookup.
    pub(super) fn facts<'a>(&'a self) -> Facts<'a> {
        // A result that is the same for all samples is read by each of them, so it stays unchanged.
        let storage = if self.fixed.is_some() { Storage::Needed } else { Storage::Own };
        let table = Weight { dims: Shape::new([self.rows, self.width]), spans: Spans::Rows };
        Facts {
            weights: vec![table],
            storage,
            ..Facts::new(Nature::Embedding(self), Coupling::Rows(self), Gradient::Ends)
        }
    }
}
