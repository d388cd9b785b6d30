//! Operators and tensors fused together: buckets for operations as they are fused, and of these those that pay with such buckets.

use super::tensor_fusion::{self, free_words};
use super::{ChangeProposal, FusedOperations, LearningEffect, PassResults, op_fusion};
use crate::fusion::{self, AllReduceLink, BackwardSegment, BucketFusion, JointFusion, ReadyGradient};
use crate::start::{CombinedChanges, RecordedStart};
use perf4sight_base::error::Result;
use perf4sight_replay::graph::NodeId;
use perf4sight_replay::simulate::simulate;
use perf4sight_replay::what_if::StepChange;
use std::sync::Arc;

const NAME: &str = "tensor_fusion,op_fusion";
/// The passes by themselves.
const SINGLE: [&str; 2] = ["tensor_fusion", "op_fusion"];

/// Operations that are computed together on the rank whose work ends last.
struct FusionSpan {
    /// Milliseconds at which the first begins and the last ends.
    begins: f64,
    ends: f64,
    /// Milliseconds that all take less together.
    saves: f64,
}

/// Groups of operations that are kept, and the buckets for them.
struct JointChoice {
    fused: Vec<FusedOperations>,
    buckets: BucketFusion,
}

/// Both together, where both were found: what PyTorch can be given, and for other programs the better of two ways by replay. One keeps
/// all groups of operations, and makes the best buckets for when gradients are ready then, by the formula or by Horovod's threshold; the other is the optimum by the rules of
/// [`fusion::jointly`], which parts groups that keep gradients waiting for longer than they save. Nothing that is no faster than one of both.
///
/// # Errors
/// Steps that contradict themselves.
pub fn jointly(start: &RecordedStart, found: &PassResults) -> Result<PassResults> {
    let mut both = PassResults::default();
    if start.recorded.typical.is_sharded() {
        return Ok(both);
    }
    let single = || found.proposals.iter().chain(&found.others).filter(|one| SINGLE.contains(&one.pass));
    if found.fused.is_empty() || !SINGLE.iter().all(|pass| single().any(|one| one.pass == *pass)) {
        return Ok(both);
    }
    let shortest = single().map(|one| one.outcome.after.time).fold(f64::INFINITY, f64::min);
    let (gradients, link) = match when_fused(start, &found.fused) {
        Ok(found) => found,
        Err(error) => {
            both.nothing.push(format!("operators and tensors are not fused together: {}", error.in_one_line()));
            return Ok(both);
        }
    };
    if gradients.iter().any(|gradient| gradient.pass != gradients[0].pass) {
        both.nothing
            .push("operators and tensors are not fused together where a step has several backward passes".to_owned());
        return Ok(both);
    }
    let cap = fusion::best_compiled_cap(&gradients, link);
    let pytorch = JointChoice { fused: found.fused.clone(), buckets: cap.fusion };
    let change =
        format!("{}, with {}", fusion::pytorch_arguments(cap.limits), op_fusion::compiler(start, &found.fused));
    let pytorch = ChangeProposal::new(NAME, change, edit(&pytorch), LearningEffect::Rounded, start)?;
    both.proposals.extend(Some(pytorch).filter(|one| one.outcome.after.time < shortest));
    let optimum = fusion::optimum(&gradients, link);
    let threshold = fusion::of_threshold(&gradients, link, fusion::horovod_threshold(&gradients, &optimum));
    let [tuned, filled] = [optimum, threshold].map(|buckets| JointChoice { fused: found.fused.clone(), buckets });
    let tuned = shorter_choice(start, [tuned, filled])?;
    let choice = shorter_choice(start, [tuned, by_rules(start, &found.fused)?])?;
    let predict = |buckets: &BucketFusion| {
        start.predict(&edit(&JointChoice { buckets: buckets.clone(), fused: choice.fused.clone() }))
    };
    let words = free_words(&gradients, link, &choice.buckets, &predict)?;
    let change = format!("both together: groups of {}; {words}", op_fusion::CLUSTERS);
    let free = ChangeProposal::new(NAME, change, edit(&choice), LearningEffect::Rounded, start)?;
    match free.outcome.after.time < shortest {
        true => write(&gradients, &choice, free, &mut both),
        false => both.nothing.push("operators and tensors fused together are no faster than one of both".to_owned()),
    }
    Ok(both)
}

/// The one of two choices whose replay is shorter.
fn shorter_choice(start: &RecordedStart, [one, other]: [JointChoice; 2]) -> Result<JointChoice> {
    let [first, second] = [start.time(&edit(&one))?, start.time(&edit(&other))?];
    Ok(if second < first { other } else { one })
}

