//! Times of layers by GPU, tensor degree and micro-batch.

use ndarray::Array1;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_operations::minimize::{minimize, robust};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// How far single times of layers are off their line, as a share.
const SCATTER: f64 = 0.05;
/// How far the two parts of a line may be from where they are looked for first: a factor of `e^5` to either side.
const WIDE: f64 = 5.0;

/// Seconds of a layer: forward, backward, update of its weights.
type LayerSeconds = [f64; 3];

/// By micro-batch, tensor degree and layer, as Sailor writes them.
type LayerTable = BTreeMap<u64, BTreeMap<u64, BTreeMap<u64, LayerSeconds>>>;

/// Times of a network's layers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerTimes {
    tables: BTreeMap<String, LayerTable>,
}

impl LayerTimes {
    /// Adds the file of a GPU, `layers_OPT-350_GH-96.json`: by micro-batch, tensor degree and layer the seconds of
    /// forward, backward and update. What stands behind the last `_` of its name is the GPU's.
    ///
    /// # Errors
    /// A file that cannot be read, or holds no times.
    pub fn add(&mut self, file: &Path) -> Result<()> {
        let wrong = |problem: String| {
            Error::input(problem)
                .file(file)
                .expected("by micro-batch, tensor degree and layer: [forward, backward, update] in seconds")
        };
        let text = input_file::text(file, "read the times of layers")?;
        let table: LayerTable =
            serde_json::from_str(&text).map_err(|cause| wrong(format!("these are no times of layers: {cause}")))?;
        let times = || table.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values);
        if times().flatten().any(|time| !(time.is_finite() && *time >= 0.0))
            || times().next().is_none()
            || table.contains_key(&0)
        {
            return Err(wrong("a time is negative, or there are none".to_owned()));
        }
        let name = file.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.rsplit('_').next());
        let name = name.ok_or_else(|| wrong("its name names no GPU".to_owned()))?;
        self.tables.insert(name.to_owned(), table);
        Ok(())
    }

    /// The number of the last layer that was timed, which is the head.
    pub(super) fn last(&self) -> Option<u64> {
        let layers = self.tables.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values);
        layers.filter_map(|layers| layers.last_key_value()).map(|(layer, _)| *layer).max()
    }

    /// Seconds of forward and backward of a layer, and of its update, for a micro-batch.
    ///
    /// Times of small micro-batches scatter by half, as those that launches bound; a robust line over all micro-batches does not.
    ///
    /// # Errors
    /// A GPU, tensor degree or layer that was not timed.
    pub fn layer(&self, gpu: &str, tensor: u64, layer: u64, micro_batch: u64) -> Result<(f64, f64)> {
        let table = self.tables.get(gpu).ok_or_else(|| {
            Error::input(format!("there are no times of layers on {gpu}"))
                .one_of(gpu, self.tables.keys().map(String::as_str))
        })?;
        let timed =
            table.iter().filter_map(|(batch, degrees)| Some((*batch as f64, degrees.get(&tensor)?.get(&layer)?)));
        let timed: Vec<(f64, &LayerSeconds)> = timed.collect();
        if timed.is_empty() {
            return Err(Error::input(format!("layer {layer} was not timed on {gpu} with tensor degree {tensor}"))
                .expected("times of each layer, for each tensor degree that a plan has"));
        }
        let line = |pass: usize| {
            line(&timed.iter().map(|(batch, times)| (*batch, times[pass])).collect::<Vec<_>>(), micro_batch as f64)
        };
        let updates: Vec<f64> = timed.iter().map(|(_, times)| times[2]).collect();
        Ok((line(0)? + line(1)?, perf4sight_base::stats::median(&updates)))
    }
}

/// The value at a micro-batch of the robust line `a + b x` with `a` and `b` above 0.
fn line(points: &[(f64, f64)], at: f64) -> Result<f64> {
    let times: Vec<(f64, f64)> = points.iter().map(|(batch, time)| (*batch, time.max(1e-6))).collect();
    let median =
        |value: fn(&(f64, f64)) -> f64| perf4sight_base::stats::median(&times.iter().map(value).collect::<Vec<_>>());
    let start = [0.3 * median(|(_, time)| *time), median(|(batch, time)| time / batch)].map(f64::ln);
    let value = |[a, b]: &[f64; 2], batch: f64| a.exp() + b.exp() * batch;
    let logs = minimize(start, |logs| {
        let points = times.iter().map(|(batch, time)| robust((value(logs, *batch) / time).ln() / SCATTER));
        let near = logs.iter().zip(start).map(|(log, start)| (log - start) / WIDE);
        points.chain(near).collect::<Array1<f64>>()
    })?;
    Ok(value(&logs, at))
}
