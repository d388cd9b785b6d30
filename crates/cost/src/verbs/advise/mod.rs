//! `[advise]` and `perf4sight advise`: changes that make a step fit into memory, and the cost of each.

mod json;
mod judge;
mod options;
mod page;
mod search;
mod sentence;
mod settings;
mod tables;

use super::NETWORKS;
use super::extents::Extents;
use super::named::{self, Named, is_file};
use super::source::{Device, Expected, Source};
use crate::fingerprint::{Fingerprints, MemoryLimit, Prediction, check_understood, file_name};
use crate::verbs::shared_memory::shared_memory;
use judge::Judge;
use options::{StepOption, Withheld, normalises};
use perf4sight_base::cache::Cache;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::overwrite;
use perf4sight_base::units::Bytes;
use perf4sight_memory::Timeline;
use perf4sight_network::Network;
use perf4sight_step::workload::{Changes, Quantity, Stage, Workload};
use perf4sight_verb::{Context, Foreseen, KeyedPath, Outline, Section, Spec, Summary, Verb, VerbSpec};
use rayon::prelude::*;
use search::{Findings, Search};
use std::path::{Path, PathBuf};

/// The section `[advise]`.
pub static SPEC: Spec =
    Spec { table: settings::TABLE, subject: NETWORKS, parse: |values| Ok(Box::new(Advise::parse(values)?)) };

/// `perf4sight advise`.
pub static VERB: VerbSpec =
    VerbSpec { table: settings::TABLE, after_help: "", parse: |values| Ok(Box::new(Advise::parse(values)?)) };

#[derive(Debug, Clone, PartialEq, Eq)]
struct Advise {
    network: String,
    source: Source,
    batch: u64,
    stage: Stage,
    changes: Changes,
    limit: Option<Bytes>,
    device: Option<String>,
    dataset: Option<String>,
    extents: Extents,
    output: Vec<PathBuf>,
    overwrite: bool,
}

struct Advice {
    network: String,
    device: String,
    is_prior: bool,
    asked: Workload,
    asked_limit: Option<Bytes>,
    limit: Option<MemoryLimit>,
    findings: Findings,
    /// Changes that were not tried, or not in combinations, with the reasons.
    withheld: Withheld,
    /// The basis of the intervals of memory and latency.
    basis: Vec<String>,
    normalises: bool,
    timeline: Option<Timeline>,
}

impl Verb for Advise {
    /// Tries alternative values and reports those that help.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let device = self.device(context)?;
        let fingerprints = &device.fingerprints;
        let network =
            Named::asked(&self.network, &fingerprints.subject().dataset, &self.extents)?.report_remarks(context);
        check_understood(&network)?;
        let advice = self.advice(&device, &network)?;
        let files = self.write(&advice, context)?;
        Ok(Summary {
            answer: advice.sentences().join("\n"),
            headline: advice.remarks().join("\n"),
            tables: advice.tables(),
            files,
            json: advice.json(context.warnings()),
            ..Summary::default()
        })
    }
}

impl Advise {
    fn device(&self, context: &mut Context) -> Result<Device> {
        let expected = Expected {
            stage: self.stage,
            changes: self.changes,
            device: self.device.as_deref(),
            dataset: self.dataset.as_deref(),
        };
        self.check()?;
        // With one device there is exactly one answer.
        Ok(self.source.devices(&expected, context)?.swap_remove(0))
    }

    /// Refuses several devices.
    fn check(&self) -> Result<()> {
        match self.source.is_one() {
            true => Ok(()),
            false => Err(Error::usage("advice is of one device")
                .expected("one name or file as target")
                .help("perf4sight predict --target all shows what fits where")),
        }
    }

    fn advice(&self, Device { fingerprints, step, silent }: &Device, network: &Network) -> Result<Advice> {
        let asked = Workload { step: *step, batch: self.batch };
        let Some(memory) = &fingerprints.memory else { return Err(self.unknown(fingerprints)) };
        let (memory, latency) = rayon::join(
            || memory.prepare(network, self.limit),
            || fingerprints.latency.as_ref().or(silent.as_ref()).map(|latency| latency.prepare(network, None)),
        );
        let is_timed = fingerprints.latency.is_some();
        let judge = Judge { network, memory, latency, is_timed, possible: Cache::default() };
        judge.check(asked)?;
        let mut options = StepOption::all(asked, network);
        let withheld = options.par_iter_mut().map(|option| option.withhold(asked, &judge)).collect::<Vec<_>>();
        let withheld = Withheld::join(withheld);
        let about = judge.about_memory(asked.step)?;
        let findings = Search { judge: &judge, asked, options: &options }.run()?;
        let timeline = self.output.iter().any(|file| is_page(file)).then(|| about.timeline(asked.batch)).flatten();
        // The caches hold hundreds of steps by now, so freeing them takes a while.
        let Judge { memory, latency, .. } = judge;
        rayon::join(|| drop(memory), || drop(latency));
        Ok(Advice {
            network: self.network.clone(),
            device: fingerprints.subject().device.clone(),
            is_prior: fingerprints.are_priors(),
            asked,
            asked_limit: self.limit,
            limit: about.limit(),
            basis: basis(&findings).into_iter().chain(shared_memory([fingerprints])).collect(),
            findings,
            withheld,
            normalises: normalises(network),
            timeline,
        })
    }

    fn unknown(&self, fingerprints: &Fingerprints) -> Error {
        Error::input("there is no fingerprint of memory here, so it is unknown what fits")
            .file(fingerprints.folder())
            .expected(file_name(self.stage, Quantity::Memory))
            .help("fit one ([fingerprint] with memory_model = True), or use --target for a kind of device")
    }

    fn write(&self, advice: &Advice, context: &Context) -> Result<Vec<(&'static str, PathBuf)>> {
        for file in &self.output {
            let text = match is_page(file) {
                true => advice.page().to_html(),
                false => format!("{:#}\n", advice.json(context.warnings())),
            };
            overwrite::save(file, text, self.overwrite)?;
        }
        Ok(self.output.iter().map(|file| ("advice", file.clone())).collect())
    }
}

impl Section for Advise {
    fn outline(&self, foreseen: &Foreseen, _: &Context) -> Result<Outline> {
        // A file that an earlier section will have written is not a name of a network.
        let network = Some(&self.network).filter(|word| !foreseen.exists(Path::new(word)));
        network.map_or(Ok(()), |word| named::check(word)).map_err(Error::configured)?;
        let absent = network.filter(|word| is_file(word)).map(|word| KeyedPath { key: "network", path: word.into() });
        Ok(Outline {
            steps: vec![format!("advises on {} of {} {}", self.stage, self.network, self.source.description())],
            reads: absent.into_iter().chain(self.source.reads()).collect(),
            writes: self.output.iter().map(|file| KeyedPath { key: "output", path: file.clone() }).collect(),
            ..Outline::default()
        })
    }
}

fn is_page(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "html")
}

/// The basis of the intervals of both quantities.
fn basis(findings: &Findings) -> Vec<String> {
    let Findings { asked, single, .. } = findings;
    let of = |(quantity, prediction): (Quantity, &Prediction)| {
        prediction.interval.map(|interval| format!("{quantity} intervals: {}", interval.basis))
    };
    let time = std::iter::once(asked).chain(single).find_map(|one| one.time.as_ref());
    let latency = time.map(|time| (Quantity::Latency, time));
    latency.into_iter().chain([(Quantity::Memory, &asked.need.all)]).filter_map(of).collect()
}
