//! Which gradients to reduce together, and when: buckets, and what else decides when communication begins.

use super::merges::merges;
use super::{ChangeProposal, LearningEffect, OptimizationPass, PassResults, PassSettings};
use crate::changes::{GradientBuckets, KeepGathered, Prefetch, has_kernels};
use crate::fusion::{self, AllReduceLink, BucketChoice, BucketFusion, ReadyGradient};
use crate::search::ContinueSearch;
use crate::start::RecordedStart;
use perf4sight_base::error::Result;
use perf4sight_base::units::{Milliseconds, count_text};
use perf4sight_replay::buckets::{BucketLimits, buckets_of_groups};
use perf4sight_replay::what_if::{StepChange, WhatIfOutcome, parse};
use std::sync::Arc;

/// Buckets that are replayed, the best by the formula first.
const REPLAYED: usize = 48;
/// Another first bucket than the others takes more than an argument, and a list of caps takes PyTorch 2.15: they have to be better by this share.
const UNUSUAL: f64 = 0.01;

/// Buckets that a line can list.
const LISTED: usize = 40;

/// The pass.
#[derive(Debug)]
pub(super) struct TensorFusion;

const NAME: &str = "tensor_fusion";
/// The published file of buckets.
pub(super) const MAPPING: &str = "spec/tensor_fusion_grp_mapping.json";

impl OptimizationPass for TensorFusion {
    fn name(&self) -> &'static str {
        NAME
    }

    fn run(&self, start: &RecordedStart, _: &PassSettings, _: &ContinueSearch<'_>) -> Result<PassResults> {
        let mut found = PassResults::default();
        if start.recorded.typical.is_sharded() {
            add_sharded(start, &mut found);
            return Ok(found);
        }
        let fused = fusion::of_step(&start.recorded.typical, &start.communication, &start.schedule)
            .and_then(|(gradients, link)| buckets(start, &gradients, link, &mut found));
        if let Err(error) = fused {
            found.unanswered.push(format!("no buckets are proposed: {}", error.in_one_line()));
        }
        static_graph(start, &mut found)?;
        Ok(found)
    }
}

pub(super) fn edit(fusion: &BucketFusion) -> Arc<dyn StepChange> {
    Arc::new(GradientBuckets(fusion.buckets().collect()))
}

/// The best `bucket_cap_mb` by replay, and the best buckets for frameworks that read them.
fn buckets(
    start: &RecordedStart,
    gradients: &[ReadyGradient],
    link: AllReduceLink,
    found: &mut PassResults,
) -> Result<()> {
    let choice = best_choice(start, gradients, link)?;
    let change = fusion::pytorch_arguments(choice.limits);
    let of_pytorch = ChangeProposal::new(NAME, change, edit(&choice.fusion), LearningEffect::Same, start)?;
    let free = best_free(start, gradients, link, choice)?;
    let words = free_words(gradients, link, &free, &|buckets| start.predict(&edit(buckets)))?;
    let proposal = ChangeProposal::new(NAME, words, edit(&free), LearningEffect::Same, start)?;
    found.proposals.extend(as_list(gradients, &free, &proposal, &of_pytorch));
    found.proposals.push(of_pytorch);
    if proposal.gain()[0] < 0.0 {
        found.nothing.push("Horovod, BytePS: no other buckets than those that were recorded are shorter".to_owned());
        return Ok(());
    }
    found.others.push(proposal);
    write(gradients, &free, found);
    Ok(())
}

/// The best buckets as a list of caps, if they are better than those of one cap by [`UNUSUAL`].
fn as_list(
    gradients: &[ReadyGradient],
    free: &BucketFusion,
    proposal: &ChangeProposal,
    of_one_cap: &ChangeProposal,
) -> Option<ChangeProposal> {
    let is_better = proposal.outcome.after.time < (1.0 - UNUSUAL) * of_one_cap.outcome.after.time;
    let is_one_pass = gradients.iter().all(|gradient| gradient.pass == gradients[0].pass);
    (is_better && is_one_pass && free.ends.len() <= LISTED).then(|| {
        let change = format!("{} (PyTorch 2.15 or later)", fusion::pytorch_list(gradients, free));
        ChangeProposal { change, is_alternative: true, ..proposal.clone() }
    })
}

/// Writes buckets as other programs read them.
pub(super) fn write(gradients: &[ReadyGradient], buckets: &BucketFusion, found: &mut PassResults) {
    found.files.push((MAPPING, format!("{}\n", fusion::group_mapping(buckets))));
    found.files.push(("spec/tensor_partition_spec.txt", fusion::partitions(gradients, buckets)));
    found.strategy.extend(buckets.buckets().flat_map(|places| {
        let names: Vec<String> = places.map(|place| place.to_string()).collect();
        merges("++", &names.iter().map(String::as_str).collect::<Vec<_>>())
    }));
}

