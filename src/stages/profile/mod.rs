//! `[profile]`: writes down what to measure, measures it on a device, keeps every row at once.

mod campaign;
mod estimate;
mod journal;
mod keys;
mod parse;
mod planned;
mod rows;
mod tally;
pub mod test_config;

pub use campaign::Campaign;
pub use journal::Journal;
pub use planned::Planned;
pub use tally::Tally;

use super::{Context, Foreseen, Outline, Place, Spec, Stage as Section, Summary};
use crate::device::{self, Device, Job};
use crate::error::{Error, Result, suggestion};
use crate::plan::{Decision, Ledger, Sweep};
use crate::records::{Variant, log_file};
use crate::workload::{Quantity, Stage};
use std::path::{Path, PathBuf};
use test_config::NetworkTests;

/// The section `[profile]`.
pub static SPEC: Spec = Spec { table: keys::TABLE, parse: |values| Ok(Box::new(Profile::parse(values)?)) };

/// What the section asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    create_config: bool,
    run_profiling: bool,
    networks: Vec<String>,
    dataset: String,
    quantities: Vec<Quantity>,
    batches: Vec<u64>,
    stages: Vec<Stage>,
    places: Places,
    device: device::Options,
    save: bool,
    till_first_fail: bool,
}

/// The folders and files of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Places {
    networks: PathBuf,
    networks_on_device: PathBuf,
    log_dir: PathBuf,
    test_config: PathBuf,
}

impl Profile {
    /// What is to be measured: of the networks that are there or foreseen, or as the test configuration says.
    fn tests(&self, foreseen: &Foreseen) -> Result<Vec<NetworkTests>> {
        if self.create_config {
            return self.networks.iter().map(|network| self.network_tests(network, foreseen)).collect();
        }
        let files = test_config::files(&self.places.test_config, &self.networks);
        let sections: Vec<Vec<NetworkTests>> =
            files.iter().map(|file| test_config::read(file)).collect::<Result<_>>()?;
        Ok(sections.into_iter().flatten().collect())
    }

    fn network_tests(&self, network: &str, foreseen: &Foreseen) -> Result<NetworkTests> {
        let folder = &self.places.networks;
        let mut variants: Vec<(Variant, PathBuf)> = Vec::new();
        for file in foreseen.files(folder, "onnx")? {
            let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if let Ok(variant) = Variant::parse(stem, [network]) {
                let name = file.file_name().unwrap_or_default();
                variants.push((variant, self.places.networks_on_device.join(name)));
            }
        }
        if variants.is_empty() {
            return Err(self.no_such_network(network, foreseen));
        }
        variants.sort();
        let (variants, files) = variants.into_iter().unzip();
        let (quantities, batches, stages) = (self.quantities.clone(), self.batches.clone(), self.stages.clone());
        let sweep = Sweep { quantities, batches, stages, variants };
        Ok(NetworkTests { network: network.to_owned(), dataset: self.dataset.clone(), sweep, files })
    }

    fn no_such_network(&self, network: &str, foreseen: &Foreseen) -> Error {
        let files = foreseen.files(&self.places.networks, "onnx").unwrap_or_default();
        let stems: Vec<&str> = files.iter().filter_map(|file| file.file_stem()?.to_str()).collect();
        let present: Vec<&str> = stems.iter().map(|stem| stem.split('_').next().unwrap_or(stem)).collect();
        let error = Error::input(format!("there is no level of {network} here"))
            .file(&self.places.networks)
            .expected(format!("{network}_{{level}}.onnx"));
        match present.is_empty() {
            true => error.help("set local_model_loc, or let [create_network_dataset] write the networks first"),
            false => error.help(suggestion(network, present)),
        }
    }

    /// Every configuration in the order it runs, its file found here.
    fn planned(&self, tests: &[NetworkTests], foreseen: &Foreseen) -> Vec<Planned> {
        planned::of(tests, |on_device| {
            let stem = on_device.file_stem().unwrap_or_default();
            let here = self.places.networks.join(stem).with_added_extension("onnx");
            if foreseen.exists(on_device) || !foreseen.exists(&here) { on_device.to_owned() } else { here }
        })
    }

