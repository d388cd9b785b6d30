//! Predictions of a fingerprint for a detector's graphs: those for whole images, and the one for proposals.

use super::blend::BlendTerms;
use super::{BatchLoad, area};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_cost::fingerprint::{DeviceFingerprints, check_understood};
use perf4sight_network::Network;
use perf4sight_onnx as onnx;
use perf4sight_step::detection::{DetectionTask, DetectorGraph, DetectorGraphs};
use perf4sight_step::workload::{Loss, Stage, Step, Trainable, ZeroGrad};
use perf4sight_verb::Context;
use std::path::Path;

/// Names in fingerprints of the times that belong to no graph: the detector's own losses are in its rest.
const NOT_OF_GRAPHS: [&str; 2] = ["optimizer", "loss"];

/// Predictions of a fingerprint for a detector's graphs.
pub(super) struct DetectorDevice {
    fingerprints: DeviceFingerprints,
    step: Step,
    dense: Vec<([u64; 2], Network)>,
    trunks: Vec<([u64; 2], Network)>,
    box_head: Option<Network>,
}

impl DetectorDevice {
    pub fn open(folder: &Path, task: &DetectionTask, graphs: &DetectorGraphs, context: &mut Context) -> Result<Self> {
        let fingerprints = DeviceFingerprints::load(folder, Stage::Training)?;
        let step = Step {
            optimizer: task.optimizer,
            // The gradients of the previous step are still allocated until the loss is known.
            zero_grad: ZeroGrad::Keep,
            precision: task.precision,
            trainable: Trainable::parse(&graphs.trainable)?,
            loss: Loss::MeanSquaredError,
            ..Step::published(Stage::Training)
        };
        let (fingerprints, silent) = fingerprints.answering(step)?;
        let refusal = silent.map(|(_, refusal)| refusal);
        if fingerprints.latency.is_none() {
            return Err(refusal.unwrap_or_else(|| Error::input("there is no fingerprint of latency here").file(folder)));
        }
        refusal.into_iter().for_each(|refusal| context.warn(refusal.to_string()));
        let dense = graphs
            .graphs
            .iter()
            .map(|graph| Ok((graph.shape, read(&task.network, &graph.onnx)?)))
            .collect::<Result<_>>()?;
        let trunk = |graph: &DetectorGraph| {
            Some(read(&task.network, graph.trunk.as_deref()?).map(|network| (graph.shape, network)))
        };
        let trunks = graphs.graphs.iter().filter_map(trunk).collect::<Result<_>>()?;
        let box_head = graphs.box_head.as_deref().map(|onnx| read(&task.network, onnx)).transpose()?;
        Ok(DetectorDevice { fingerprints, step, dense, trunks, box_head })
    }

    fn graph(&self, shape: [u64; 2]) -> Result<&Network> {
        let found = self.dense.iter().find(|(known, _)| *known == shape);
        found
            .map(|(_, network)| network)
            .ok_or_else(|| Error::device(format!("the worker gave no graph for batches of {shape:?}")))
    }

    /// Terms of a step's time: that of one shape, by as many times as the load has more pixels.
    pub fn seconds(&self, shape: [u64; 2], load: BatchLoad) -> Result<BlendTerms> {
        let dense = self.time(self.graph(shape)?, self.step, load.images)? * load.pixels / (load.images * area(shape));
        let boxes = match &self.box_head {
            Some(head) if load.proposals > 0.0 => self.time(head, self.step_of_heads(), load.proposals)?,
            _ => 0.0,
        };
        Ok(load.terms([dense, boxes]))
    }

    /// Seconds of the backbone alone; none where such batches were not measured.
    pub fn trunk(&self, shape: [u64; 2], load: BatchLoad) -> Result<Option<f64>> {
        let Some((_, network)) = self.trunks.iter().find(|(known, _)| *known == shape) else { return Ok(None) };
        let seconds = self.time(network, self.step, load.images)?;
        Ok(Some(seconds * load.pixels / (load.images * area(shape))))
    }

    /// Seconds of a network's forward and backward.
    fn time(&self, network: &Network, step: Step, batch: f64) -> Result<f64> {
        let Some(latency) = &self.fingerprints.latency else { return Ok(0.0) };
        let (about, batch) = (latency.about_step(network, step, None)?, batch.round() as u64);
        let whole = about.predict(batch).value.value();
        let shares = about.shares(batch).map_or(Vec::new(), |shares| shares.classes);
        let others = shares.iter().filter(|share| NOT_OF_GRAPHS.contains(&share.name.as_str()));
        Ok((whole - others.map(|share| share.latency.0).sum::<f64>()) / 1e3)
    }

    /// Terms of a step's memory; none without a fingerprint of it.
    pub fn bytes(&self, shape: [u64; 2], load: BatchLoad) -> Result<Option<BlendTerms>> {
        let Some(memory) = &self.fingerprints.memory else { return Ok(None) };
        let about = memory.about_step(self.graph(shape)?, self.step, None)?;
        let dense = about.predict(load.images.round() as u64).value.value();
        // The memory of a process apart from its tensors counts once, so only the tensors count here.
        let boxes = match &self.box_head {
            Some(head) if load.proposals > 0.0 => {
                let about = memory.about_step(head, self.step_of_heads(), None)?;
                about.tensors(load.proposals.round() as u64).map_or(0.0, |tensors| tensors.value())
            }
            _ => 0.0,
        };
        Ok(Some(load.terms([dense, boxes].map(|mib| Bytes::from_mib(mib).0 as f64))))
    }

    /// All weights of the head for proposals are trained.
    fn step_of_heads(&self) -> Step {
        Step { trainable: Trainable::All, ..self.step }
    }

    /// Whose fingerprint it is.
    pub fn description(&self) -> String {
        self.fingerprints.subject().device.clone()
    }
}

fn read(name: &str, onnx: &str) -> Result<Network> {
    let bytes = BASE64_STANDARD
        .decode(onnx)
        .map_err(|cause| Error::device(format!("the worker's graph cannot be read: {cause}")))?;
    let network = onnx::from_bytes(name, &bytes)?.network;
    check_understood(&network)?;
    Ok(network)
}
