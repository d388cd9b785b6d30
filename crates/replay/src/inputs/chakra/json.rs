//! Chakra traces in the JSON that its feeder reads beside protobuf: `{"workload_graph": [{"Id": 0, "Name": ..., "NodeType": 4,
//! "runtime": 5, "data_deps": [], ...}]}`, times in microseconds (<https://github.com/mlcommons/chakra>, src/feeder/JSONNode.cpp).

use super::messages::{ChakraAttribute, ChakraOperation};
use perf4sight_base::error::{Error, Result};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The key by which the files are recognised.
pub(in crate::inputs) const KEY: &str = "workload_graph";

#[derive(Deserialize)]
struct ChakraDocument {
    workload_graph: Vec<ChakraNode>,
}

#[derive(Deserialize)]
struct ChakraNode {
    #[serde(rename = "Id")]
    id: u64,
    #[serde(rename = "Name", default)]
    name: String,
    #[serde(rename = "NodeType")]
    kind: i32,
    #[serde(default)]
    ctrl_deps: Vec<u64>,
    #[serde(default)]
    data_deps: Vec<u64>,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// The nodes of a file.
///
/// # Errors
/// A file that is not of this form, or that has no node.
pub(super) fn nodes(bytes: &[u8]) -> Result<Vec<ChakraOperation>> {
    let document: ChakraDocument = serde_json::from_slice(bytes)
        .map_err(|cause| Error::input(format!("is not a Chakra trace in JSON: {cause}")).expected(EXPECTED))?;
    match document.workload_graph.is_empty() {
        true => Err(Error::input("is not a Chakra trace: it has no node").expected(EXPECTED)),
        false => Ok(document.workload_graph.into_iter().map(node).collect()),
    }
}

const EXPECTED: &str = "workload_graph: a list of nodes with Id, Name, NodeType, runtime and data_deps";

fn node(raw: ChakraNode) -> ChakraOperation {
    ChakraOperation {
        id: raw.id,
        name: raw.name,
        kind: raw.kind,
        control: raw.ctrl_deps,
        data: raw.data_deps,
        start_micros: 0,
        duration_micros: 0,
        attributes: raw.others.into_iter().map(|(name, value)| attribute(name, &value)).collect(),
    }
}

fn attribute(name: String, value: &Value) -> ChakraAttribute {
    ChakraAttribute {
        name,
        uint64: value.as_u64(),
        int64: value.as_i64(),
        double: value.as_f64().filter(|_| value.is_f64()),
        boolean: value.as_bool(),
        text: value.as_str().map(str::to_owned),
        ..ChakraAttribute::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages::COLLECTIVE;
    use super::*;

    #[test]
    fn nodes_and_their_attributes_are_read() {
        let text = br#"{"workload_graph": [
            {"Id": 1, "Name": "matmul", "NodeType": 4, "is_cpu_op": false, "runtime": 7, "data_deps": []},
            {"Id": 2, "Name": "sum", "NodeType": 7, "is_cpu_op": false, "runtime": 3, "data_deps": [1], "comm_type": 0, "comm_size": 4096}
        ]}"#;
        let nodes = nodes(text).unwrap();
        assert_eq!((nodes[0].duration(), nodes[0].number("is_cpu_op")), (7_000, Some(0)));
        assert_eq!((nodes[1].kind, nodes[1].data.as_slice()), (COLLECTIVE, &[1][..]));
        assert_eq!((nodes[1].exchange(), nodes[1].number("comm_size")), (Some("all_reduce"), Some(4096)));
    }

    #[test]
    fn files_of_another_form_are_refused_in_words() {
        for (text, problem) in [("{", "not a Chakra trace in JSON"), (r#"{"workload_graph": []}"#, "no node")] {
            let error = nodes(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("workload_graph"), "{error}");
        }
    }
}
