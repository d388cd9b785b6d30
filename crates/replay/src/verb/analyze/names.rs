//! The published names of operations (trace_utils.py of joapolarbear/dpro): `host0.rank1->BW.layer~>2` is an operation of the
//! backward pass on the second GPU of the first host, the third of that name.

use crate::graph::{NodeId, TaskGraph, WorkKind};
use crate::ranks::JobRank;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Between the process and the name, and between the name and a number.
const AFTER_PROCESS: &str = "->";
const BEFORE_SUFFIX: &str = "~>";
/// The process of operations that belong to no rank.
const NO_PROCESS: &str = "none";
/// What exchanges are called, and other operations without a published name.
const EXCHANGE: &str = "Comm.";
const COMPUTATION: &str = "COMP.";

/// Beginnings of published names, and their categories.
const CATEGORIES: [(&str, &str); 7] = [
    ("FW.", "operator.FW"),
    ("BW.", "operator.BW"),
    ("UPDATE_", "operator.UPDATE"),
    ("OUTPUT", "operator.OUTPUT"),
    ("I/O", "I/O"),
    (COMPUTATION, "operator.COMP"),
    (EXCHANGE, "Comm.other"),
];

/// Between the library and the name of a reduction as a whole: `horovod:Comm.1+2`.
pub(super) const WHOLE: &str = ":Comm.";

/// Parts of the names of messages and of what servers do, and their categories.
const PARTS: [(&str, &str); 9] = [
    ("SEND", "Comm.SEND"),
    ("RECV", "Comm.RECV"),
    ("PUSH_REQ", "Comm.PUSH_REQ"),
    ("PUSH_RES", "Comm.PUSH_RES"),
    ("PULL_REQ", "Comm.PULL_REQ"),
    ("PULL_RES", "Comm.PULL_RES"),
    ("COPY_FIRST", "ServerOp"),
    ("COPY_MERGED", "ServerOp"),
    ("SUM", "ServerOp"),
];

/// The process of a rank: its folders where it has those of the published layout, else as if all ranks were on one host.
pub(super) fn process(rank: &JobRank) -> String {
    let folders = Some(&rank.trace.file).filter(|file| file.is_dir());
    let of_folders = folders.and_then(|gpu| {
        let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
        Some(format!("{}.rank{}", name(gpu.parent()?)?, name(gpu)?))
    });
    of_folders.unwrap_or_else(|| format!("host0.rank{}", rank.number))
}

/// The name without the process: a published one as it is, others with what they are in front. Dots separate the parts of a
/// published name.
pub(super) fn standard(name: &str, is_exchange: bool) -> String {
    let name = name.find(WHOLE).map_or(name, |colon| &name[colon + 1..]);
    if CATEGORIES.iter().any(|(beginning, _)| name.starts_with(beginning)) {
        return name.to_owned();
    }
    let clean = name.replace(AFTER_PROCESS, "_").replace(BEFORE_SUFFIX, "_").replace('.', "_");
    format!("{}{clean}", if is_exchange { EXCHANGE } else { COMPUTATION })
}

/// The category of a standard name.
pub(super) fn category(standard: &str) -> &'static str {
    let parts = PARTS.iter().filter(|_| standard.starts_with(EXCHANGE)).find(|(part, _)| standard.contains(part));
    let beginnings = || CATEGORIES.iter().find(|(beginning, _)| standard.starts_with(beginning));
    parts.or_else(beginnings).map_or("operator.COMP", |(_, category)| category)
}

/// The whole name.
pub(super) fn long(process: &str, standard: &str, suffix: Option<&str>) -> String {
    let suffix = suffix.map_or(String::new(), |suffix| format!("{BEFORE_SUFFIX}{suffix}"));
    format!("{process}{AFTER_PROCESS}{standard}{suffix}")
}

/// A node of a graph by its published names.
pub(super) struct PublishedNames {
    pub process: String,
    pub standard: String,
    /// The whole name, which no other node has.
    pub long: String,
}

/// The names of all nodes. The second of a name ends in 1, the third in 2.
pub(super) fn of_graph(graph: &TaskGraph, ranks: &[JobRank]) -> Vec<PublishedNames> {
    let processes: BTreeMap<u32, String> = ranks.iter().map(|rank| (rank.number, process(rank))).collect();
    let mut seen: HashMap<String, usize> = HashMap::new();
    let name = |id: NodeId| {
        let process = graph.resource_of(id).rank.and_then(|rank| processes.get(&rank).cloned());
        let process = process.unwrap_or_else(|| NO_PROCESS.to_owned());
        let is_exchange = matches!(graph.node(id).kind, WorkKind::Transfer | WorkKind::Wait | WorkKind::Launch);
        let standard = standard(graph.name(id), is_exchange);
        let first = long(&process, &standard, None);
        let before = seen.entry(first.clone()).and_modify(|count| *count += 1).or_insert(0);
        let long = if *before == 0 { first } else { long(&process, &standard, Some(&before.to_string())) };
        PublishedNames { process, standard, long }
    };
    graph.ids().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and categories as `parse_cat_fine_grained` of trace_utils.py has them.
    #[test]
    fn names_have_the_published_categories() {
        for (name, is_exchange, standard_name, of) in [
            ("BW.layer", false, "BW.layer", "operator.BW"),
            ("horovod:Comm.1+2", true, "Comm.1+2", "Comm.other"),
            ("Comm.1+2.SEND", true, "Comm.1+2.SEND", "Comm.SEND"),
            ("Comm.3.SUM", false, "Comm.3.SUM", "ServerOp"),
            ("UPDATE_.SGD/update_3", false, "UPDATE_.SGD/update_3", "operator.UPDATE"),
            ("aten::mm", false, "COMP.aten::mm", "operator.COMP"),
            ("Optimizer.step#SGD.step", false, "COMP.Optimizer_step#SGD_step", "operator.COMP"),
            ("send 0->1", true, "Comm.send 0_1", "Comm.other"),
        ] {
            let standard = standard(name, is_exchange);
            assert_eq!((standard.as_str(), category(&standard)), (standard_name, of));
        }
        assert_eq!(long("host0.rank1", "BW.layer", Some("2")), "host0.rank1->BW.layer~>2");
    }
}
