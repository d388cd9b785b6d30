//! The results of pruning as tables: the variants, and the layers that could not be pruned.

use super::PrunedVariant;
use super::source::LoadedNetwork;
use crate::pruning::Pruner;
use perf4sight_base::units::{Percent, list_text};
use perf4sight_report::{Cell, Table, TableBuilder};
use std::collections::BTreeMap;

/// The maximum number of layers that a row names.
const NAMED: usize = 3;

pub(super) fn variants(made: &[&PrunedVariant]) -> Table {
    TableBuilder::new("Pruned networks", made)
        .text("variant", "variant", |made| made.variant.to_string())
        .number("asked_percent", "asked", |made| Percent(f64::from(made.variant.level)))
        .number("reached_percent", "reached", |made| Percent(made.pruned.percent))
        .number("parameters", "parameters", |made| made.pruned.network.parameters())
        .number("macs", "MACs", |made| made.pruned.network.macs())
        .number("activations", "activations", |made| made.pruned.network.activations())
        .text("limit", "stopped by", |made| made.pruned.limit.map(|limit| limit.to_string()))
        .table()
}

/// One row per layer and reason.
pub(super) fn unprunable(networks: &[LoadedNetwork]) -> Table {
    let networks = networks.iter().map(|loaded| &loaded.network);
    let rows =
        networks.flat_map(|network| Pruner::new(network).unprunable().into_iter().map(move |stays| (network, stays)));
    TableBuilder::new("Channels that stay", rows)
        .text("network", "network", |(network, _)| network.name().to_owned())
        .text("layer", "layer", |(_, stays)| stays.layer.clone())
        .number("channels", "channels", |(_, stays)| stays.channels)
        .text("reason", "reason", |(_, stays)| stays.reason.to_string())
        .table()
}

pub(super) fn reasons(unprunable: &Table) -> Table {
    let mut rows: BTreeMap<(String, String), (u64, Vec<String>)> = BTreeMap::new();
    for row in &unprunable.rows {
        let [network, layer, Cell::Count(channels), reason] = row.as_slice() else { continue };
        let (sum, layers) = rows.entry((network.to_string(), reason.to_string())).or_default();
        *sum += channels;
        layers.push(layer.to_string());
    }
    TableBuilder::new("Channels that stay", rows)
        .text("network", "network", |((network, _), _)| network.clone())
        .number("channels", "channels", |(_, (channels, _))| *channels)
        .text("reason", "reason", |((_, reason), _)| reason.clone())
        .text("layers", "layers", |(_, (_, layers))| list_text(layers, NAMED))
        .table()
}
