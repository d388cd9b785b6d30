//! Layers as a tree of the modules that PyTorch names them by.

use super::order::LayerOrder;
use super::sheet::LayerCosts;
use std::collections::HashMap;

/// Modules in modules, at most: deeper names stay whole.
const DEEPEST: usize = 16;

/// A module with its layers, or a single layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModuleBranch {
    /// Its name within the module around it.
    pub name: String,
    pub path: String,
    /// The layers in it, as positions among all layers.
    pub layers: Vec<usize>,
    /// The sum of its layers.
    pub costs: LayerCosts,
    /// The modules and layers in it; empty for a layer.
    pub parts: Vec<ModuleBranch>,
}

/// A layer with the modules around it, outermost first, and its own name last.
struct LayerPath<'a> {
    layer: usize,
    path: Vec<&'a str>,
}

/// The outermost modules of layers of these names and costs.
pub(super) fn branches(names: &[&str], costs: &[LayerCosts], order: LayerOrder) -> Vec<ModuleBranch> {
    build_branches(&layer_paths(names).iter().collect::<Vec<_>>(), 0, &TreeBuilder { names, costs, order })
}

/// A name without a module is one that an exporter invented: its layer is in the innermost module that holds both the layer before and the
/// layer behind it.
fn layer_paths<'a>(names: &[&'a str]) -> Vec<LayerPath<'a>> {
    let mut all: Vec<LayerPath> =
        names.iter().enumerate().map(|(layer, name)| LayerPath { layer, path: parts(name) }).collect();
    let named: Vec<usize> = (0..all.len()).filter(|&layer| all[layer].path.len() > 1).collect();
    let mut next = named.into_iter().peekable();
    let mut before: Vec<&str> = Vec::new();
    for layer in 0..all.len() {
        while next.next_if(|&named| named < layer).is_some() {}
        if let [name] = *all[layer].path.as_slice() {
            let behind = next.peek().map_or(&[][..], |&behind| modules(&all[behind].path));
            let shared = before.iter().zip(behind).take_while(|(one, other)| one == other).count();
            all[layer].path = before[..shared].iter().copied().chain([name]).collect();
        }
        before = modules(&all[layer].path).to_vec();
    }
    all
}

fn modules<'a, 'b>(path: &'b [&'a str]) -> &'b [&'a str] {
    &path[..path.len().saturating_sub(1)]
}

/// `/layer1/layer1.0/conv1/Conv`, as PyTorch's older exporter writes it, or `layer1.0.conv1`.
fn parts(name: &str) -> Vec<&str> {
    let between = if name.contains('/') { '/' } else { '.' };
    let parts: Vec<&str> = name.splitn(DEEPEST, between).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { vec![name] } else { parts }
}

struct TreeBuilder<'a> {
    names: &'a [&'a str],
    costs: &'a [LayerCosts],
    order: LayerOrder,
}

fn build_branches(placed: &[&LayerPath], depth: usize, growth: &TreeBuilder) -> Vec<ModuleBranch> {
    let mut groups: Vec<Vec<&LayerPath>> = Vec::new();
    let mut modules: HashMap<&str, usize> = HashMap::new();
    for one in placed {
        let own = groups.len();
        let group = match one.path.len() > depth + 1 {
            true => *modules.entry(one.path[depth]).or_insert(own),
            false => own,
        };
        match groups.get_mut(group) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    let mut branches: Vec<ModuleBranch> = groups.iter().map(|group| branch(group, depth, growth)).collect();
    growth.order.sort(&mut branches, |branch| branch.costs);
    branches
}

/// Layers of the same module; a module of one part is named together with it.
fn branch(group: &[&LayerPath], depth: usize, growth: &TreeBuilder) -> ModuleBranch {
    let path = &group[0].path;
    if let [only] = group {
        let name = path[depth..].join(".");
        let (path, costs) = (growth.names[only.layer].to_owned(), growth.costs[only.layer]);
        return ModuleBranch { name, path, layers: vec![only.layer], costs, parts: Vec::new() };
    }
    let mut parts = build_branches(group, depth + 1, growth);
    if let [only] = parts.as_mut_slice() {
        let name = format!("{}.{}", path[depth], only.name);
        return ModuleBranch { name, ..only.clone() };
    }
    let mut costs = LayerCosts::default();
    group.iter().for_each(|one| costs += growth.costs[one.layer]);
    let layers = group.iter().map(|one| one.layer).collect();
    ModuleBranch { name: path[depth].to_owned(), path: path[..=depth].join("."), layers, costs, parts }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names with indentation, layers of a module, and parameters, of a network whose layers have 1, 2, 3 ... parameters.
    fn indented_names(names: &[&str], order: LayerOrder) -> Vec<String> {
        fn lines(branches: &[ModuleBranch], depth: usize, all: &mut Vec<String>) {
            for branch in branches {
                let ModuleBranch { name, layers, costs, .. } = branch;
                all.push(format!("{}{name} {} {}", " ".repeat(depth), layers.len(), costs.parameters));
                lines(&branch.parts, depth + 1, all);
            }
        }
        let costs: Vec<LayerCosts> =
            (1..=names.len() as u64).map(|parameters| LayerCosts { parameters, ..LayerCosts::default() }).collect();
        let mut all = Vec::new();
        lines(&branches(names, &costs, order), 0, &mut all);
        all
    }

    #[test]
    fn modules_hold_what_their_names_begin_with() {
        let names = ["input", "conv1", "layer1.0.conv1", "layer1.0.relu", "layer1.1.conv1", "fc"];
        let tree =
            ["input 1 1", "conv1 1 2", "layer1 3 12", " 0 2 7", "  conv1 1 3", "  relu 1 4", " 1.conv1 1 5", "fc 1 6"];
        assert_eq!(indented_names(&names, LayerOrder::Run), tree);
        let sorted =
            ["layer1 3 12", " 0 2 7", "  relu 1 4", "  conv1 1 3", " 1.conv1 1 5", "fc 1 6", "conv1 1 2", "input 1 1"];
        assert_eq!(indented_names(&names, LayerOrder::Parameters), sorted);
    }

    #[test]
    fn layers_without_a_module_are_in_that_of_their_neighbours() {
        let names = ["input", "/layer1/conv1/Conv", "node_relu", "/layer1/conv2/Conv", "node_relu_1", "/fc/Gemm"];
        let tree = [
            "input 1 1",
            "layer1 3 9",
            " conv1.Conv 1 2",
            " node_relu 1 3",
            " conv2.Conv 1 4",
            "node_relu_1 1 5",
            "fc.Gemm 1 6",
        ];
        assert_eq!(indented_names(&names, LayerOrder::Run), tree);
    }
}
