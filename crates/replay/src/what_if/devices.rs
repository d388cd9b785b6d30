//! `gpu x 1.5` and `cpu x 1.5`: processors that do their work faster by a factor.

use super::clause::Clause;
use super::{Change, Scenario};
use crate::graph::{Kind, NodeId};
use perf4sight_base::error::{Error, Result};

#[derive(Debug)]
struct Faster {
    factor: f64,
    kinds: &'static [Kind],
    device: &'static str,
}

pub(super) fn parse_gpu(clause: &Clause) -> Option<Result<Box<dyn Change>>> {
    faster(clause, "gpu", &[Kind::Kernel])
}

pub(super) fn parse_cpu(clause: &Clause) -> Option<Result<Box<dyn Change>>> {
    faster(clause, "cpu", &[Kind::Operation, Kind::Launch])
}

fn faster(clause: &Clause, device: &'static str, kinds: &'static [Kind]) -> Option<Result<Box<dyn Change>>> {
    let factor = clause.factor_of(device)?;
    Some(factor.map(|factor| Box::new(Faster { factor, kinds, device }) as Box<dyn Change>))
}

impl Change for Faster {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let graph = &mut scenario.step.graph;
        let found: Vec<NodeId> = graph.ids().filter(|id| self.kinds.contains(&graph.node(*id).kind)).collect();
        if found.is_empty() {
            return Err(Error::usage(format!("the traces contain no work of a {}", self.device))
                .help("\"gpu x ...\" is for kernels, \"cpu x ...\" for operations on threads"));
        }
        for id in found {
            graph.set_duration(id, (graph.node(id).duration as f64 / self.factor).round() as u64);
        }
        Ok(())
    }

    fn assumption(&self) -> Option<String> {
        Some(format!("all work of the {} is faster by the same factor; communication stays as it is", self.device))
    }
}