    fn open_device(&self, executable: &Path) -> Result<Box<dyn Device>> {
        device::open(&self.device, executable, &self.networks)
    }

    /// The outline of the measurements alone.
    fn outline_runs(&self, tests: &[NetworkTests], foreseen: &Foreseen) -> Result<Outline> {
        let planned = self.planned(tests, foreseen);
        let device = self.open_device(Path::new(""))?;
        // What an earlier section is going to write cannot be looked at yet.
        let there = planned.iter().filter(|planned| planned.file.exists() || !foreseen.exists(&planned.file));
        there.map(Planned::job).try_for_each(|job: Job| device.check(&job))?;
        let earlier = match self.save {
            true => journal::look(&self.places.log_dir, &planned, &device.setting())?,
            false => Vec::new(),
        };
        let ledger = Ledger::of(&earlier);
        let ahead: Vec<&Planned> =
            planned.iter().filter(|p| matches!(ledger.decide(&p.configuration), Decision::Measure(_))).collect();
        let done = planned.len() - ahead.len();
        let log_dir = self.places.log_dir.display();
        let mut steps = vec![format!("measures {} configurations on {}", ahead.len(), device.name())];
        if done > 0 {
            steps.push(format!(
                "leaves out {done} that {log_dir} already holds or that a failed smaller batch rules out"
            ));
        }
        steps.push(match self.save {
            true => format!("appends rows to {log_dir}/{{latency,memory}}/{{variant}}-gt.csv"),
            false => "save = False: rows are shown but not kept".to_owned(),
        });
        let time = estimate::time(&ahead, &self.device);
        let place =
            |(variant, quantity)| Place { key: "log_dir", path: log_file(&self.places.log_dir, quantity, &variant) };
        let writes = if self.save { journal::files(&planned).into_iter().map(place).collect() } else { Vec::new() };
        Ok(Outline { steps, runs: ahead.len(), time, reads: Vec::new(), writes })
    }
}

impl Section for Profile {
    fn outline(&self, foreseen: &Foreseen) -> Result<Outline> {
        let tests = self.tests(foreseen)?;
        let mut outline = match self.run_profiling {
            true => self.outline_runs(&tests, foreseen)?,
            false => Outline::default(),
        };
        if self.create_config {
            let files = test_config::files(&self.places.test_config, &self.networks);
            let variants: usize = tests.iter().map(|tests| tests.files.len()).sum();
            let networks = tests.len();
            let said = format!(
                "writes the tests of {variants} variants of {networks} networks to {}",
                self.places.test_config.display()
            );
            outline.steps.insert(0, said);
            outline.writes.extend(files.into_iter().map(|path| Place { key: "test_config", path }));
        }
        Ok(outline)
    }

    fn run(&self, context: &mut Context) -> Result<Summary> {
        let present = Foreseen::default();
        let tests = self.tests(&present)?;
        let mut files = Vec::new();
        if self.create_config {
            let written = test_config::write(&self.places.test_config, &tests)?;
            files.extend(written.into_iter().map(|file| ("test configuration", file)));
        }
        if !self.run_profiling {
            return Ok(Summary { headline: "wrote the test configuration".to_owned(), files, ..Summary::default() });
        }
        let planned = self.planned(&tests, &present);
        let device = self.open_device(&context.executable)?;
        planned.iter().map(Planned::job).try_for_each(|job| device.check(&job))?;
        let journal = match self.save {
            true => Some(Journal::open(&self.places.log_dir, &planned, &*device, self.device.seed, context)?),
            false => {
                context.console.note("save = False: rows are shown but not kept");
                None
            }
        };
        let campaign = Campaign { device: &*device, planned: &planned, till_first_fail: self.till_first_fail };
        let tally = campaign.run(journal, context)?;
        if self.save {
            files.push(("rows", self.places.log_dir.clone()));
        }
        Ok(tally.summary(files))
    }
}
