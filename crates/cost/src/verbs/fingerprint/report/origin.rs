//! The origin of a fingerprint: the machine, the networks, the day, and the repeatability of its steps. Part of the
//! first screen.

use super::{Assessment, ReportEvidence};
use crate::evaluation::RowScatter;
use crate::records::RowReading;
use perf4sight_base::stats::{median, percentile};
use perf4sight_base::units::Percent;
use perf4sight_machine::MachineProperties;
use perf4sight_report::{Block, Fact};
use std::collections::BTreeSet;

/// The settings of a profile that decide whether its times and memory apply elsewhere.
const SETTINGS: [(&str, &str); 4] =
    [("processor", "processor"), ("gpu", "GPU"), ("threads", "threads"), ("mem_limit", "memory limit")];
/// The number of characters of an RFC 3339 date that give the day.
const DAY: usize = 10;

/// The facts, and their consequences for the errors above.
pub fn blocks(evidence: &ReportEvidence) -> Vec<Block> {
    let noise =
        evidence.assessments.iter().filter_map(|part| Some(Block::Text(machines_share(part, part.study.noise?))));
    [Block::Facts(facts(evidence))].into_iter().chain(noise).collect()
}

fn facts(evidence: &ReportEvidence) -> Vec<Fact> {
    let settings = settings(evidence);
    let known = SETTINGS.iter().filter_map(|(key, name)| Some(Fact::new(*name, distinct(&settings, key)?)));
    let mut facts: Vec<Fact> = known.collect();
    if settings.is_empty() {
        facts.push(
            Fact::new("device", evidence.device).remark("the profile does not name the device that it was measured on"),
        );
    }
    facts.push(Fact::new("measured", days(evidence)));
    facts.push(Fact::new("networks profiled", profiled_networks_text(evidence)));
    let method = evidence.assessments.first().map(|part| part.fingerprint.recipe().method);
    facts.extend(method.map(|method| Fact::new("method", method.name()).remark(method.explanation())));
    facts.extend(time_variation(evidence));
    facts
}

fn settings<'a>(evidence: &'a ReportEvidence) -> Vec<&'a MachineProperties> {
    let profiled = evidence.profiles.iter().map(|profile| &profile.setting);
    let kept = evidence.assessments.iter().flat_map(|part| &part.fingerprint.settings);
    profiled.chain(kept).filter(|setting| !setting.is_empty()).collect()
}

/// The values of one setting; none if no profile has it.
fn distinct(settings: &[&MachineProperties], name: &str) -> Option<String> {
    let values: BTreeSet<&str> = settings.iter().filter_map(|setting| Some(setting.get(name)?.as_str())).collect();
    (!values.is_empty()).then(|| values.into_iter().collect::<Vec<_>>().join(", "))
}

fn days(evidence: &ReportEvidence) -> String {
    let runs = evidence.profiles.iter().flat_map(|profile| &profile.runs);
    let days: BTreeSet<&str> = runs.filter_map(|run| run.date.get(..DAY)).collect();
    match (days.first(), days.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (Some(day), _) => (*day).to_owned(),
        _ => "the profile has no dates".to_owned(),
    }
}

fn profiled_networks_text(evidence: &ReportEvidence) -> String {
    let fitted = evidence.assessments.iter().flat_map(|part| part.fingerprint.fitted_on());
    let names: BTreeSet<&str> = fitted.map(|fitted| fitted.variant.network.as_str()).collect();
    format!("{}: {}", names.len(), names.into_iter().collect::<Vec<_>>().join(", "))
}

/// How much the times of equal steps vary, according to the rows themselves.
fn time_variation(evidence: &ReportEvidence) -> Option<Fact> {
    let timed = evidence.records().filter(|record| matches!(record.reading, RowReading::Latency(Some(_))));
    let (mut all, mut spreads) = (0, Vec::new());
    for record in timed {
        all += 1;
        spreads.extend(record.spread.map(|spread| 100.0 * spread));
    }
    let fact = |value: String| Fact::new("steps wandered by", value);
    match (all, spreads.is_empty()) {
        (0, _) => None,
        (_, true) => Some(fact("not known".into()).remark("the rows have no spread of their steps")),
        (_, false) => Some(
            fact(format!(
                "{}, a tenth of the rows by more than {}",
                Percent(median(&spreads)),
                Percent(percentile(&spreads, 90.0))
            ))
            .remark(format!(
                "known for {} of {all} rows: how far the time of a row may lie from the truth",
                spreads.len()
            )),
        ),
    }
}

/// The share of the error that is the machine's noise: independent errors add by their squares.
fn machines_share(part: &Assessment, noise: RowScatter) -> String {
    let name = part.quantity();
    let own = format!(
        "The machine differs from itself by {} in {name} ({} configurations were measured again)",
        Percent(noise.mape),
        noise.repeated
    );
    let Some(known) = part.known_network_cases().scores_over_networks() else { return format!("{own}.") };
    let rest = (known.mape.powi(2) - noise.mape.powi(2)).max(0.0).sqrt();
    match rest <= noise.mape {
        true => format!(
            "{own}: of the {} at networks it knows, most is the machine's, and no fit comes closer to single measurements.",
            Percent(known.mape)
        ),
        false => format!(
            "{own}: of the {} at networks it knows, {} are left to the fit.",
            Percent(known.mape),
            Percent(rest)
        ),
    }
}
