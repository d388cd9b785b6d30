//! Kernels that come to wait in the queue of their stream, or no longer do: what passes between a launch and its kernel passes while the kernel before still
//! runs, so that a thread that launches earlier is not held up by it. The call that launches a kernel is work of its thread, of which the kernel waits for most.

use super::{EdgeKind, NodeId, ResourceId, ResourceKind, StepGraph, WorkKind};
use crate::simulate::{NodeSchedule, simulate, simulate_with};
use perf4sight_base::stats::percentile;
use std::collections::BTreeMap;

/// Nanoseconds that pass between the end of a launch and its kernel at most where nothing holds it: CUDA takes 5 to 10 µs with the launch, more under a profiler.
const LONGEST: u64 = 20_000;
/// Nanoseconds between two kernels of a queue, of a stream on which none waited.
const BETWEEN: u64 = 1_000;
/// A kernel that starts later than this many times the usual delay behind its launch waited for something else.
const LATER: f64 = 1.25;

/// The delay before a kernel.
#[derive(Clone)]
struct LaunchDelay {
    gap: NodeId,
    /// What its thread did before it launched the kernel.
    launch: NodeId,
    /// Nanoseconds of the call that launches it.
    call: u64,
    /// What it waits for besides: the kernel before it, and those of other streams.
    others: Vec<NodeId>,
    recorded: u64,
    /// Whether it waited for the kernel before it, not for its launch.
    is_queued: bool,
    after_launch: u64,
    after_others: u64,
}

/// The delays before the kernels of a step, in the order of their nodes.
pub(crate) struct LaunchQueues(Vec<LaunchDelay>);

impl LaunchQueues {
    /// Those of a step as it was recorded. A kernel that starts as long behind its launch as those do that wait for nothing else waited for its launch; any other
    /// one waited for the one before it.
    pub fn from_step(step: &StepGraph) -> Self {
        let mut delays = delays(step);
        if delays.is_empty() {
            return LaunchQueues(delays);
        }
        let schedule = simulate(&step.graph);
        let end = |id: NodeId| schedule.end(&step.graph, id);
        let mut usual: BTreeMap<ResourceId, [Vec<f64>; 2]> = BTreeMap::new();
        for delay in &delays {
            let [after_launch, after_others] = usual.entry(step.graph.node(delay.gap).resource).or_default();
            match delay.end_times(end) {
                ends if delay.was_launched(ends) => {
                    let since_launch = delay.since_launch(ends);
                    after_launch.push(since_launch.saturating_sub(delay.call) as f64);
                }
                [launch, others] if others > launch + delay.call + LONGEST => after_others.push(delay.recorded as f64),
                [_, _] => {}
            }
        }
        let usual: BTreeMap<ResourceId, [Option<u64>; 2]> =
            usual.into_iter().map(|(stream, times)| (stream, times.map(|times| lower_quartile(&times)))).collect();
        for delay in &mut delays {
            let [after_call, queued] = usual[&step.graph.node(delay.gap).resource];
            let launched = after_call.map(|after_call| delay.call + after_call);
            let ends = delay.end_times(end);
            let since_launch = delay.since_launch(ends);
            let waited_for_launch = delay.was_launched(ends)
                || launched.is_some_and(|launched| since_launch as f64 <= LATER * launched as f64);
            match waited_for_launch {
                true => {
                    delay.after_launch = since_launch;
                    delay.after_others = delay.recorded.min(queued.unwrap_or(BETWEEN));
                }
                false => {
                    delay.is_queued = true;
                    delay.after_launch = since_launch.min(launched.unwrap_or(delay.recorded));
                }
            }
        }
        LaunchQueues(delays)
    }

    /// Those of several steps: a kernel may have waited for its launch in some, and in the queue in others. `of` makes one of the times of either.
    pub fn of_several(steps: impl Iterator<Item = StepGraph>, of: fn(&mut [u64]) -> u64) -> Self {
        let mut all: BTreeMap<NodeId, Vec<LaunchDelay>> = BTreeMap::new();
        for step in steps {
            LaunchQueues::from_step(&step)
                .0
                .into_iter()
                .for_each(|delay| all.entry(delay.gap).or_default().push(delay));
        }
        LaunchQueues(all.into_values().filter_map(|delays| LaunchDelay::of_several(&delays, of)).collect())
    }

    /// Those of a changed step, without those of kernels that are gone.
    pub fn in_changed_step(&self, step: &StepGraph) -> Self {
        let kept = self.0.iter().filter(|delay| step.graph.node(delay.gap).duration > 0);
        LaunchQueues(kept.map(|delay| delay.in_changed_step(step)).collect())
    }

