//! Tensor groups for operations that are already fused: gradients that one group computes are reduced together.

use super::{
    ChangeProposal, LearningEffect, OptimizationPass, PassResults, PassSettings, bytes_of_prediction, tensor_fusion,
};
use crate::fusion::{self, BucketFusion};
use crate::search::{BYTES_OF_OPERATION, ContinueSearch, FusionClass, UnitGraph};
use crate::start::RecordedStart;
use perf4sight_base::error::{Error, Result, nearest};
use perf4sight_base::input_file;
use perf4sight_base::units::count_text;
use perf4sight_replay::graph::NodeId;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The pass, under its published name.
#[derive(Debug)]
pub(super) struct FromOpFusion;

pub(super) const NAME: &str = "from_opfs2tsfs";

impl OptimizationPass for FromOpFusion {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, start: &RecordedStart, wanted: &PassSettings) -> Result<()> {
        let Some(file) = &wanted.clusters else { return Ok(()) };
        read(start, &graph(start), file).map(drop)
    }

    fn memory(&self, start: &RecordedStart, _: &PassSettings) -> u64 {
        let graph = &start.recorded.typical.graph;
        bytes_of_prediction(graph).max(BYTES_OF_OPERATION * graph.nodes().len() as u64)
    }

    fn run(&self, start: &RecordedStart, wanted: &PassSettings, _: &ContinueSearch<'_>) -> Result<PassResults> {
        let mut found = PassResults::default();
        let Some(file) = &wanted.clusters else { return Ok(found) };
        let step = &start.recorded.typical;
        if step.is_sharded() {
            found.nothing.push("no tensor groups are made: FSDP reduces what it shards together".to_owned());
            return Ok(found);
        }
        let (gradients, link) = fusion::of_step(step, &start.communication, &start.schedule)?;
        let graph = graph(start);
        let clusters = read(start, &graph, file)?;
        let computed = computed_by(start, &graph);
        let cluster = |place: usize| computed[place].and_then(|unit| clusters.get(&unit));
        let are_one = |place: usize| {
            gradients[place].pass == gradients[place - 1].pass
                && cluster(place).is_some_and(|own| cluster(place - 1) == Some(own))
        };
        let ends: Vec<usize> =
            (1..=gradients.len()).filter(|place| *place == gradients.len() || !are_one(*place)).collect();
        if ends.len() == gradients.len() {
            found.unanswered.push(
                "no tensor groups are made: no group computes two gradients that follow one another, which operations of backward do"
                    .to_owned(),
            );
            return Ok(found);
        }
        let groups = BucketFusion::of_ends(&gradients, link, ends);
        let change = format!(
            "Horovod, BytePS: the gradients of each group of operations together, in {}",
            count_text(groups.ends.len() as u64, "bucket")
        );
        found.others.push(ChangeProposal::new(
            NAME,
            change,
            tensor_fusion::edit(&groups),
            LearningEffect::Same,
            start,
        )?);
        tensor_fusion::write(&gradients, &groups, &mut found);
        Ok(found)
    }
}

fn graph(start: &RecordedStart) -> UnitGraph {
    UnitGraph::from_step(&start.recorded.typical, &start.schedule, start.slowest(), &|_| true)
}

/// The lines of a `cluster_mapping.txt`, numbered from 1.
///
/// # Errors
/// A file that cannot be read, or that names no group.
pub fn group_lines(file: &Path) -> Result<Vec<(usize, String)>> {
    let text = input_file::text(file, "read groups of operations")?;
    let lines = text.lines().map(str::to_owned).enumerate().map(|(line, text)| (line + 1, text));
    let lines: Vec<(usize, String)> = lines.filter(|(_, text)| !text.trim().is_empty()).collect();
    match lines.is_empty() {
        true => Err(Error::input("it names no group")
            .file(file)
            .expected("lines of an operation and the number of its group")),
        false => Ok(lines),
    }
}

