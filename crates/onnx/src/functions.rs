//! Inlines a file's own functions at their calls: PyTorch's default exporter writes modules as functions.

use super::schema::{AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto};
use hashbrown::{HashMap, HashSet};

/// Maximum depth of nested function calls; no exporter nests them deeper.
const MAX_DEPTH: usize = 64;

/// Maximum number of nodes, and of calls; no network has more.
const MAX_NODES: usize = 1 << 20;

/// A function's domain, name and overload.
type FunctionKey<'a> = (&'a str, &'a str, &'a str);

type NameSet<'a> = HashSet<&'a str>;

/// The graph with all calls of the model's own functions inlined.
///
/// # Errors
/// One clause, if a function calls itself, or if functions are nested too deep or make too many nodes or calls.
pub(super) fn inline_functions(model: &ModelProto, graph: GraphProto) -> Result<GraphProto, String> {
    if model.functions.is_empty() {
        return Ok(graph);
    }
    let functions = model.functions.iter().map(|function| (key(function), function)).collect();
    FunctionInliner { functions, calls: 0, open: Vec::new(), graphs: 0, nodes: Vec::new(), made: 0 }.graph(graph)
}

fn key(function: &FunctionProto) -> FunctionKey<'_> {
    (domain(function.domain()), function.name(), function.overload())
}

/// ONNX's own domain has two names.
fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

struct FunctionInliner<'a> {
    functions: HashMap<FunctionKey<'a>, &'a FunctionProto>,
    calls: usize,
    /// The functions being inlined, the outermost first.
    open: Vec<FunctionKey<'a>>,
    /// Number of graphs being processed, each nested in the one before.
    graphs: usize,
    /// The nodes of the innermost graph so far.
    nodes: Vec<NodeProto>,
    made: usize,
}

impl FunctionInliner<'_> {
    fn graph(&mut self, graph: GraphProto) -> Result<GraphProto, String> {
        let around = std::mem::take(&mut self.nodes);
        self.graphs += 1;
        graph.node.iter().try_for_each(|node| self.add(node.clone()))?;
        self.graphs -= 1;
        let node = std::mem::replace(&mut self.nodes, around);
        Ok(GraphProto { node, ..graph })
    }

    fn add(&mut self, mut node: NodeProto) -> Result<(), String> {
        let Some(&function) = self.functions.get(&(domain(node.domain()), node.op_type(), node.overload())) else {
            for graph in node.attribute.iter_mut().filter_map(|attribute| attribute.g.as_mut()) {
                **graph = self.graph(std::mem::take(graph))?;
            }
            self.nodes.push(node);
            self.made += 1;
            return Ok(());
        };
        let (name, key) = (function.name(), key(function));
        if self.open.contains(&key) {
            return Err(format!("has a function \"{name}\" that calls itself"));
        }
        if self.open.len() + self.graphs > MAX_DEPTH {
            return Err(format!("nests its functions more than {MAX_DEPTH} deep, where it calls \"{name}\""));
        }
        if self.made.max(self.calls) > MAX_NODES {
            return Err(format!("has functions that make more than {MAX_NODES} nodes or calls, as of \"{name}\""));
        }
        self.calls += 1;
        self.open.push(key);
        let call = FunctionCall { function, node: &node, number: self.calls };
        function.node.iter().try_for_each(|body| self.add(call.rename_node(body, &NameSet::new())))?;
        self.open.pop();
        Ok(())
    }
}

struct FunctionCall<'a> {
    function: &'a FunctionProto,
    node: &'a NodeProto,
    number: usize,
}

impl FunctionCall<'_> {
    /// A node of the function with the names and attributes of this call, unless the graphs around it define these names.
    fn rename_node(&self, node: &NodeProto, given: &NameSet) -> NodeProto {
        let attribute = node.attribute.iter().filter_map(|attribute| self.attribute(attribute, given)).collect();
        let name = match node.name() {
            "" => None,
            inner => Some(format!("{}/{inner}", self.node.name())),
        };
        let values = |names: &[String]| names.iter().map(|name| self.value(name, given)).collect();
        NodeProto { name, input: values(&node.input), output: values(&node.output), attribute, ..node.clone() }
    }

    /// The name outside the function of one of its values.
    fn value(&self, name: &str, given: &NameSet) -> String {
        if name.is_empty() {
            return String::new();
        }
        let inside = || format!("{name}#{}", self.number);
        if given.contains(name) {
            return inside();
        }
        let place = |names: &[String]| names.iter().position(|other| other == name);
        if let Some(place) = place(&self.function.input) {
            return self.node.input.get(place).cloned().unwrap_or_default();
        }
        let outside = place(&self.function.output).and_then(|place| self.node.output.get(place));
        outside.filter(|outside| !outside.is_empty()).cloned().unwrap_or_else(inside)
    }

    /// An attribute; a reference is replaced by the call's attribute, or by the function's default.
    fn attribute(&self, attribute: &AttributeProto, given: &NameSet) -> Option<AttributeProto> {
        let inner = attribute.g.as_ref().map(|graph| Box::new(self.graph(graph, given)));
        let Some(referred) = attribute.ref_attr_name.as_deref().filter(|name| !name.is_empty()) else {
            return Some(AttributeProto { g: inner, ..attribute.clone() });
        };
        let known = self.node.attribute.iter().chain(&self.function.attribute_proto);
        let known = known.into_iter().find(|known| known.name() == referred)?;
        Some(AttributeProto { name: attribute.name.clone(), ..known.clone() })
    }

    fn graph(&self, graph: &GraphProto, around: &NameSet) -> GraphProto {
        let made = graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str));
        let held = graph.initializer.iter().map(|tensor| tensor.name());
        let own = made.chain(held).chain(graph.input.iter().map(|input| input.name()));
        let given: NameSet = around.iter().copied().chain(own).collect();
        let value = |name: &str| Some(self.value(name, &given));
        let values = |all: &[ValueInfoProto]| {
            all.iter().map(|one| ValueInfoProto { name: value(one.name()), ..one.clone() }).collect()
        };
        let tensor = |one: &TensorProto| TensorProto { name: value(one.name()), ..one.clone() };
        GraphProto {
            node: graph.node.iter().map(|node| self.rename_node(node, &given)).collect(),
            initializer: graph.initializer.iter().map(tensor).collect(),
            input: values(&graph.input),
            output: values(&graph.output),
            ..graph.clone()
        }
    }
}
