//! What can be changed in a job: each pass proposes what a user of PyTorch can do, with its gain, and writes what other
//! programs read. A new pass is a file and its line in [`PASSES`].

mod amp;
mod from_op_fusion;
mod joint;
mod memory;
mod merges;
mod op_fusion;
mod recorded_optimizer;
mod tensor_fusion;

pub use from_op_fusion::group_lines;
pub use joint::jointly;
pub use op_fusion::{candidate_lines, searched_graph};

use crate::changes::{AutocastLists, FusedGroup};
use crate::search::{ContinueSearch, EvaluatedMove, SearchSettings};
use crate::simulated_memory::SimulatedStep;
use crate::start::RecordedStart;
use perf4sight_base::error::Result;
use perf4sight_base::units::{Bytes, Percent};
use perf4sight_replay::graph::{EdgeKind, NodeId, TaskGraph};
use perf4sight_replay::simulate;
use perf4sight_replay::what_if::{StepChange, WhatIfOutcome};
use perf4sight_verb::KeyedPath;
use serde_json::Value;
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

/// A way to make a job faster, or smaller.
pub trait OptimizationPass: Debug + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Refuses inputs that do not belong to the job, before anything is created.
    ///
    /// # Errors
    /// A file or a setting that names what was not recorded.
    fn check(&self, _: &RecordedStart, _: &PassSettings) -> Result<()> {
        Ok(())
    }

    /// Bytes that it takes at most beyond the graph of the job, to be said before they are taken: those of a predicted change by default.
    fn memory(&self, start: &RecordedStart, _: &PassSettings) -> u64 {
        bytes_of_prediction(&start.recorded.typical.graph)
    }

    /// Finds what to change.
    ///
    /// # Errors
    /// A job that the pass has nothing to say about is no error but a sentence in [`PassResults::nothing`]; traces that
    /// contradict themselves are.
    fn run(&self, start: &RecordedStart, wanted: &PassSettings, go_on: &ContinueSearch<'_>) -> Result<PassResults>;
}

/// Graphs that a prediction holds at a time beyond the recorded one: a copy, the changed one, and what it is made from.
const GRAPHS: u64 = 3;

/// Bytes that predicting a change of a step takes at most; compared with what was measured by
/// `cargo run --release -p perf4sight-optimize --example search_memory`.
pub fn bytes_of_prediction(graph: &TaskGraph) -> u64 {
    let (nodes, edges) = (graph.nodes().len() as u64, graph.edge_count() as u64);
    // A list of edges that grows has room for twice as many.
    let made_from = 2 * edges * size_of::<(NodeId, NodeId, EdgeKind)>() as u64;
    GRAPHS * graph.bytes() + made_from + 2 * simulate::bytes_of(nodes, 0)
}

/// All passes, in the order in which they run: one that may find a budget that nobody can meet before the one that searches.
pub const PASSES: [&dyn OptimizationPass; 5] =
    [&tensor_fusion::TensorFusion, &amp::Amp, &memory::LessMemory, &op_fusion::OpFusion, &from_op_fusion::FromOpFusion];

/// What is asked of the passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassSettings {
    /// How operator fusion is searched.
    pub searches: SearchSettings,
    /// Fused operations take what was published for simulations, not what their traffic says.
    pub simulate: bool,
    /// A file of the operations that may be fused, one a line; without one all that compilers fuse.
    pub candidates: Option<PathBuf>,
    /// A `cluster_mapping.txt` whose groups of operations tensor groups are made for.
    pub clusters: Option<PathBuf>,
    /// Which operations run in half precision.
    pub autocast: AutocastLists,
    /// Memory that a step may take.
    pub memory_budget: Option<Bytes>,
    /// The network whose memory is simulated.
    pub network: Option<SimulatedStep>,
}

impl PassSettings {
    /// What is given for one pass alone: its setting, and the name of the pass.
    pub fn settings_of_one_pass(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        [
            (self.memory_budget.is_some(), "memory_budget", memory::NAME),
            (self.network.is_some(), "network", memory::NAME),
            (self.candidates.is_some(), "candidates", op_fusion::NAME),
            (self.clusters.is_some(), "clusters", from_op_fusion::NAME),
            (!self.autocast.also.is_empty(), "amp_operations", amp::NAME),
        ]
        .into_iter()
        .filter_map(|(is_given, setting, pass)| is_given.then_some((setting, pass)))
    }

    /// The files that it names.
    pub fn reads(&self) -> impl Iterator<Item = KeyedPath> {
        let network = self.network.as_ref().map(|step| &step.network);
        let named = [
            ("xla_candidate_path", self.candidates.as_ref()),
            ("clusters", self.clusters.as_ref()),
            ("network", network),
        ];
        named.into_iter().filter_map(|(key, path)| Some(KeyedPath::new(key, path?)))
    }
}

