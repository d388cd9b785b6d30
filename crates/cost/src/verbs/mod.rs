//! The verbs and sections about the cost of networks, one file or folder each; they depend on each other only through
//! shared modules.

pub mod advise;
mod asked;
mod asking;
mod assumed_threads;
pub mod calibrate;
pub mod create_network_dataset;
mod exporting;
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
pub mod shared_memory;
mod source;
mod step;
mod temporary;
mod timeline;
mod verdict;
mod wanted_step;

use perf4sight_verb::CountedNoun;

const NETWORKS: CountedNoun = CountedNoun { one: "network", several: "networks" };
