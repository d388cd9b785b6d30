//! `teach = True`: also measures perf4sight's small calibration networks, so that a fit covers every operation.

use super::Profile;
use super::planned::PlannedMeasurement;
use super::test_config::NetworkTests;
use crate::plan::Sweep;
use crate::records::Variant;
use perf4sight_base::error::Result;
use perf4sight_base::output_folder;
use perf4sight_network::zoo::calibration;
use perf4sight_onnx as onnx;
use perf4sight_step::workload::Variable;
use perf4sight_verb::config::SettingValues;
use perf4sight_verb::{KeyedPath, Outline, PlannedFiles};
use std::path::PathBuf;

/// One sample, and a few: with more, the time of operations only grows in proportion.
const BATCHES: [u64; 2] = [1, 4];

/// Calibration networks are not pruned.
const LEVEL: u8 = 0;

/// Whether the section enables calibration networks. They are only timed, because memory is simulated.
pub(super) fn parse(values: &SettingValues<'_>, variables: &[Variable]) -> Result<bool> {
    let teach: bool = values.get("teach")?;
    match teach && !variables.contains(&Variable::Latency) {
        true => Err(values
            .error("teach", "calibration networks are timed, and no latency is measured")
            .expected("latency among profile_variables, or teach = False")),
        false => Ok(teach),
    }
}

pub(super) fn is_calibration(planned: &PlannedMeasurement) -> bool {
    calibration::is_reserved(&planned.configuration.variant.network)
}

impl Profile {
    /// The names of all measured networks, including calibration networks.
    pub(super) fn names(&self) -> Vec<String> {
        let calibration = calibration::names().filter(|_| self.teach).map(str::to_owned);
        self.networks.iter().cloned().chain(calibration).collect()
    }

    fn calibration_files(&self) -> impl Iterator<Item = (Variant, PathBuf)> {
        let variants = calibration::names().filter(|_| self.teach).map(|name| Variant::new(name, LEVEL));
        variants.map(|variant| (variant.clone(), self.places.networks.join(format!("{variant}.onnx"))))
    }

    /// Times of whole steps and, if the device runs networks, of every operation, which is their purpose.
    fn calibration_variables(&self) -> Vec<Variable> {
        let layers = Some(Variable::Layers).filter(|_| self.device.kind.runs());
        [Variable::Latency].into_iter().chain(layers).collect()
    }

    /// Their tests, for every requested stage, with the whole step: an operation costs the same in the parts of a
    /// step.
    pub(super) fn calibration_tests(&self) -> impl Iterator<Item = NetworkTests> {
        self.calibration_files().map(|(variant, file)| NetworkTests {
            network: variant.network.clone(),
            dataset: self.dataset.clone(),
            files: vec![self.places.networks_on_device.join(file.file_name().unwrap_or_default())],
            sweep: Sweep {
                variables: self.calibration_variables(),
                batches: BATCHES.to_vec(),
                steps: self.steps.iter().map(|step| step.of_whole_network()).collect(),
                variants: vec![variant],
            },
        })
    }

    /// Writes their files next to the other networks. Existing files are not replaced, because rows may have been
    /// measured with them.
    pub(super) fn write_calibration_networks(&self) -> Result<()> {
        let missing: Vec<(Variant, PathBuf)> = self.calibration_files().filter(|(_, file)| !file.exists()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let folder = &self.places.networks;
        output_folder::make(folder)?;
        let networks = calibration::all()?;
        let named = |name: &str| networks.iter().find(|network| network.name() == name);
        missing.iter().try_for_each(|(variant, file)| {
            named(&variant.network).map_or(Ok(()), |network| onnx::write(network, file))
        })
    }

    /// The files that exist and those that will be written; adds the latter to the outline.
    pub(super) fn with_calibration_networks(&self, files: &PlannedFiles, outline: &mut Outline) -> PlannedFiles {
        let missing = self.calibration_files().map(|(_, path)| path).filter(|path| !path.exists());
        let writes: Vec<KeyedPath> = missing.map(|path| KeyedPath { key: "local_model_loc", path }).collect();
        if !writes.is_empty() {
            let folder = self.places.networks.display();
            outline.steps.push(format!("writes {} calibration networks to {folder}", writes.len()));
        }
        outline.writes.extend(writes);
        let mut all = files.clone();
        all.add(outline);
        all
    }
}
