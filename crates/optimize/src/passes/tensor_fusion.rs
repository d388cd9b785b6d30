//! Which gradients to reduce together, and when: buckets, and what else decides when communication begins.

use super::{Found, Learns, Pass, Proposal, Wanted};
use crate::changes::{Buckets, KeepGathered, Prefetch, gathers};
use crate::fusion::{self, Fusion, Gradient, Link};
use crate::start::Start;
use perf4sight_base::error::Result;
use perf4sight_base::units::counted;
use perf4sight_replay::buckets::{Limits, buckets_of, gradient_sizes};
use perf4sight_replay::collectives::Operation;
use perf4sight_replay::what_if::{Change, parse};
use serde_json::json;
use std::rc::Rc;

/// Buckets that are replayed, the best by the formula first.
const REPLAYED: usize = 48;
/// Another first bucket than the others takes more than an argument, and has to be better by this share.
const UNUSUAL: f64 = 0.01;
/// Bytes from which on the latency of an all-reduce does not matter.
const MANY: u64 = 1 << 40;

/// The pass.
#[derive(Debug)]
pub(super) struct TensorFusion;

const NAME: &str = "tensor_fusion";

impl Pass for TensorFusion {
    fn name(&self) -> &'static str {
        NAME
    }

    fn run(&self, start: &Start, _: &Wanted, _: &dyn Fn() -> bool) -> Result<Found> {
        let mut found = Found::default();
        if gathers(&start.recorded.typical).is_ok() {
            sharded(start, &mut found);
            return Ok(found);
        }
        match gradients(start) {
            Ok((gradients, link)) => buckets(start, &gradients, link, &mut found)?,
            Err(error) => found.nothing.push(format!("no buckets are proposed: {error}")),
        }
        static_graph(start, &mut found)?;
        Ok(found)
    }
}

/// The gradients with when they are ready on all ranks, and the link that reduces them.
fn gradients(start: &Start) -> Result<(Vec<Gradient>, Link)> {
    let step = &start.recorded.typical;
    let buckets = buckets_of(step)?;
    let ready = |place: usize| {
        let ends = step.ranks.iter().map(|rank| start.schedule.end(&step.graph, rank.gradients[place].ready));
        ends.max().unwrap_or(0) as f64 / 1e6
    };
    let mut latest: f64 = 0.0;
    let gradients = gradient_sizes(step)?.into_iter().enumerate().map(|(place, bytes)| {
        latest = latest.max(ready(place));
        Gradient { ready_ms: latest, bytes }
    });
    let gradients: Vec<Gradient> = gradients.collect();
    let group = step.transfers[buckets[0].0].group;
    let time = |bytes| {
        let time = start.communication.time(group, Operation::AllReduce, step.groups[group].size, bytes);
        time.unwrap_or(0.0) / 1e6
    };
    let link = Link { alpha_ms: time(0), ms_per_byte: (time(MANY) - time(0)) / MANY as f64 };
    fusion::check(&gradients, link)?;
    Ok((gradients, link))
}

fn edit(fusion: &Fusion) -> Rc<dyn Change> {
    Rc::new(Buckets(fusion.buckets().collect()))
}

/// The best `bucket_cap_mb` by replay, and the exact optimum for frameworks that read buckets.
fn buckets(start: &Start, gradients: &[Gradient], link: Link, found: &mut Found) -> Result<()> {
    let mut choices = fusion::choices(gradients, link);
    let default = choices.iter().position(|choice| choice.limits == Limits::DEFAULT);
    let default = default.map(|place| choices.remove(place));
    choices.truncate(REPLAYED);
    choices.extend(default);
    let timed = choices.into_iter().map(|choice| {
        let time = start.time(&edit(&choice.fusion))? as f64;
        let is_plain = choice.limits.first == choice.limits.others;
        Ok((if is_plain { time } else { time * (1.0 + UNUSUAL) }, choice))
    });
    let timed = timed.collect::<Result<Vec<_>>>()?;
    if let Some((_, best)) = timed.into_iter().min_by(|(one, _), (other, _)| one.total_cmp(other)) {
        let change = fusion::pytorch_arguments(best.limits);
        found.proposals.push(Proposal::of(NAME, change, edit(&best.fusion), Learns::Same, start)?);
    }
    let exact = fusion::optimum(gradients, link);
    let proposal = Proposal::of(NAME, exact_words(gradients, &exact), edit(&exact), Learns::Same, start)?;
    found.others.push(proposal);
    found.files.push(("spec/tensor_fusion_grp_mapping.json", format!("{}\n", fusion::group_mapping(&exact))));
    found.files.push(("spec/tensor_partition_spec.txt", fusion::partitions(gradients, &exact)));
    found.strategy.extend(merges(&exact));
    Ok(())
}

fn exact_words(gradients: &[Gradient], exact: &Fusion) -> String {
    format!(
        "Horovod, BytePS: {} of spec/tensor_fusion_grp_mapping.json (HOROVOD_FUSION_THRESHOLD={})",
        counted(exact.ends.len() as u64, "bucket"),
        fusion::horovod_threshold(gradients, exact)
    )
}

/// The buckets as published: each gradient joins those before it (`++`).
fn merges(exact: &Fusion) -> Vec<[serde_json::Value; 3]> {
    let joined = |places: std::ops::Range<usize>| places.map(|place| place.to_string()).collect::<Vec<_>>().join("+");
    let of_bucket = |places: std::ops::Range<usize>| {
        (places.start + 1..places.end)
            .map(move |next| [json!("++"), json!(joined(places.start..next)), json!(next.to_string())])
    };
    exact.buckets().flat_map(of_bucket).collect()
}

/// FSDP: shards that are gathered earlier, or once.
fn sharded(start: &Start, found: &mut Found) {
    let edits: [(&str, Rc<dyn Change>); 2] = [
        ("FSDP: set_modules_to_forward_prefetch([the next module]) of every fully_shard", Rc::new(Prefetch)),
        ("FSDP: fully_shard(..., reshard_after_forward=False)", Rc::new(KeepGathered)),
    ];
    edits
        .into_iter()
        .for_each(|(change, edit)| found.propose(Proposal::of(NAME, change, edit, Learns::Same, start), change));
    found.nothing.push("no buckets are proposed: FSDP reduces what it shards together".to_owned());
}

/// What PyTorch names the search for parameters that took no part, which `static_graph` makes unnecessary.
const SEARCH: &str = "*search_unused_parameters*";

fn static_graph(start: &Start, found: &mut Found) -> Result<()> {
    let edit: Rc<dyn Change> = Rc::from(parse(&format!("remove operations '{SEARCH}'"))?);
    match Proposal::of(NAME, "DistributedDataParallel(..., static_graph=True)", edit, Learns::Same, start) {
        Ok(proposal) => found.proposals.push(proposal),
        Err(_) => found.nothing.push(
            "static_graph=True brings nothing: no search for unused parameters was recorded (find_unused_parameters)"
                .to_owned(),
        ),
    }
    Ok(())
}
