//! BytePS: workers push the parts of each tensor to servers, which add them up, and pull the sums. A part is an exchange
//! between all workers: from a worker's push until it has the sum.

use super::SharedReductions;
use crate::inputs::chrome::{ChromeSpan, ChromeTimeline};
use crate::inputs::horovod::HorovodReduction;
use perf4sight_base::error::Result;
use perf4sight_traces::intervals::Interval;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

/// The messages of all workers and servers, and what the servers did.
pub(super) const MESSAGES: &str = "comm_timeline.json";
const SERVERS: &str = "server_timeline.json";
/// Between the name of a tensor and the number of its part.
const PART: &str = "~PART";

/// The k-th push and pull of a part have the same place in their lists.
#[derive(Debug, Default)]
struct PushPullFlow {
    push: Vec<Interval>,
    pushed: Vec<Interval>,
    pull: Vec<Interval>,
    pulled: Vec<Interval>,
}

/// Who exchanges which part: worker, server, tensor, part.
type FlowKey = (u32, u32, String, String);

/// The reductions of each worker by its own clock, and the work of the server on its machine. None if the folder has no
/// messages of BytePS.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn read(folder: &Path) -> Result<Option<SharedReductions>> {
    let (messages, servers) = (folder.join(MESSAGES), folder.join(SERVERS));
    if !messages.exists() {
        return Ok(None);
    }
    let timeline = ChromeTimeline::read(&messages)?;
    let mut warnings = timeline.warnings.clone();
    let mut flows = flows(&timeline);
    flows.values_mut().for_each(PushPullFlow::order);
    let shifts = shifts(&flows);
    let mut all = BTreeMap::<u32, Vec<HorovodReduction>>::new();
    for ((worker, server, tensor, part), flow) in &flows {
        let shift = |node: &u32| shifts.get(node).copied().unwrap_or(0);
        // The recorder of ZMQ notes a message where it arrives.
        let off = shift(server) - shift(worker);
        let own = all.entry(*worker).or_default();
        own.extend(flow.rounds().map(|(push, pulled)| reduction(tensor, part, (push.0 + off, push.1 + off), pulled)));
    }
    let lone = flows.iter().filter(|(_, flow)| flow.push.len() != flow.pulled.len()).count();
    if lone > 0 {
        warnings.push(format!(
            "{lone} parts of tensors are not pulled as often as they are pushed; the first rounds of both are compared"
        ));
    }
    let mut work = BTreeMap::new();
    if servers.exists() {
        let timeline = ChromeTimeline::read(&servers)?;
        warnings.extend(timeline.warnings.clone());
        for span in &timeline.spans {
            let server = node(timeline.processes.get(&span.process).map_or("", String::as_str), "server");
            let Some(server) = server else { continue };
            work.entry(server).or_insert_with(Vec::new).push((format!("Comm.{}", span.name), span.time));
        }
    }
    Ok(Some(SharedReductions { of_workers: all, of_servers: work, warnings }))
}

/// A worker's part of an exchange.
fn reduction(tensor: &str, part: &str, push: Interval, pulled: Interval) -> HorovodReduction {
    let name = if part == "0" { tensor.to_owned() } else { format!("{tensor}{PART}{part}") };
    let phases = vec![("PUSH_REQ".to_owned(), push), ("PULL_RES".to_owned(), pulled)];
    HorovodReduction {
        tensors: vec![name],
        operation: "allreduce".to_owned(),
        time: (push.0.min(pulled.1), pulled.1),
        phases,
        size: None,
        ready: BTreeMap::new(),
    }
}

fn flows(timeline: &ChromeTimeline) -> BTreeMap<FlowKey, PushPullFlow> {
    let mut flows: BTreeMap<FlowKey, PushPullFlow> = BTreeMap::new();
    for span in &timeline.spans {
        let Some((from, to)) = timeline.processes.get(&span.process).and_then(|name| name.split_once("->")) else {
            continue;
        };
        let Some((tensor, part, is_push)) = tensor(span) else { continue };
        let ends = [from, to].map(|end| (node(end, "worker"), node(end, "server")));
        let (key, list): (FlowKey, fn(&mut PushPullFlow) -> &mut Vec<Interval>) = match (ends, is_push) {
            ([(Some(worker), _), (_, Some(server))], true) => ((worker, server, tensor, part), |flow| &mut flow.push),
            ([(Some(worker), _), (_, Some(server))], false) => ((worker, server, tensor, part), |flow| &mut flow.pull),
            ([(_, Some(server)), (Some(worker), _)], true) => ((worker, server, tensor, part), |flow| &mut flow.pushed),
            ([(_, Some(server)), (Some(worker), _)], false) => {
                ((worker, server, tensor, part), |flow| &mut flow.pulled)
            }
            _ => continue,
        };
        list(flows.entry(key).or_default()).push(span.time);
    }
    flows
}

