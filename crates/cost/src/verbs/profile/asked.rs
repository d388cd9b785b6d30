//! The tests of the section: of the existing networks, or from a test configuration.

use super::Profile;
use super::planned::{self, PlannedMeasurement};
use super::test_config::{self, NetworkTests};
use crate::plan::Sweep;
use crate::records::Variant;
use perf4sight_base::error::{Error, Result, suggestion};
use perf4sight_verb::PlannedFiles;
use std::path::{Path, PathBuf};

impl Profile {
    /// The tests of every network: at all levels that exist or will exist, or as in the test configuration.
    pub(super) fn tests(&self, files: &PlannedFiles) -> Result<Vec<NetworkTests>> {
        if self.create_config {
            let asked = self.networks.iter().map(|network| self.network_tests(network, files));
            return asked.chain(self.calibration_tests().map(Ok)).collect();
        }
        let files = test_config::files(&self.places.test_config, &self.names());
        let sections: Vec<Vec<NetworkTests>> =
            files.iter().map(|file| test_config::read(file)).collect::<Result<_>>()?;
        Ok(sections.into_iter().flatten().collect())
    }

    fn network_tests(&self, network: &str, files: &PlannedFiles) -> Result<NetworkTests> {
        let here = files.files(&self.places.networks, "onnx")?;
        let variant =
            |file: &PathBuf| Variant::parse(stem(file), [network]).ok().map(|variant| (variant, file.clone()));
        let mut levels: Vec<(Variant, PathBuf)> = here.iter().filter_map(variant).collect();
        if levels.is_empty() {
            let elsewhere = files.folder_that_gets(|file| Variant::parse(stem(file), [network]).is_ok());
            return Err(self.no_such_network(network, &here, elsewhere));
        }
        levels.sort();
        let on_device = |file: &PathBuf| self.places.networks_on_device.join(file.file_name().unwrap_or_default());
        Ok(NetworkTests {
            network: network.to_owned(),
            dataset: self.dataset.clone(),
            files: levels.iter().map(|(_, file)| on_device(file)).collect(),
            sweep: Sweep {
                variables: self.variables.clone(),
                batches: self.batches.clone(),
                steps: self.steps.clone(),
                variants: levels.into_iter().map(|(variant, _)| variant).collect(),
            },
        })
    }

    fn no_such_network(&self, network: &str, files: &[PathBuf], elsewhere: Option<PathBuf>) -> Error {
        // The part of the file name before the level is the network's name.
        let mut present: Vec<&str> = files.iter().filter_map(|file| Some(stem(file).rsplit_once('_')?.0)).collect();
        present.dedup();
        let error = Error::input(format!("there is no level of {network} here"))
            .file(&self.places.networks)
            .expected(format!("{network}_{{level}}.onnx"));
        match elsewhere {
            Some(folder) => error.help(format!("an earlier section writes it: local_model_loc = {}", folder.display())),
            None if present.is_empty() => {
                error.help("set local_model_loc, or let [create_network_dataset] write the networks first")
            }
            None => error.help(suggestion(network, present)),
        }
    }

    /// Every configuration in the order it runs; files that only exist on the device are searched for in the local
    /// folder.
    pub(super) fn planned(&self, tests: &[NetworkTests], files: &PlannedFiles) -> Vec<PlannedMeasurement> {
        planned::plan_measurements(tests, self.order, |on_device| {
            let here = self.places.networks.join(stem(on_device)).with_added_extension("onnx");
            if files.exists(on_device) || !files.exists(&here) { on_device.to_owned() } else { here }
        })
    }
}

fn stem(file: &Path) -> &str {
    file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
}
