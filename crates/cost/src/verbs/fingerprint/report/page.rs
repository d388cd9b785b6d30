//! The page of a fingerprint's report, section by section.

use super::{Assessment, ReportEvidence, charts, cost, fit, growth, operations, protocols, tables, trust};
use perf4sight_machine::MachineProperties;
use perf4sight_report::{Block, Fact, Page};
use perf4sight_step::workload::Quantity;
use std::collections::{BTreeMap, BTreeSet};

/// The number of rows among the worst predictions.
const WORST: usize = 10;

pub fn page(evidence: &ReportEvidence) -> Page {
    let title = format!("{} fingerprint of {}", tables::capital(evidence.step.stage.name()), evidence.device);
    let subtitle = "How far its predictions of latency and memory can be trusted, judged by rows that were measured.";
    let mut page = Page::new(title, subtitle);
    let parts = &evidence.assessments;
    page.chapter("Can I trust it?", trust::blocks(evidence));
    page.chapter("Known networks, new networks", side_by_side(evidence));
    let memory = parts.iter().filter(|part| part.quantity() == Quantity::Memory);
    page.chapter("Does it fit?", memory.flat_map(|part| fit::blocks(evidence, part)));
    let learning = parts.iter().filter_map(protocols::learning).map(Block::Chart);
    let learning: Vec<Block> = learning.chain(growth::blocks(evidence)).collect();
    page.chapter(
        "Would more rows help?",
        blocks_or_text(learning, "Too few rows, or no level that was not fitted on, to know."),
    );
    page.chapter(
        "Predicted against measured",
        pairs(parts, |part| [charts::predicted_against_measured(evidence, part), charts::errors(evidence, part)]),
    );
    let inside: Vec<Block> = parts.iter().flat_map(operations::blocks).collect();
    if !inside.is_empty() {
        page.chapter("Inside a step", inside);
    }
    let tables = parts.iter().map(|part| Block::Table(tables::by_network(part)));
    let by_network = parts.iter().flat_map(|part| charts::by_network(evidence, part)).map(Block::Chart);
    page.chapter("Error by network", by_network.chain(tables));
    let folded = parts.iter().map(|part| Block::Folded(tables::by_level(part)));
    let by_level = parts.iter().map(|part| Block::Chart(charts::by_level(evidence, part)));
    page.chapter("Error by level", by_level.chain(folded));
    let folded = parts.iter().map(|part| Block::Folded(tables::by_batch(part)));
    let by_batch = parts.iter().map(|part| Block::Chart(charts::by_batch(evidence, part)));
    page.chapter("Error by batch size", by_batch.chain(folded));
    page.chapter("Worst rows", parts.iter().map(|part| Block::Table(tables::worst(part, WORST))));
    page.chapter("What fits into memory", charts::memory_maps(evidence).into_iter().map(Block::Chart));
    page.chapter("What the profile cost", cost::blocks(evidence));
    let noticed = Some(tables::warnings(evidence)).filter(|table| !table.rows.is_empty()).map(Block::Folded);
    page.chapter("Left out", [Block::List(evidence.not_used())].into_iter().chain(noticed));
    page.chapter("Provenance", provenance(evidence));
    page
}

fn side_by_side(evidence: &ReportEvidence) -> Vec<Block> {
    let parts = &evidence.assessments;
    let missing: BTreeSet<&String> = parts.iter().flat_map(|part| &part.study.missing).collect();
    let missing = missing.into_iter().map(|reason| Block::Text(format!("Not tested in every way: {reason}.")));
    let overview = parts.iter().map(protocols::side_by_side);
    let networks = parts.iter().filter_map(|part| protocols::networks_left_out(evidence, part));
    let coverage = parts.iter().filter_map(|part| protocols::coverage(evidence, part));
    let charts = overview.chain(networks).chain(coverage).map(Block::Chart);
    missing.chain(charts).chain([Block::Table(protocols::table(evidence))]).collect()
}

