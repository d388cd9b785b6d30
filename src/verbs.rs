//! Every section of a configuration.
//!
//! To add one: its `SPEC`, and a line in [`SPECS`]. To add a verb of the command line: a struct of plain options that is a
//! [`Verb`](perf4sight_verb::Verb), and a file in `cli/` with its arguments, which one variant of `cli::Command` names.

use perf4sight_breakdown::verb as breakdown;
use perf4sight_cost::verbs::{advise, create_network_dataset, fingerprint, predict, profile};
use perf4sight_sensitivity::verb as sensitivity;
use perf4sight_verb::Spec;
use {perf4sight_detection as detection, perf4sight_record as record};

/// Every section there is.
pub static SPECS: &[&Spec] = &[
    &create_network_dataset::SPEC,
    &profile::SPEC,
    &fingerprint::SPEC,
    &predict::SPEC,
    &advise::SPEC,
    &record::SPEC,
    &breakdown::SPEC,
    &sensitivity::SPEC,
    &detection::SPEC,
];
