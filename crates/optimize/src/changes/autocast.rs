//! Products in half precision, with casts where others meet them: autocast.

use crate::search::{Class, operation};
use perf4sight_base::error::{Error, Result, nearest};
use perf4sight_base::stats::median;
use perf4sight_base::units::Percent;
use perf4sight_operations::Scaling;
use perf4sight_replay::graph::{CallId, Graph, Kind, NodeId, ResourceId};
use perf4sight_replay::what_if::{Change, Scenario, class_of_kernel};
use std::collections::BTreeMap;

/// How much of its time a product takes in half precision, where no model predicts it (as published).
const HALF: f64 = 0.5;
/// A cast reads four bytes and writes two, or the other way round; an operation of one input reads and writes eight.
const CAST: f64 = 6.0 / 8.0;

/// Which operations autocast runs in half precision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Autocast {
    /// Names of operations beyond those that PyTorch lists.
    pub also: Vec<String>,
    /// Only these, none of PyTorch's.
    pub only: bool,
    /// Operations that PyTorch keeps in single precision follow those before them.
    pub force: bool,
}

/// A step under autocast.
#[derive(Debug, Clone)]
pub struct HalfPrecision {
    /// Which operations it runs in half precision.
    pub lists: Autocast,
    /// How much of their time they take then, where a model of operations says it.
    pub scaling: Option<Scaling>,
    /// By which power of its error that model is off: 0, or a bound.
    pub off: f64,
}

/// Whether a listed name is that of an operation: in full, without its namespace, or the last part of TensorFlow's `FW.net/conv/Conv2D`.
fn is_named(known: &str, name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    name == known || name.strip_prefix("aten::") == Some(known) || (name.contains('/') && last == known)
}

impl Autocast {
    /// Refuses listed names that none of the recorded ones is.
    ///
    /// # Errors
    /// The first of them.
    pub fn check<'a>(&self, recorded: impl Iterator<Item = &'a str>) -> Result<()> {
        let recorded: Vec<&str> = recorded.collect();
        let is_unknown = |known: &&String| !recorded.iter().any(|name| is_named(known, name));
        let Some(unknown) = self.also.iter().find(is_unknown) else { return Ok(()) };
        let error = Error::input(format!("no operation \"{unknown}\" was recorded, to run in half precision"));
        let error = error.expected("names of operations as in the traces (amp_operations, amp_operations_file)");
        Err(match nearest(unknown, recorded.iter().copied()) {
            Some(near) => error.help(format!("did you mean {near}?")),
            None => error,
        })
    }

    fn is_lower(&self, name: &str) -> bool {
        let named = self.also.iter().any(|known| is_named(known, name));
        named || (!self.only && operation(name).is_some_and(|operation| operation.lower))
    }

    /// Whether a kernel belongs to an operation in half precision; none for what computes nothing known, or follows others.
    fn of(&self, graph: &Graph, id: NodeId) -> Option<bool> {
        let calls = graph.calls();
        let known = |call: &CallId| {
            let name = calls.name(*call);
            self.is_lower(name) || operation(name).is_some_and(|operation| operation.class != Class::View)
        };
        let found = std::iter::successors(Some(graph.node(id).call), |call| calls.around(*call)).find(known)?;
        let name = calls.name(found);
        let follows = self.force && operation(name).is_some_and(|operation| operation.single);
        (self.is_lower(name) || !follows).then(|| self.is_lower(name))
    }
}

impl HalfPrecision {
    /// How much of its time a kernel takes.
    fn share(&self, graph: &Graph, id: NodeId) -> f64 {
        self.scaling.as_ref().map_or(HALF, |scaling| {
            let (class, _) = class_of_kernel(graph, id);
            let ratio = scaling.ratio(class, None, graph.node(id).duration as f64 / 1e3);
            ratio * (self.off * scaling.off).exp()
        })
    }
}

impl Change for HalfPrecision {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let graph = &mut scenario.step.graph;
        let is_kernel = |id: &NodeId| graph.node(*id).kind == Kind::Kernel;
        let kernels: Vec<(NodeId, bool)> =
            graph.ids().filter(is_kernel).filter_map(|id| Some((id, self.lists.of(graph, id)?))).collect();
        if !kernels.iter().any(|(_, lower)| *lower) {
            return Err(Error::input(
                "no kernel of the traces is of an operation that autocast runs in half precision",
            )
            .help("on processors half precision is faster only with AMX or AVX512_BF16, which traces do not show"));
        }
        let cast = cast(graph, &kernels);
        let mut before: BTreeMap<ResourceId, bool> = BTreeMap::new();
        for (id, lower) in kernels {
            let meets_other = before.insert(graph.node(id).resource, lower).unwrap_or(false) != lower;
            let own = graph.node(id).duration as f64 * if lower { self.share(graph, id) } else { 1.0 };
            graph.set_duration(id, (own + if meets_other { cast } else { 0.0 }).round() as u64);
        }
        Ok(())
    }

    fn assumption(&self) -> Option<String> {
        let products = match &self.scaling {
            Some(scaling) => format!(
                "operations in half precision take what the model of operations says, off by up to {} in all",
                Percent(100.0 * scaling.off.exp_m1())
            ),
            None => "products take half of their time in half precision".to_owned(),
        };
        Some(format!(
            "{products}; a cast between them and others takes three quarters of the median element-wise kernel"
        ))
    }

    fn bounds(&self) -> Vec<Box<dyn Change>> {
        let bound = |off| Box::new(HalfPrecision { off, ..self.clone() }) as Box<dyn Change>;
        self.scaling.iter().flat_map(|_| [bound(-1.0), bound(1.0)]).collect()
    }
}

/// Nanoseconds of a cast, by the median kernel that is not in half precision.
fn cast(graph: &Graph, kernels: &[(NodeId, bool)]) -> f64 {
    let others = kernels.iter().filter(|(_, lower)| !lower);
    let times: Vec<f64> = others.map(|(id, _)| graph.node(*id).duration as f64).collect();
    if times.is_empty() { 0.0 } else { CAST * median(&times) }
}
