//! `teach = True`: small calibration networks of our own are measured too, so that a fit knows what every operation costs.

use super::Profile;
use super::planned::Planned;
use super::test_config::NetworkTests;
use crate::plan::Sweep;
use crate::records::Variant;
use perf4sight_base::error::{Error, Result};
use perf4sight_network::zoo::calibration;
use perf4sight_onnx as onnx;
use perf4sight_step::workload::Variable;
use perf4sight_verb::config::Values;
use perf4sight_verb::{Foreseen, KeyedPath, Outline};
use std::fs;
use std::path::PathBuf;

/// One sample, and some: with more, operations only take as much longer.
const BATCHES: [u64; 2] = [1, 4];

/// They are not pruned.
const LEVEL: u8 = 0;

/// Whether the section asks for them. They are only timed, for memory is simulated.
pub(super) fn parse(values: &Values<'_>, variables: &[Variable]) -> Result<bool> {
    let teach: bool = values.get("teach")?;
    match teach && !variables.contains(&Variable::Latency) {
        true => Err(values
            .error("teach", "calibration networks are timed, and no latency is measured")
            .expected("latency among profile_variables, or teach = False")),
        false => Ok(teach),
    }
}

/// Whether it measures a calibration network.
pub(super) fn is_calibration(planned: &Planned) -> bool {
    calibration::is_reserved(&planned.configuration.variant.network)
}

impl Profile {
    /// The names of all networks that are measured, calibration networks included.
    pub(super) fn names(&self) -> Vec<String> {
        let calibration = calibration::names().filter(|_| self.teach).map(str::to_owned);
        self.networks.iter().cloned().chain(calibration).collect()
    }

    fn calibration_files(&self) -> impl Iterator<Item = (Variant, PathBuf)> {
        let variants = calibration::names().filter(|_| self.teach).map(|name| Variant::new(name, LEVEL));
        variants.map(|variant| (variant.clone(), self.places.networks.join(format!("{variant}.onnx"))))
    }

    /// Times of whole steps and, where there is something that runs them, of every operation: that is what they are for.
    fn calibration_variables(&self) -> Vec<Variable> {
        let layers = Some(Variable::Layers).filter(|_| self.device.kind.runs());
        [Variable::Latency].into_iter().chain(layers).collect()
    }

    /// Their tests, of every stage that is asked for, whole: what an operation costs is the same in the parts of a step.
    pub(super) fn calibration_tests(&self) -> impl Iterator<Item = NetworkTests> {
        self.calibration_files().map(|(variant, file)| NetworkTests {
            network: variant.network.clone(),
            dataset: self.dataset.clone(),
            files: vec![self.places.networks_on_device.join(file.file_name().unwrap_or_default())],
            sweep: Sweep {
                variables: self.calibration_variables(),
                batches: BATCHES.to_vec(),
                steps: self.steps.iter().map(|step| step.whole()).collect(),
                variants: vec![variant],
            },
        })
    }

    /// Writes their files beside the other networks. What is there stays: rows may have been measured of it.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub(super) fn write_calibration_networks(&self) -> Result<()> {
        let missing: Vec<(Variant, PathBuf)> = self.calibration_files().filter(|(_, file)| !file.exists()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let folder = &self.places.networks;
        fs::create_dir_all(folder).map_err(|cause| Error::io(folder, "make this folder", &cause))?;
        let networks = calibration::all()?;
        let named = |name: &str| networks.iter().find(|network| network.name() == name);
        missing.iter().try_for_each(|(variant, file)| {
            named(&variant.network).map_or(Ok(()), |network| onnx::write(network, file))
        })
    }

    /// What is there and will be once their files are written; says in the outline which those are.
    pub(super) fn foresee_calibration_networks(&self, foreseen: &Foreseen, outline: &mut Outline) -> Foreseen {
        let missing = self.calibration_files().map(|(_, path)| path).filter(|path| !path.exists());
        let writes: Vec<KeyedPath> = missing.map(|path| KeyedPath { key: "local_model_loc", path }).collect();
        if !writes.is_empty() {
            let folder = self.places.networks.display();
            outline.steps.push(format!("writes {} calibration networks to {folder}", writes.len()));
        }
        outline.writes.extend(writes);
        let mut all = foreseen.clone();
        all.add(outline);
        all
    }
}
