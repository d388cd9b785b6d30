//! Puts the bodies of a file's own functions where they are called: PyTorch's default exporter writes modules that way.

use super::schema::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto};
use hashbrown::{HashMap, HashSet};

/// Functions that call functions, no deeper than any exporter nests them.
const MAX_DEPTH: usize = 64;

/// More nodes than any network has, and more calls.
const MAX_NODES: usize = 1 << 20;

/// A function's domain and name.
type Key<'a> = (&'a str, &'a str);

/// The graph without calls of the model's own functions.
///
/// # Errors
/// One clause, where a function calls itself, or they are nested too deep or make too many nodes or calls.
pub(super) fn inlined(model: &ModelProto, graph: GraphProto) -> Result<GraphProto, String> {
    if model.functions.is_empty() {
        return Ok(graph);
    }
    let functions = model.functions.iter().map(|function| ((function.domain(), function.name()), function)).collect();
    let mut inliner = Inliner { functions, calls: 0, open: Vec::new(), nodes: Vec::new() };
    graph.node.iter().try_for_each(|node| inliner.add(node.clone()))?;
    let node = inliner.nodes;
    Ok(GraphProto { node, ..graph })
}

struct Inliner<'a> {
    functions: HashMap<Key<'a>, &'a FunctionProto>,
    /// Calls so far, which number the values inside.
    calls: usize,
    /// Those that are being put in place, the outermost first.
    open: Vec<Key<'a>>,
    nodes: Vec<NodeProto>,
}

impl Inliner<'_> {
    fn add(&mut self, node: NodeProto) -> Result<(), String> {
        let Some(&function) = self.functions.get(&(node.domain(), node.op_type())) else {
            self.nodes.push(node);
            return Ok(());
        };
        let (name, key) = (function.name(), (function.domain(), function.name()));
        if self.open.contains(&key) {
            return Err(format!("has a function \"{name}\" that calls itself"));
        }
        if self.open.len() == MAX_DEPTH {
            return Err(format!("nests its functions more than {MAX_DEPTH} deep, where it calls \"{name}\""));
        }
        if self.nodes.len().max(self.calls) > MAX_NODES {
            return Err(format!("has functions that make more than {MAX_NODES} nodes or calls, as of \"{name}\""));
        }
        self.calls += 1;
        self.open.push(key);
        let call = Inlined { function, node: &node, number: self.calls };
        function.node.iter().try_for_each(|body| self.add(call.body(body)))?;
        self.open.pop();
        Ok(())
    }
}

/// One call of a function.
struct Inlined<'a> {
    function: &'a FunctionProto,
    node: &'a NodeProto,
    number: usize,
}

impl Inlined<'_> {
    /// A node of the function with the names and attributes of this call.
    fn body(&self, body: &NodeProto) -> NodeProto {
        let attribute = body.attribute.iter().filter_map(|attribute| self.attribute(attribute)).collect();
        let name = match body.name() {
            "" => None,
            inner => Some(format!("{}/{inner}", self.node.name())),
        };
        NodeProto {
            name,
            input: body.input.iter().map(|name| self.value(name)).collect(),
            output: body.output.iter().map(|name| self.value(name)).collect(),
            attribute,
            ..body.clone()
        }
    }

    /// What a value of the function is called outside.
    fn value(&self, name: &str) -> String {
        let place = |names: &[String]| names.iter().position(|other| other == name);
        if name.is_empty() {
            return String::new();
        }
        if let Some(place) = place(&self.function.input) {
            return self.node.input.get(place).cloned().unwrap_or_default();
        }
        let outside = place(&self.function.output).and_then(|place| self.node.output.get(place));
        match outside.filter(|outside| !outside.is_empty()) {
            Some(outside) => outside.clone(),
            None => format!("{name}#{}", self.number),
        }
    }

    /// An attribute as it is, or the one of the call that it refers to, else the function's default.
    fn attribute(&self, attribute: &AttributeProto) -> Option<AttributeProto> {
        let inner = attribute.g.as_ref().map(|graph| Box::new(self.graph(graph)));
        let Some(referred) = attribute.ref_attr_name.as_deref().filter(|name| !name.is_empty()) else {
            return Some(AttributeProto { g: inner, ..attribute.clone() });
        };
        let given = self.node.attribute.iter().chain(&self.function.attribute_proto);
        let given = given.into_iter().find(|given| given.name() == referred)?;
        Some(AttributeProto { name: attribute.name.clone(), ..given.clone() })
    }

    /// A graph inside a node of the function; what it gives itself keeps its names.
    fn graph(&self, graph: &GraphProto) -> GraphProto {
        let own: HashSet<&str> = graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str)).collect();
        let renamed = |node: &NodeProto| NodeProto {
            input: node
                .input
                .iter()
                .map(|name| if own.contains(name.as_str()) { name.clone() } else { self.value(name) })
                .collect(),
            ..node.clone()
        };
        GraphProto { node: graph.node.iter().map(renamed).collect(), ..graph.clone() }
    }
}
