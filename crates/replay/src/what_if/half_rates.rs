//! How much of its time a kernel takes in half precision, by a model of operations or a guess.

use super::WhatIfFacts;
use super::kernel::{class_of_kernel, is_without_tensor_cores};
use crate::graph::{NodeId, TaskGraph};
use perf4sight_base::units::Percent;
use perf4sight_operations::{OperationClass, TimeScaling, sheet};

/// How much of its time a kernel takes in half precision where no model predicts it: half of the bytes. A product takes a sixteenth at least, as an A100's
/// tensor cores do 16 times the FLOP/s of its other ones, and what waits for its launch gains nothing. A product that used no tensor cores is
/// guessed to come half of the way from the bytes to what the data sheet allows, on the scale of ratios: on an H100, which allows 1/15 and where that
/// is 0.18, those of GPT-2 took 0.15.
const GUESSED: f64 = 0.5;
const LEAST_OF_PRODUCT: f64 = 1.0 / 16.0;
const MOST: f64 = 1.0;

/// Factors of kernels from single to half precision.
#[derive(Debug, Clone)]
pub struct HalfRates {
    /// By a model of operations, with its GPU.
    model: Option<(TimeScaling, String)>,
    /// Why the model that was given does not say it.
    unknown: Option<String>,
    /// The least that products without tensor cores take with them, by the data sheet of the GPU.
    least: f64,
    /// The bound of what is not known: -1 or 1; 0 is none.
    bound: f64,
}

impl HalfRates {
    /// What is known of the GPU of a job, or of that which changes before set.
    pub fn from_known(known: &WhatIfFacts) -> Self {
        let scaling = known.to_half().map(|scaling| Some((scaling?, known.gpu().ok()?.to_owned())));
        let (model, unknown) = match scaling {
            Ok(model) => (model, None),
            Err(why) => (None, Some(why.in_one_line())),
        };
        let sheet = known.gpu().ok().and_then(sheet);
        let least = sheet.map_or(LEAST_OF_PRODUCT, |sheet| (sheet.single_tflops / sheet.half_tflops).min(MOST));
        HalfRates { model, unknown, least, bound: 0.0 }
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
    pub fn ratio(&self, graph: &TaskGraph, id: NodeId) -> f64 {
        let class = class_of_kernel(graph, id);
        if let Some((scaling, _)) = &self.model {
            return scaling.ratio_at(self.bound, class, None, graph.node(id).duration as f64 / 1e3);
        }
        let least = match class {
            Some(OperationClass::Product | OperationClass::Convolution | OperationClass::Attention) => {
                self.least.min(LEAST_OF_PRODUCT)
            }
            Some(
                OperationClass::Normalization
                | OperationClass::Reduction
                | OperationClass::Elementwise
                | OperationClass::Movement,
            )
            | None => GUESSED,
        };
        match self.bound {
            0.0 if is_without_tensor_cores(graph.name(id)) => self.onto_tensor_cores(),
            0.0 => GUESSED,
            more if more > 0.0 => MOST,
            _ => least,
        }
    }

    /// How much of its time a product without tensor cores is guessed to take.
    fn onto_tensor_cores(&self) -> f64 {
        (self.least * GUESSED).sqrt().min(GUESSED)
    }

    /// What is assumed, in a sentence.
    pub fn assumption(&self) -> String {
        let [guessed, least, most] =
            [GUESSED, self.least.min(LEAST_OF_PRODUCT), MOST].map(|share| Percent(100.0 * share));
        match &self.model {
            Some((scaling, gpu)) => format!(
                "kernels in half precision take what the model of operations says of {gpu} (sums over networks that it was not fitted on were off by up to {}), those of operations that it did not measure in both precisions between what the data sheet allows",
                Percent(100.0 * scaling.off.exp_m1())
            ),
            None => format!(
                "products are guessed to take half of their time in half precision, those without tensor cores so far {} ({least} to {most}), as all else ({guessed} to {most}){}",
                Percent(100.0 * self.onto_tensor_cores()),
                match &self.unknown {
                    Some(why) => format!("; the model of operations does not say it: {why}"),
                    None => "; cost-model train fits a model that says it".to_owned(),
                }
            ),
        }
    }
}
