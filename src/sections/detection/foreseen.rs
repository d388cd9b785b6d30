//! Settings that nobody measured: what is known of the device, of the detector's graphs and of a few measured steps, put together.
//!
//! A detector's step is its graphs, which a fingerprint knows (the backbone with the heads that read whole images; what runs on each proposal), and
//! the rest: sizing images, anchors, matching, suppression, pooling. The graphs' time and memory are taken times factors near one, the rest
//! as so much a step, an image, a proposal and a pixel; factors and rest are fitted to what was measured ([`Blend`]), the backbone's own time
//! among it. Changing the weights takes what it took.

mod blend;
mod tables;

use super::store::{self, Circumstances, Outcome, Row};
use super::trainer::Trainer;
use super::{Detection, Setting};
use crate::error::{Error, Result};
use crate::fingerprint::{Fingerprints, check_understood};
use crate::frame::{Context, Summary};
use crate::machine::Watch;
use crate::network::{Network, onnx};
use crate::stats::mean;
use crate::units::Bytes;
use crate::workload::{Loss, Stage, Step, Trainable, ZeroGrad};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use blend::{Blend, Observed, Terms};
use perf4sight_step::detection::{Asked, Batch, DetectionTask, Drawn, Graph, Graphs, GraphsTask, Measured, Parts};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// What measured steps are off by chance, and the graphs' times between batch sizes: shares.
const TIME_NOISE: f64 = 0.05;
/// The same of memory, which hardly varies.
const MEMORY_NOISE: f64 = 0.03;
/// How unsure factors and rest are beforehand. A fingerprint of a quiet hour may be asked in a busy one, and a profile of convolutions knows little
/// of what runs on proposals.
const TIME_BELIEFS: Terms = [0.5, 1.0, 0.1, 0.1, 0.1, 0.1];
/// Memory is simulated; that of both graphs does not peak at the same moment, and images lie in it in several copies.
const MEMORY_BELIEFS: Terms = [0.03, 0.03, 0.1, 0.1, 0.0, 0.0];
/// What fingerprints call the time of a step that belongs to no graph: the detector's own losses are in its rest.
const NOT_OF_GRAPHS: [&str; 2] = ["optimizer", "loss"];

/// What is told.
struct Answer {
    foretold: Vec<Foretold>,
    /// Settings that were measured, on which it rests.
    rows: u64,
    /// Images of an epoch.
    images: u64,
    /// Whose fingerprint it is.
    device: String,
}

/// A setting that was asked about.
struct Foretold {
    setting: Setting,
    /// Seconds of a step without waiting for data, and its 90 % interval.
    step: Estimate,
    /// Seconds of waiting for data where that can be told.
    waiting: Option<f64>,
    /// Bytes above what the process holds before the network, of the largest batch.
    memory: Option<Estimate>,
    /// What was measured of it, which its own prediction knows nothing of.
    measured: Option<Box<Measured>>,
}

/// A value with its 90 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Estimate {
    value: f64,
    low: f64,
    high: f64,
}

/// A batch, as far as a step's cost goes by it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Load {
    images: f64,
    proposals: f64,
    /// Pixels of all images, filled up to the largest.
    pixels: f64,
}

/// Predicts every setting that is asked about.
///
/// # Errors
/// Nothing measured to go by; a fingerprint that cannot be used; a detector whose graphs cannot be read.
pub(super) fn run(asked: &Detection, fingerprint: &Path, context: &mut Context) -> Result<Summary> {
    let trainer = Trainer::open(asked)?;
    let rows = rows(asked, &trainer)?;
    let questions: Vec<Asked> =
        asked.settings.iter().map(|setting| Asked { batch: setting.batch, size: asked.task.size }).collect();
    let task = GraphsTask {
        network: asked.task.network.clone(),
        weights: asked.task.weights,
        data: asked.task.data.clone(),
        boxes: asked.task.boxes,
        shapes: rows.iter().flat_map(|(_, measured)| [typical(measured), measured.largest]).flatten().collect(),
        asked: questions,
    };
    let progress = context.console.progress(1, "reading the detector's graphs");
    let cancel = Arc::clone(&context.cancel);
    let watch = Watch { waiting: &|why| context.console.note(why), ..Watch::quiet(&cancel) };
    let Some(graphs) = trainer.graphs(asked, task, &watch)? else {
        return Ok(Summary { headline: "interrupted".to_owned(), ..Summary::default() });
    };
    drop(progress);
    let device = Device::open(fingerprint, &asked.task, &graphs, context)?;
    let foretold = asked
        .settings
        .iter()
        .zip(&graphs.asked)
        .map(|(&setting, drawn)| foretell(setting, drawn, asked, &rows, &device));
    let foretold = foretold.collect::<Result<Vec<Foretold>>>()?;
    let answer = Answer { foretold, rows: rows.len() as u64, images: graphs.images, device: device.told() };
    Ok(tables::summary(asked, &answer, context))
}

