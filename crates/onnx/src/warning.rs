//! Warnings about a file, as data; `Display` writes the sentences.

use super::twins::EqualParts;
use perf4sight_base::units::{count_text, grouped_digits};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Formatter, Result};

/// One warning. They are reported in this order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Warning {
    /// The opset of the file, and the newest supported one.
    NewerOpset(i64, i64),
    /// The type of most of its numbers, if it is not float32.
    Width(String),
    SeveralOutputs(Vec<String>),
    Unknown(UnknownOperators),
    GuessedShapes(Vec<String>),
    /// Tensors folded from parameters of unknown size, and the parameter that the first may be folded from.
    LostParameters(FoldedTensors, Option<String>),
    /// The first of the parameters that nothing reads, and their number.
    UnreadParameters(String, usize),
    /// Tensors folded from parameters that have the same size in all known networks.
    UsualParameters(FoldedTensors),
    AlikeParameters(FoldedTensors),
    ReadTwice(BTreeSet<String>),
    ReadInParts(BTreeMap<String, BTreeSet<String>>),
    PartlyRead(Vec<PartlyRead>),
    /// Attentions that read non-contiguous features.
    StridedAttention(BTreeSet<String>),
    Contradicted(Vec<ShapeContradiction>),
    /// Activations that are written in steps, and how many of each.
    InSteps(BTreeMap<&'static str, usize>),
    /// What memory depends on and the file does not tell, and how many times.
    Unsure(BTreeMap<UnsureReason, usize>),
    /// Tensors that count as buffers because of their names, and their elements.
    BuffersByName(Vec<(String, u64)>),
    Merged(MergedTensors),
    FoldedBatchNorm,
    /// Number of batch normalisations restored from the exporter's notes.
    RestoredBatchNorm(usize),
    MaybeFusedBatchNorm,
    NoDropout,
    /// Layers that look like adapters.
    Adapters(Vec<[String; 2]>),
    /// Parts one of which may follow the other without gradients.
    Twins(EqualParts),
    AcrossSamples(Vec<String>),
    /// Number of recurrent layers.
    Recurrent(usize),
    /// Number of operations that may have run within a checkpoint.
    Checkpointed(usize),
    /// Kinds of operations whose kernels borrow memory that nobody knows.
    Borrowing(Vec<String>),
    /// Images that keep the size they were exported with, and the requested input.
    FixedSizes(Vec<String>, String),
}

/// What a file does not tell of the code of its module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UnsureReason {
    /// Whether a result that is read several times was computed as often: exporters merge equal expressions.
    Merged,
    /// Whether a gated linear unit is one operator.
    Gate,
    /// Whether an activation overwrites its input.
    InPlace,
    /// Whether a part ran without gradients.
    NoGrad,
    /// How many tensors computing a weight makes.
    ComputedWeight,
    /// Whether results that are joined stay in a variable.
    List,
    /// Whether a maximum keeps its place or what it reads.
    Places,
    /// What an operation within a `torch.autograd.Function` keeps.
    Function,
    /// Whether an image that was turned into place was made contiguous.
    Order,
    /// Whether the logarithm of a sigmoid is one operator.
    LogSigmoid,
    /// Whether the steps of a variance are one operator.
    Variance,
    /// Whether parts that are joined in another order are those of one operator.
    Parts,
    /// Whether the logits of all tokens are computed, or those of one.
    KeptLogits,
    /// Whether an attention repeats the heads that its queries share.
    SharedHeads,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct UnknownOperators {
    pub known: usize,
    pub operations: usize,
    pub kinds: Vec<(String, usize)>,
    /// The kinds whose products are counted.
    pub products: BTreeSet<String>,
}

/// Tensors that an exporter computed when it folded constants.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FoldedTensors {
    pub first: String,
    pub count: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PartlyRead {
    pub tensor: String,
    pub read: u64,
    pub elements: u64,
}

