//! The graph that is searched: units of one rank, which are fused or not, and what they wait for.

use super::{FusableOperation, FusionClass, operation};
use perf4sight_replay::graph::{CallId, EdgeKind, NodeId, StepGraph, TaskGraph, WorkKind};
use perf4sight_replay::simulate::NodeSchedule;
use std::collections::HashMap;

/// A part of an operation that runs without a break on a thread or stream.
#[derive(Debug, Clone, PartialEq)]
pub struct FusionUnit {
    /// Its rows in the graph of the step, in their order.
    pub nodes: Vec<NodeId>,
    /// Nanoseconds.
    pub duration: u64,
    /// Its thread, stream or link.
    pub resource: u32,
    /// What is known of its operation; none for what is never fused.
    pub operation: Option<FusableOperation>,
    /// The name of its operation.
    pub name: String,
    /// Nanoseconds of it that fusing it into another saves whatever it moves, where a model of operations says so.
    pub fixed: u64,
    /// The units of threads that launch it, which take no time once it is part of another.
    pub launches: Vec<u32>,
}

impl FusionUnit {
    /// Whether nothing launches it any longer once it is part of another: what follows a product is part of the product's kernel, and
    /// that is launched as before.
    pub fn launch_goes(&self) -> bool {
        self.operation.is_some_and(|operation| operation.class != FusionClass::Product)
    }
}

/// Bytes of a small block of memory: what the allocator adds, and what stays free in it.
const BLOCK: u64 = 32;
/// Blocks of a unit: its nodes, its name, its unique name, its launches, what it waits for, what waits for it, what reads it.
const BLOCKS: u64 = 7;
/// Bytes of a unit in the graph, and of its unique name and its place on its thread that are needed in the end.
pub const BYTES_OF_OPERATION: u64 = (size_of::<FusionUnit>() + 3 * size_of::<Vec<u32>>() + size_of::<String>()) as u64
    + (size_of::<(usize, usize)>() + size_of::<usize>()) as u64
    + BLOCKS * BLOCK;

/// Units with what they wait for.
#[derive(Debug, Clone, Default)]
pub struct UnitGraph {
    /// In an order in which everything comes behind what it waits for.
    pub units: Vec<FusionUnit>,
    /// Units that each waits for, without those before it on its resource.
    pub inputs: Vec<Vec<u32>>,
    /// Units that wait for each, likewise.
    pub outputs: Vec<Vec<u32>>,
    /// For each unit those that read what it writes, and may be fused with it.
    pub readers: Vec<Vec<u32>>,
    /// Whether the trace says who reads what; otherwise neighbours are taken for writer and reader.
    pub data_known: bool,
}

impl UnitGraph {
    /// The units of one rank and its links, in the order of a replay.
    pub fn from_step(step: &StepGraph, schedule: &NodeSchedule, rank: u32, candidate: &dyn Fn(&str) -> bool) -> Self {
        let graph = &step.graph;
        let is_own = |id: &NodeId| graph.resource_of(*id).rank.is_none_or(|own| own == rank);
        let mut building = UnitGraphBuilder { unit_of: vec![NONE; graph.nodes().len()], ..UnitGraphBuilder::default() };
        let waits = wait_for_others(graph);
        // What threads do is to launch, where kernels compute.
        let computing = match graph.ids().any(|id| graph.node(id).kind == WorkKind::Kernel) {
            true => WorkKind::Kernel,
            false => WorkKind::Operation,
        };
        let mut last_on: Vec<Option<u32>> = vec![None; graph.resources().len()];
        for id in schedule.order().filter(is_own) {
            let node = graph.node(id);
            let last = &mut last_on[node.resource.index()];
            let found = outermost_operation(graph, id);
            let is_next =
                |unit: &u32| found.is_some() && building.matched[*unit as usize] == found.map(|(call, _)| call);
            let joins = last.filter(|unit| !waits[id.index()] && is_next(unit));
            // What computes nothing, such as the call around a product, is no gap between candidates.
            let fusable = |name: &str, operation: &FusableOperation| {
                node.kind == computing && (operation.class == FusionClass::View || candidate(name))
            };
            let unit = joins.unwrap_or_else(|| building.begin(graph, id, found, &fusable));
            building.join(graph, id, unit);
            *last = Some(unit);
        }
        building.finish(graph)
    }

