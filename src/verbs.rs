//! Every section of a configuration, and every verb of the command line.
//!
//! To add a section: its `SPEC`, and a line in [`SPECS`]. To add a verb: its `VERB`, and a line in [`VERBS`]; it is a struct of plain
//! options that is a [`Verb`](perf4sight_verb::Verb), and declares its settings once for both.

use perf4sight_breakdown::verb as breakdown;
use perf4sight_cost::verbs::{
    advise, calibrate, create_network_dataset, fingerprint, fingerprints, inspect, networks, predict, profile, prune,
};
use perf4sight_optimize::verb::{cost_model, optimize};
use perf4sight_replay::verb as replay;
use perf4sight_sensitivity::verb as sensitivity;
use perf4sight_verb::{Spec, VerbSpec};
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
    &replay::SPEC,
    &replay::statistic::SPEC,
    &replay::collect::SPEC,
    &sensitivity::SPEC,
    &detection::SPEC,
    &cost_model::SPEC,
    &optimize::SPEC,
];

/// Every verb that is declared by its settings, in the order of the help.
pub static VERBS: &[&VerbSpec] = &[
    &networks::VERB,
    &fingerprints::VERB,
    &inspect::VERB,
    &profile::VERB,
    &predict::VERB,
    &advise::VERB,
    &prune::VERB,
    &calibrate::VERB,
    &record::VERB,
    &breakdown::VERB,
    &replay::VERB,
    &replay::statistic::VERB,
    &replay::collect::VERB,
    &crate::analyze::VERB,
    &sensitivity::VERB,
    &detection::VERB,
    &cost_model::VERB,
    &optimize::VERB,
];