fn edit(choice: &JointChoice) -> Arc<dyn StepChange> {
    let fused: Arc<dyn StepChange> = Arc::new(op_fusion::edit(&choice.fused));
    Arc::new(CombinedChanges(vec![fused, tensor_fusion::edit(&choice.buckets)]))
}

/// The gradients with when they are ready once operations are fused, and their link.
fn when_fused(start: &RecordedStart, fused: &[FusedOperations]) -> Result<(Vec<ReadyGradient>, AllReduceLink)> {
    let step = start.with_change(&(Arc::new(op_fusion::edit(fused)) as Arc<dyn StepChange>))?;
    fusion::of_step(&step, &start.communication, &simulate(&step.graph))
}

/// The optimum of both by the rules of [`fusion::jointly`], on the rank whose work ends last.
fn by_rules(start: &RecordedStart, fused: &[FusedOperations]) -> Result<JointChoice> {
    let (gradients, link) = fusion::of_step(&start.recorded.typical, &start.communication, &start.schedule)?;
    let spans: Vec<Option<FusionSpan>> = fused.iter().map(|one| span(start, one)).collect();
    let JointFusion { ends, .. } = fusion::jointly(&segments(&gradients, &spans), link);
    let parted = |span: &FusionSpan| gradients_behind(&gradients, span).any(|place| ends.contains(&place));
    let kept = fused.iter().zip(&spans).filter(|(_, span)| !span.as_ref().is_some_and(parted));
    let fused = kept.map(|(one, _)| one.clone()).collect();
    Ok(JointChoice { fused, buckets: BucketFusion::of_ends(&gradients, link, ends) })
}

/// Where a group is on the rank whose work ends last; none if it is not there.
fn span(start: &RecordedStart, fused: &FusedOperations) -> Option<FusionSpan> {
    let graph = &start.recorded.typical.graph;
    let rank = |id: NodeId| graph.resources()[graph.node(id).resource.index()].rank;
    let group = fused.on_ranks.iter().find(|group| rank(group.takes) == Some(start.slowest()))?;
    let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
    let takes = |nodes: &[NodeId]| nodes.iter().map(|id| graph.node(*id).duration).sum::<u64>();
    let begins = group.nodes.iter().map(|id| start.schedule.start(*id)).min()?;
    Some(FusionSpan {
        begins: milliseconds(begins),
        ends: milliseconds(start.schedule.end(graph, group.takes)),
        saves: milliseconds(takes(&group.nodes)) * (1.0 - group.share).max(0.0) + milliseconds(takes(&group.launches)),
    })
}

/// The gradients behind those that a group keeps waiting: they became ready while it runs.
fn gradients_behind<'a>(gradients: &'a [ReadyGradient], span: &'a FusionSpan) -> impl Iterator<Item = usize> + 'a {
    let waits = |gradient: &ReadyGradient| (span.begins..span.ends).contains(&gradient.ready_ms);
    (1..gradients.len()).filter(move |place| waits(&gradients[place - 1]))
}

/// Backward from gradient to gradient. What a group saves counts where it ends; without others, where it keeps none waiting.
fn segments(gradients: &[ReadyGradient], spans: &[Option<FusionSpan>]) -> Vec<BackwardSegment> {
    let ready = |place: usize| gradients[place].ready_ms;
    let takes = |place: usize| ready(place) - place.checked_sub(1).map_or(0.0, ready);
    let segment = |place| BackwardSegment { takes_ms: takes(place), saves_ms: None, bytes: gradients[place].bytes };
    let mut segments: Vec<BackwardSegment> = (0..gradients.len()).map(segment).collect();
    for span in spans.iter().flatten() {
        let crossed: Vec<usize> = gradients_behind(gradients, span).collect();
        for place in &crossed {
            segments[*place].saves_ms.get_or_insert(0.0);
        }
        let ending = (0..gradients.len()).find(|place| ready(*place) >= span.ends);
        match (crossed.last(), ending) {
            (Some(last), _) => *segments[*last].saves_ms.get_or_insert(0.0) += span.saves,
            (None, Some(ending)) => segments[ending].takes_ms = (segments[ending].takes_ms - span.saves).max(0.0),
            (None, None) => {}
        }
    }
    segments
}

fn write(gradients: &[ReadyGradient], choice: &JointChoice, proposal: ChangeProposal, both: &mut PassResults) {
    both.others.push(proposal);
    tensor_fusion::write(gradients, &choice.buckets, both);
    both.files.push((op_fusion::CLUSTERS, op_fusion::cluster_mapping(&choice.fused)));
    both.strategy.extend(choice.fused.iter().flat_map(|one| one.merges.clone()));
}