/// What must be the same of what is measured and what is asked: all but what predictions are for.
fn comparable(circumstances: &Circumstances, task: &DetectionTask) -> (Circumstances, DetectionTask) {
    let free = DetectionTask {
        batch: 0,
        num_workers: 0,
        prefetch_factor: 0,
        size: None,
        steps: 0,
        warm_up: 0,
        learning_rate: 0.0,
        trace: None,
        ..task.clone()
    };
    (Circumstances { mem_limit: None, seed: 0, ..circumstances.clone() }, free)
}

/// "threads 1, not 2": what was measured, and what is asked.
fn differences(
    (measured, its): &(Circumstances, DetectionTask),
    (asked, task): &(Circumstances, DetectionTask),
) -> String {
    let told = |circumstances: &Circumstances, task: &DetectionTask| {
        let facts = [serde_json::to_value(circumstances), serde_json::to_value(task)];
        let members = facts.into_iter().flatten().filter_map(|value| value.as_object().cloned());
        let each = members.flatten().flat_map(|(name, value)| match value {
            Value::Object(members) => members.into_iter().collect(),
            value => vec![(name, value)],
        });
        each.collect::<BTreeMap<String, Value>>()
    };
    let (there, here) = (told(measured, its), told(asked, task));
    let other = there.iter().filter(|(name, value)| here.get(*name) != Some(*value));
    let words = other.map(|(name, value)| format!("{name} {value}, not {}", here.get(name).unwrap_or(&Value::Null)));
    words.collect::<Vec<String>>().join("; ")
}

/// What was measured of this detector in these circumstances, at whatever batch and size of images.
fn rows(asked: &Detection, trainer: &Trainer) -> Result<Vec<(DetectionTask, Measured)>> {
    let wanted = comparable(&asked.circumstances(trainer), &asked.task);
    let kept = store::read(&asked.out)?;
    let other = kept.iter().map(|row| comparable(&row.circumstances, &row.task)).find(|row| *row != wanted);
    let alike = |row: &Row| comparable(&row.circumstances, &row.task) == wanted;
    let measured = kept.into_iter().filter(alike).filter_map(|row| match row.outcome {
        Outcome::Measured(measured) if !measured.batches.is_empty() => Some((row.task, *measured)),
        Outcome::Measured(_) | Outcome::OutOfMemory(_) => None,
    });
    let rows: Vec<_> = measured.collect();
    let otherwise = other
        .map_or(String::new(), |other| format!(": what lies here was measured with {}", differences(&other, &wanted)));
    match rows.is_empty() {
        true => Err(Error::input(format!("nothing was measured here of this detector as it is asked now{otherwise}"))
            .file(&asked.out)
            .expected("a few measured steps, such as those of batch sizes 1 and 2")
            .help("run the same command without predict, with small batches (batch_size)")),
        false => Ok(rows),
    }
}

/// Predicts a setting from all rows but its own.
fn foretell(
    setting: Setting,
    drawn: &Drawn,
    asked: &Detection,
    rows: &[(DetectionTask, Measured)],
    device: &Device,
) -> Result<Foretold> {
    let own = |task: &DetectionTask| task.batch == setting.batch && task.size == asked.task.size;
    let others: Vec<&(DetectionTask, Measured)> = rows.iter().filter(|(task, _)| !own(task)).collect();
    if others.is_empty() {
        return Err(Error::input(format!("only batch {} itself was measured at this size of images", setting.batch))
            .file(&asked.out)
            .help("measure another batch size or size of images too"));
    }
    let images = setting.batch as f64;
    let load = Load { images, proposals: images * proposals(&others), pixels: images * drawn.area };
    let optimizer = mean(&others.iter().map(|(_, measured)| optimizer(measured)).collect::<Vec<_>>());
    let step = time(&others, device)?.at(&device.seconds(drawn.typical, load)?).and(optimizer);
    let largest = Load { pixels: images * area(drawn.largest), ..load };
    let memory = match (memory(&others, device)?, device.bytes(drawn.largest, largest)?) {
        (Some(blend), Some(terms)) => Some(blend.at(&terms)),
        _ => None,
    };
    Ok(Foretold {
        setting,
        step,
        waiting: waiting(setting, &others),
        memory,
        measured: rows
            .iter()
            .find(|(task, _)| own(task) && task.num_workers == setting.num_workers)
            .map(|(_, measured)| Box::new(measured.clone())),
    })
}

