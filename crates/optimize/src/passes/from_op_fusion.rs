//! Tensor groups for operations that are already fused: gradients that one group computes are reduced together.

use super::{Found, Learns, Pass, Proposal, Wanted, tensor_fusion};
use crate::changes::gathers;
use crate::fusion::{self, Fusion};
use crate::search::{Class, GoOn, UnitGraph};
use crate::start::Start;
use perf4sight_base::error::{Error, Result, nearest};
use perf4sight_base::input_file;
use perf4sight_replay::graph::NodeId;
use std::collections::HashMap;
use std::path::Path;

/// The pass, under its published name.
#[derive(Debug)]
pub(super) struct FromOpFusion;

pub(super) const NAME: &str = "from_opfs2tsfs";

impl Pass for FromOpFusion {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, start: &Start, wanted: &Wanted) -> Result<()> {
        let Some(file) = &wanted.clusters else { return Ok(()) };
        read(&graph(start), file).map(drop)
    }

    fn run(&self, start: &Start, wanted: &Wanted, _: &GoOn<'_>) -> Result<Found> {
        let mut found = Found::default();
        let Some(file) = &wanted.clusters else { return Ok(found) };
        let step = &start.recorded.typical;
        if gathers(step).is_ok() {
            found.nothing.push("no tensor groups are made: FSDP reduces what it shards together".to_owned());
            return Ok(found);
        }
        let (gradients, link) = fusion::of_step(step, &start.communication, &start.schedule)?;
        let graph = graph(start);
        let clusters = read(&graph, file)?;
        let computed = computed_by(start, &graph);
        let cluster = |place: usize| computed[place].and_then(|unit| clusters.get(&unit));
        let is_end = |place: &usize| {
            *place == gradients.len() || cluster(*place).is_none() || cluster(place - 1) != cluster(*place)
        };
        let ends = (1..=gradients.len()).filter(is_end).collect();
        let groups = Fusion::of_ends(&gradients, link, ends);
        let change = "Horovod, BytePS: the gradients of each group of operations together";
        found.others.push(Proposal::of(NAME, change, tensor_fusion::edit(&groups), Learns::Same, start)?);
        tensor_fusion::write(&gradients, &groups, &mut found);
        Ok(found)
    }
}

fn graph(start: &Start) -> UnitGraph {
    UnitGraph::of(&start.recorded.typical, &start.schedule, start.slowest(), &|_| true)
}

/// The cluster of each unit in a `cluster_mapping.txt`.
fn read(graph: &UnitGraph, file: &Path) -> Result<HashMap<usize, String>> {
    let text = input_file::text(file, "read groups of operations")?;
    let names = graph.unique_names();
    let units: HashMap<&str, usize> = names.iter().enumerate().map(|(unit, name)| (name.as_str(), unit)).collect();
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let row = |(line, text): (usize, &str)| -> Result<(usize, String)> {
        let at = |error: Error| error.file(file).line(line + 1);
        let (name, cluster) = text.trim().rsplit_once(' ').ok_or_else(|| {
            at(Error::input(format!("\"{text}\" names no group")).expected("an operation and the number of its group"))
        })?;
        let unit = units.get(name).ok_or_else(|| {
            let error = Error::input(format!("no operation \"{name}\" was recorded"));
            at(match nearest(name, units.keys().copied()) {
                Some(near) => error.help(format!("did you mean {near}? The groups may be of another network")),
                None => error.help("the groups may be of another network"),
            })
        })?;
        Ok((*unit, cluster.to_owned()))
    };
    let mut clusters = HashMap::new();
    for line in lines {
        let (unit, cluster) = row(line)?;
        if clusters.insert(unit, cluster).is_some() {
            let twice = format!("the operation {} is in two groups", names[unit]);
            return Err(Error::input(twice).file(file).line(line.0 + 1).expected("each operation in one line"));
        }
    }
    Ok(clusters)
}

/// For each gradient the operation that computes it: the last one before it on its thread.
fn computed_by(start: &Start, graph: &UnitGraph) -> Vec<Option<usize>> {
    let unit_of: HashMap<NodeId, usize> =
        graph.units.iter().enumerate().flat_map(|(unit, own)| own.nodes.iter().map(move |id| (*id, unit))).collect();
    let computes = |unit: &usize| graph.units[*unit].operation.is_some_and(|one| one.class != Class::View);
    let rank = start.recorded.typical.ranks.iter().find(|rank| rank.number == start.slowest());
    let gradients = rank.into_iter().flat_map(|rank| &rank.gradients);
    let before = |ready: NodeId| {
        let unit = *unit_of.get(&ready)?;
        let resource = graph.units[unit].resource;
        (0..unit).rev().filter(|other| graph.units[*other].resource == resource).find(computes)
    };
    gradients.map(|gradient| before(gradient.ready)).collect()
}
