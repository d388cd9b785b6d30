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
use super::asked;
use super::named::NamedNetwork;
use super::source::TargetDevice;
use super::wanted_step::WantedStep;
use crate::fingerprint::{MemoryLimit, Prediction, check_understood};
use crate::verbs::assumed_threads::assumed_threads;
use crate::verbs::shared_memory::{limit_text, shared_memory};
use judge::WorkloadJudge;
use options::{StepOption, WithheldChanges, normalises};
use perf4sight_base::cache::Cache;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::overwrite;
use perf4sight_memory::MemoryTimeline;
use perf4sight_network::Network;
use perf4sight_step::workload::{Quantity, Workload};
use perf4sight_verb::{Context, Outline, PlannedFiles, Section, Spec, Summary, Verb, VerbSpec};
use rayon::prelude::*;
use search::{AdviceFindings, AdviceSearch};

/// The section `[advise]`.
pub static SPEC: Spec =
    Spec { table: settings::TABLE, subject: NETWORKS, parse: |values| Ok(Box::new(Advise::parse(values)?)) };

/// `perf4sight advise`.
pub static VERB: VerbSpec =
    VerbSpec { table: settings::TABLE, after_help: "", parse: |values| Ok(Box::new(Advise::parse(values)?)) };

#[derive(Debug, Clone, PartialEq, Eq)]
struct Advise {
    network: String,
    batch: u64,
    wanted: WantedStep,
}

struct Advice {
    network: String,
    device: String,
    is_prior: bool,
    asked: Workload,
    asked_limit: Option<String>,
    limit: Option<MemoryLimit>,
    findings: AdviceFindings,
    /// Changes that were not tried, or not in combinations, with the reasons.
    withheld: WithheldChanges,
    /// The basis of the intervals of memory and latency.
    basis: Vec<String>,
    normalises: bool,
    timeline: Option<MemoryTimeline>,
}

impl Verb for Advise {
    /// Tries alternative values and reports those that help.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        self.check()?;
        self.check_network(&PlannedFiles::default())?;
        // With one device there is exactly one answer.
        let device = self.wanted.devices(context)?.swap_remove(0);
        let fingerprints = &device.fingerprints;
        let network =
            NamedNetwork::load_with_extents(&self.network, &fingerprints.subject().dataset, &self.wanted.extents)?
                .report_remarks(context);
        check_understood(&network)?;
        let advice = self.advice(&device, &network)?;
        let files = self.wanted.write("advice", |ending| match ending {
            "html" => advice.page(context.warnings()).to_html(),
            _ => format!("{:#}\n", advice.json(context.warnings())),
        })?;
        Ok(Summary {
            answer: advice.to_sentences().join("\n"),
            headline: advice.remarks().join("\n"),
            tables: advice.tables(),
            files,
            json: advice.json(context.warnings()),
            ..Summary::default()
        })
    }
}

impl Advise {
    /// Refuses several devices.
    fn check(&self) -> Result<()> {
        match self.wanted.source.is_one() {
            true => Ok(()),
            false => Err(Error::usage("advice is of one device")
                .expected("one name or file as target")
                .help("perf4sight predict --target all shows what fits where")),
        }
    }

    /// Refuses a folder, which may be written by then, and a pattern.
    fn check_network(&self, planned: &PlannedFiles) -> Result<()> {
        match asked::is_several(&self.network, planned)? {
            false => Ok(()),
            true => Err(Error::usage(format!("advice is of one network, and {} may be several", self.network))
                .expected("a file, or the name of a known network")),
        }
    }

    fn advice(&self, TargetDevice { fingerprints, step, silent }: &TargetDevice, network: &Network) -> Result<Advice> {
        let asked = Workload { step: *step, batch: self.batch };
        let Some(memory) = &fingerprints.memory else {
            return Err(self
                .wanted
                .without_memory(fingerprints)
                .help("fit one ([fingerprint] with memory_model = True), or name a kind of device (target)"));
        };
        let (memory, latency) = rayon::join(
            || memory.prepare(network, self.wanted.limit),
            || fingerprints.latency.as_ref().or(silent.as_ref()).map(|latency| latency.prepare(network, None)),
        );
        let is_timed = fingerprints.latency.is_some();
        let judge = WorkloadJudge { network, memory, latency, is_timed, possible: Cache::default() };
        judge.check(asked)?;
        let mut options = StepOption::all(asked, network);
        let withheld = options.par_iter_mut().map(|option| option.withhold(asked, &judge)).collect::<Vec<_>>();
        let withheld = WithheldChanges::join(withheld);
        let about = judge.about_memory(asked.step)?;
        let findings = AdviceSearch { judge: &judge, asked, options: &options }.run()?;
        let timeline = self.wanted.has_page().then(|| about.timeline(asked.batch)).flatten();
        // The caches hold hundreds of steps by now, so freeing them takes a while.
        let WorkloadJudge { memory, latency, .. } = judge;
        rayon::join(|| drop(memory), || drop(latency));
        Ok(Advice {
            network: self.network.clone(),
            device: fingerprints.subject().device.clone(),
            is_prior: fingerprints.are_priors(),
            asked,
            asked_limit: self.wanted.limit.map(|limit| limit_text(limit, [fingerprints])),
            limit: about.limit(),
            basis: basis(&findings)
                .into_iter()
                .chain(assumed_threads([fingerprints]))
                .chain(shared_memory([fingerprints]))
                .collect(),
            findings,
            withheld,
            normalises: normalises(network),
            timeline,
        })
    }
}

impl Section for Advise {
    fn outline(&self, planned: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        let does = format!("advises on {} of {}", self.wanted.stage, self.network);
        let outline = self.wanted.outline(&does, "network", std::slice::from_ref(&self.network), planned);
        let is_one = self.check_network(planned);
        let mut outline = outline.check_value("network", move || is_one.clone());
        // Before the networks are read.
        outline.checks.rotate_right(1);
        Ok(outline.check_value("target", || self.check()).check_value("output", || {
            self.wanted.check_output(|ending| match ending {
                "html" => overwrite::GENERATOR.to_owned(),
                _ => json::EMPTY.to_owned(),
            })
        }))
    }
}

/// The basis of the intervals of both quantities.
fn basis(findings: &AdviceFindings) -> Vec<String> {
    let AdviceFindings { asked, single, .. } = findings;
    let of = |(quantity, prediction): (Quantity, &Prediction)| {
        prediction.interval.map(|interval| format!("{quantity} intervals: {}", interval.basis))
    };
    let time = std::iter::once(asked).chain(single).find_map(|one| one.time.as_ref());
    let latency = time.map(|time| (Quantity::Latency, time));
    latency.into_iter().chain([(Quantity::Memory, &asked.need.all)]).filter_map(of).collect()
}
