//! The checked values of the section.

use super::{FingerprintSection, QuantitySource, RowSplit};
use crate::fingerprint::{FingerprintSubject, FitMethod, FitRecipe, LevelSelection};
use crate::verbs::step;
use perf4sight_base::error::Result;
use perf4sight_step::workload::{Quantity, Stage, Step};
use perf4sight_verb::config::SettingValues;
use std::collections::BTreeSet;
use std::path::PathBuf;

impl FingerprintSection {
    pub(super) fn parse(values: &SettingValues<'_>) -> Result<Self> {
        let fitted: BTreeSet<u8> = values.get::<Vec<u8>>("train_logs")?.into_iter().collect();
        let tested: BTreeSet<u8> = values.get::<Vec<u8>>("eval_logs")?.into_iter().collect();
        let others =
            if tested.is_empty() { LevelSelection::AllBut(fitted.clone()) } else { LevelSelection::Only(tested) };
        let stage = values.parse_word("stage", Stage::parse)?;
        Ok(FingerprintSection {
            evaluate: values.get("evaluate")?,
            overwrite: values.get("overwrite")?,
            step: step::changes(values, &[stage])?.of(Step::published(stage)),
            device: values.folder_name("device_name")?,
            dataset: values.folder_name("dataset")?,
            platform: values.get("target")?,
            recipe: FitRecipe::new(values.parse_word("method", FitMethod::parse)?, values.get("seed")?),
            fit: RowSplit { networks: values.get("train_nets")?, levels: LevelSelection::Only(fitted) },
            test: RowSplit { networks: values.get("eval_nets")?, levels: others },
            sources: sources(values)?,
            store: values.get("model_storedir")?,
            networks: values.get("pruned_models_storedir")?,
        })
    }

    pub(super) fn subject(&self, quantity: Quantity) -> FingerprintSubject {
        let FingerprintSection { device, dataset, step, .. } = self;
        FingerprintSubject { device: device.clone(), dataset: dataset.clone(), step: *step, quantity }
    }
}

fn sources(values: &SettingValues<'_>) -> Result<Vec<QuantitySource>> {
    let mut sources = Vec::new();
    for quantity in Quantity::ALL {
        let (switch, fit_key, test_key) = match quantity {
            Quantity::Latency => ("latency_model", "latency_logs", "eval_latency_logs"),
            Quantity::Memory => ("memory_model", "memory_logs", "eval_memory_logs"),
        };
        if values.get(switch)? {
            let fit: Vec<PathBuf> = values.get(fit_key)?;
            let test: Vec<PathBuf> = values.get(test_key)?;
            let (test_key, test) = if test.is_empty() { (fit_key, fit.clone()) } else { (test_key, test) };
            sources.push(QuantitySource { quantity, fit_key, fit, test_key, test });
        }
    }
    match sources.is_empty() {
        true => Err(values
            .error("latency_model", "neither latency_model nor memory_model is True")
            .expected("at least one of them")),
        false => Ok(sources),
    }
}
