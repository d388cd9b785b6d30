//! Predicts settings that were not measured, from a fingerprint of the device, the detector's graphs and a few measured
//! steps.
//!
//! A detector's step consists of its graphs, which a fingerprint covers (the backbone with the heads that read whole
//! images; the head that runs on each proposal), and the rest: resizing images, anchors, matching, suppression,
//! pooling. The graphs' time and memory are multiplied by factors near one; the rest is an amount for each step, image,
//! proposal and pixel. Factors and rest are fitted to the measurements ([`BlendFit`]), the backbone's own time included.
//! The time of the weight update is taken as measured.

mod blend;
mod device;
mod evidence;
mod page;
mod tables;

use super::trainer::DetectorTrainer;
use super::{Detection, SweepSetting};
use blend::{BlendFit, BlendTerms, ObservedTime};
use device::DetectorDevice;
use evidence::MeasuredSetting;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::overwrite;
use perf4sight_base::stats::mean;
use perf4sight_machine::RunWatch;
use perf4sight_step::detection::{BatchRequest, BatchSizes, GraphsTask};
use perf4sight_verb::{Context, Summary};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

/// Relative random error of memory measurements, which hardly vary.
const MEMORY_NOISE: f64 = 0.03;
/// Prior standard deviations of factors and rest. A fingerprint may be taken in a quiet hour and used in a busy one,
/// and a profile of convolutions contains little about operations on proposals.
const TIME_BELIEFS: BlendTerms = [0.5, 1.0, 0.1, 0.1, 0.1, 0.1];
/// Memory is simulated; the two graphs do not peak at the same moment, and images are held in several copies.
const MEMORY_BELIEFS: BlendTerms = [0.03, 0.03, 0.1, 0.1, 0.0, 0.0];

struct PredictedAnswer {
    predictions: Vec<SettingPrediction>,
    /// Settings that were measured, which the predictions are based on.
    rows: u64,
    images: u64,
    /// Whose fingerprint it is.
    device: String,
}

struct SettingPrediction {
    setting: SweepSetting,
    /// Seconds of a step without waiting for data, and its 90 % interval.
    step: CostInterval,
    /// Seconds of waiting for data, where known.
    waiting: Option<f64>,
    /// Bytes above the process's memory before the network, for the largest batch.
    memory: Option<CostInterval>,
    /// Measurements of it, which its prediction does not use: seconds of a step without waiting, bytes.
    measured: Option<(f64, u64)>,
}

/// A value with its 90 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
struct CostInterval {
    value: f64,
    low: f64,
    high: f64,
}

/// The properties of a batch on which the cost of a step depends.
#[derive(Debug, Clone, Copy, PartialEq)]
struct BatchLoad {
    images: f64,
    proposals: f64,
    /// Pixels of all images, filled up to the largest.
    pixels: f64,
}

/// Predicts every requested setting.
///
/// # Errors
/// No usable measurements; a fingerprint that cannot be used; a detector whose graphs cannot be read.
pub(super) fn run(asked: &Detection, fingerprint: &Path, context: &mut Context) -> Result<Summary> {
    let trainer = DetectorTrainer::open(asked)?;
    let evidence = evidence::gather(asked, &trainer, context)?;
    let questions: Vec<BatchRequest> =
        asked.settings.iter().map(|setting| BatchRequest { batch: setting.batch, size: asked.task.size }).collect();
    let task = GraphsTask {
        network: asked.task.network.clone(),
        weights: asked.task.weights,
        data: asked.task.data.clone(),
        boxes: asked.task.boxes,
        shapes: evidence.iter().flat_map(|known| [known.typical(), known.measured.largest]).flatten().collect(),
        asked: questions,
    };
    let progress = context.console.progress(1, "reading the detector's graphs");
    let cancel = Arc::clone(&context.cancel);
    let watch = RunWatch { waiting: &|why| context.console.note(why), ..RunWatch::quiet(&cancel) };
    let Some(graphs) = trainer.graphs(asked, task, &watch)? else {
        return Ok(Summary { headline: "interrupted".to_owned(), ..Summary::default() });
    };
    drop(progress);
    let device = DetectorDevice::open(fingerprint, &asked.task, &graphs, context)?;
    let predictions = asked
        .settings
        .iter()
        .zip(&graphs.asked)
        .map(|(&setting, drawn)| predict(setting, drawn, asked, &evidence, &device));
    let predictions = predictions.collect::<Result<Vec<SettingPrediction>>>()?;
    let answer = PredictedAnswer {
        predictions,
        rows: evidence.len() as u64,
        images: graphs.images,
        device: device.description(),
    };
    summary(asked, &answer, context)
}

