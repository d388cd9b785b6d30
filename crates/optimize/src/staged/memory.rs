//! The peak of memory: weights with their optimizer, activations in flight, logits, and what a process holds anyway.

use super::{NetworkShape, PipelineStage, PlanQuantity, StagedPlan};

/// Bytes of a GiB.
const GIB: f64 = 1_073_741_824.0;

/// What of the peak does not depend on parameters, by stage.
pub(super) struct StagePeaks(Vec<StageContents>);

struct StageContents {
    weights: f64,
    /// Bytes, by formula.
    activations: f64,
    logits: f64,
    /// Degree of tensor parallelism.
    ranks: f64,
}

impl StagePeaks {
    pub fn new(plan: &StagedPlan, shape: &NetworkShape) -> Self {
        StagePeaks((0..plan.stages.len()).map(|at| StageContents::new(plan, at, shape)).collect())
    }
}

impl StageContents {
    fn new(plan: &StagedPlan, at: usize, shape: &NetworkShape) -> Self {
        let stage = &plan.stages[at];
        let (h, s, b) = (shape.hidden as f64, shape.sequence as f64, plan.micro_batch as f64);
        // The replica with the fewest GPUs to share with holds the most.
        let tensor = stage.replicas.iter().map(|replica| replica.tensor_parallel).min().unwrap_or(1) as f64;
        let last = plan.last_layer();
        let layers = stage.layers.iter().filter(|layer| **layer != 0 && **layer != last).count() as f64;
        let embedding = shape.vocabulary as f64 * h;
        let weights = layers * 12.0 * h * h + embeddings(stage, last) * embedding;
        // Korthikanti et al. (MLSys 2023), without recomputing any; a stage keeps as many micro-batches as stages follow.
        let kept = s * b * h * (10.0 + 24.0 / tensor + 5.0 * shape.heads as f64 * s / (h * tensor));
        let in_flight = (plan.stages.len() - at).min(plan.micro_batches() as usize) as f64;
        let has_head = if stage.layers.contains(&last) { 1.0 } else { 0.0 };
        StageContents {
            weights: weights / tensor,
            activations: layers * kept * in_flight,
            logits: has_head * b * s * shape.vocabulary as f64 / tensor,
            ranks: tensor,
        }
    }
}

/// Embedding and head each hold a weight for each word.
fn embeddings(stage: &PipelineStage, last: u64) -> f64 {
    stage.layers.iter().filter(|layer| **layer == 0 || **layer == last).count() as f64
}

/// Bytes a weight, factor of activations, bytes a logit, GiB of context, NCCL and allocator for each tensor rank.
///
/// What a process holds anyway grows with the tensor ranks: Sailor's plans hold 4 GiB with degree 4 on GH200, on older GPUs 1 GiB with
/// degree 2 and 6 with degree 8.
impl PlanQuantity<4> for StagePeaks {
    const NAMES: [&'static str; 4] = [
        "bytes a weight",
        "of the activations by formula",
        "bytes a logit",
        "GiB a tensor rank of what a process holds anyway",
    ];
    const SCATTERS: bool = false;
    const INPUTS: &'static str = "mbs, and the network's own sizes (shape)";
    const MEDIANS: [f64; 4] = [20.0, 1.0, 10.0, 0.5];
    // Fused attention, or recomputing it, keeps as little as a third of the activations.
    const SPREADS: [f64; 4] = [0.3, 0.6, 0.3, 0.5];

    fn value(&self, logs: &[f64; 4]) -> f64 {
        let [weight, activations, logit, context] = logs.map(f64::exp);
        let stages = self.0.iter().map(|stage| {
            let computed = weight * stage.weights + activations * stage.activations + logit * stage.logits;
            computed + context * GIB * stage.ranks
        });
        stages.fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        MeasuredQuantity, MeasuredStagedPlan, QuantityFit, StageReplica, UnmeasuredPart, fit, measured_quantities,
    };
    use super::*;
    use perf4sight_base::error::Result;
    use perf4sight_base::stats;

