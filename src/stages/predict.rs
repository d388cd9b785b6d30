//! `perf4sight predict`: what a stored fingerprint says about a network, batch size by batch size.

use super::{Context, Summary, named};
use crate::error::{Error, Result};
use crate::fingerprint::{Fingerprint, Predicted, file_name};
use crate::network::Network;
use crate::network::zoo::Dataset;
use crate::report::{Cell, Column, Table};
use crate::units::Percent;
use crate::workload::{Quantity, Stage};
use serde_json::{Value, json};
use std::path::PathBuf;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Predict {
    /// An ONNX file, the name of a known network, or `NAME@LEVEL` for one pruned to that percentage.
    pub network: String,
    /// Folder of the fingerprints.
    pub fingerprints: PathBuf,
    /// Batch sizes, in the order they are shown.
    pub batches: Vec<u64>,
    /// Training or inference.
    pub stage: Stage,
}

impl Predict {
    /// Predicts latency and memory, whichever has a fingerprint.
    ///
    /// # Errors
    /// No fingerprint of that stage, a fingerprint or network that cannot be used.
    pub fn run(&self, context: &mut Context) -> Result<Summary> {
        let fingerprints = self.load()?;
        let dataset = Dataset::parse(&fingerprints[0].subject().dataset)?;
        let network = named::load(&self.network, dataset, context)?;
        for fingerprint in &fingerprints {
            self.warn_of_extrapolation(fingerprint, context);
        }
        let table = self.table(&network, &fingerprints);
        Ok(Summary {
            headline: fingerprints.iter().map(trust).collect::<Vec<_>>().join("\n"),
            json: self.json(&table, &fingerprints),
            tables: vec![table],
            ..Summary::default()
        })
    }

    /// The fingerprints there are, at least one.
    fn load(&self) -> Result<Vec<Fingerprint>> {
        let load = |quantity| Fingerprint::load(&self.fingerprints, self.stage, quantity).transpose();
        let found: Vec<Fingerprint> = Quantity::ALL.into_iter().filter_map(load).collect::<Result<_>>()?;
        if !found.is_empty() {
            return Ok(found);
        }
        let names = Quantity::ALL.map(|quantity| file_name(self.stage, quantity));
        Err(Error::input(format!("there is no fingerprint of {} here", self.stage))
            .file(&self.fingerprints)
            .expected(names.join(" or "))
            .help("name the folder that [fingerprint] wrote (model_storedir), or the stage that was fitted"))
    }

    fn warn_of_extrapolation(&self, fingerprint: &Fingerprint, context: &mut Context) {
        let largest = fingerprint.largest_batch();
        let beyond: Vec<String> =
            self.batches.iter().filter(|&&batch| batch > largest).map(|batch| batch.to_string()).collect();
        if !beyond.is_empty() {
            context.warn(format!(
                "{}: batch size {} is beyond the {largest} that was fitted on; the prediction stays at what is known there",
                fingerprint.subject().quantity,
                beyond.join(", ")
            ));
        }
    }

    fn table(&self, network: &Network, fingerprints: &[Fingerprint]) -> Table {
        let subject = fingerprints[0].subject();
        let title = format!("{} of {} on {}", self.stage, self.network, subject.device);
        let heads = fingerprints.iter().map(|fingerprint| match fingerprint.subject().quantity {
            Quantity::Latency => Column::number("latency_ms", "latency"),
            Quantity::Memory => Column::number("memory_bytes", "memory"),
        });
        let mut table = Table::new(title, [Column::number("bs", "batch size")].into_iter().chain(heads));
        for &batch in &self.batches {
            let predictions = fingerprints.iter().map(|fingerprint| cell(fingerprint.predict(network, batch)));
            table.row([Cell::from(batch)].into_iter().chain(predictions));
        }
        table
    }

    fn json(&self, table: &Table, fingerprints: &[Fingerprint]) -> Value {
        let subject = fingerprints[0].subject();
        let scores = fingerprints.iter().map(|one| (one.subject().quantity.name().to_owned(), json!(one.scores)));
        json!({
            "network": self.network,
            "device": subject.device,
            "dataset": subject.dataset,
            "stage": self.stage,
            "predictions": table.to_json(),
            "scores": scores.collect::<serde_json::Map<_, _>>(),
        })
    }
}

fn cell(predicted: Predicted) -> Cell {
    match predicted {
        Predicted::Latency(latency) => latency.into(),
        Predicted::Memory(memory) => memory.into(),
    }
}

/// How good the fingerprint was on levels it was not fitted on.
fn trust(fingerprint: &Fingerprint) -> String {
    let quantity = fingerprint.subject().quantity;
    match &fingerprint.scores {
        Some(scores) => format!(
            "{quantity}: off by {} on average over {} rows of levels it was not fitted on",
            Percent(scores.mape),
            scores.rows
        ),
        None => format!("{quantity}: never tested on levels it was not fitted on"),
    }
}
