//! The results of pruning as tables: the variants, and the layers that could not be pruned.

use super::Made;
use super::source::Loaded;
use crate::pruning::Pruner;
use perf4sight_base::units::Percent;
use perf4sight_report::{Cell, Column, Table};
use std::collections::BTreeMap;

/// One row per variant.
pub(super) fn variants(made: &[&Made]) -> Table {
    let mut table = Table::new(
        "Pruned networks",
        [
            Column::text("variant", "variant"),
            Column::number("asked_percent", "asked"),
            Column::number("reached_percent", "reached"),
            Column::number("parameters", "parameters"),
            Column::number("macs", "MACs"),
            Column::number("activations", "activations"),
            Column::text("limit", "stopped by"),
        ],
    );
    for Made { variant, pruned } in made {
        table.row([
            variant.to_string().into(),
            Percent(f64::from(variant.level)).into(),
            Percent(pruned.percent).into(),
            pruned.network.parameters().into(),
            pruned.network.macs().into(),
            pruned.network.activations().into(),
            pruned.limit.map(|limit| limit.to_string()).into(),
        ]);
    }
    table
}

/// One row per layer and reason.
pub(super) fn unprunable(networks: &[Loaded]) -> Table {
    let mut table = Table::new(
        "Channels that stay",
        [
            Column::text("network", "network"),
            Column::text("layer", "layer"),
            Column::number("channels", "channels"),
            Column::text("reason", "reason"),
        ],
    );
    for network in networks.iter().map(|loaded| &loaded.network) {
        for stays in Pruner::new(network).unprunable() {
            table.row([
                network.name().into(),
                stays.layer.into(),
                stays.channels.into(),
                stays.reason.to_string().into(),
            ]);
        }
    }
    table
}

/// The same with one row per network and reason.
pub(super) fn reasons(unprunable: &Table) -> Table {
    let mut rows: BTreeMap<(String, String), (u64, Vec<String>)> = BTreeMap::new();
    for row in &unprunable.rows {
        let [network, layer, Cell::Count(channels), reason] = row.as_slice() else { continue };
        let (sum, layers) = rows.entry((network.to_string(), reason.to_string())).or_default();
        *sum += channels;
        layers.push(layer.to_string());
    }
    let mut table = Table::new(
        "Channels that stay",
        [
            Column::text("network", "network"),
            Column::number("channels", "channels"),
            Column::text("reason", "reason"),
            Column::text("layers", "layers"),
        ],
    );
    for ((network, reason), (channels, layers)) in rows {
        table.row([network.into(), channels.into(), reason.into(), listed(&layers)]);
    }
    table
}

/// The first layers by name, and the number of the others.
fn listed(layers: &[String]) -> Cell {
    match layers {
        [first, second, third, rest @ ..] if !rest.is_empty() => {
            format!("{first}, {second}, {third} and {} more", rest.len()).into()
        }
        few => few.join(", ").into(),
    }
}
