//! The graph of a step of data-parallel training on a cluster, and how long the step truly takes.

use crate::collectives::CollectiveOperation;
use crate::communication::{CommunicationCosts, CostEstimate, GroupCost};
use crate::graph::{
    CallId, EdgeKind, GradientNode, GraphBuilder, NodeId, ProcessGroup, RankNodes, Resource, ResourceId, ResourceKind,
    StepGraph, TaskNode, TransferNode, TransferPart, WorkKind,
};
use perf4sight_base::error::Result;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A cluster that trains a model of equal layers with `DistributedDataParallel`, one all-reduce for every few layers.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntheticCluster {
    /// Ranks in one ring.
    pub ranks: u32,
    /// Layers of the model.
    pub layers: u32,
    /// Layers whose gradients are reduced together.
    pub layers_per_bucket: u32,
    /// Nanoseconds of the forward pass of a layer; backward takes twice as long.
    pub layer_time: u64,
    /// Bytes of the gradients of a layer.
    pub layer_bytes: u64,
    /// Nanoseconds of a message between ranks.
    pub latency: f64,
    /// Nanoseconds per byte of a link.
    pub per_byte: f64,
    /// The relative standard deviation of the times of operations, alike on no two ranks.
    pub jitter: f64,
    /// The rank that waits before its forward pass, and for how many nanoseconds.
    pub straggler: Option<(u32, u64)>,
}

/// A made-up step.
#[derive(Debug, Clone)]
pub struct SyntheticStep {
    /// The step.
    pub job: StepGraph,
    /// What its communication costs.
    pub communication: CommunicationCosts,
    /// Nanoseconds that the step takes, by formula.
    pub truth: u64,
}

impl Default for SyntheticCluster {
    fn default() -> Self {
        SyntheticCluster {
            ranks: 8,
            layers: 48,
            layers_per_bucket: 4,
            layer_time: 400_000,
            layer_bytes: 8_000_000,
            latency: 5_000.0,
            per_byte: 0.1,
            jitter: 0.0,
            straggler: None,
        }
    }
}

/// The operations of a layer in each pass.
const OPERATIONS: [&str; 3] = ["norm", "product", "activation"];

/// Makes a step of a cluster; the same for the same seed.
///
/// # Errors
/// None: a made-up graph has no cycle.
pub fn cluster(shape: &SyntheticCluster, seed: u64) -> Result<SyntheticStep> {
    let communication = communication(shape);
    let mut making = ClusterBuilder::new(shape, seed);
    let work: Vec<RankWork> = (0..shape.ranks).map(|rank| making.rank(rank)).collect();
    let transfers = making.transfers(&work, &communication);
    let group = ProcessGroup { name: "default_pg".to_owned(), size: shape.ranks, link: making.link };
    let graph = making.builder.finish()?;
    let truth = step_by_formula(shape, &work, &transfers);
    let ranks = work.into_iter().map(|work| work.nodes).collect();
    Ok(SyntheticStep { job: StepGraph { graph, ranks, groups: vec![group], transfers }, communication, truth })
}

fn communication(shape: &SyntheticCluster) -> CommunicationCosts {
    let exact = |value| CostEstimate { value, low: value, high: value };
    let (latency, per_byte) = (exact(shape.latency), exact(shape.per_byte));
    let cost = GroupCost { latency, unknown_latency: None, per_byte, per_byte_within_node: None };
    CommunicationCosts { groups: vec![Some(cost)], ..CommunicationCosts::default() }
}

struct ClusterBuilder<'a> {
    shape: &'a SyntheticCluster,
    random: Xoshiro256PlusPlus,
    builder: GraphBuilder,
    link: ResourceId,
}

/// A rank's nodes, and when it does what by formula.
struct RankWork {
    nodes: RankNodes,
    /// The last node of each bucket, and when it ends.
    buckets: Vec<(NodeId, u64)>,
    /// When the backward pass ends.
    backward: u64,
    update: NodeId,
    update_time: u64,
}

/// The thread of a rank: its last node, and when that ends by formula.
struct RankThread {
    resource: ResourceId,
    last: NodeId,
    now: u64,
}

impl<'a> ClusterBuilder<'a> {
    fn new(shape: &'a SyntheticCluster, seed: u64) -> Self {
        let mut builder = GraphBuilder::default();
        let link = builder.resource(Resource { rank: None, kind: ResourceKind::Link, name: "default_pg".to_owned() });
        ClusterBuilder { shape, random: Xoshiro256PlusPlus::seed_from_u64(seed), builder, link }
    }

    /// A time with jitter: uniform, whose standard deviation is a 3.46th of its width.
    fn with_jitter(&mut self, time: u64) -> u64 {
        let half = 3f64.sqrt() * self.shape.jitter;
        (time as f64 * (1.0 + half * self.random.random_range(-1.0..=1.0))).round() as u64
    }