    /// Replays a step whose delays are as long as its kernels wait for their launches or in the queue, and sets them to that.
    pub fn fit(&self, step: &mut StepGraph) -> NodeSchedule {
        let graph = &step.graph;
        let mut waited = vec![0; self.0.len()];
        let of_delay = |id: NodeId| self.0.binary_search_by_key(&id, |delay| delay.gap).ok();
        let place = |id: NodeId| (graph.node(id).kind == WorkKind::Gap).then(|| of_delay(id)).flatten();
        let schedule = simulate_with(graph, |id, schedule| {
            let Some(own) = place(id) else { return graph.node(id).duration };
            let end = |id: NodeId| {
                schedule.start(id).saturating_add(place(id).map_or(graph.node(id).duration, |place| waited[place]))
            };
            waited[own] = self.0[own].start(end).saturating_sub(schedule.start(id));
            waited[own]
        });
        self.0.iter().zip(waited).for_each(|(delay, waited)| step.graph.set_duration(delay.gap, waited));
        schedule
    }
}

/// Edits a step, whose kernels then wait for their launches or in a queue: the delays before them after the change.
pub(crate) fn edit(step: &mut StepGraph, change: impl FnOnce(&mut StepGraph)) -> LaunchQueues {
    let queues = LaunchQueues::from_step(step);
    change(step);
    let changed = queues.in_changed_step(step);
    changed.fit(step);
    changed
}

impl LaunchDelay {
    /// When its launch ended, and the last of what it waits for besides.
    fn end_times(&self, end: impl Fn(NodeId) -> u64) -> [u64; 2] {
        [end(self.launch), self.others.iter().map(|id| end(*id)).max().unwrap_or(0)]
    }

    /// When its kernel starts.
    fn start(&self, end: impl Fn(NodeId) -> u64) -> u64 {
        let [launch, others] = self.end_times(end);
        launch.saturating_add(self.after_launch).max(others.saturating_add(self.after_others))
    }

    /// Nanoseconds between the end of what its thread did before the launch and the kernel.
    fn since_launch(&self, [launch, others]: [u64; 2]) -> u64 {
        self.recorded + others.saturating_sub(launch)
    }

    /// Whether nothing but its launch held the kernel: its stream was free when the call that launches it began, or when that call ended, and the kernel
    /// began later.
    fn was_launched(&self, [launch, others]: [u64; 2]) -> bool {
        let launched = launch + self.call;
        others <= launch || others <= launched && launched <= others + self.recorded
    }

    /// The delay of which these are in several steps.
    fn of_several(delays: &[LaunchDelay], of: fn(&mut [u64]) -> u64) -> Option<LaunchDelay> {
        let usual = |is_queued: bool, time: fn(&LaunchDelay) -> u64| {
            let own = delays.iter().filter(|delay| delay.is_queued == is_queued);
            let mut times: Vec<u64> = own.map(time).collect();
            if times.is_empty() {
                times = delays.iter().map(time).collect();
            }
            of(&mut times)
        };
        let after_launch = usual(false, |delay| delay.after_launch);
        let after_others = usual(true, |delay| delay.after_others);
        Some(LaunchDelay { after_launch, after_others, ..delays.first()?.clone() })
    }

    /// The delay in a changed step: by what was done to itself, or else to the call.
    fn in_changed_step(&self, step: &StepGraph) -> LaunchDelay {
        let scale = step.graph.node(self.gap).duration as f64 / self.recorded as f64;
        let within = self.call.min(self.after_launch);
        let shorter = match scale == 1.0 && self.call > 0 {
            true => within as f64 * (1.0 - launching(step, self.launch) as f64 / self.call as f64),
            false => 0.0,
        };
        let scaled = |time: f64| (time * scale).round() as u64;
        let after_launch = scaled(self.after_launch as f64 - shorter);
        LaunchDelay { after_launch, after_others: scaled(self.after_others as f64), ..self.clone() }
    }
}

/// Nanoseconds of the call that a thread makes after a node, or 0 where that is not the thread's next.
fn launching(step: &StepGraph, before: NodeId) -> u64 {
    let next = NodeId(before.0 + 1);
    let is_call = step
        .graph
        .nodes()
        .get(next.index())
        .is_some_and(|node| node.kind == WorkKind::Operation && node.resource == step.graph.node(before).resource);
    if is_call { step.graph.node(next).duration } else { 0 }
}

/// The quartile: some kernels waited for what the trace does not say.
fn lower_quartile(times: &[f64]) -> Option<u64> {
    (!times.is_empty()).then(|| percentile(times, 25.0) as u64)
}