/// The answer, which is a page and a table in the folder too.
fn summary(asked: &Detection, answer: &PredictedAnswer, context: &Context) -> Result<Summary> {
    let (sentences, basis, table) = (tables::to_sentences(answer), tables::basis(answer), tables::table(answer, asked));
    let page = page::build_page(asked, answer, &table, [&sentences, &basis], context.warnings());
    let report = asked.out.join("predicted.html");
    overwrite::save(&report, page.to_html(), asked.overwrite)?;
    overwrite::save(&asked.out.join("predicted.csv"), table.to_csv(), asked.overwrite)?;
    Ok(Summary {
        answer: sentences,
        headline: basis,
        json: json!({
            "network": asked.task.network,
            "size": asked.task.size,
            "device": answer.device,
            "rows": answer.rows,
            "settings": table.to_json(),
            "warnings": context.warnings(),
        }),
        files: vec![("report", report)],
        tables: vec![table],
        ..Summary::default()
    })
}

/// Predicts a setting from everything that was measured but itself.
fn predict(
    setting: SweepSetting,
    drawn: &BatchSizes,
    asked: &Detection,
    evidence: &[MeasuredSetting],
    device: &DetectorDevice,
) -> Result<SettingPrediction> {
    let own = |known: &&MeasuredSetting| known.task.batch == setting.batch && known.task.size == asked.task.size;
    let others: Vec<&MeasuredSetting> = evidence.iter().filter(|known| !own(known)).collect();
    let images = setting.batch as f64;
    let load = BatchLoad {
        images,
        proposals: images * average(&others, MeasuredSetting::proposals),
        pixels: images * drawn.area,
    };
    let Some(time) = time(&others, device)? else {
        return Err(Error::input(format!("only batch {} itself was measured at this size of images", setting.batch))
            .file(&asked.out)
            .help("measure another batch size or size of images too"));
    };
    let step = time.estimate(&device.seconds(drawn.typical, load)?).plus(average(&others, MeasuredSetting::optimizer));
    let largest = BatchLoad { pixels: images * area(drawn.largest), ..load };
    let memory = match (memory(&others, device)?, device.bytes(drawn.largest, largest)?) {
        (Some(blend), Some(terms)) => Some(blend.estimate(&terms)),
        _ => None,
    };
    let measured = evidence.iter().filter(own).find(|known| known.task.num_workers == setting.num_workers);
    Ok(SettingPrediction {
        setting,
        step,
        waiting: waiting(setting, &others),
        memory,
        measured: measured.map(|known| (known.busy(), known.measured.memory.used)),
    })
}

fn average(evidence: &[&MeasuredSetting], of: impl Fn(&MeasuredSetting) -> f64) -> f64 {
    mean(&evidence.iter().map(|known| of(known)).collect::<Vec<_>>())
}

/// Fits the seconds of steps, without the weight update, to the measurements; none where there are none.
fn time(evidence: &[&MeasuredSetting], device: &DetectorDevice) -> Result<Option<BlendFit>> {
    let mut observed = Vec::new();
    for known in evidence {
        let (load, noise) = (known.load(), known.noise());
        let Some(shape) = known.typical() else { continue };
        observed.push(ObservedTime {
            terms: device.seconds(shape, load)?,
            measured: known.busy() - known.optimizer(),
            noise,
        });
        if let (Some(graph), Some(took)) = (device.trunk(shape, load)?, known.trunk()) {
            observed.push(ObservedTime { terms: [graph, 0.0, 0.0, 0.0, 0.0, 0.0], measured: took, noise });
        }
    }
    Ok(BlendFit::fit(TIME_BELIEFS, evidence::NOISE, &observed))
}

/// Fits the memory of the largest batch to the measurements; none without a fingerprint of memory.
fn memory(evidence: &[&MeasuredSetting], device: &DetectorDevice) -> Result<Option<BlendFit>> {
    let mut observed = Vec::new();
    for known in evidence {
        let Some(shape) = known.measured.largest else { continue };
        let load = BatchLoad { pixels: known.task.batch as f64 * area(shape), ..known.load() };
        if let Some(terms) = device.bytes(shape, load)? {
            observed.push(ObservedTime { terms, measured: known.measured.memory.used as f64, noise: MEMORY_NOISE });
        }
    }
    Ok(BlendFit::fit(MEMORY_BELIEFS, MEMORY_NOISE, &observed))
}

/// Time that a step waits for data where the process itself loads them: the measured time of an image, times the batch.
fn waiting(setting: SweepSetting, evidence: &[&MeasuredSetting]) -> Option<f64> {
    let alone = evidence.iter().filter(|known| known.task.num_workers == 0 && setting.num_workers == 0);
    let each: Vec<f64> = alone.map(|known| known.waiting()).collect();
    (!each.is_empty()).then(|| setting.batch as f64 * mean(&each))
}

fn area([height, width]: [u64; 2]) -> f64 {
    height as f64 * width as f64
}

impl CostInterval {
    /// Adds a known amount.
    fn plus(self, more: f64) -> Self {
        CostInterval { value: self.value + more, low: self.low + more, high: self.high + more }
    }
}

impl BatchLoad {
    /// All terms: those of the graphs, then its own.
    fn terms(self, graphs: [f64; 2]) -> BlendTerms {
        [graphs[0], graphs[1], 1.0, self.images, self.proposals, self.pixels]
    }
}
