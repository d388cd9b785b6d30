//! One file or folder per section of a configuration or verb of the command line, written against the [`frame`](crate::frame).
//!
//! To add a section: a file here with its `SPEC`, and one line in [`SPECS`]. To add a verb: a file here with a struct of plain options
//! that is a [`Verb`](crate::frame::Verb), and a file in `cli/` with its arguments, which one variant of `cli::Command` names.

pub mod advise;
mod asking_keys;
pub mod breakdown;
pub mod calibrate;
mod course;
pub mod create_network_dataset;
pub mod detection;
pub mod extents;
pub mod fingerprint;
pub mod fingerprints;
mod images;
pub mod inspect;
mod named;
pub mod networks;
pub mod predict;
pub mod profile;
pub mod prune;
mod python;
pub mod record;
pub mod sensitivity;
pub mod source;
mod step;
mod temporary;
pub mod time;
mod verdict;

use crate::frame::{Noun, Spec};

/// What the sections here tell of.
const NETWORKS: Noun = Noun { one: "network", several: "networks" };

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