    /// Pairs of units that may be fused as they are.
    pub fn pairs(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let of_unit = |(unit, readers): (usize, &Vec<u32>)| {
            readers.iter().map(move |reader| (unit as u32, *reader)).collect::<Vec<_>>()
        };
        self.readers.iter().enumerate().flat_map(of_unit)
    }

    /// The name of a unit that no other has: that of its operation and how often it came before.
    pub fn unique_names(&self) -> Vec<String> {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let mut names = Vec::with_capacity(self.units.len());
        for unit in &self.units {
            let count = seen.entry(&unit.name).or_default();
            names.push(format!("{}.{count}", unit.name));
            *count += 1;
        }
        names
    }
}

const NONE: u32 = u32::MAX;

/// Inside these the operations of each parameter follow one another, which read nothing of each other.
const UPDATE: &str = "Optimizer.";

/// The outermost operation around a node that the table knows, and its call; of operations that compute nothing and are around
/// others, the one inside.
fn outermost_operation(graph: &TaskGraph, id: NodeId) -> Option<(CallId, FusableOperation)> {
    let node = graph.node(id);
    let calls = graph.calls();
    if !matches!(node.kind, WorkKind::Operation | WorkKind::Kernel)
        || calls.path(node.call).any(|name| name.contains(UPDATE))
    {
        return None;
    }
    let around = std::iter::successors(Some(node.call), |call| calls.caller(*call));
    let known: Vec<(CallId, FusableOperation)> =
        around.filter_map(|call| Some((call, operation(calls.name(call))?))).collect();
    let computes = known.iter().rev().find(|(_, operation)| operation.class != FusionClass::View);
    computes.or(known.last()).copied()
}

#[derive(Default)]
struct UnitGraphBuilder {
    graph: UnitGraph,
    unit_of: Vec<u32>,
    /// The call of the operation of each unit.
    matched: Vec<Option<CallId>>,
}

impl UnitGraphBuilder {
    fn begin(
        &mut self,
        graph: &TaskGraph,
        id: NodeId,
        found: Option<(CallId, FusableOperation)>,
        fusable: &dyn Fn(&str, &FusableOperation) -> bool,
    ) -> u32 {
        let name = found.map_or_else(|| graph.name(id), |(call, _)| graph.calls().name(call));
        let operation = found.map(|(_, operation)| operation).filter(|operation| fusable(name, operation));
        self.graph.units.push(FusionUnit {
            nodes: Vec::new(),
            duration: 0,
            resource: graph.node(id).resource.index() as u32,
            operation,
            name: name.to_owned(),
            fixed: 0,
            launches: Vec::new(),
        });
        self.matched.push(found.map(|(call, _)| call));
        self.graph.units.len() as u32 - 1
    }

    fn join(&mut self, graph: &TaskGraph, id: NodeId, unit: u32) {
        let own = &mut self.graph.units[unit as usize];
        own.nodes.push(id);
        own.duration += graph.node(id).duration;
        self.unit_of[id.index()] = unit;
    }