/// What steps without changes of weights take, fitted to what they took.
fn time(rows: &[&(DetectionTask, Measured)], device: &Device) -> Result<Blend> {
    let mut observed = Vec::new();
    for (task, measured) in rows {
        let load = Load::of(task, measured);
        let Some(shape) = typical(measured) else { continue };
        observed.push(Observed { terms: device.seconds(shape, load)?, measured: busy(measured) - optimizer(measured) });
        if let (Some(graph), Some(took)) = (device.trunk(shape, load)?, trunk(measured)) {
            observed.push(Observed { terms: [graph, 0.0, 0.0, 0.0, 0.0, 0.0], measured: took });
        }
    }
    let before = Blend::before(TIME_BELIEFS, &observed[0], TIME_NOISE);
    Ok(observed.iter().fold(before, Blend::with))
}

/// What memory they need for the largest batch; none without a fingerprint of memory.
fn memory(rows: &[&(DetectionTask, Measured)], device: &Device) -> Result<Option<Blend>> {
    let mut observed = Vec::new();
    for (task, measured) in rows {
        let Some(shape) = measured.largest else { continue };
        let load = Load { pixels: task.batch as f64 * area(shape), ..Load::of(task, measured) };
        if let Some(terms) = device.bytes(shape, load)? {
            observed.push(Observed { terms, measured: measured.memory.used as f64 });
        }
    }
    let Some(first) = observed.first() else { return Ok(None) };
    let before = Blend::before(MEMORY_BELIEFS, first, MEMORY_NOISE);
    Ok(Some(observed.iter().fold(before, Blend::with)))
}

impl Estimate {
    /// With something more that is known.
    fn and(self, more: f64) -> Self {
        Estimate { value: self.value + more, low: self.low + more, high: self.high + more }
    }
}

impl Load {
    /// Its terms behind those of the graphs.
    fn terms(self, graphs: [f64; 2]) -> Terms {
        [graphs[0], graphs[1], 1.0, self.images, self.proposals, self.pixels]
    }

    /// Of the steps that ran freely, on average.
    fn of(task: &DetectionTask, measured: &Measured) -> Self {
        let images = task.batch as f64;
        let free = free(measured);
        let proposals = mean(&free.iter().map(|batch| batch.proposals as f64).collect::<Vec<_>>());
        Load { images, proposals, pixels: images * mean_area(free) }
    }
}

/// The batches of all steps but the first.
fn free(measured: &Measured) -> &[Batch] {
    &measured.batches[measured.first.parts.len().min(measured.batches.len() - 1)..]
}

/// Height and width of the batch that is as large as they were on average, nearly.
fn typical(measured: &Measured) -> Option<[u64; 2]> {
    let free = free(measured);
    let mean = mean_area(free);
    let off = |batch: &&Batch| (area([batch.height, batch.width]) - mean).abs();
    free.iter().min_by(|one, other| off(one).total_cmp(&off(other))).map(|batch| [batch.height, batch.width])
}

fn area([height, width]: [u64; 2]) -> f64 {
    height as f64 * width as f64
}

fn mean_area(batches: &[Batch]) -> f64 {
    mean(&batches.iter().map(|batch| area([batch.height, batch.width])).collect::<Vec<_>>())
}

/// Seconds of a free step without waiting for data.
fn busy(measured: &Measured) -> f64 {
    let all = measured.plain.parts.iter().map(|parts: &Parts| parts.sum() - parts.wait).collect::<Vec<_>>();
    mean(&all)
}

/// Seconds of an exact step that change the weights.
fn optimizer(measured: &Measured) -> f64 {
    mean(&measured.exact.parts.iter().map(|parts| parts.optimizer).collect::<Vec<_>>())
}

/// Seconds that the backbone took of an exact step, forward and backward; none where nobody looked.
fn trunk(measured: &Measured) -> Option<f64> {
    let both = |parts: &Parts| Some(parts.trunk_forward? + parts.trunk_backward?);
    let all = measured.exact.parts.iter().map(both).collect::<Option<Vec<f64>>>()?;
    Some(mean(&all))
}

/// Proposals of an image, which are what the network samples for it, whatever its size.
fn proposals(rows: &[&(DetectionTask, Measured)]) -> f64 {
    let each: Vec<f64> = rows
        .iter()
        .map(|(task, measured)| {
            let load = Load::of(task, measured);
            load.proposals / load.images
        })
        .collect();
    mean(&each)
}

/// What waiting for data adds to a step where the process itself loads them: as much an image as it was.
fn waiting(setting: Setting, rows: &[&(DetectionTask, Measured)]) -> Option<f64> {
    let alone = rows.iter().filter(|(task, _)| task.num_workers == 0 && setting.num_workers == 0);
    let each: Vec<f64> = alone
        .map(|(task, measured)| {
            mean(&measured.plain.parts.iter().map(|parts| parts.wait).collect::<Vec<_>>()) / task.batch as f64
        })
        .collect();
    (!each.is_empty()).then(|| setting.batch as f64 * mean(&each))
}

