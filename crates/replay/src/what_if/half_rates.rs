//! How much of its time a kernel takes in half precision, by a model of operations or a guess.

use super::Known;
use super::kernel::class_of_kernel;
use crate::graph::{Graph, NodeId};
use perf4sight_base::units::Percent;
use perf4sight_operations::{Class, Scaling};

/// How much of its time a kernel takes in half precision where no model predicts it: half of the bytes. A product takes a sixteenth at least, as an A100's
/// tensor cores do 16 times the FLOP/s of its other ones, and what waits for its launch gains nothing.
const GUESSED: f64 = 0.5;
const LEAST_OF_PRODUCT: f64 = 1.0 / 16.0;
const MOST: f64 = 1.0;

/// Factors of kernels from single to half precision.
#[derive(Debug, Clone)]
pub struct HalfRates {
    /// By a model of operations, with its GPU.
    model: Option<(Scaling, String)>,
    /// Why the model that was given does not say it.
    unknown: Option<String>,
    /// The bound of what is not known: -1 or 1; 0 is none.
    bound: f64,
}

impl HalfRates {
    /// What is known of the GPU of a job, or of that which changes before set.
    pub fn of(known: &Known) -> Self {
        let scaling = known.to_half().map(|scaling| Some((scaling?, known.gpu().ok()?.to_owned())));
        let (model, unknown) = match scaling {
            Ok(model) => (model, None),
            Err(why) => (None, Some(why.to_string().replace("\n  ", "; "))),
        };
        HalfRates { model, unknown, bound: 0.0 }
    }

    /// Why a model of operations that was given does not say it.
    pub fn unknown(&self) -> Option<&str> {
        self.unknown.as_deref()
    }

    /// The same at the least and the most.
    pub fn at_bounds(&self) -> [Self; 2] {
        [-1.0, 1.0].map(|bound| HalfRates { bound, ..self.clone() })
    }

    /// How much of its time a kernel of single precision takes in half.
    pub fn ratio(&self, graph: &Graph, id: NodeId) -> f64 {
        let class = class_of_kernel(graph, id);
        match &self.model {
            Some((scaling, _)) => scaling.ratio_at(self.bound, class, None, graph.node(id).duration as f64 / 1e3),
            None if self.bound == 0.0 => GUESSED,
            None if self.bound > 0.0 => MOST,
            None => match class {
                Some(Class::Product | Class::Convolution | Class::Attention) => LEAST_OF_PRODUCT,
                Some(Class::Normalization | Class::Reduction | Class::Elementwise | Class::Movement) | None => GUESSED,
            },
        }
    }

    /// What is assumed, in a sentence.
    pub fn assumption(&self) -> String {
        let [guessed, least, most] = [GUESSED, LEAST_OF_PRODUCT, MOST].map(|share| Percent(100.0 * share));
        match &self.model {
            Some((scaling, gpu)) => format!(
                "kernels in half precision take what the model of operations says of {gpu}, off by up to {} in all, those of operations that it did not measure in both precisions between what the data sheet allows",
                Percent(100.0 * scaling.off.exp_m1())
            ),
            None => format!(
                "products are guessed to take half of their time in half precision ({least} to {most}), as all else ({guessed} to {most}){}",
                match &self.unknown {
                    Some(why) => format!("; the model of operations does not say it: {why}"),
                    None => "; cost-model train fits a model that says it".to_owned(),
                }
            ),
        }
    }
}