/// A value whose declared shape differs from its operator's result; `None` for the batch and open sizes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShapeContradiction {
    pub value: String,
    pub node: String,
    pub declared: Vec<Option<u64>>,
    pub made: Vec<Option<u64>>,
}

/// Tensors that the file stores only as other, equal tensors.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MergedTensors {
    pub first: String,
    pub stored_as: String,
    pub count: usize,
}

const AGAIN: &str = "export it with dynamo=False, or with optimize=False";

/// The export command that keeps batch-norm, weightless and with a symbolic batch.
const EXPORT: &str = "torch.onnx.export(model.train(), example_input, \"network.onnx\", export_params=False, \
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, dynamo=False, \
                      input_names=[\"input\"], dynamic_axes={\"input\": {0: \"batch\"}})";

const MAYBE_FUSED: &str = "nothing in it is normalised, though networks of such sums or products mostly are: if batch-norm was fused into its convolutions before \
     the export (model.fuse(), fuse_modules), its parameters are not the network's, and what it costs to train comes out too low; export \
     the network as it is trained then";

const NO_DROPOUT: &str = "draws nothing in training: that is so where its module has no dropout and no stochastic depth, and wherever it was exported after \
     model.eval(), which leaves both out; what training takes comes out too low then, and model.train() before the export (with \
     dynamo=False also training=torch.onnx.TrainingMode.TRAINING and do_constant_folding=False) keeps them";

impl Display for Warning {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            Warning::NewerOpset(opset, known) => {
                write!(f, "uses opset {opset}, newer than {known}: operators that changed since are read as in {known}")
            }
            Warning::Width(kind) => write!(
                f,
                "holds its numbers in {kind}: they are counted, measured and predicted as float32, of 4 bytes each"
            ),
            Warning::SeveralOutputs(names) => several_outputs(f, names),
            Warning::Unknown(unknown) => unknown.fmt(f),
            Warning::GuessedShapes(nodes) => guessed_shapes(f, nodes),
            Warning::LostParameters(folded, source) => lost_parameters(f, folded, source.as_deref()),
            Warning::UnreadParameters(first, count) => unread_parameters(f, first, *count),
            Warning::UsualParameters(folded) => write!(
                f,
                "{folded} from parameters whose sizes the file has no longer; they are taken for those of the networks that call such \
                 parameters alike: to have the network's own, {AGAIN}"
            ),
            Warning::AlikeParameters(folded) => write!(
                f,
                "{folded} from parameters whose sizes the file has no longer; these count as many elements as were computed, which are more or \
                 fewer where they were looked up, stretched or put together: to have the network's own, {AGAIN}"
            ),
            Warning::ReadTwice(tensors) => read_twice(f, tensors),
            Warning::ReadInParts(tensors) => read_in_parts(f, tensors),
            Warning::PartlyRead(parameters) => write!(
                f,
                "only {} are read: the others are parameters too, whose memory and updates count nowhere here",
                parameters.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            ),
            Warning::StridedAttention(attentions) => strided_attention(f, attentions),
            Warning::Contradicted(values) => write_contradictions(f, values),
            Warning::InSteps(activations) => in_steps(f, activations),
            Warning::Unsure(kinds) => unsure(f, kinds),
            Warning::BuffersByName(tensors) => buffers_by_name(f, tensors),
            Warning::Merged(merged) => merged.fmt(f),
            Warning::FoldedBatchNorm => folded_batch_norm(f),
            Warning::RestoredBatchNorm(count) => restored_batch_norm(f, *count),
            Warning::MaybeFusedBatchNorm => f.write_str(MAYBE_FUSED),
            Warning::NoDropout => f.write_str(NO_DROPOUT),
            Warning::Adapters(layers) => write_adapters(f, layers),
            Warning::Twins(twins) => write_twins(f, twins),
            Warning::AcrossSamples(nodes) => across_samples(f, nodes),
            Warning::Recurrent(count) => write!(
                f,
                "what training keeps of {} was measured on one kind of processor: on others, and in files that do not tell all of it, memory may be a \
                 quarter off; perf4sight.estimate_memory follows the module itself",
                count_text(*count as u64, "recurrent layer")
            ),
            Warning::Checkpointed(count) => write_checkpoints(f, *count),
            Warning::Borrowing(kinds) => write!(
                f,
                "memory follows the module itself, but for what these operators borrow while they run, which the graph does not tell: {}; that may be as much \
                 again where convolutions or recurrent layers are most of the network",
                kinds.join(", ")
            ),
            Warning::FixedSizes(nodes, input) => fixed_sizes(f, nodes, input),
        }
    }
}

