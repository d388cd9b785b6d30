//! `dag.gml`: which operations wait for which, in the Graph Modelling Language.

use crate::graph::{EdgeKind, GraphBuilder, NodeId, Resource, ResourceKind, TaskNode, WorkKind};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use std::collections::HashMap;
use std::path::Path;

/// Operations by name, and pairs of their indices: the second waits for the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OperationDag {
    pub names: Vec<String>,
    pub edges: Vec<[usize; 2]>,
    /// The indices of all operations in an order in which each comes after what it waits for.
    pub order: Vec<usize>,
}

/// A value of GML: a list of keys with values, or a word.
enum Value {
    List(Vec<(String, Value)>),
    Word(String),
}

/// Lists within lists are refused from this depth on; a graph has three.
const DEPTH: usize = 16;

/// Reads a graph.
///
/// # Errors
/// A file that is no GML, an edge from or to a node that it does not have, operations that wait for each other.
pub(super) fn read(file: &Path) -> Result<OperationDag> {
    parse(&input_file::text(file, "read this graph")?).map_err(|error| error.file(file))
}

fn parse(text: &str) -> Result<OperationDag> {
    let mut words = WordReader { text, line: 1 };
    let document = list(&mut words, 0)?;
    let graph = document.into_iter().find_map(|(key, value)| Some(value).filter(|_| key == "graph"));
    let Some(Value::List(graph)) = graph else {
        return Err(Error::input("has no graph").expected("a file in GML that begins with graph ["));
    };
    let mut dag = OperationDag::default();
    let mut places = HashMap::new();
    for fields in lists_with_key(&graph, "node") {
        let id = word(fields, "id").ok_or_else(|| Error::input("has a node without an id"))?;
        let label = word(fields, "label").unwrap_or(id);
        places.insert(id, dag.names.len());
        dag.names.push(unescaped(label));
    }
    for fields in lists_with_key(&graph, "edge") {
        let end = |key| {
            let id = word(fields, key).ok_or_else(|| Error::input(format!("has an edge without a {key}")))?;
            let lost = || Error::input(format!("has an edge with {key} {id}, and no node of that id"));
            places.get(id).copied().ok_or_else(lost)
        };
        dag.edges.push([end("source")?, end("target")?]);
    }
    dag.order = order(&dag)?;
    Ok(dag)
}

fn lists_with_key<'a>(graph: &'a [(String, Value)], wanted: &'a str) -> impl Iterator<Item = &'a [(String, Value)]> {
    graph.iter().filter_map(move |(key, value)| match value {
        Value::List(fields) if key == wanted => Some(fields.as_slice()),
        Value::List(_) | Value::Word(_) => None,
    })
}

fn word<'a>(fields: &'a [(String, Value)], wanted: &str) -> Option<&'a str> {
    fields.iter().find_map(|(key, value)| match value {
        Value::Word(word) if key == wanted => Some(word.as_str()),
        Value::Word(_) | Value::List(_) => None,
    })
}

/// Refuses operations that wait for each other, by the check of all graphs.
fn order(dag: &OperationDag) -> Result<Vec<usize>> {
    let mut builder = GraphBuilder::default();
    let thread = Resource { rank: None, kind: ResourceKind::Thread, name: String::new() };
    let resource = builder.resource(thread);
    let nodes: Vec<NodeId> = dag
        .names
        .iter()
        .map(|name| {
            let call = builder.call(name, None);
            builder.node(TaskNode { duration: 0, call, resource, kind: WorkKind::Operation, priority: 0 })
        })
        .collect();
    dag.edges.iter().for_each(|[from, to]| builder.edge(nodes[*from], nodes[*to], EdgeKind::Data));
    let graph = builder.finish()?;
    Ok(crate::simulate::simulate(&graph).order().map(NodeId::index).collect())
}

/// The characters that networkx writes as entities of HTML: by their numbers, or by names.
fn unescaped(text: &str) -> String {
    let mut parts = text.split("&#");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let numbered =
            part.split_once(';').and_then(|(number, rest)| Some((char::from_u32(number.parse().ok()?)?, rest)));
        match numbered {
            Some((letter, rest)) => plain.extend([letter.to_string().as_str(), rest]),
            None => plain.extend(["&#", part]),
        }
    }
    plain.replace("&quot;", "\"").replace("&amp;", "&")
}

/// The words of a text: names, numbers, strings in quotes, and brackets.
struct WordReader<'a> {
    text: &'a str,
    line: usize,
}

impl<'a> Iterator for WordReader<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            let begin = self.text.find(|letter: char| !letter.is_whitespace()).unwrap_or(self.text.len());
            self.line += self.text[..begin].matches('\n').count();
            self.text = &self.text[begin..];
            if !self.text.starts_with('#') {
                break;
            }
            self.text = self.text.find('\n').map_or("", |end| &self.text[end..]);
        }
        let first = self.text.chars().next()?;
        let ends = |letter: char| letter.is_whitespace() || letter == '[' || letter == ']';
        let length = match first {
            '[' | ']' => 1,
            '"' => self.text[1..].find('"').map_or(self.text.len(), |end| end + 2),
            _ => self.text.find(ends).unwrap_or(self.text.len()),
        };
        let (word, rest) = self.text.split_at(length);
        self.line += word.matches('\n').count();
        self.text = rest;
        Some(word)
    }
}

fn list(words: &mut WordReader<'_>, depth: usize) -> Result<Vec<(String, Value)>> {
    let mut fields = Vec::new();
    loop {
        let key = match words.next() {
            Some("]") if depth > 0 => return Ok(fields),
            None if depth == 0 => return Ok(fields),
            None => return Err(Error::input("ends in the middle of a list").line(words.line)),
            Some(key) if key == "[" || key == "]" || depth > DEPTH => {
                return Err(Error::input(format!("has {key:?} where a key belongs")).line(words.line));
            }
            Some(key) => key.to_owned(),
        };
        let value = match words.next() {
            Some("[") => Value::List(list(words, depth + 1)?),
            Some("]") | None => return Err(Error::input(format!("has {key} without a value")).line(words.line)),
            Some(word) => Value::Word(word.trim_matches('"').to_owned()),
        };
        fields.push((key, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As networkx's `write_gml` writes it.
    const GML: &str = "graph [\n  directed 1\n  node [\n    id 0\n    label \"FW.a\"\n  ]\n  node [\n    id 1\n    label \"BW.a&#34;\"\n    avg 1.5\n  ]\n  edge [\n    source 0\n    target 1\n  ]\n]\n";

    #[test]
    fn nodes_and_edges_are_read() {
        let dag = parse(GML).unwrap();
        assert_eq!(
            dag,
            OperationDag {
                names: vec!["FW.a".to_owned(), "BW.a\"".to_owned()],
                edges: vec![[0, 1]],
                order: vec![0, 1]
            }
        );
    }

    #[test]
    fn broken_graphs_are_refused_in_words() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert!(error("").contains("no graph"));
        assert!(error(&GML[..60]).contains("middle of a list"));
        assert!(error(&GML.replace("target 1", "target 7")).contains("target 7, and no node"));
        let circle = GML.replace("  edge [", "  edge [ source 1 target 0 ]\n  edge [");
        assert!(error(&circle).contains("in a circle: BW.a\" -> FW.a -> BW.a\""), "{}", error(&circle));
        assert!(error(&"graph [".repeat(1_000)).contains("where a key belongs"));
        assert!(error("graph [ node [ label ] ]").contains("label without a value"));
    }
}
