//! `precision = tf32`: products of matrices in single precision on tensor cores, which PyTorch leaves off unless it is told.

use super::kernel::{class_of_kernel, is_without_tensor_cores};
use super::{Scenario, StepChange, WhatIfFacts};
use crate::graph::{NodeId, TaskGraph, WorkKind};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Percent;
use perf4sight_operations::{OperationClass, sheet};

/// Products that use no tensor cores, with them; why that cannot be said where the GPU is not known or has none for single precision.
#[derive(Debug, Clone)]
pub struct Tf32(Result<ProductShare>);

/// How much of its time a product takes.
#[derive(Debug, Clone, Copy)]
struct ProductShare {
    /// What it is taken to take.
    guess: f64,
    /// By the data sheet of the GPU.
    least: f64,
}

impl ProductShare {
    /// The guess is half of the way from none of a gain to what the data sheet allows, on the scale of ratios: on an H100, which allows 0.14, that is
    /// 0.37, and the products of GPT-2 took 0.30.
    fn from_known(known: &WhatIfFacts) -> Result<Self> {
        let gpu = known.gpu()?;
        let sheet = sheet(gpu).ok_or_else(|| {
            Error::usage(format!("the data sheet of {gpu} is not known, and so what TF32 brings"))
                .help("name the products that get faster: \"operations 'aten::mm' x 0.4\"")
        })?;
        if sheet.tf32_tflops <= sheet.single_tflops {
            return Err(Error::usage(format!("TF32 makes nothing faster on {gpu}")));
        }
        let least = sheet.single_tflops / sheet.tf32_tflops;
        Ok(ProductShare { guess: least.sqrt(), least })
    }
}

impl Tf32 {
    /// On the GPU of the traces.
    pub fn from_known(known: &WhatIfFacts) -> Self {
        Tf32(ProductShare::from_known(known))
    }

    /// Whether the GPU is known to have it.
    pub fn is_known(&self) -> bool {
        self.0.is_ok()
    }
}

/// The kernels that TF32 is for.
fn products(graph: &TaskGraph) -> Vec<NodeId> {
    let is_product = |id: &NodeId| {
        graph.node(*id).kind == WorkKind::Kernel
            && class_of_kernel(graph, *id) == Some(OperationClass::Product)
            && is_without_tensor_cores(graph.name(*id))
    };
    graph.ids().filter(is_product).collect()
}

impl StepChange for Tf32 {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let share = self.0.clone()?;
        let graph = &mut scenario.step.graph;
        let products = products(graph);
        if products.is_empty() {
            return Err(Error::usage(
                "no product of the traces is in single precision without tensor cores, which TF32 would make faster",
            ));
        }
        for id in products {
            graph.set_duration(id, (graph.node(id).duration as f64 * share.guess).round() as u64);
        }
        Ok(())
    }

    fn assumption(&self) -> Option<String> {
        let ProductShare { guess, least } = self.0.as_ref().ok()?;
        let [guess, least] = [guess, least].map(|share| Percent(100.0 * share));
        Some(format!(
            "products in TF32 are guessed to take {guess} of their time ({least}, by the data sheet, to 100 %)"
        ))
    }

    fn bounds(&self) -> Vec<Box<dyn StepChange>> {
        let bounds = self.0.iter().flat_map(|&share| [share.least, 1.0].map(|guess| ProductShare { guess, ..share }));
        bounds.map(|share| Box::new(Tf32(Ok(share))) as Box<dyn StepChange>).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communication::CommunicationCosts;
    use crate::graph::{GraphBuilder, Resource, ResourceKind, StepGraph, TaskNode};

    fn known_gpu(gpu: &str) -> WhatIfFacts {
        WhatIfFacts { gpus: vec![vec![gpu.to_owned()]], ..WhatIfFacts::default() }
    }

    /// A stream with kernels of these names, of 1 ms each, all of `aten::mm`.
    fn scenario(kernels: &[&str]) -> Scenario {
        let mut builder = GraphBuilder::default();
        let resource = builder.resource(Resource { rank: Some(0), kind: ResourceKind::Stream, name: "7".to_owned() });
        let operator = builder.call("aten::mm", None);
        for name in kernels {
            let call = builder.call(name, Some(operator));
            builder.node(TaskNode { duration: 1_000_000, call, resource, kind: WorkKind::Kernel, priority: 0 });
        }
        let step = StepGraph { graph: builder.finish().unwrap(), ..StepGraph::default() };
        Scenario { step, communication: CommunicationCosts::default() }
    }

    fn times(change: &dyn StepChange) -> Vec<u64> {
        let mut scenario =
            scenario(&["ampere_sgemm_128x64_nn", "cutlass_80_tensorop_s1688gemm_128x256_32x3_nt_align1"]);
        change.apply(&mut scenario).unwrap();
        scenario.step.graph.nodes().iter().map(|node| node.duration).collect()
    }

    /// NVIDIA's data sheet of the H100 SXM: 67 TFLOP/s in single precision, 494 in TF32 without sparsity; sqrt(67 / 494) = 0.368276.
    #[test]
    fn products_without_tensor_cores_get_faster_by_what_the_data_sheet_allows_at_most() {
        let change = Tf32::from_known(&known_gpu("NVIDIA H100 80GB HBM3"));
        assert_eq!(times(&change), [368_276, 1_000_000]);
        let bounds: Vec<Vec<u64>> = change.bounds().iter().map(|bound| times(bound.as_ref())).collect();
        assert_eq!(bounds, [[135_628, 1_000_000], [1_000_000, 1_000_000]]);
        let fast = &mut scenario(&["sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n"]);
        assert!(
            change.apply(fast).unwrap_err().to_string().contains("no product of the traces is in single precision")
        );
    }

    /// A T4 has no TF32, and on an RTX 3090 it takes as long as single precision without.
    #[test]
    fn gpus_on_which_it_brings_nothing_are_told() {
        let refused = |known: &WhatIfFacts| {
            Tf32::from_known(known).apply(&mut scenario(&["ampere_sgemm_128x64_nn"])).unwrap_err().to_string()
        };
        for gpu in ["Tesla T4", "NVIDIA GeForce RTX 3090"] {
            assert_eq!(refused(&known_gpu(gpu)), format!("TF32 makes nothing faster on {gpu}"));
        }
        assert!(refused(&known_gpu("a GPU")).contains("the data sheet of a GPU is not known"));
        assert!(refused(&WhatIfFacts::default()).contains("the traces do not say which GPU"));
    }
}