/// What a fingerprint says of a detector's graphs.
struct Device {
    fingerprints: Fingerprints,
    step: Step,
    dense: Vec<([u64; 2], Network)>,
    trunks: Vec<([u64; 2], Network)>,
    box_head: Option<Network>,
}

impl Device {
    fn open(folder: &Path, task: &DetectionTask, graphs: &Graphs, context: &mut Context) -> Result<Self> {
        let fingerprints = Fingerprints::load(folder, Stage::Training)?;
        let step = Step {
            optimizer: task.optimizer,
            zero_grad: ZeroGrad::Free,
            precision: task.precision,
            trainable: Trainable::parse(&graphs.trainable)?,
            loss: Loss::MeanSquaredError,
            ..Step::published(Stage::Training)
        };
        let (fingerprints, refusal) = fingerprints.answering(step)?;
        if fingerprints.latency.is_none() {
            return Err(refusal.unwrap_or_else(|| Error::input("there is no fingerprint of latency here").file(folder)));
        }
        refusal.into_iter().for_each(|refusal| context.warn(refusal.to_string()));
        let dense = graphs
            .graphs
            .iter()
            .map(|graph| Ok((graph.shape, read(&task.network, &graph.onnx)?)))
            .collect::<Result<_>>()?;
        let trunk =
            |graph: &Graph| Some(read(&task.network, graph.trunk.as_deref()?).map(|network| (graph.shape, network)));
        let trunks = graphs.graphs.iter().filter_map(trunk).collect::<Result<_>>()?;
        let box_head = graphs.box_head.as_deref().map(|onnx| read(&task.network, onnx)).transpose()?;
        Ok(Device { fingerprints, step, dense, trunks, box_head })
    }

    /// The graph for the batches of a shape.
    fn graph(&self, shape: [u64; 2]) -> Result<&Network> {
        let found = self.dense.iter().find(|(known, _)| *known == shape);
        found
            .map(|(_, network)| network)
            .ok_or_else(|| Error::device(format!("the worker told no graph for batches of {shape:?}")))
    }

    /// Terms of a step's time: that of one shape, by as many times as the load has more pixels.
    fn seconds(&self, shape: [u64; 2], load: Load) -> Result<Terms> {
        let dense = self.time(self.graph(shape)?, self.step, load.images)? * load.pixels / (load.images * area(shape));
        let boxes = match &self.box_head {
            Some(head) if load.proposals > 0.0 => self.time(head, self.step_of_heads(), load.proposals)?,
            _ => 0.0,
        };
        Ok(load.terms([dense, boxes]))
    }

    /// Seconds of the backbone alone; none where such batches were not measured.
    fn trunk(&self, shape: [u64; 2], load: Load) -> Result<Option<f64>> {
        let Some((_, network)) = self.trunks.iter().find(|(known, _)| *known == shape) else { return Ok(None) };
        let seconds = self.time(network, self.step, load.images)?;
        Ok(Some(seconds * load.pixels / (load.images * area(shape))))
    }

    /// Seconds of a network's forward and backward.
    fn time(&self, network: &Network, step: Step, batch: f64) -> Result<f64> {
        let Some(latency) = &self.fingerprints.latency else { return Ok(0.0) };
        let (about, batch) = (latency.about_step(network, step, None)?, batch.round() as u64);
        let whole = about.at(batch).value.value();
        let shares = about.shares(batch).map_or(Vec::new(), |shares| shares.classes);
        let others = shares.iter().filter(|share| NOT_OF_GRAPHS.contains(&share.name.as_str()));
        Ok((whole - others.map(|share| share.latency.0).sum::<f64>()) / 1e3)
    }

    /// Terms of a step's memory; none without a fingerprint of it.
    fn bytes(&self, shape: [u64; 2], load: Load) -> Result<Option<Terms>> {
        let Some(memory) = &self.fingerprints.memory else { return Ok(None) };
        let about = memory.about_step(self.graph(shape)?, self.step, None)?;
        let dense = about.at(load.images.round() as u64).value.value();
        // What a process takes beside its tensors counts once: of these they alone.
        let boxes = match &self.box_head {
            Some(head) if load.proposals > 0.0 => {
                let about = memory.about_step(head, self.step_of_heads(), None)?;
                about.tensors(load.proposals.round() as u64).map_or(0.0, |tensors| tensors.value())
            }
            _ => 0.0,
        };
        Ok(Some(load.terms([dense, boxes].map(|mib| Bytes::from_mib(mib).0 as f64))))
    }

    /// Of what runs on proposals all weights are trained.
    fn step_of_heads(&self) -> Step {
        Step { trainable: Trainable::All, ..self.step }
    }

    /// Whose fingerprint it is.
    fn told(&self) -> String {
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
