//! `precision = bf16`: weights, activations and gradients of half the bytes.

use super::bandwidth::scale_transfers;
use super::clause::Clause;
use super::{Change, Scenario};
use crate::graph::{Kind, NodeId};
use perf4sight_base::error::{Error, Result};

/// Bytes of an element compared with fp32.
const HALF: f64 = 0.5;

#[derive(Debug)]
struct Precision;

pub(super) fn parse(clause: &Clause) -> Option<Result<Box<dyn Change>>> {
    let name = clause.value_of("precision")?;
    Some(match name {
        "bf16" | "fp16" => Ok(Box::new(Precision)),
        _ => Err(Error::usage(format!("precision \"{name}\" is not known")).one_of(name, ["bf16", "fp16"])),
    })
}

impl Change for Precision {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let graph = &mut scenario.step.graph;
        let kernels: Vec<NodeId> = graph.ids().filter(|id| graph.node(*id).kind == Kind::Kernel).collect();
        if kernels.is_empty() {
            return Err(Error::usage("the traces contain no kernels whose precision could change")
                .help("name the operations that get faster: \"operations 'mm*' x 0.5\""));
        }
        for id in kernels {
            graph.set_duration(id, (graph.node(id).duration as f64 * HALF).round() as u64);
        }
        scale_transfers(scenario, |latency, bytes| latency + HALF * bytes);
        for transfer in &mut scenario.step.transfers {
            transfer.bytes = transfer.bytes.map(|bytes| (bytes as f64 * HALF) as u64);
        }
        for gradient in scenario.step.ranks.iter_mut().flat_map(|rank| &mut rank.gradients) {
            gradient.bytes = (gradient.bytes as f64 * HALF) as u64;
        }
        Ok(())
    }

    fn assumption(&self) -> Option<String> {
        Some(
            "the traces are of fp32 and kernels take as long as their bytes: products may gain more or less".to_owned(),
        )
    }
}