/// The cluster of each unit in a `cluster_mapping.txt`.
fn read(start: &RecordedStart, graph: &UnitGraph, file: &Path) -> Result<HashMap<usize, String>> {
    let names = graph.unique_names();
    let units: HashMap<&str, usize> = names.iter().enumerate().map(|(unit, name)| (name.as_str(), unit)).collect();
    let row = |line: usize, text: &str| -> Result<(usize, String)> {
        let at = |error: Error| error.file(file).line(line);
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
    for (line, text) in group_lines(file)? {
        let (unit, cluster) = row(line, &text)?;
        if clusters.insert(unit, cluster).is_some() {
            let twice = format!("the operation {} is in two groups", names[unit]);
            return Err(Error::input(twice).file(file).line(line).expected("each operation in one line"));
        }
    }
    check_neighbours(start, graph, &names, &clusters).map_err(|error| error.file(file))?;
    Ok(clusters)
}

/// Refuses groups that cannot be computed at once, because another operation is between theirs.
fn check_neighbours(
    start: &RecordedStart,
    graph: &UnitGraph,
    names: &[String],
    clusters: &HashMap<usize, String>,
) -> Result<()> {
    let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    clusters.iter().for_each(|(unit, cluster)| members.entry(cluster).or_default().push(*unit));
    for (cluster, units) in &mut members {
        units.sort_unstable();
        for pair in units.windows(2) {
            let [first, second] = [pair[0], pair[1]];
            let refused = |why: String| {
                Err(Error::input(format!("{} and {} of group {cluster} {why}", names[first], names[second]))
                    .expected("groups of operations that follow one another"))
            };
            if graph.units[first].resource != graph.units[second].resource {
                return refused("run on different threads or streams".to_owned());
            }
            let is_between = |unit: &usize| {
                graph.units[*unit].resource == graph.units[first].resource
                    && computes(graph, *unit)
                    && !accumulates(start, graph, *unit)
            };
            if let Some(other) = (first + 1..second).find(is_between) {
                return refused(format!("are no neighbours: {} runs between them", names[other]));
            }
        }
    }
    Ok(())
}

fn computes(graph: &UnitGraph, unit: usize) -> bool {
    graph.units[unit].operation.is_some_and(|one| one.class != FusionClass::View)
}

/// Inside this, gradients are added up and copied into buckets.
const ACCUMULATE: &str = "AccumulateGrad";

fn accumulates(start: &RecordedStart, graph: &UnitGraph, unit: usize) -> bool {
    let step = &start.recorded.typical.graph;
    let call = graph.units[unit].nodes.first().map(|id| step.node(*id).call);
    call.is_some_and(|call| step.calls().path(call).any(|name| name.contains(ACCUMULATE)))
}

/// For each gradient the operation that computes it: the last one before it on its thread, or the kernel that this launched.
fn computed_by(start: &RecordedStart, graph: &UnitGraph) -> Vec<Option<usize>> {
    let nodes = graph.units.iter().enumerate().flat_map(|(unit, own)| own.nodes.iter().map(move |id| (*id, unit)));
    let unit_of: HashMap<NodeId, usize> = nodes.collect();
    let launched =
        graph.units.iter().enumerate().flat_map(|(unit, own)| own.launches.iter().map(move |by| (*by, unit)));
    let launched: HashMap<u32, usize> = launched.collect();
    let computed = |unit: usize| {
        let own = std::iter::once(unit).chain(launched.get(&(unit as u32)).copied());
        own.filter(|_| !accumulates(start, graph, unit)).find(|unit| computes(graph, *unit))
    };
    let rank = start.recorded.typical.ranks.iter().find(|rank| rank.number == start.slowest());
    let gradients = rank.into_iter().flat_map(|rank| &rank.gradients);
    let before = |ready: NodeId| {
        let unit = *unit_of.get(&ready)?;
        let resource = graph.units[unit].resource;
        (0..unit).rev().filter(|other| graph.units[*other].resource == resource).find_map(computed)
    };
    gradients.map(|gradient| before(gradient.ready)).collect()
}
