//! Reads plans as Sailor writes them: a list of plans, or an object that holds one.

use super::plan::{MeasuredStagedPlan, PipelineStage, StageReplica, StagedPlan};
use perf4sight_base::error::{Error, Result, nearest};
use perf4sight_base::input_file;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::path::Path;

/// A plan as the file holds it; what else is there is ignored, unless it looks like one of these.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct PlanInFile {
    /// What the plan is called.
    file: Option<Value>,
    pipeline_list: Vec<PlanPipeline>,
    mbs: u64,
    gbs: u64,
    /// Seconds of a step.
    real: Option<f64>,
    /// Bytes.
    max_mem: Option<f64>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// A replica: its nodes (kind of GPU, number, zone) and its degree of tensor parallelism.
type ReplicaNodes = (Vec<(String, u64, String)>, u64);

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct PlanPipeline {
    layers_per_stage: Vec<Vec<u64>>,
    /// By stage.
    tmp_per_stage: Vec<Vec<ReplicaNodes>>,
}

/// Reads plans.
///
/// # Errors
/// A file that cannot be read or holds no plans; plans that contradict themselves.
pub fn read(file: &Path) -> Result<Vec<MeasuredStagedPlan>> {
    let text = input_file::text(file, "read the plans")?;
    parse(&text).map_err(|error| error.file(file))
}

fn parse(text: &str) -> Result<Vec<MeasuredStagedPlan>> {
    let no_plans = |cause: serde_json::Error| {
        Error::input(format!("these are no plans: {cause}"))
            .expected("JSON with a list of plans, each with pipeline_list, mbs and gbs")
    };
    // Each plan is read from its text: a value of all of them would keep the last of two numbers of the same name.
    let list = if text.trim_start().starts_with('{') {
        // One list, whatever it is called.
        let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).map_err(no_plans)?;
        fields.into_values().find(|value| value.get().starts_with('[')).ok_or_else(|| {
            Error::input("these are no plans: no field is a list")
                .expected("a list of plans, or an object that holds one")
        })?
    } else {
        serde_json::from_str(text).map_err(no_plans)?
    };
    let written: Vec<Box<RawValue>> = serde_json::from_str(list.get()).map_err(no_plans)?;
    if written.is_empty() {
        return Err(Error::input("there are no plans").expected("at least one plan"));
    }
    let plan = |(place, written): (usize, Box<RawValue>)| {
        let place = format!("plan {}", place + 1);
        let plan: PlanInFile = serde_json::from_str(written.get()).map_err(|cause| {
            Error::input(format!("{place}: this is no plan: {cause}")).expected("pipeline_list, mbs and gbs, each once")
        })?;
        let name = plan.file.as_ref().and_then(Value::as_str).map_or(place, str::to_owned);
        plan.check(&name)
    };
    written.into_iter().enumerate().map(plan).collect()
}

impl PlanInFile {
    fn check(self, name: &str) -> Result<MeasuredStagedPlan> {
        if let Some((other, meant)) = self.misspelled() {
            let problem = format!("{name}: there is no {meant}, but \"{other}\"");
            return Err(Error::input(problem)
                .expected(format!("{meant}, or nothing like it"))
                .help(format!("is \"{meant}\" meant? Any other name that is less like it is ignored")));
        }
        self.checked(name).map_err(|(problem, expected)| Error::input(format!("{name}: {problem}")).expected(expected))
    }

    /// A name that looks like that of a measurement which is missing.
    fn misspelled(&self) -> Option<(&str, &'static str)> {
        let missing = [("real", self.real), ("max_mem", self.max_mem)].into_iter().filter(|(_, value)| value.is_none());
        let mut others = self.others.keys().map(String::as_str);
        let missing: Vec<&'static str> = missing.map(|(name, _)| name).collect();
        others.find_map(|other| Some((other, nearest(other, missing.iter().copied())?)))
    }

    /// # Errors
    /// What contradicts itself, and what is expected instead.
    fn checked(self, name: &str) -> std::result::Result<MeasuredStagedPlan, (String, &'static str)> {
        let wrong = |problem: &str, expected| Err((problem.to_owned(), expected));
        let [pipeline] = <[PlanPipeline; 1]>::try_from(self.pipeline_list)
            .map_err(|all| (format!("it has {} pipelines", all.len()), "one pipeline"))?;
        if pipeline.layers_per_stage.len() != pipeline.tmp_per_stage.len() || pipeline.layers_per_stage.is_empty() {
            return wrong("its stages differ in number", "as many lists of layers as of replicas");
        }
        let nodes = pipeline.tmp_per_stage.iter().flatten();
        if let Some((_, degree)) = nodes.into_iter().find(|(nodes, degree)| gpus(nodes) != Some(*degree)) {
            let problem =
                format!("a replica has another number of GPUs than its degree of tensor parallelism, {degree}");
            return Err((problem, "nodes with as many GPUs together as the degree"));
        }
        let stages: Vec<PipelineStage> =
            pipeline.layers_per_stage.into_iter().zip(pipeline.tmp_per_stage).map(stage).collect();
        let plan = StagedPlan { name: name.to_owned(), stages, micro_batch: self.mbs, global_batch: self.gbs };
        let replicas = plan.replicas();
        if replicas == 0
            || plan.stages.iter().any(|stage| stage.replicas.len() as u64 != replicas || stage.layers.is_empty())
        {
            return wrong("its stages differ in their replicas, or are empty", "as many replicas in each stage");
        }
        if !has_each_layer_once(&plan) {
            return wrong("a layer is in no stage or in several", "each layer from 0 to the last in one stage");
        }
        if plan
            .stages
            .iter()
            .flat_map(|stage| &stage.replicas)
            .any(|replica| replica.tensor_parallel == 0 || replica.gpu.is_empty())
        {
            return wrong("a replica has no GPUs", "the kind of its GPUs, and a degree of tensor parallelism from 1");
        }
        if self.mbs == 0 || self.gbs == 0 {
            return wrong("mbs or gbs is 0", "whole numbers from 1");
        }
        if !self.gbs.is_multiple_of(self.mbs.saturating_mul(replicas)) {
            return wrong("gbs is not a multiple of mbs x replicas", "whole micro-batches in each replica");
        }
        if [self.real, self.max_mem].into_iter().flatten().any(|value| !(value.is_finite() && value > 0.0)) {
            return wrong("what was measured is not a positive number", "real in seconds, max_mem in bytes");
        }
        Ok(MeasuredStagedPlan { plan, step_s: self.real, peak_bytes: self.max_mem })
    }
}

/// The GPUs of a replica's nodes.
fn gpus(nodes: &[(String, u64, String)]) -> Option<u64> {
    nodes.iter().try_fold(0u64, |sum, (_, gpus, _)| sum.checked_add(*gpus))
}

fn has_each_layer_once(plan: &StagedPlan) -> bool {
    let mut layers: Vec<u64> = plan.stages.iter().flat_map(|stage| &stage.layers).copied().collect();
    layers.sort_unstable();
    layers.into_iter().eq(0..=plan.last_layer())
}

fn stage((layers, replicas): (Vec<u64>, Vec<ReplicaNodes>)) -> PipelineStage {
    let replica = |(nodes, tensor_parallel): ReplicaNodes| StageReplica {
        gpu: nodes.into_iter().next().map_or(String::new(), |(gpu, _, _)| gpu),
        tensor_parallel,
    };
    PipelineStage { layers, replicas: replicas.into_iter().map(replica).collect() }
}