/// Of the sizes that PyTorch can be given, those whose replay is the shortest.
fn best_choice(start: &RecordedStart, gradients: &[ReadyGradient], link: AllReduceLink) -> Result<BucketChoice> {
    let (default, mut choices): (Vec<BucketChoice>, Vec<BucketChoice>) =
        fusion::choices(gradients, link).into_iter().partition(|choice| choice.limits == BucketLimits::DEFAULT);
    choices.truncate(REPLAYED);
    let timed = choices.into_iter().chain(default).map(|choice| {
        let time = start.time(&edit(&choice.fusion))? as f64;
        let is_plain = choice.limits.first == choice.limits.others;
        Ok((if is_plain { time } else { time * (1.0 + UNUSUAL) }, choice))
    });
    let timed = timed.collect::<Result<Vec<_>>>()?;
    let best = timed.into_iter().min_by(|(one, _), (other, _)| one.total_cmp(other));
    // The default is among the choices.
    Ok(best.map_or_else(|| fusion::best_cap(gradients, link), |(_, best)| best))
}

/// Of all buckets of neighbours: the optimum by the formula, or what PyTorch can be given, was recorded with, or Horovod makes by its threshold,
/// where replay finds these shorter.
fn best_free(
    start: &RecordedStart,
    gradients: &[ReadyGradient],
    link: AllReduceLink,
    choice: BucketChoice,
) -> Result<BucketFusion> {
    // All groups of ranks have the same.
    let recorded = buckets_of_groups(&start.recorded.typical)?.into_iter().next().unwrap_or_default();
    let recorded = recorded.into_iter().map(|(_, places)| places.end).collect();
    let optimum = fusion::optimum(gradients, link);
    let threshold = fusion::of_threshold(gradients, link, fusion::horovod_threshold(gradients, &optimum));
    let all = [optimum, choice.fusion, BucketFusion::of_ends(gradients, link, recorded), threshold];
    let timed = all.into_iter().map(|fusion| Ok((start.time(&edit(&fusion))?, fusion)));
    let timed = timed.collect::<Result<Vec<_>>>()?;
    let best = timed.into_iter().min_by_key(|(time, _)| *time);
    Ok(best.map_or_else(|| fusion::optimum(gradients, link), |(_, best)| best))
}

/// Buckets for other programs, in words; the setting of Horovod makes them only if it fills each up to it, and `predict` says what a step with its own
/// takes.
pub(super) fn free_words(
    gradients: &[ReadyGradient],
    link: AllReduceLink,
    free: &BucketFusion,
    predict: &dyn Fn(&BucketFusion) -> Result<WhatIfOutcome>,
) -> Result<String> {
    let threshold = fusion::horovod_threshold(gradients, free);
    let own = fusion::of_threshold(gradients, link, threshold);
    let mut words = format!("HOROVOD_FUSION_THRESHOLD={threshold}");
    if own.ends != free.ends {
        let step = Milliseconds(predict(&own)?.after.time / 1e6);
        words = format!("{words} alone makes {}: {step}", count_text(own.ends.len() as u64, "bucket"));
    }
    let buckets = count_text(free.ends.len() as u64, "bucket");
    Ok(format!("Horovod, BytePS: {buckets} of {MAPPING} ({words})"))
}

const PREFETCH: &str = "FSDP: set_modules_to_forward_prefetch([the next module]) of every fully_shard";
/// What else gathers of processors need: PyTorch's own prefetch waits for them (`torch/distributed/fsdp/_fully_shard`).
const WITHOUT_WAITING: &str = ", with _set_unshard_async_op(True) of the model";
/// The range of a gather ahead of its module.
const PREFETCHES: &str = "FSDP::forward_prefetch";

/// FSDP: shards that are gathered earlier, or once.
fn add_sharded(start: &RecordedStart, found: &mut PassResults) {
    let graph = &start.recorded.typical.graph;
    let on_gpus = has_kernels(&start.recorded.typical);
    let prefetch = if on_gpus { PREFETCH.to_owned() } else { format!("{PREFETCH}{WITHOUT_WAITING}") };
    let keep = "FSDP: fully_shard(..., reshard_after_forward=False)";
    let mut propose = |change: &str, edit| {
        found.propose(ChangeProposal::new(NAME, change, edit, LearningEffect::Same, start), change)
    };
    let is_ahead = graph.calls().names().any(|name| name.starts_with(PREFETCHES));
    if !is_ahead {
        propose(&prefetch, Arc::new(Prefetch));
    }
    propose(keep, Arc::new(KeepGathered));
    let waits =
        if on_gpus { "" } else { "; on processors it waits for what it gathers, unless _set_unshard_async_op(True)" };
    found.nothing.extend(is_ahead.then(|| format!("{PREFETCH}: the job does{waits}")));
    found.nothing.push("no buckets are proposed: FSDP reduces what it shards together".to_owned());
}

/// What PyTorch names the search for parameters that took no part, which `static_graph` makes unnecessary.
const SEARCH: &str = "*search_unused_parameters*";

fn static_graph(start: &RecordedStart, found: &mut PassResults) -> Result<()> {
    let edit: Arc<dyn StepChange> = Arc::from(parse(&format!("remove operations '{SEARCH}'"))?);
    match ChangeProposal::new(
        NAME,
        "DistributedDataParallel(..., static_graph=True)",
        edit,
        LearningEffect::Same,
        start,
    ) {
        Ok(proposal) => found.proposals.push(proposal),
        Err(_) => found.nothing.push(
            "static_graph=True brings nothing: no search for unused parameters was recorded (find_unused_parameters)"
                .to_owned(),
        ),
    }
    Ok(())
}
