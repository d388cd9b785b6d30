//! The verbs and sections about what networks cost, one file or folder each; they know nothing of each other beyond what they share.

pub mod advise;
mod asking;
pub mod calibrate;
pub mod create_network_dataset;
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
pub mod source;
mod step;
mod temporary;
mod timeline;
mod verdict;

use perf4sight_verb::Noun;

/// What the sections here report on.
const NETWORKS: Noun = Noun { one: "network", several: "networks" };