fn write_adapters(f: &mut Formatter, layers: &[[String; 2]]) -> Result {
    let [narrow, behind] = &layers[0];
    write!(
        f,
        "{narrow} and {behind}{} lie beside a wider layer, as adapters do (LoRA): which weights are trained is in no file, so that all are taken to be, with gradients and \
         states of the optimizer, and the interval of memory begins where these alone are; if others are frozen, name those that are trained, as in --trainable {narrow},{behind}; perf4sight.estimate_memory reads \
         requires_grad",
        more(layers.len(), |more| format!(" and {more} more pairs"))
    )
}

fn write_twins(f: &mut Formatter, EqualParts { follower, leader }: &EqualParts) -> Result {
    write!(
        f,
        "{follower} has the layers of {leader}, and both read the network's inputs, as where a target or a teacher follows without gradients (BYOL): no file records \
         requires_grad, nor, from the older exporter, torch.no_grad or detach, and all weights are taken to be trained; the interval of memory holds both; if {follower} is not trained, name what is, \
         as in --trainable '{leader}.*'; perf4sight.estimate_memory follows the module itself"
    )
}

fn several_outputs(f: &mut Formatter, names: &[String]) -> Result {
    write!(
        f,
        "has {} outputs ({}): a training step has a loss of each that is numbers, and trains for their sum",
        names.len(),
        names.join(", ")
    )
}

fn guessed_shapes(f: &mut Formatter, nodes: &[String]) -> Result {
    write!(
        f,
        "nothing gives the shape of what {}{} gives, which is taken for that of its first input: all that follows may be \
         wrong; run onnx.shape_inference.infer_shapes_path on the file, or export with fixed sizes",
        nodes[0],
        more(nodes.len(), |more| format!(" and of {more} more"))
    )
}

fn lost_parameters(f: &mut Formatter, FoldedTensors { first, count }: &FoldedTensors, source: Option<&str>) -> Result {
    let source = source.map_or(String::new(), |source| format!(", perhaps of \"{source}\""));
    let tensors = count_text(*count as u64, "tensor");
    write!(
        f,
        "the exporter computed {tensors} ahead (\"{first}\" is one{source}), so that its parameters are not the network's: {AGAIN}"
    )
}

fn unread_parameters(f: &mut Formatter, first: &str, count: usize) -> Result {
    write!(
        f,
        "the file names {count} parameters that nothing in it reads (\"{first}\" is one): where the exporter merged the layers they \
         are of with equal ones, its parameters are not the network's; {AGAIN}"
    )
}

fn read_twice(f: &mut Formatter, tensors: &BTreeSet<String>) -> Result {
    write!(
        f,
        "two layers read the same in different shapes, of {} (\"{}\" is one): it counts once, and where channels are pruned each layer \
         goes on with its own",
        count_text(tensors.len() as u64, "weight"),
        tensors.first().map_or("", String::as_str)
    )
}

fn write_contradictions(f: &mut Formatter, values: &[ShapeContradiction]) -> Result {
    let more = more(values.len(), |more| format!(" ({more} more are like it)"));
    let first = &values[0];
    write!(
        f,
        "declares {first}{more}: what the operators make is taken; export it again where a tool has changed the file"
    )
}

