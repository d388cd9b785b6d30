//! `precision = bf16`: weights, activations and gradients of half the bytes, but for what is in half precision already.

use super::clause::WhatIfClause;
use super::links::scale_transfers;
use super::{ALL_IN_HALF, HalfPrecisionShares, HalfRates, Scenario, StepChange, Tf32, WhatIfFacts};
use crate::graph::{NodeId, WorkKind};
use perf4sight_base::error::{Error, Result};

/// Bytes of an element compared with fp32.
const HALF: f64 = 0.5;

#[derive(Debug)]
struct OtherPrecision {
    in_half: HalfPrecisionShares,
    rates: HalfRates,
}

pub(super) fn parse(clause: &WhatIfClause, known: &WhatIfFacts) -> Option<Result<Box<dyn StepChange>>> {
    let name = clause.value_of("precision")?;
    Some(match name {
        "bf16" | "fp16" => {
            Ok(Box::new(OtherPrecision { in_half: known.in_half.clone(), rates: HalfRates::from_known(known) })
                as Box<dyn StepChange>)
        }
        "tf32" => Ok(Box::new(Tf32::from_known(known)) as Box<dyn StepChange>),
        _ => Err(Error::usage(format!("precision \"{name}\" is not known")).one_of(name, ["bf16", "fp16", "tf32"])),
    })
}

impl StepChange for OtherPrecision {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let OtherPrecision { in_half, rates } = self;
        let graph = &mut scenario.step.graph;
        let kernels: Vec<NodeId> = graph.ids().filter(|id| graph.node(*id).kind == WorkKind::Kernel).collect();
        if kernels.is_empty() {
            return Err(Error::usage("the traces contain no kernels whose precision could change")
                .help("name the operations that get faster: \"operations 'mm*' x 0.5\""));
        }
        if in_half.share_of(graph, kernels.iter().copied()) > ALL_IN_HALF {
            return Err(Error::usage(
                "the kernels of the traces are in half precision already, or in double precision",
            ));
        }
        for id in kernels {
            let single = 1.0 - in_half.share(graph, id);
            let shorter = 1.0 - single * (1.0 - rates.ratio(graph, id));
            graph.set_duration(id, (graph.node(id).duration as f64 * shorter).round() as u64);
        }
        if !in_half.gradients() {
            halve_gradients(scenario);
        }
        Ok(())
    }

    fn assumption(&self) -> Option<String> {
        let traces = match self.in_half.is_recorded() {
            true => {
                "what the traces say to be in half precision, in eight bits or in double precision stays as it is, all else is of fp32"
            }
            false => "the traces do not say the types of tensors (record_shapes=True) and are taken to be of fp32",
        };
        Some(format!("{traces}; {}", self.rates.assumption()))
    }

    fn known_after(&self, mut known: WhatIfFacts) -> WhatIfFacts {
        known.in_half = known.in_half.lowered();
        known
    }

    fn bounds(&self) -> Vec<Box<dyn StepChange>> {
        let bound = |rates| Box::new(OtherPrecision { rates, in_half: self.in_half.clone() }) as Box<dyn StepChange>;
        self.rates.at_bounds().into_iter().map(bound).collect()
    }
}

/// Sends half of the bytes.
fn halve_gradients(scenario: &mut Scenario) {
    scale_transfers(scenario, |latency, bytes| latency + HALF * bytes);
    for transfer in &mut scenario.step.transfers {
        transfer.bytes = transfer.bytes.map(|bytes| (bytes as f64 * HALF) as u64);
    }
    for gradient in scenario.step.ranks.iter_mut().flat_map(|rank| &mut rank.gradients) {
        gradient.bytes = (gradient.bytes as f64 * HALF) as u64;
    }
}