/// What a pass found.
#[derive(Debug, Default)]
pub struct PassResults {
    /// What a user of PyTorch can change, and what it brings.
    pub proposals: Vec<ChangeProposal>,
    /// The same for other programs, by the files below.
    pub others: Vec<ChangeProposal>,
    /// Why there is no proposal of some kind, in sentences.
    pub nothing: Vec<String>,
    /// Answers to what was asked besides, in sentences.
    pub answers: Vec<String>,
    /// What was asked and cannot be answered, in sentences.
    pub unanswered: Vec<String>,
    /// Files that other programs read: names and contents.
    pub files: Vec<(&'static str, String)>,
    /// The steps of the strategy, as published: operation, its object, what goes with it.
    pub strategy: Vec<[Value; 3]>,
    /// How the search went.
    pub trajectory: Vec<EvaluatedMove>,
    /// Operations that are best computed together, buckets as they are.
    pub fused: Vec<FusedOperations>,
}

/// Operations that are computed together.
#[derive(Debug, Clone)]
pub struct FusedOperations {
    /// Their names in `cluster_mapping.txt`.
    pub names: Vec<String>,
    /// How they join, as published.
    pub merges: Vec<[Value; 3]>,
    /// The same on each rank that is searched once for all.
    pub on_ranks: Vec<FusedGroup>,
    /// Whether they take what was published for simulations.
    pub simulate: bool,
}

impl PassResults {
    /// Adds what another pass found.
    pub fn add(&mut self, other: PassResults) {
        self.proposals.extend(other.proposals);
        // A later pass was asked for by its input, or joins both, and its files count; what others say of theirs goes with them.
        let is_replaced = |name: &str| other.files.iter().any(|(newer, _)| *newer == name);
        if is_replaced(tensor_fusion::MAPPING) {
            self.others.clear();
        }
        self.files.retain(|(name, _)| !is_replaced(name));
        self.others.extend(other.others);
        self.nothing.extend(other.nothing);
        self.answers.extend(other.answers);
        self.unanswered.extend(other.unanswered);
        self.files.extend(other.files);
        self.strategy.extend(other.strategy);
        self.trajectory.extend(other.trajectory);
        self.fused.extend(other.fused);
    }

    /// Adds what two passes found together, whose strategy counts instead of theirs.
    pub fn replace_by(&mut self, joint: PassResults) {
        if !joint.strategy.is_empty() {
            self.strategy.clear();
        }
        self.add(joint);
    }

    /// Leaves out what does not make the step shorter, but for what saves memory where that is asked for.
    pub fn leave_out_slower(&mut self, asks_for_memory: bool) {
        let is_kept = |one: &ChangeProposal| one.gain()[0] >= SHOWN || (asks_for_memory && one.pass == memory::NAME);
        let (kept, slower): (Vec<_>, Vec<_>) = std::mem::take(&mut self.proposals).into_iter().partition(is_kept);
        self.proposals = kept;
        let words = |one: ChangeProposal| match one.gain() {
            [gain, ..] if gain <= -SHOWN => format!("{}: a step takes {} longer", one.change, Percent(-gain)),
            [_, least, most] => {
                let [longer, shorter] = [-least, most].map(|end| Percent(end.max(0.0)));
                format!("{}: a step takes as long, at most {shorter} less or {longer} more", one.change)
            }
        };
        self.nothing.extend(slower.into_iter().map(words));
    }

    /// Adds a proposal, or why it cannot be made.
    fn propose(&mut self, proposal: Result<ChangeProposal>, change: &str) {
        match proposal {
            Ok(proposal) => self.proposals.push(proposal),
            Err(error) => self.nothing.push(format!("{change}: {}", error.in_one_line())),
        }
    }
}

/// Something to change.
#[derive(Debug, Clone)]
pub struct ChangeProposal {
    /// The name of the pass.
    pub pass: &'static str,
    /// What to write in the program.
    pub change: String,
    /// The same as an edit of the step; none for what takes several steps.
    pub edit: Option<Arc<dyn StepChange>>,
    /// The step after it.
    pub outcome: WhatIfOutcome,
    /// What the job learns.
    pub learns: LearningEffect,
    /// Whether it is another way to do what a second proposal does, so that both do not go together.
    pub is_alternative: bool,
}

/// What a changed job learns, compared with the job as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LearningEffect {
    /// The same.
    Same,
    /// The same up to rounding.
    Rounded,
    /// The same weights; running statistics of batch norm move twice a step.
    OtherStatistics,
    /// Something else: the weights change by larger batches.
    OtherBatch,
}

impl LearningEffect {
    /// In words.
    pub fn to_text(self) -> &'static str {
        match self {
            LearningEffect::Same => "the same",
            LearningEffect::Rounded => "the same, rounded more",
            LearningEffect::OtherStatistics => "the same weights, other running statistics (batch norm)",
            LearningEffect::OtherBatch => "as with a larger batch",
        }
    }
}

/// Percent that are not shown as 0.0.
const SHOWN: f64 = 0.05;

impl ChangeProposal {
    /// A change of a step, with what it brings.
    ///
    /// # Errors
    /// A change that cannot be made to the step.
    pub fn new(
        pass: &'static str,
        change: impl Into<String>,
        edit: Arc<dyn StepChange>,
        learns: LearningEffect,
        start: &RecordedStart,
    ) -> Result<Self> {
        let outcome = start.predict(&edit)?;
        Ok(ChangeProposal { pass, change: change.into(), edit: Some(edit), outcome, learns, is_alternative: false })
    }

    /// By how many percent the step gets shorter: by the prediction, at least, at most.
    pub fn gain(&self) -> [f64; 3] {
        let before = self.outcome.before.max(1) as f64;
        let after = self.outcome.after;
        [after.time, after.high, after.low].map(|after| 100.0 * (1.0 - after / before))
    }
}