/// The number in `worker_3`.
fn node(text: &str, role: &str) -> Option<u32> {
    text.trim().strip_prefix(role)?.trim_start_matches('_').parse().ok()
}

/// Tensor and part of a message such as `Push_Pull.1+2~PART0.PUSH`, and whether it is a push.
fn tensor(span: &ChromeSpan) -> Option<(String, String, bool)> {
    let (name, operation) = span.name.rsplit_once('.')?;
    let name = name.rsplit_once('.').map_or(name, |(_, tensor)| tensor);
    let (tensor, part) = name.split_once(PART).unwrap_or((name, "0"));
    let is_push = operation.starts_with("PUSH");
    (is_push || operation.starts_with("PULL")).then(|| (tensor.to_owned(), part.to_owned(), is_push))
}

impl PushPullFlow {
    /// Before the first step, each tensor is pushed once more, to set it up.
    fn order(&mut self) {
        for list in [&mut self.push, &mut self.pushed, &mut self.pull, &mut self.pulled] {
            list.sort_unstable();
        }
        for (pushes, pulls) in
            [(&mut self.push, self.pull.len().max(self.pulled.len())), (&mut self.pushed, self.pulled.len())]
        {
            if pushes.len() == pulls + 1 {
                pushes.remove(0);
            }
        }
    }

    fn rounds(&self) -> impl Iterator<Item = (Interval, Interval)> {
        self.push.iter().copied().zip(self.pulled.iter().copied())
    }
}

/// By how many nanoseconds the clock of each machine must be moved to agree with that of the first. An answer cannot begin
/// before its request has arrived; the shortest times both ways give bounds, and the middle is taken, as NTP does.
fn shifts(flows: &BTreeMap<FlowKey, PushPullFlow>) -> BTreeMap<u32, i64> {
    let mut bounds: BTreeMap<(u32, u32), [i64; 2]> = BTreeMap::new();
    for ((worker, server, _, _), flow) in flows.iter().filter(|((worker, server, _, _), _)| worker != server) {
        let least = |one: &[Interval], other: &[Interval]| {
            other.iter().zip(one).map(|(after, before)| after.0 - before.1).min()
        };
        let answered = least(&flow.push, &flow.pushed);
        let asked = least(&flow.pushed, &flow.pull);
        let own = bounds.entry((*worker, *server)).or_insert([i64::MAX; 2]);
        own[0] = answered.map_or(own[0], |time| time.min(own[0]));
        own[1] = asked.map_or(own[1], |time| time.min(own[1]));
    }
    bounds.retain(|_, [answered, asked]| *answered < i64::MAX && *asked < i64::MAX);
    let nodes: BTreeSet<u32> = flows.keys().flat_map(|(worker, server, _, _)| [*worker, *server]).collect();
    let mut shifts: BTreeMap<u32, i64> = nodes.first().map(|first| (*first, 0)).into_iter().collect();
    let mut next: VecDeque<u32> = nodes.first().copied().into_iter().collect();
    while let Some(node) = next.pop_front() {
        for ((worker, server), [answered, asked]) in &bounds {
            let off = (answered - asked) / 2;
            let found = match (*worker == node, *server == node) {
                (true, _) => (*server, shifts[&node] + off),
                (_, true) => (*worker, shifts[&node] - off),
                (false, false) => continue,
            };
            if let std::collections::btree_map::Entry::Vacant(place) = shifts.entry(found.0) {
                place.insert(found.1);
                next.push_back(found.0);
            }
        }
    }
    shifts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worker 0 and server 1, whose clock is 1,000 ns ahead; messages take 100 ns each way. Recorded where they arrive:
    /// by true time the push is 0..100, its answer 150..250, the pull request 300..400, its answer 450..550.
    #[test]
    fn clocks_are_moved_to_the_middle_of_their_bounds() {
        let flow = PushPullFlow {
            push: vec![(1_000, 1_100)],
            pushed: vec![(150, 250)],
            pull: vec![(1_300, 1_400)],
            pulled: vec![(450, 550)],
        };
        let flows = BTreeMap::from([((0, 1, "1".to_owned(), "0".to_owned()), flow)]);
        // The bounds are -1,000 + 50 and 1,000 + 50: the middle is exactly the offset.
        assert_eq!(shifts(&flows), BTreeMap::from([(0, 0), (1, -1_000)]));
    }
}