fn blocks_or_text(blocks: Vec<Block>, otherwise: &str) -> Vec<Block> {
    if blocks.is_empty() { vec![Block::Text(otherwise.into())] } else { blocks }
}

/// The first charts of all quantities side by side, then the second ones.
fn pairs(parts: &[Assessment], draw: impl Fn(&Assessment) -> [perf4sight_report::Chart; 2]) -> Vec<Block> {
    let (first, second): (Vec<_>, Vec<_>) = parts.iter().map(|part| draw(part).into()).unzip();
    first.into_iter().chain(second).map(Block::Chart).collect()
}

fn provenance(evidence: &ReportEvidence) -> Vec<Block> {
    let mut facts = vec![
        Fact::new("device", evidence.device),
        Fact::new("data set", evidence.dataset),
        Fact::new("step", evidence.step.to_string()),
        Fact::new("report made", evidence.date.as_str()).remark(format!("perf4sight {}", env!("CARGO_PKG_VERSION"))),
    ];
    facts.extend(evidence.assessments.iter().flat_map(fit_facts));
    let mut blocks = vec![Block::Facts(facts)];
    let settings: Vec<&MachineProperties> =
        evidence.assessments.iter().flat_map(|part| &part.fingerprint.settings).collect();
    let mut different: Vec<&MachineProperties> = Vec::new();
    for setting in settings {
        if !different.contains(&setting) {
            different.push(setting);
        }
    }
    blocks.extend(different.into_iter().flat_map(|setting| {
        let facts = setting.iter().map(|(name, value)| Fact::new(name, value.as_str())).collect();
        [Block::Text("Measured with:".into()), Block::Facts(facts)]
    }));
    blocks.extend(configurations(evidence));
    blocks
}

/// The configuration of this report, and those of the profile's runs that differ from it and from one another.
fn configurations(evidence: &ReportEvidence) -> Vec<Block> {
    let runs = evidence.profiles.iter().flat_map(|profile| &profile.runs);
    let runs = runs.map(|run| (format!("Configuration of the profile's run of {}", run.date), run.config.as_str()));
    let own = ("Configuration of this report".to_owned(), evidence.config);
    let mut different: Vec<(String, &str)> = Vec::new();
    for (title, config) in [own].into_iter().chain(runs) {
        if !config.is_empty() && different.iter().all(|(_, other)| *other != config) {
            different.push((title, config));
        }
    }
    different.into_iter().map(|(title, config)| Block::Source(title, config.to_owned())).collect()
}

fn fit_facts(part: &Assessment) -> Vec<Fact> {
    let (name, fingerprint) = (part.quantity(), part.fingerprint);
    let mut networks: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for fitted in fingerprint.fitted_on() {
        let level = format!("{} ({})", fitted.variant.level, fitted.rows);
        networks.entry(&fitted.variant.network).or_default().push(level);
    }
    let rows: usize = fingerprint.fitted_on().iter().map(|fitted| fitted.rows).sum();
    let listed: Vec<String> =
        networks.into_iter().map(|(network, levels)| format!("{network} at {}", levels.join(", "))).collect();
    let lessons = fingerprint.taught_by();
    let names: BTreeSet<&str> = lessons.iter().map(|lesson| lesson.variant.network.as_str()).collect();
    let taught = (!lessons.is_empty()).then(|| {
        let rows: usize = lessons.iter().map(|lesson| lesson.rows).sum();
        Fact::new(format!("{name}: rows that teach operations"), rows).remark(format!(
            "small networks of perf4sight's own: fitted on, and in no score of this report: {}",
            names.into_iter().collect::<Vec<_>>().join(", ")
        ))
    });
    let provenance = &fingerprint.provenance;
    let facts = [
        Fact::new(format!("{name}: fitted"), provenance.date.as_str()).remark(format!(
            "method {}, seed {}, {:.2} s",
            fingerprint.recipe().method,
            fingerprint.recipe().seed,
            provenance.seconds
        )),
        Fact::new(format!("{name}: rows fitted on"), rows).remark(listed.join("; ")),
    ];
    facts.into_iter().chain(taught).collect()
}