    fn finish(mut self, graph: &TaskGraph) -> UnitGraph {
        let count = self.graph.units.len();
        self.graph.inputs = vec![Vec::new(); count];
        self.graph.outputs = vec![Vec::new(); count];
        self.graph.readers = vec![Vec::new(); count];
        for (from, to, kind) in graph.edges() {
            let [from, to] = [from, to].map(|id| self.unit_of[id.index()]);
            if from == NONE || to == NONE || from == to {
                continue;
            }
            let same = self.graph.units[from as usize].resource == self.graph.units[to as usize].resource;
            if !same || kind == EdgeKind::Data {
                self.graph.inputs[to as usize].push(from);
                self.graph.outputs[from as usize].push(to);
            }
            if kind == EdgeKind::Launch {
                self.graph.units[to as usize].launches.push(from);
            }
            if kind == EdgeKind::Data {
                self.graph.data_known = true;
                self.add_reader(from, to);
            }
        }
        self.delays_belong_to_kernels();
        if !self.graph.data_known {
            self.neighbours_read();
        }
        self.graph
    }

    /// The delay until a kernel starts goes with the kernel, as does what launches it.
    fn delays_belong_to_kernels(&mut self) {
        let mut delay_on: Vec<Option<u32>> = Vec::new();
        for unit in 0..self.graph.units.len() {
            let place = self.graph.units[unit].resource as usize;
            delay_on.resize(delay_on.len().max(place + 1), None);
            if let Some(delay) = delay_on[place].take() {
                let mut launches = std::mem::take(&mut self.graph.units[delay as usize].launches);
                launches.push(delay);
                self.graph.units[unit].launches.extend(launches);
            } else if !self.graph.units[unit].launches.is_empty() && self.graph.units[unit].operation.is_none() {
                delay_on[place] = Some(unit as u32);
            }
        }
    }

    fn add_reader(&mut self, from: u32, to: u32) {
        let units = &self.graph.units;
        if fusable(&units[from as usize], &units[to as usize]) && !self.graph.readers[from as usize].contains(&to) {
            self.graph.readers[from as usize].push(to);
        }
    }

    /// Traces without data flow: an operation reads what the one before it on its thread or stream wrote, if nothing but
    /// views and calls around them is between.
    fn neighbours_read(&mut self) {
        let mut last: Vec<Option<u32>> = Vec::new();
        for unit in 0..self.graph.units.len() as u32 {
            let own = &self.graph.units[unit as usize];
            let (place, is_quiet) = (own.resource as usize, is_quiet(own));
            let computes = own.operation.is_some_and(|operation| operation.class != FusionClass::View);
            last.resize(last.len().max(place + 1), None);
            if computes {
                if let Some(before) = last[place] {
                    self.add_reader(before, unit);
                }
                last[place] = Some(unit);
            } else if !is_quiet {
                last[place] = None;
            }
        }
    }
}

/// Whether a unit neither reads nor writes tensors: views, and calls around operations.
fn is_quiet(unit: &FusionUnit) -> bool {
    match unit.operation {
        Some(operation) => operation.class == FusionClass::View,
        None => !unit.name.starts_with("aten::") && !unit.name.ends_with("AccumulateGrad"),
    }
}

/// Whether each node waits for another thread, stream or link.
fn wait_for_others(graph: &TaskGraph) -> Vec<bool> {
    let mut waits = vec![false; graph.nodes().len()];
    let others = graph.edges().filter(|(from, to, _)| graph.node(*from).resource != graph.node(*to).resource);
    others.for_each(|(_, to, _)| waits[to.index()] = true);
    waits
}

/// Whether a compiler computes the second operation together with the first, which it reads.
fn fusable(first: &FusionUnit, second: &FusionUnit) -> bool {
    let (Some(first_one), Some(second_one)) = (first.operation, second.operation) else { return false };
    let pair = match (first_one.class, second_one.class) {
        (FusionClass::Pointwise | FusionClass::Reduction, FusionClass::Pointwise | FusionClass::Reduction)
        | (FusionClass::Product, FusionClass::Pointwise) => true,
        (FusionClass::Product, FusionClass::Reduction | FusionClass::Product | FusionClass::View)
        | (FusionClass::Pointwise | FusionClass::Reduction, FusionClass::Product | FusionClass::View)
        | (FusionClass::View, _) => false,
    };
    pair && first.resource == second.resource
}