    /// Sailor's plans on mixed older GPUs: items of each stage (the first is the embedding, the last the head), tensor degree, replicas,
    /// measured peak in bytes. Those that differ in replicas alone were measured within 0.3 % of each other.
    const MIXED: [(&[u64], u64, u64, f64); 7] = [
        (&[12, 14], 2, 1, 4_130_340_864.0),
        (&[26], 2, 2, 5_946_474_496.0),
        (&[8, 9, 9], 8, 1, 6_305_087_488.0),
        (&[5, 7, 7, 7], 8, 1, 6_233_784_320.0),
        (&[12, 14], 8, 2, 6_818_889_728.0),
        (&[26], 8, 4, 9_387_900_928.0),
        (&[12, 14], 8, 3, 6_835_666_944.0),
    ];

    fn plan(items: &[u64], tensor_parallel: u64, replicas: u64) -> StagedPlan {
        let mut first = 0;
        let stage = |count: &u64| {
            let layers = (first..first + count).collect();
            first += count;
            let replica = StageReplica { gpu: "RTX-2080".to_owned(), tensor_parallel };
            PipelineStage { layers, replicas: vec![replica; replicas as usize] }
        };
        let stages = items.iter().map(stage).collect();
        StagedPlan { name: String::new(), stages, micro_batch: 2, global_batch: 48 * replicas }
    }

    fn measured(rows: &[(&[u64], u64, u64, f64)]) -> Vec<MeasuredQuantity<StagePeaks>> {
        let shape = NetworkShape { hidden: 1024, heads: 16, sequence: 2048, vocabulary: 50_272 };
        let one = |(items, tensor, replicas, value): &(&[u64], u64, u64, f64)| MeasuredStagedPlan {
            plan: plan(items, *tensor, *replicas),
            step_s: None,
            peak_bytes: Some(*value),
        };
        let plans: Vec<_> = rows.iter().map(one).collect();
        measured_quantities(&plans, |plan| plan.peak_bytes, |plan| Ok(StagePeaks::new(plan, &shape))).unwrap()
    }

    /// Fitted on plans of degree 8 alone, which are within a few percent of each other, those of degree 2 are as uncertain as before anything was measured.
    #[test]
    fn intervals_of_a_tensor_degree_that_was_never_measured_hold_it() -> Result<()> {
        let (others, eights): (Vec<_>, Vec<_>) = MIXED.into_iter().partition(|(_, tensor, ..)| *tensor == 2);
        let fit = QuantityFit::new(&measured(&eights), &|_| Ok(()))?;
        for other in measured(&others) {
            let (low, high) = fit.estimate(&other.plan, UnmeasuredPart::Divided)?.interval;
            assert!((low..=high).contains(&other.value), "{low} {} {high}", other.value);
        }
        Ok(())
    }

    /// With what a process holds anyway as one number for all tensor degrees, those of degree 2 are predicted as three times what they take.
    #[test]
    fn peaks_of_other_tensor_degrees_are_predicted() -> Result<()> {
        let measured = measured(&MIXED);
        let off = measured.iter().enumerate().map(|(left_out, one)| {
            let others = measured.iter().enumerate().filter(|(place, _)| *place != left_out).map(|(_, other)| other);
            Ok(100.0 * (one.plan.value(&fit(&others.collect::<Vec<_>>())?) / one.value - 1.0).abs())
        });
        let off = off.collect::<Result<Vec<f64>>>()?;
        assert!(stats::mean(&off) <= 12.0 && off.iter().all(|off| *off <= 40.0), "{off:?}");
        Ok(())
    }

    /// 20 measurements of one plan, half of them 3 % more: it is one plan, predicted from the others as if it was there once.
    #[test]
    fn a_plan_that_was_measured_twenty_times_counts_once() -> Result<()> {
        let once = QuantityFit::new(&measured(&MIXED), &|_| Ok(()))?.left_out;
        let (items, tensor, replicas, value) = MIXED[0];
        let again = (1..20).map(|run| (items, tensor, replicas, if run < 10 { value } else { 1.03 * value }));
        let plans: Vec<_> = MIXED.into_iter().chain(again).collect();
        let many = QuantityFit::new(&measured(&plans), &|_| Ok(()))?.left_out;
        assert_eq!((many.len(), many[0].predicted), (once.len(), once[0].predicted));
        assert!((many[0].measured() / value - 1.015).abs() < 1e-9, "{}", many[0].measured());
        Ok(())
    }
}
