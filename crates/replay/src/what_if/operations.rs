//! `operations 'gelu*' x 0.5` and `remove operations 'gelu*'`: operations that are faster, slower or gone, with all that
//! runs inside them.

use super::clause::{Clause, pattern};
use super::{Change, Scenario};
use crate::graph::{Graph, NodeId};
use perf4sight_base::error::{Error, Result, nearest};

#[derive(Debug)]
struct Operations {
    pattern: String,
    factor: f64,
}

pub(super) fn parse(clause: &Clause) -> Option<Result<Box<dyn Change>>> {
    let Clause::Scale(subject, _) = clause else { return None };
    let pattern = pattern(subject)?.to_owned();
    let factor = clause.factor_of(subject)?;
    Some(factor.map(|factor| Box::new(Operations { pattern, factor }) as Box<dyn Change>))
}

pub(super) fn parse_removal(clause: &Clause) -> Option<Result<Box<dyn Change>>> {
    let pattern = pattern(clause.after("remove")?)?.to_owned();
    Some(Ok(Box::new(Operations { pattern, factor: 0.0 })))
}

impl Change for Operations {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let graph = &mut scenario.step.graph;
        for id in matching(graph, &self.pattern)? {
            graph.set_duration(id, (graph.node(id).duration as f64 * self.factor).round() as u64);
        }
        Ok(())
    }
}

/// The nodes of all operations whose names match a pattern, and of what runs inside them.
///
/// # Errors
/// A pattern that matches no operation.
pub(super) fn matching(graph: &Graph, pattern: &str) -> Result<Vec<NodeId>> {
    let calls = graph.calls();
    let by_call: Vec<bool> = calls.all().map(|call| calls.path(call).any(|name| matches(pattern, name))).collect();
    let found: Vec<NodeId> = graph.ids().filter(|id| by_call[graph.node(*id).call.index()]).collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(no_operation(graph, pattern)),
    }
}

fn no_operation(graph: &Graph, pattern: &str) -> Error {
    let error = Error::usage(format!("no operation is named '{pattern}'"))
        .expected("names of the traces; * stands for anything");
    let bare = pattern.trim_matches('*');
    let containing = graph.calls().names().find(|name| !bare.is_empty() && name.contains(bare));
    match containing.or_else(|| nearest(bare, graph.calls().names())) {
        Some(name) => error.help(format!("did you mean '{name}'?")),
        None => error,
    }
}

/// Whether a name matches a pattern, in which `*` stands for any letters. A pattern without a namespace matches names in
/// any: `gelu*` matches `aten::gelu_backward`.
fn matches(pattern: &str, name: &str) -> bool {
    let own = name.rsplit("::").next().unwrap_or(name);
    glob(pattern, name) || (!pattern.contains("::") && glob(pattern, own))
}

fn glob(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_in_any_namespace() {
        let cases = [
            ("gelu*", "aten::gelu_backward", true),
            ("gelu", "aten::gelu_backward", false),
            ("aten::*mm", "aten::addmm", true),
            ("*", "anything", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("aten::gelu*", "gelu", false),
        ];
        cases
            .into_iter()
            .for_each(|(pattern, name, expected)| assert_eq!(matches(pattern, name), expected, "{pattern} {name}"));
    }
}