    /// Makes the forward and backward pass and the update of a rank.
    fn rank(&mut self, rank: u32) -> RankWork {
        let (mut thread, start) = self.begin(rank);
        let passes = ["forward", "backward"].map(|name| self.builder.call(name, None));
        for _ in 0..self.shape.layers {
            self.layer(&mut thread, passes[0], self.shape.layer_time);
        }
        let (mut buckets, mut gradients) = (Vec::new(), Vec::new());
        for layer in 1..=self.shape.layers {
            self.layer(&mut thread, passes[1], 2 * self.shape.layer_time);
            gradients.push(GradientNode { ready: thread.last, kernel: None, bytes: self.shape.layer_bytes, pass: 0 });
            if layer % self.shape.layers_per_bucket == 0 || layer == self.shape.layers {
                buckets.push((thread.last, thread.now));
            }
        }
        let (backward, update_time) = (thread.now, self.with_jitter(self.shape.layer_time));
        let call = self.builder.call("update", None);
        self.follow(&mut thread, call, WorkKind::Operation, update_time);
        let nodes = RankNodes { number: rank, stands_for: 1, start, gradients, silent_passes: 0, copies: Vec::new() };
        RankWork { nodes, buckets, backward, update: thread.last, update_time }
    }

    /// The thread of a rank, after what it waits for before its forward pass.
    fn begin(&mut self, rank: u32) -> (RankThread, NodeId) {
        let resource = Resource { rank: Some(rank), kind: ResourceKind::Thread, name: "1".to_owned() };
        let resource = self.builder.resource(resource);
        let [begin, gap] = ["begin", "(no event)"].map(|name| self.builder.call(name, None));
        let start = TaskNode { duration: 0, call: begin, resource, kind: WorkKind::Start, priority: 0 };
        let start = self.builder.node(start);
        let late = self.shape.straggler.filter(|(slow, _)| *slow == rank).map_or(0, |(_, time)| time);
        let mut thread = RankThread { resource, last: start, now: 0 };
        self.follow(&mut thread, gap, WorkKind::Gap, late);
        (thread, start)
    }

    fn follow(&mut self, thread: &mut RankThread, call: CallId, kind: WorkKind, duration: u64) {
        let node = self.builder.node(TaskNode { duration, call, resource: thread.resource, kind, priority: 0 });
        self.builder.edge(thread.last, node, EdgeKind::Order);
        thread.last = node;
        thread.now += duration;
    }

    fn layer(&mut self, thread: &mut RankThread, pass: CallId, time: u64) {
        for name in OPERATIONS {
            let call = self.builder.call(name, Some(pass));
            let duration = self.with_jitter(time / OPERATIONS.len() as u64);
            self.follow(thread, call, WorkKind::Operation, duration);
        }
    }

    fn transfers(&mut self, work: &[RankWork], communication: &CommunicationCosts) -> Vec<TransferNode> {
        let call = self.builder.call("all-reduce", None);
        let mut transfers = Vec::new();
        for bucket in 0..work.first().map_or(0, |work| work.buckets.len()) {
            let first = bucket as u32 * self.shape.layers_per_bucket;
            let layers = self.shape.layers_per_bucket.min(self.shape.layers - first);
            let bytes = u64::from(layers) * self.shape.layer_bytes;
            let time = communication.time(0, CollectiveOperation::AllReduce, self.shape.ranks, bytes).unwrap_or(0.0);
            let row =
                TaskNode { duration: time as u64, call, resource: self.link, kind: WorkKind::Transfer, priority: 0 };
            let node = self.builder.node(row);
            let parts =
                work.iter().enumerate().map(|(rank, work)| self.transfer_part(node, rank, work, bucket)).collect();
            transfers.push(TransferNode {
                node,
                operation: CollectiveOperation::AllReduce,
                group: 0,
                bytes: Some(bytes),
                parts,
            });
        }
        transfers
    }

    fn transfer_part(&mut self, transfer: NodeId, rank: usize, work: &RankWork, bucket: usize) -> TransferPart {
        let launch = work.buckets[bucket].0;
        self.builder.edge(launch, transfer, EdgeKind::Rendezvous);
        self.builder.edge(transfer, work.update, EdgeKind::Rendezvous);
        TransferPart { rank, launch, wait: Some(work.update), issuing: (launch, launch) }
    }
}

/// The step by formula: a bucket is reduced when it is ready on all ranks and the one before it is done; then the slowest
/// rank updates.
fn step_by_formula(cluster: &SyntheticCluster, work: &[RankWork], transfers: &[TransferNode]) -> u64 {
    let mut end = 0;
    for (bucket, transfer) in transfers.iter().enumerate() {
        let ready = work.iter().map(|work| work.buckets[bucket].1).max().unwrap_or(0);
        let bytes = transfer.bytes.unwrap_or(0) as f64;
        let others = f64::from(cluster.ranks) - 1.0;
        let sent = 2.0 * others / f64::from(cluster.ranks) * bytes;
        end = end.max(ready) + (cluster.latency * 2.0 * others + cluster.per_byte * sent) as u64;
    }
    work.iter().map(|work| end.max(work.backward) + work.update_time).max().unwrap_or(0)
}
