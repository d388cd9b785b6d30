//! Writes `operations.csv`: each operation of the typical step, when it starts in the replay, its slack, and whether the step
//! gets longer or shorter with it.

use super::tables::replayed::kind;
use crate::graph::NodeId;
use crate::replayed_job::ReplayedJob;
use crate::simulate::{sensitivity, slack};
use perf4sight_base::units::Milliseconds;
use perf4sight_report::{Table, TableColumn};

/// Rows at most; a longer table would be gigabytes.
const LISTED: usize = 200_000;

/// The whole table, in the order of the starts.
pub(super) fn to_table(replayed: &ReplayedJob) -> Table {
    let columns = [
        TableColumn::number("rank", "rank"),
        TableColumn::text("on", "thread, stream or link"),
        TableColumn::text("operation", "operation"),
        TableColumn::text("kind", "kind"),
        TableColumn::number("start_ms", "start"),
        TableColumn::number("takes_ms", "takes"),
        TableColumn::number("slack_ms", "slack"),
        TableColumn::text("step_longer_with_it", "step gets longer with it"),
        TableColumn::text("step_shorter_with_it", "step gets shorter with it"),
    ];
    let mut table = Table::new("Operations of the replayed step", columns);
    let (graph, schedule) = (&replayed.step.graph, &replayed.schedule);
    let (slack, sensitivity) = (slack(graph, schedule), sensitivity(graph, schedule));
    let milliseconds = |nanoseconds: u64| Milliseconds(nanoseconds as f64 / 1e6);
    let word = |yes: bool| if yes { "yes" } else { "no" };
    let takes_time = |id: &NodeId| graph.node(*id).duration > 0;
    for id in schedule.order().filter(takes_time).take(LISTED) {
        let (node, resource, sensitivity) = (graph.node(id), graph.resource_of(id), sensitivity[id.index()]);
        table.row([
            resource.rank.map(u64::from).into(),
            resource.name.as_str().into(),
            graph.name(id).into(),
            kind(node.kind).into(),
            milliseconds(schedule.start(id)).into(),
            milliseconds(node.duration).into(),
            milliseconds(slack[id.index()]).into(),
            word(sensitivity.longer).into(),
            word(sensitivity.shorter).into(),
        ]);
    }
    table
}