/// The delays that are a launch's, before kernels whose launch is known.
fn delays(step: &StepGraph) -> Vec<LaunchDelay> {
    let graph = &step.graph;
    let is_delay = |id: NodeId| {
        let node = graph.node(id);
        node.kind == WorkKind::Gap && node.duration > 0 && graph.resource_of(id).kind == ResourceKind::Stream
    };
    let mut waits: BTreeMap<NodeId, (Option<NodeId>, Vec<NodeId>)> = BTreeMap::new();
    for (from, to, kind) in graph.edges().filter(|(_, to, _)| is_delay(*to)) {
        let (launch, others) = waits.entry(to).or_default();
        match kind {
            EdgeKind::Launch => *launch = Some(from),
            EdgeKind::Order
            | EdgeKind::Synchronisation
            | EdgeKind::AssumedWait
            | EdgeKind::ForwardBackward
            | EdgeKind::Data
            | EdgeKind::Rendezvous => others.push(from),
        }
    }
    let delay = |(gap, (launch, others)): (NodeId, (Option<NodeId>, Vec<NodeId>))| {
        let (recorded, launch) = (graph.node(gap).duration, launch?);
        let call = launching(step, launch);
        let delay = LaunchDelay {
            gap,
            launch,
            call,
            others,
            recorded,
            is_queued: false,
            after_launch: recorded,
            after_others: recorded,
        };
        (recorded.saturating_sub(call) <= LONGEST).then_some(delay)
    };
    waits.into_iter().filter_map(delay).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{GraphBuilder, RankNodes, Resource, TaskNode};

    /// Nanoseconds of a launch, of the delay behind it, and of a kernel.
    const TIMES: [u64; 3] = [10_000, 6_000, 3_000];

    /// A thread that launches kernels faster than they follow each other has them wait in the queue: the first starts 6 us behind its launch, each other 1 us behind the one before
    /// it. Without that each would wait for its whole delay.
    #[test]
    fn kernels_of_a_faster_thread_wait_in_the_queue() {
        let (mut builder, [thread, stream]) = thread_and_stream();
        let mut add = |resource, kind, duration, before| add(&mut builder, (resource, kind), duration, before);
        let (mut launches, mut gaps, mut last) = (Vec::new(), Vec::new(), None);
        for _ in 0..5 {
            launches.push(add(thread, WorkKind::Operation, TIMES[0], launches.last().copied()));
            gaps.push(add(stream, WorkKind::Gap, TIMES[1], last));
            last = Some(add(stream, WorkKind::Kernel, TIMES[2], gaps.last().copied()));
        }
        launches.iter().zip(&gaps).for_each(|(launch, gap)| builder.edge(*launch, *gap, EdgeKind::Launch));
        let mut step = StepGraph { graph: builder.finish().unwrap(), ..StepGraph::default() };
        let queues = LaunchQueues::from_step(&step);
        queues.in_changed_step(&step).fit(&mut step);
        assert_eq!(simulate(&step.graph).makespan(&step.graph), 5 * TIMES[0] + TIMES[1] + TIMES[2]);
        launches.iter().for_each(|launch| step.graph.set_duration(*launch, 1_000));
        queues.in_changed_step(&step).fit(&mut step);
        let queued = 1_000 + TIMES[1] + TIMES[2] + 4 * (BETWEEN + TIMES[2]);
        assert_eq!(simulate(&step.graph).makespan(&step.graph), queued);
    }

    /// A kernel starts 2 us behind the call that launches it, which follows an operation of 20 us. With both in half the time, it starts after 10 us, half of the
    /// call, and the same 2 us.
    #[test]
    fn the_call_that_launches_a_kernel_is_work_of_its_thread() {
        for call in [10_000, 60_000] {
            let (mut builder, [thread, stream]) = thread_and_stream();
            let mut add = |resource, kind, duration, before| add(&mut builder, (resource, kind), duration, before);
            let operation = add(thread, WorkKind::Operation, 20_000, None);
            let launching = add(thread, WorkKind::Operation, call, Some(operation));
            let gap = add(stream, WorkKind::Gap, call + 2_000, None);
            let kernel = add(stream, WorkKind::Kernel, 3_000, Some(gap));
            builder.edge(operation, gap, EdgeKind::Launch);
            let mut step = StepGraph { graph: builder.finish().unwrap(), ..StepGraph::default() };
            edit(&mut step, |step| {
                let of_thread = [operation, launching].into_iter();
                of_thread.for_each(|id| step.graph.set_duration(id, step.graph.node(id).duration / 2));
            });
            assert_eq!(simulate(&step.graph).start(kernel), 10_000 + call / 2 + 2_000);
        }
    }

    /// Operations of 4 us and calls of 50 us launch kernels of 30 us, behind 60 us of earlier work. From the second one on a kernel begins 2 us behind its call, whose
    /// stream is busy when the operation ends and free when the call does. With a thread twice as fast they follow each other by 1 us: 60 us, five times 31 us.
    #[test]
    fn kernels_whose_stream_is_free_when_the_call_ends_waited_for_their_launch() {
        let (mut builder, [thread, stream]) = thread_and_stream();
        let mut add = |resource, kind, duration, before| add(&mut builder, (resource, kind), duration, before);
        let (mut call, mut last, mut launches) = (None, add(stream, WorkKind::Backlog, 60_000, None), Vec::new());
        // The first begins 1 us behind the earlier work; the second 110 us in, as its call ends after 108, 19 us behind the first.
        for delay in [1_000, 19_000, 24_000, 24_000, 24_000] {
            let operation = add(thread, WorkKind::Operation, 4_000, call);
            let launching = add(thread, WorkKind::Operation, 50_000, Some(operation));
            let gap = add(stream, WorkKind::Gap, delay, Some(last));
            (call, last) = (Some(launching), add(stream, WorkKind::Kernel, 30_000, Some(gap)));
            launches.push([operation, launching, gap]);
        }
        launches.iter().for_each(|[operation, _, gap]| builder.edge(*operation, *gap, EdgeKind::Launch));
        let mut step = StepGraph { graph: builder.finish().unwrap(), ..StepGraph::default() };
        assert_eq!(simulate(&step.graph).makespan(&step.graph), 302_000);
        edit(&mut step, |step| {
            let of_thread = launches.iter().flat_map(|[operation, launching, _]| [*operation, *launching]);
            of_thread.for_each(|id| step.graph.set_duration(id, step.graph.node(id).duration / 2));
        });
        assert_eq!(simulate(&step.graph).makespan(&step.graph), 60_000 + 5 * 31_000);
    }

    /// A thread launches a kernel every 60 us, each of which starts 6 us later and takes 10 us, the sixth one 150 us: it ends 156 us after its thread. In the step after
    /// it the first kernel starts 1 us behind that, the second one 1 us behind the first, at 168 us, and the third one as before 6 us behind its launch.
    #[test]
    fn kernels_catch_up_with_their_thread_after_a_step_that_ended_late() {
        let (mut builder, [thread, stream]) = thread_and_stream();
        let mut add = |resource, kind, duration, before| add(&mut builder, (resource, kind), duration, before);
        let start = add(thread, WorkKind::Start, 0, None);
        let (mut launch, mut last) = (start, add(stream, WorkKind::Backlog, 0, Some(start)));
        let mut kernels = Vec::new();
        for kernel in 0..6 {
            launch = add(thread, WorkKind::Operation, 60_000, Some(launch));
            let gap = add(stream, WorkKind::Gap, 6_000, Some(last));
            last = add(stream, WorkKind::Kernel, if kernel < 5 { 10_000 } else { 150_000 }, Some(gap));
            kernels.push((launch, gap, last));
        }
        kernels.iter().for_each(|(launch, gap, _)| builder.edge(*launch, *gap, EdgeKind::Launch));
        let (gradients, copies) = (Vec::new(), Vec::new());
        let rank = RankNodes { number: 0, stands_for: 1, start, gradients, silent_passes: 0, copies };
        let step =
            StepGraph { graph: builder.finish().unwrap(), ranks: vec![rank], ..StepGraph::default() }.without_backlog();
        let schedule = simulate(&step.graph);
        let starts: Vec<u64> = kernels.iter().map(|(_, _, kernel)| schedule.start(*kernel)).collect();
        assert_eq!(starts, [157_000, 168_000, 186_000, 246_000, 306_000, 366_000]);
    }

    fn thread_and_stream() -> (GraphBuilder, [ResourceId; 2]) {
        let mut builder = GraphBuilder::default();
        let mut resource = |kind| builder.resource(Resource { rank: Some(0), kind, name: format!("{kind:?}") });
        let resources = [ResourceKind::Thread, ResourceKind::Stream].map(&mut resource);
        (builder, resources)
    }

    fn add(
        builder: &mut GraphBuilder,
        (resource, kind): (ResourceId, WorkKind),
        duration: u64,
        before: Option<NodeId>,
    ) -> NodeId {
        let call = builder.call("aten::mm", None);
        let id = builder.node(TaskNode { duration, call, resource, kind, priority: 0 });
        before.into_iter().for_each(|before| builder.edge(before, id, EdgeKind::Order));
        id
    }
}