fn in_steps(f: &mut Formatter, activations: &BTreeMap<&str, usize>) -> Result {
    let kinds: Vec<String> = activations.iter().map(|(name, count)| format!("{name} x{count}")).collect();
    write!(
        f,
        "{} are exported step by step, as PyTorch's own functions are too, and are taken for these: where the program spells them out, training keeps \
         every step, and its memory comes out too low, in a network of little else by half; PyTorch's default exporter (dynamo=True) notes which it \
         was, and perf4sight.estimate_memory follows the module itself",
        kinds.join(", ")
    )
}

fn write_checkpoints(f: &mut Formatter, count: usize) -> Result {
    write!(
        f,
        "{} may have run within torch.utils.checkpoint, by the lines of code that the exporter notes; a file holds nothing of it, memory of training \
         is that without it, and too high by what is computed again, which its interval leaves out; --checkpoint (checkpoint) asks for a training that checkpoints, and perf4sight.estimate_memory follows the \
         module itself",
        count_text(count as u64, "operation")
    )
}

fn unsure(f: &mut Formatter, kinds: &BTreeMap<UnsureReason, usize>) -> Result {
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{} ({count} times)", kind.question())).collect();
    write!(
        f,
        "memory in training depends on what no exported graph contains: {}; memory is simulated for both, an interval is shown where they differ, and \
         perf4sight.estimate_memory follows the module itself",
        kinds.join(", ")
    )
}

impl UnsureReason {
    fn question(self) -> &'static str {
        match self {
            UnsureReason::Merged => "whether a result that is read several times was computed as often",
            UnsureReason::Gate => "whether a gated linear unit is one operator",
            UnsureReason::InPlace => "whether an activation overwrites its input",
            UnsureReason::NoGrad => {
                "whether operations that the exporter traced apart ran within torch.no_grad, or within torch.autocast"
            }
            UnsureReason::ComputedWeight => "how many tensors the computation of a weight makes",
            UnsureReason::List => "whether results that are joined stay in a variable",
            UnsureReason::Places => "whether a maximum is `max` of an axis or `amax`",
            UnsureReason::Function => "what a torch.autograd.Function keeps of its operations",
            UnsureReason::Order => "whether an image that `permute` or `transpose` made was made contiguous",
            UnsureReason::LogSigmoid => "whether the logarithm of a sigmoid is `logsigmoid`",
            UnsureReason::Variance => "whether the mean of squared differences from a mean is `var`",
            UnsureReason::Parts => {
                "whether parts that are joined in another order are of `roll` or `split`, or cut out one by one"
            }
            UnsureReason::KeptLogits => {
                "how many tokens the input logits_to_keep of the file keeps (all are taken to be kept, as by default in transformers)"
            }
            UnsureReason::SharedHeads => {
                "whether transformers repeats the heads of keys and values that several heads of queries share, as it does only under a mask, where samples are padded"
            }
        }
    }
}

fn folded_batch_norm(f: &mut Formatter) -> Result {
    write!(
        f,
        "its batch-norm is folded into the convolutions, as model.eval() and PyTorch's default exporter (dynamo=True) \
         export it: its parameters are not the network's, and what it costs to train cannot be trusted, time and memory \
         come out too low; export it with\n  {EXPORT}"
    )
}

fn restored_batch_norm(f: &mut Formatter, count: usize) -> Result {
    let folded = count_text(count as u64, "batch normalisation");
    write!(
        f,
        "the exporter folded {folded} into the layers in front: the layers of PyTorch, as in its notes, are counted and run"
    )
}

fn across_samples(f: &mut Formatter, nodes: &[String]) -> Result {
    write!(
        f,
        "every sample meets all others of its batch in {}: its cost is that of the batch asked about and grows with its square, where \
         figures are for one sample they are those of a batch of one, and the memory of what it makes is not known",
        nodes.join(", ")
    )
}

fn fixed_sizes(f: &mut Formatter, nodes: &[String], input: &str) -> Result {
    write!(
        f,
        "always resizes to the size that it was exported with: {}; export the network with an input of {input} if it does not",
        nodes.join(", ")
    )
}

/// The text for all items but the first.
fn more(all: usize, write: impl Fn(usize) -> String) -> String {
    if all > 1 { write(all - 1) } else { String::new() }
}

impl Display for UnknownOperators {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let mut guessed_from = "the size of what they read and write".to_owned();
        if !self.products.is_empty() {
            let products = self.products.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            guessed_from += &format!(", that of {products} from the products too that they are made of");
        }
        let kinds = self.kinds.iter().map(|(name, count)| format!("{name} x{count}")).collect::<Vec<_>>().join(", ");
        write!(
            f,
            "{} of {} operations are known; the others can be run by no worker, and what they cost is guessed from {guessed_from}: {kinds}",
            self.known, self.operations
        )
    }
}

impl Display for FoldedTensors {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "the exporter computed {} ahead (\"{}\" is one)", count_text(self.count as u64, "tensor"), self.first)
    }
}

impl Display for PartlyRead {
    fn fmt(&self, f: &mut Formatter) -> Result {
        write!(f, "{} of {} numbers of {}", grouped_digits(self.read), grouped_digits(self.elements), self.tensor)
    }
}

impl Display for ShapeContradiction {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let listed = |dims: &[Option<u64>], open: &str| {
            let written = dims.iter().map(|dim| dim.map_or(open.to_string(), |dim| dim.to_string()));
            written.collect::<Vec<_>>().join(", ")
        };
        let (declared, made) = (listed(&self.declared, "?"), listed(&self.made, "batch"));
        write!(f, "[{declared}] for \"{}\", which {} makes [{made}]", self.value, self.node)
    }
}

impl Display for MergedTensors {
    fn fmt(&self, f: &mut Formatter) -> Result {
        let MergedTensors { first, stored_as, count } = self;
        let stored = match count {
            1 => format!("1 tensor is stored as another that it equals ({first} as {stored_as}), and counts with it"),
            _ => format!(
                "{count} tensors are stored as others that they equal ({first} as {stored_as}, ...), and count with them"
            ),
        };
        write!(
            f,
            "{stored}: so PyTorch writes tied weights, and with dynamo=False also layers that only began alike, whose parameters, gradients and \
             states are missing then; export the network with training=torch.onnx.TrainingMode.TRAINING and do_constant_folding=False, which keeps \
             those apart"
        )
    }
}

fn read_in_parts(f: &mut Formatter, tensors: &BTreeMap<String, BTreeSet<String>>) -> Result {
    let first = tensors.keys().next().map_or("", String::as_str);
    let layers: Vec<&str> = tensors.values().flatten().map(String::as_str).collect();
    let (shown, others) = layers.split_at(layers.len().min(4));
    let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    write!(
        f,
        "{}{more} read parts of parameters (\"{first}\" is one): where channels are pruned each of them goes on with its own part, and \
         what is left may no longer fit into one parameter",
        shown.join(", ")
    )
}

/// Attention that reads non-contiguous features, such as the output of a convolution, is assumed to run step by step.
fn strided_attention(f: &mut Formatter, attentions: &BTreeSet<String>) -> Result {
    let first = attentions.first().map_or("", String::as_str);
    let one = attentions.len() == 1;
    write!(
        f,
        "{} ({first}) {} features that lie apart, and {} taken as computed step by step, with all scores in memory, as PyTorch does unless the program \
         calls contiguous() first, which this file does not record: PyTorch's default exporter (dynamo=True) does",
        count_text(attentions.len() as u64, "attention"),
        if one { "reads" } else { "read" },
        if one { "is" } else { "are" },
    )
}

fn buffers_by_name(f: &mut Formatter, tensors: &[(String, u64)]) -> Result {
    let tensors = tensors.iter().map(|(name, elements)| format!("{name} of {}", count_text(*elements, "number")));
    write!(
        f,
        "by their names alone these count as buffers, which nobody trains: {}; if one is a parameter, export the network with PyTorch's \
         default exporter, whose notes record it, or call it otherwise",
        tensors.collect::<Vec<_>>().join(", ")
    )
}
