//! The table of rules: the tensors that every operation allocates, saves and borrows in PyTorch.
//!
//! Tensors for backward are taken from PyTorch's tools/autograd/derivatives.yaml, allocations of forward and backward
//! from the kernels in aten/src/ATen/native. Tensors of a few bytes that live within one operation are left out.

mod attention;
mod balance;
mod blocked;
mod channels_last;
mod code;
mod columns;
mod convolution;
#[cfg(test)]
mod counted;
mod derivative;
mod operation;
mod product;
mod recurrent;
mod rule;
mod shared_gradient;
mod small_products;
mod sums;
mod transposed;

pub(crate) use operation::StepOperation;
pub(crate) use rule::{CastBy, MemoryRule, RuleAction, SavedTensor};

use crate::amount::{BatchBytes, INDEX, product as times};
use crate::layout::{TensorLayout, reshape_view};
use perf4sight_network::{
    Activation, AuxiliaryResult, BackwardNeeds, BinaryFunction, ChannelCoupling, ElementKind, Embedding, GradientFlow,
    Interpolation, Node, NodeId, Op, OperationFacts, OperationNature, PytorchRun, ReductionKind, ResultStorage, Shape,
    TopK,
};
use perf4sight_platform::{DropoutMask, SavedRectifier};
use perf4sight_step::workload::{AutocastDevice, NumberFormat};
use rule::RuleAction::{
    Drop, InputGradient, Keep, Output, PassGradient, PassWeightGradient, Resident, Reuse, Take, WeightGradient,
};
use rule::borrowing;

pub(crate) fn rule(operation: StepOperation) -> MemoryRule {
    let facts = operation.network.facts(operation.node);
    let weights: Vec<u64> = facts.weights.iter().map(|weight| weight.dims.elements()).collect();
    let rule = MemoryRule { casts: operation.casts(&weights), ..persistent_tensors(operation, &facts) };
    let rule = by_run(rule, operation, &facts);
    code::in_a_list(code::computing_weights(rule, operation), operation)
}

/// What is a part of another operator of PyTorch than the node says, else the operation itself.
fn by_run(rule: MemoryRule, operation: StepOperation, facts: &OperationFacts) -> MemoryRule {
    let runs = operation.node.runs;
    if let (PytorchRun::InOperator, OperationNature::Arithmetic(binary)) = (runs, &facts.nature) {
        let binary = *binary;
        return in_operator(arithmetic(rule, operation, binary, facts), operation, binary);
    }
    if runs == PytorchRun::InOperator && matches!(facts.nature, OperationNature::Pooling(_)) {
        return summed_logarithms(plain_rule(rule, operation, facts), operation);
    }
    if runs == PytorchRun::Part { part_rule(rule, operation) } else { by_nature(rule, operation, facts) }
}

fn by_nature(rule: MemoryRule, operation: StepOperation, facts: &OperationFacts) -> MemoryRule {
    match facts.nature {
        OperationNature::Activation(_)
        | OperationNature::Arithmetic(_)
        | OperationNature::Softmax
        | OperationNature::Pooling(_)
            if operation.node.runs == PytorchRun::InFunction =>
        {
            in_function(rule, operation, facts)
        }
        _ if operation.node.runs == PytorchRun::Variance => in_variance(rule, operation),
        _ if operation.node.runs == PytorchRun::View && facts.nature != OperationNature::Parameter => {
            rule.forward([Reuse]).backward([InputGradient(0)])
        }
        OperationNature::Convolution(conv) => on_dense_gradient(convolution::rule(rule, operation, conv), operation),
        OperationNature::Normalisation if !facts.buffers.is_empty() => batch_norm(rule, operation, facts),
        OperationNature::Activation(activation) if operation.in_place => overwriting(rule, operation, activation),
        OperationNature::Arithmetic(binary) => copying_saved(arithmetic(rule, operation, binary, facts)),
        OperationNature::Dropout if facts.storage == ResultStorage::View => plain_rule(rule, operation, facts),
        OperationNature::Dropout => dropout(rule, operation, facts),
        OperationNature::Linear(_) => product::linear(rule, operation, facts),
        OperationNature::MatMul => product::matmul(rule, operation),
        OperationNature::Movement => movement_rule(rule, operation, facts),
        OperationNature::Embedding(embedding) => looked_up(rule, operation, embedding),
        OperationNature::Parameter
            if let (Some(trained), None) = (operation.node.computed_from(), operation.node.shares) =>
        {
            computed_table_rule(rule, operation, trained)
        }
        OperationNature::Parameter
            if operation.trains(0) && (is_joined(operation) || is_multiplied_at_once(operation)) =>
        {
            rule.forward([Resident]).backward([PassWeightGradient(0)])
        }
        OperationNature::Input | OperationNature::Parameter => plain_rule(rule, operation, facts),
        OperationNature::Attention => attention::rule(rule, operation, facts),
        OperationNature::Normalisation => normalisation(rule, operation, facts),
        OperationNature::Softmax => softmax(rule, operation, facts),
        OperationNature::Activation(_) if operation.node.runs == PytorchRun::WithReader => {
            rule.forward([Output]).saves([SavedTensor::Input(0)]).backward([InputGradient(0)])
        }
        OperationNature::Activation(Activation::Log) => without_buffer(plain_rule(rule, operation, facts), operation),
        OperationNature::Activation(Activation::Gelu) => gelu(plain_rule(rule, operation, facts), operation),
        OperationNature::Activation(_) => plain_rule(rule, operation, facts),
        OperationNature::Volume(conv) => convolution::of_volumes(rule, operation, conv),
        OperationNature::Transposed(transposed) => {
            let of_library = transposed::rule(rule.clone(), operation, &transposed.conv);
            let rule = of_library.unwrap_or_else(|| plain_rule(rule, operation, facts).saves([SavedTensor::Cast(0)]));
            on_dense_gradient(rule, operation)
        }
        OperationNature::Choice => plain_rule(rule, operation, facts),
        OperationNature::Pooling(_) => window_rule(rule, operation, facts),
        OperationNature::Unknown(unknown) if unknown.is_assignment() => assignment_rule(rule, operation),
        OperationNature::Recurrent(layer) => {
            recurrent::rule(plain_rule(rule, operation, facts), operation, layer.cell.operator())
        }
        OperationNature::Unknown(unknown) => {
            recurrent::rule(plain_rule(rule, operation, facts), operation, &unknown.op_type)
        }
    }
}

fn normalisation(rule: MemoryRule, operation: StepOperation, facts: &OperationFacts) -> MemoryRule {
    let rule = in_rows(with_own_gradient(plain_rule(rule, operation, facts), operation), operation);
    if operation.within_kernels { on_dense_gradient(rule, operation) } else { rule }
}

fn softmax(rule: MemoryRule, operation: StepOperation, facts: &OperationFacts) -> MemoryRule {
    let is_turned = operation.gradient().is_some_and(|gradient| !gradient.is_contiguous());
    let rule = in_rows(plain_rule(rule, operation, facts), operation);
    // `contiguous` of the gradient in SoftMax.cpp.
    if is_turned && operation.within_kernels { rule.copying_gradient(operation.output()) } else { rule }
}

/// The tensors that an operation holds between steps: trained weights, or constants, which are buffers.
fn persistent_tensors(operation: StepOperation, facts: &OperationFacts) -> MemoryRule {
    let bytes = |dims: &Shape| BatchBytes::constant(operation.step.weight().saturating_mul(dims.elements()));
    let mut tensors: Vec<BatchBytes> = facts.weights.iter().map(|weight| bytes(&weight.dims)).collect();
    // A table that is a view shows what no module holds.
    if matches!(operation.node.runs, PytorchRun::OnAnothers | PytorchRun::View) && !tensors.is_empty() {
        tensors[0] = BatchBytes::constant(0);
    }
    match (operation.node.shares, operation.network.trained_parts(operation.node).contains(&true)) {
        (Some(_), _) => MemoryRule::default(),
        (None, true) => MemoryRule { weights: tensors, ..MemoryRule::default() },
        (None, false) => MemoryRule { buffers: tensors, ..MemoryRule::default() },
    }
}

/// A view where the layout permits one, else a copy, whose gradient is passed on all the same.
fn movement_rule(rule: MemoryRule, operation: StepOperation, facts: &OperationFacts) -> MemoryRule {
    if facts.channels == ChannelCoupling::Regrouped {
        let is_view = reshape_view(operation.node, operation.layout(0), operation.result().sizes()).is_some();
        // `reshape` in `ViewBackward`.
        let comes_back_as_view = |gradient: &TensorLayout| gradient.view_as(operation.layout(0).sizes()).is_some();
        let passes = operation.gradient().is_none_or(comes_back_as_view);
        let gradient = if passes { PassGradient(0) } else { InputGradient(0) };
        return rule.forward([if is_view { Reuse } else { Output }]).backward([gradient]);
    }
    if matches!(facts.channels, ChannelCoupling::Permuted(_)) {
        return rule.forward([Reuse]).backward([PassGradient(0)]);
    }
    let rule = plain_rule(rule, operation, facts);
    // `contiguous` in Col2Im.cpp.
    let copies = matches!(operation.node.op, Op::Fold(_)) && operation.within_kernels;
    match copies && !operation.layout(0).is_contiguous() {
        true => MemoryRule { forward: borrowing(rule.forward, operation.input(0)), ..rule },
        false => rule,
    }
}

/// A part of a tensor that was split: the gradients of all parts are joined when the last is there (`split_backward` in FunctionsManual.cpp). As nothing runs
/// between them, the part whose backward runs first may make that of the whole.
fn part_rule(rule: MemoryRule, operation: StepOperation) -> MemoryRule {
    let network = operation.network;
    let is_read =
        |id: NodeId| network.outputs().contains(&id) || network.nodes().iter().any(|node| node.inputs.contains(&id));
    let others = network.iter().skip(operation.id.index() + 1);
    let mut others =
        others.take_while(|(_, node)| node.runs == PytorchRun::Part && node.inputs == operation.node.inputs);
    let gradient = if others.any(|(id, _)| is_read(id)) { None } else { Some(InputGradient(0)) };
    rule.forward([Reuse]).backward(gradient)
}

/// A table that is computed from trained numbers in every forward, once for all samples.
fn computed_table_rule(rule: MemoryRule, operation: StepOperation, trained: u64) -> MemoryRule {
    let held = BatchBytes::constant(operation.step.weight().saturating_mul(trained));
    let rule = MemoryRule { weights: vec![held], ..rule }.forward([Output]);
    match operation.trains(0) {
        true => rule.backward([Take(operation.output()), WeightGradient(0), Drop(0)]),
        false => rule,
    }
}

/// Whether the gradient of a parameter is that of a product of all samples with it.
fn is_multiplied_at_once(operation: StepOperation) -> bool {
    let mut readers = operation.network.nodes().iter().filter(|node| node.inputs.contains(&operation.id));
    readers.all(Node::multiplies_at_once)
}

/// Whether the gradient of a parameter is a view of the gradient of its concatenation: with a single sample it needs no
/// sum (`sum_to`), and a view with the row layout of the parameter is kept (`accumulateGrad`, `obeys_layout_contract`).
fn is_joined(operation: StepOperation) -> bool {
    let reads = |node: &Node| node.inputs.contains(&operation.id);
    let mut readers = operation.network.iter().filter(|(_, node)| reads(node));
    match (readers.next(), readers.next()) {
        (Some((id, Node { op: Op::Concat { axis }, .. })), None) => {
            operation.layouts[id.index()].sizes()[..=*axis].iter().all(|size| *size == 1)
        }
        _ => false,
    }
}

/// A lookup saves its numbers. What is the same for every sample is made once and stretched, and its gradient summed over the batch first.
fn looked_up(rule: MemoryRule, operation: StepOperation, embedding: &Embedding) -> MemoryRule {
    let rule = rule.forward([Output]);
    match embedding.fixed {
        _ if !operation.trains(0) => rule,
        None => rule.saves([SavedTensor::Input(0)]).backward([WeightGradient(0)]),
        Some(_) => rule.backward([Take(operation.output()), WeightGradient(0), Drop(0)]),
    }
}

/// Windows and reductions. Indices are computed as integers before they are converted, and the backward of a cumulative
/// sum flips it twice: `w.flip(dim).cumsum(dim).flip(dim)`, whose results C++ keeps until the last is made (`reversed_cumsum` in
/// FunctionsManual.cpp).
fn window_rule(rule: MemoryRule, operation: StepOperation, facts: &OperationFacts) -> MemoryRule {
    let integers = Take(BatchBytes::per_sample(INDEX.saturating_mul(operation.node.shape.elements())));
    let result = Take(operation.output());
    if operation.node.element == ElementKind::Integer {
        plain_rule(rule, operation, facts)
    } else if operation.node.runs == PytorchRun::WithPlaces {
        // value_selecting_reduction_backward
        let places = if operation.step.trains() { Keep } else { Take };
        let rule = rule
            .forward([Output, places(BatchBytes::per_sample(INDEX.saturating_mul(operation.node.shape.elements())))]);
        let gone = if operation.step.trains() { None } else { Some(Drop(0)) };
        rule.forward(gone).backward([InputGradient(0)])
    } else if let (Op::Reduce { reduction: ReductionKind::Sum, .. }, true) =
        (&operation.node.op, is_expanded(operation))
    {
        rule.forward([Output]).backward([PassGradient(0)])
    } else if let Op::ArgMax(_) = operation.node.op {
        rule.forward([integers, Output, Drop(0)])
    } else if let Op::TopK(TopK { places: true, .. }) = operation.node.op {
        rule.forward([result, integers, Output, Drop(0), Drop(0)])
    } else if averages_cast(operation) {
        let wide = |elements: u64| Take(BatchBytes::per_sample(NumberFormat::Fp32.bytes().saturating_mul(elements)));
        let [sums, copy] =
            [operation.node.shape.elements(), operation.network.input_of(operation.node, 0).elements()].map(wide);
        let rule = plain_rule(rule, operation, facts);
        rule.forward([sums, copy, Drop(0), Drop(0)])
    } else if resizes_by_channels(operation) {
        let copies = [operation.input(0), operation.output()].map(Take);
        plain_rule(rule, operation, facts).forward(copies).forward([Drop(0), Drop(0)])
    } else if let Op::CumSum { .. } = operation.node.op {
        rule.forward([Output]).backward([result, result, InputGradient(0), Drop(0), Drop(0)])
    } else if let Op::Reduce { reduction: ReductionKind::LogSumExp, .. } = operation.node.op {
        // The exponentials (logsumexp in ReduceOps.cpp); backward they and what they are of are there until the gradient is (`logsumexp_backward` in
        // FunctionsManual.cpp).
        let exponentials = Take(operation.input(0));
        let rule = rule.forward([Output, exponentials, Drop(0)]).saves(saved_tensors(operation, facts.needs));
        rule.backward([exponentials, exponentials, InputGradient(0), Drop(0), Drop(0)])
    } else {
        plain_rule(rule, operation, facts)
    }
}

/// Whether the gradient of a sum stays the incoming one, seen in the size of what it reads (`sum_backward`): element-wise operations read it as
/// it is, other operations copy it, and so does the sum with another gradient.
fn is_expanded(operation: StepOperation) -> bool {
    let read = operation.node.inputs[0];
    let by = operation.network.facts(operation.network.node(read)).nature;
    let by_element = matches!(by, OperationNature::Arithmetic(binary) if !binary.is_sum())
        || matches!(by, OperationNature::Activation(_));
    let mut inputs = operation.network.nodes().iter().flat_map(|node| &node.inputs).filter(|input| **input == read);
    (by_element || sums_matrices(operation)) && inputs.next().is_some() && inputs.next().is_none()
}

/// Whether it sums the matrices that a product of all samples made: `bmm` reads a matrix that is repeated as it is.
fn sums_matrices(operation: StepOperation) -> bool {
    let network = operation.network;
    let read = network.node(operation.node.inputs[0]);
    let (Op::Reduce { axes, .. }, Op::Transpose { order }) = (&operation.node.op, &read.op) else { return false };
    let product = network.node(read.inputs[0]);
    product.multiplies_at_once() && axes.iter().all(|axis| order[*axis] + 2 < product.shape.rank())
}

/// Whether a mean casts all that it reads: on processors, of numbers of fewer bits than single precision has (`mean_out` in ReduceOps.cpp); the
/// mean of an image is one too (`adaptive_avg_pool2d`).
fn averages_cast(operation: StepOperation) -> bool {
    let op = &operation.node.op;
    let is_mean =
        matches!(op, Op::Reduce { reduction: ReductionKind::Mean, .. } | Op::AdaptiveAvgPool { output: [1, 1] });
    is_mean && operation.within_kernels && operation.is_low() && operation.platform.lists() == AutocastDevice::Processor
}

/// Height and width together up to which a processor resizes images channel by channel (`_use_vectorized_kernel_cond_2d` in UpSampleKernel.cpp).
const SMALL_IMAGE: usize = 128;

/// Whether a processor resizes copies of what it reads and makes, in channels-last layout.
fn resizes_by_channels(operation: StepOperation) -> bool {
    let Op::Resize { image, interpolation, .. } = &operation.node.op else { return false };
    let takes_them = matches!(interpolation, Interpolation::Nearest | Interpolation::Linear);
    let is_small = image[0] > 1 && image.iter().sum::<usize>() <= SMALL_IMAGE;
    let lies_apart = operation.node.shape.channels() > 1 && !operation.layout(0).is_channels_last();
    let of_processor = operation.within_kernels && operation.platform.lists() == AutocastDevice::Processor;
    takes_them && is_small && lies_apart && of_processor
}

/// A gradient that is a view, such as that of tokens, is copied for the duration of backward (`grad_output.contiguous`
/// in mkldnn/Conv.cpp, `expect_contiguous` in layer_norm.cpp).
fn on_dense_gradient(rule: MemoryRule, operation: StepOperation) -> MemoryRule {
    let as_read = |gradient: &TensorLayout| match operation.layout(0).is_channels_last() && !operation.reads_row() {
        true => gradient.is_channels_last() && gradient.is_dense(),
        false => gradient.is_contiguous(),
    };
    if operation.gradient().is_none_or(as_read) { rule } else { rule.copying_gradient(operation.output()) }
}

/// On processors oneDNN computes GELU of what is contiguous: of a gradient in another order of axes it makes a copy, and then its result in its own order before it is
/// that of the gradient (`gelu_backward_out_cpu` of aten/src/ATen/native/Activation.cpp, `eltwise_backward` of ideep).
fn gelu(rule: MemoryRule, operation: StepOperation) -> MemoryRule {
    let is_turned = operation.gradient().is_some_and(|gradient| !gradient.is_contiguous());
    let on_processor = operation.within_kernels && operation.platform.lists() == AutocastDevice::Processor;
    match on_processor && is_turned && operation.layout(0).is_contiguous() {
        true => {
            let backward = (0..2).fold(rule.backward, |moves, _| borrowing(moves, operation.input(0)));
            MemoryRule { backward, ..rule }
        }
        false => rule,
    }
}

/// A normalisation of rows copies an input that is not contiguous (`expect_contiguous` in layer_norm.cpp, `contiguous`
/// in SoftMax.cpp); group normalisation accepts channels-last.
fn in_rows(rule: MemoryRule, operation: StepOperation) -> MemoryRule {
    let layout = operation.layout(0);
    let grouped = matches!(operation.node.op, Op::GroupNorm { .. })
        && operation.node.runs != PytorchRun::InstanceNorm
        && layout.is_dense();
    match layout.is_contiguous() || grouped || !operation.within_kernels {
        true => rule,
        false => rule.copying(operation.input(0)),
    }
}

/// An operation without special rules: first the result, then further tensors of its forward; backward the gradients of
/// the inputs, then those of the weights.
fn plain_rule(rule: MemoryRule, operation: StepOperation, facts: &OperationFacts) -> MemoryRule {
    let result = match facts.storage {
        ResultStorage::Own | ResultStorage::Needed => Output,
        ResultStorage::View => Reuse,
        ResultStorage::Resident => Resident,
    };
    let inputs = 0..operation.node.inputs.len();
    let gradients = inputs.filter_map(|input| match facts.gradient {
        GradientFlow::Ends => None,
        GradientFlow::Made => Some(InputGradient(input)),
        GradientFlow::Passed => Some(PassGradient(input)),
    });
    let rule = rule
        .forward([result])
        .forward(with_buffers(operation, facts))
        .saves(saved_tensors(operation, facts.needs))
        .backward(gradients)
        .backward(operation.weight_gradients(facts.weights.len()));
    derivative::of_expression(rule, operation, facts)
}

/// The tensors of forward apart from the result.
fn with_buffers(operation: StepOperation, facts: &OperationFacts) -> Vec<RuleAction> {
    match facts.auxiliary {
        // Attention, dropout and recurrent layers have rules of their own.
        None
        | Some(AuxiliaryResult::Sums(_) | AuxiliaryResult::Draw | AuxiliaryResult::Mask | AuxiliaryResult::States) => {
            Vec::new()
        }
        Some(AuxiliaryResult::Statistics(rows)) => {
            vec![Keep(BatchBytes::per_sample(times([operation.step.weight(), rows]))); 2]
        }
        Some(AuxiliaryResult::Indices) => {
            // max_pool2d_with_indices, even where the indices are not used (aten/src/ATen/native/Pooling.cpp).
            let indices = BatchBytes::per_sample(INDEX.saturating_mul(operation.node.shape.elements()));
            if operation.step.trains() { vec![Keep(indices)] } else { vec![Take(indices), Drop(0)] }
        }
    }
}

fn saved_tensors(operation: StepOperation, needs: BackwardNeeds) -> Vec<SavedTensor> {
    match needs {
        BackwardNeeds::Nothing => Vec::new(),
        BackwardNeeds::First => vec![SavedTensor::Input(0)],
        BackwardNeeds::Inputs => (0..operation.node.inputs.len()).map(SavedTensor::Input).collect(),
        BackwardNeeds::Result => vec![SavedTensor::Output],
        BackwardNeeds::All => {
            (0..operation.node.inputs.len()).map(SavedTensor::Input).chain([SavedTensor::Output]).collect()
        }
    }
}

fn batch_norm(rule: MemoryRule, operation: StepOperation, facts: &OperationFacts) -> MemoryRule {
    let framework = operation.platform.framework;
    let bytes = |dims: &Shape| BatchBytes::constant(operation.step.weight().saturating_mul(dims.elements()));
    let statistics = facts.buffers.iter().map(bytes);
    // A mean and an inverse deviation of every channel.
    let [mean, deviation] = [0, 1].map(|at| bytes(&facts.buffers[at]));
    // nn.BatchNorm2d's num_batches_tracked; its "+ 1" makes a new tensor each step.
    let counter = framework.batch_norm_counts.then_some(BatchBytes::constant(INDEX));
    let rule = MemoryRule { buffers: statistics.chain(counter).collect(), ..rule };
    if !operation.step.trains() {
        return rule.forward([Output]);
    }
    let rule = match operation.network.works_as_in_training(operation.node, operation.step) {
        false => rule.forward([Output]).saves([SavedTensor::Input(0)]),
        true => {
            let counts = counter.map_or(vec![], |counter| vec![Take(counter), Drop(0)]);
            rule.forward(counts).forward([Output, Keep(mean), Keep(deviation)]).saves([SavedTensor::Input(0)])
        }
    };
    with_own_gradient(rule.backward(operation.weight_gradients(2).chain([InputGradient(0)])), operation)
}

/// batch_norm_backward_cpu_template makes one gradient of the input, batch_norm_cpu's kernel another (Normalization.cpp): the kernel is that of images
/// and gradients without gaps, in one order of axes. Others are gone through channel by channel, in the first gradient.
fn with_own_gradient(rule: MemoryRule, operation: StepOperation) -> MemoryRule {
    let is_one = matches!(operation.node.op, Op::BatchNorm { .. }) || operation.node.runs == PytorchRun::InstanceNorm;
    let has_kernel = operation.node.runs == PytorchRun::InstanceNorm || has_batch_norm_kernel(operation);
    let copies = operation.platform.framework.batch_norm_copies && operation.step.trains() && has_kernel;
    match is_one && copies && operation.within_kernels && operation.requires_gradient(0) {
        true => MemoryRule { backward: borrowing(rule.backward, operation.input(0)), ..rule },
        false => rule,
    }
}

/// `all_contiguous || is_channels_last` of batch_norm_backward_cpu; a layout that is not known is taken for the usual one.
fn has_batch_norm_kernel(operation: StepOperation) -> bool {
    let all = |is_so: fn(&TensorLayout) -> bool| is_so(operation.layout(0)) && operation.gradient().is_none_or(is_so);
    all(TensorLayout::is_contiguous) || all(TensorLayout::is_channels_last)
}

/// An assignment to a part of a tensor. Backward copies the gradient of all of it, clones that of the part, and makes zeros in its place (`CopySlices::apply_impl`
/// in torch/csrc/autograd/functions/tensor.cpp, `CopyBackwards`).
fn assignment_rule(rule: MemoryRule, operation: StepOperation) -> MemoryRule {
    let is_place =
        |input: &usize| operation.network.node(operation.node.inputs[*input]).element == ElementKind::Integer;
    let places = (1..operation.node.inputs.len()).filter(is_place).map(SavedTensor::Input).collect::<Vec<_>>();
    let rule = rule.forward([if operation.in_place { Reuse } else { Output }]).saves(places);
    let part = (1..operation.node.inputs.len()).rev().find(|&input| operation.requires_gradient(input));
    let (part, zeros) = (part.map(InputGradient), part.map(|input| Take(operation.input(input))));
    let whole = match operation.node.inputs.len() > 1 && !operation.requires_gradient(0) {
        true => Take(operation.output()),
        false => InputGradient(0),
    };
    let drops =
        [whole].into_iter().chain(zeros).filter(|made| matches!(made, Take(_))).map(|_| Drop(0)).collect::<Vec<_>>();
    rule.backward([whole]).backward(part).backward(zeros).backward(drops)
}

/// An activation in the memory of its input.
fn overwriting(rule: MemoryRule, operation: StepOperation, activation: Activation) -> MemoryRule {
    let rule = rule.backward([InputGradient(0)]);
    if activation == Activation::Relu6 && operation.platform.framework.relu6 == SavedRectifier::InputCopy {
        let tracked = operation.tracked[operation.id.index()];
        let copy = (operation.step.trains() && tracked).then_some(Keep(operation.input(0)));
        return rule.forward(copy).forward([Reuse]);
    }
    rule.forward([Reuse]).saves([SavedTensor::Output])
}

fn dropout(rule: MemoryRule, operation: StepOperation, facts: &OperationFacts) -> MemoryRule {
    if !operation.step.trains() {
        return rule.forward([Reuse]);
    }
    let mask = match operation.platform.framework.dropout {
        _ if facts.auxiliary == Some(AuxiliaryResult::Draw) => BatchBytes::per_sample(operation.number()),
        DropoutMask::Floats => operation.output(),
        DropoutMask::Bytes => BatchBytes::per_sample(operation.node.shape.elements()),
    };
    rule.forward([Keep(mask), Output]).backward([InputGradient(0)])
}

/// A part of a `torch.autograd.Function` that keeps nothing but what it reads.
fn in_function(rule: MemoryRule, operation: StepOperation, facts: &OperationFacts) -> MemoryRule {
    let mut rule = plain_rule(rule, operation, facts);
    let is_read = |index: usize| operation.network.node(operation.node.inputs[index]).runs != PytorchRun::InFunction;
    rule.saves.retain(|saved| matches!(*saved, SavedTensor::Input(index) if is_read(index)));
    rule
}

/// A step of an operator that makes its result alone: what other steps of it make takes no memory, and is not kept.
fn in_operator(mut rule: MemoryRule, operation: StepOperation, binary: BinaryFunction) -> MemoryRule {
    let is_step = |index: usize| operation.network.node(operation.node.inputs[index]).runs == PytorchRun::InOperator;
    // The last step is read by other operations, and makes the result.
    let reads = |node: &Node| node.inputs.contains(&operation.id);
    let is_last = !operation.network.nodes().iter().any(|node| reads(node) && node.runs == PytorchRun::InOperator);
    rule.saves.retain(|saved| matches!(*saved, SavedTensor::Input(index) if !is_step(index)));
    if binary == BinaryFunction::Mul && operation.node.inputs.len() == 2 {
        // `grad * (tensor2 * value)` of each factor (addcmul).
        rule.backward = vec![InputGradient(0), Take(operation.output()), InputGradient(1), Drop(0)];
    }
    MemoryRule { forward: vec![if is_last { Output } else { Reuse }], ..rule }
}

/// Tensors of its size that are there when `logcumsumexp_backward` (FunctionsManual.cpp) ends: logarithms of the gradient, of its positive and of its
/// negative part, the result of one of these, and three on the way to the other.
const LOGARITHMS: usize = 7;

/// The logarithms of sums of exponentials, which keep what they read and their result.
fn summed_logarithms(rule: MemoryRule, operation: StepOperation) -> MemoryRule {
    let made = (0..LOGARITHMS).map(|_| Take(operation.output()));
    let rule = MemoryRule { forward: vec![Output], saves: vec![SavedTensor::Input(0), SavedTensor::Output], ..rule };
    let rule = MemoryRule { backward: Vec::new(), ..rule }.backward(made).backward([InputGradient(0)]);
    rule.backward((0..LOGARITHMS).map(|_| Drop(0)))
}

/// A step of a variance. Forward makes numbers of the size of the result alone, backward the differences from the mean and their product with the gradient
/// (`var_backward` in FunctionsManual.cpp).
fn in_variance(rule: MemoryRule, operation: StepOperation) -> MemoryRule {
    let is_own = |index: &usize| operation.network.node(operation.node.inputs[*index]).runs != PytorchRun::Variance;
    let elements = |index: usize| operation.network.input_of(operation.node, index).elements();
    let saves = (0..operation.node.inputs.len()).filter(is_own).map(SavedTensor::Input).collect::<Vec<_>>();
    if elements(0) != operation.node.shape.elements() || operation.node.inputs.len() == 1 {
        return rule.forward([Output]).backward([InputGradient(0)]);
    }
    let rule = rule.forward([Reuse]);
    match saves.is_empty() {
        true => rule.backward([PassGradient(0)]),
        false => rule.saves(saves).backward([Take(operation.output()), PassGradient(0), Drop(0)]),
    }
}

/// The logarithm of `logsigmoid` reads the buffer that processors keep and others compute again (`log_sigmoid_forward` in Activation.cpp and
/// ActivationLogSigmoidKernel.cu).
fn without_buffer(rule: MemoryRule, operation: StepOperation) -> MemoryRule {
    let reads_part = operation.network.node(operation.node.inputs[0]).runs == PytorchRun::WithReader;
    match reads_part && operation.platform.lists() == AutocastDevice::Accelerator {
        true => MemoryRule { saves: Vec::new(), ..rule },
        false => rule,
    }
}

/// Backward reads copies of the operands that it saved as they are.
fn copying_saved(mut rule: MemoryRule) -> MemoryRule {
    if rule.casts.by == CastBy::Kernel {
        let copy = |saved: &SavedTensor| match *saved {
            SavedTensor::Input(index) => rule.casts.input(index),
            SavedTensor::Cast(_) | SavedTensor::Output => None,
        };
        rule.backward = rule.saves.iter().filter_map(copy).fold(rule.backward, borrowing);
    }
    rule
}

fn arithmetic(
    rule: MemoryRule,
    operation: StepOperation,
    binary: BinaryFunction,
    facts: &OperationFacts,
) -> MemoryRule {
    if operation.node.inputs.len() == 1 || facts.gradient == GradientFlow::Ends {
        return plain_rule(rule, operation, facts);
    }
    let is_fused = |saved: &SavedTensor| match *saved {
        SavedTensor::Input(index) => {
            operation.network.node(operation.node.inputs[index]).runs == PytorchRun::WithReader
        }
        SavedTensor::Cast(_) | SavedTensor::Output => false,
    };
    // A factor is saved for the gradient of the other one, a dividend for that of its divisor (tools/autograd/derivatives.yaml).
    let is_needed = |saved: &SavedTensor| match (*saved, binary) {
        (SavedTensor::Input(index), BinaryFunction::Mul) => operation.requires_gradient(1 - index),
        (SavedTensor::Input(0), BinaryFunction::Div) => operation.requires_gradient(1),
        (SavedTensor::Input(_) | SavedTensor::Cast(_) | SavedTensor::Output, _) => true,
    };
    let saved = saved_tensors(operation, facts.needs).into_iter().filter(|saved| !is_fused(saved) && is_needed(saved));
    let rule = rule.forward([Output]).saves(saved);
    let same = |index: usize| operation.network.input_of(operation.node, index).dims() == operation.node.shape.dims();
    let pass = |index: usize| if same(index) { PassGradient(index) } else { InputGradient(index) };
    let full = Take(operation.output());
    let stretched = (0..2).filter(|&index| !same(index) && operation.requires_gradient(index)).count();
    match (binary, same(0), same(1)) {
        (BinaryFunction::Add, ..) => rule.backward([pass(0), pass(1)]),
        (BinaryFunction::Sub, ..) => rule.backward([pass(0), InputGradient(1)]),
        // An input that was broadcast: its gradient at full size first, then the sum (torch/csrc/autograd/engine.cpp).
        (BinaryFunction::Mul, true, true) => rule.backward([InputGradient(0), InputGradient(1)]),
        (BinaryFunction::Mul, ..) => {
            let [own, summed] = if same(0) { [0, 1] } else { [1, 0] };
            let rule = rule.backward(vec![full; stretched]).backward([InputGradient(own), InputGradient(summed)]);
            rule.backward(vec![Drop(0); stretched])
        }
        (BinaryFunction::Div, ..) if !operation.requires_gradient(1) => {
            rule.backward(vec![full; stretched]).backward([InputGradient(0)]).backward(vec![Drop(0); stretched])
        }
        // The divisor's gradient comes first, as -grad * ((self / other) / other) (div_tensor_other_grad).
        (BinaryFunction::Div, true, true) => {
            rule.backward([full; 3]).backward([InputGradient(1)]).backward([Drop(0); 3]).backward([InputGradient(0)])
        }
        (BinaryFunction::Div, ..) => {
            let rule = rule.backward([full; 4]).backward([Drop(0); 3]);
            rule.backward([InputGradient(0), InputGradient(1), Drop(0)])
        }
        // where(self == other, grad / 2, grad).masked_fill_(self < other, 0)
        (BinaryFunction::Max | BinaryFunction::Min, ..) => {
            let masks = Take(BatchBytes::per_sample(times([2, operation.node.shape.elements()])));
            rule.backward([masks, full, InputGradient(0), InputGradient(1), Drop(0), Drop(0)])
        }
        // grad * (exponent * self.pow(exponent - 1)), and with masks for the exponent's.
        (BinaryFunction::Pow, ..) => {
            rule.backward([full; 4]).backward([InputGradient(0), InputGradient(1)]).backward([Drop(0); 4])
        }
        // Masked or multiplied by another result of the same size.
        (BinaryFunction::Mod | BinaryFunction::PRelu, ..) => {
            rule.backward([full, InputGradient(0), InputGradient(1), Drop(0)])
        }
        (
            BinaryFunction::Equal
            | BinaryFunction::Less
            | BinaryFunction::LessOrEqual
            | BinaryFunction::Greater
            | BinaryFunction::GreaterOrEqual,
            ..,
        ) => rule,
        (BinaryFunction::And | BinaryFunction::Or | BinaryFunction::Xor, ..) => rule,
    }
}

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use perf4sight_base::error::Result;
    use perf4sight_network::{
        Activation, Affine, BinaryFunction, Conv, Linear, Network, NetworkBuilder, Op, PytorchRun, ReductionKind,
        Shape, UnknownOperation, Window,
    };
    use perf4sight_platform::Platform;
    use perf4sight_step::workload::{Optimizer, Stage, Step, ZeroGrad};

    /// `y = l(x); out = y * 2; h = tanh(h + y[:, t]); out[:, t] = h` over 16 steps, `o(out)`: the peak of PyTorch's allocator over three steps of AdamW with 64 samples of
    /// 16 x 32, classes of 4, is 694,752 bytes (PyTorch 2.15). A copy of all of `out` for every step would be as much again three times.
    #[test]
    fn what_is_assigned_in_a_loop_is_there_once() -> Result<()> {
        let mut builder = NetworkBuilder::new("loop", Shape::new([16, 32]));
        let linear = |out_features| Op::Linear(Linear { out_features, bias: true });
        let read = builder.add("l", linear(32), &[builder.input()])?;
        let mut out = builder.add("out", Op::Binary(BinaryFunction::Mul), &[read])?;
        let mut state = None;
        for time in 0..16 {
            let mut add = |name: &str, op: Op, of: &[_]| builder.add(format!("{name}{time}"), op, of);
            let slice = add("slice", Op::Slice { axis: 0, start: time, length: 1 }, &[read])?;
            let row = add("row", Op::Reshape(Shape::new([32])), &[slice])?;
            let sum = state.map_or(Ok(row), |state| add("sum", Op::Binary(BinaryFunction::Add), &[state, row]))?;
            let bent = add("bent", Op::Activation(Activation::Tanh), &[sum])?;
            let put = add("put", Op::Reshape(Shape::new([1, 32])), &[bent])?;
            let assigned = UnknownOperation::new("ScatterElements", Shape::new([16, 32]), 0);
            (out, state) = (add("assigned", Op::Unknown(assigned), &[out, put])?, Some(bent));
        }
        let last = builder.add("o", linear(4), &[out])?;
        let step = Step { optimizer: Optimizer::AdamW, zero_grad: ZeroGrad::Free, ..Step::published(Stage::Training) };
        let (network, cpu) = (builder.finish(last), Platform::for_name("cpu")?);
        let peak = Simulation::new(&network, step, &cpu).peak(64).allocated.0 as f64;
        assert!((peak / 694_752.0 - 1.0).abs() < 0.01, "{peak}");
        Ok(())
    }

    fn linear(out_features: usize) -> Op {
        Op::Linear(Linear { out_features, bias: true })
    }

    /// The peak of a step of AdamW with gradients freed before it.
    fn adamw(network: &Network, samples: u64) -> Result<f64> {
        let step = Step { optimizer: Optimizer::AdamW, zero_grad: ZeroGrad::Free, ..Step::published(Stage::Training) };
        Ok(Simulation::new(network, step, &Platform::for_name("cpu")?).peak(samples).allocated.0 as f64)
    }

    /// `x = a(x); o(x * x.var(1, keepdim=True))` with layers of 64 to 256 and 8 features: the peak of PyTorch's allocator over three steps of AdamW with 512 samples is
    /// 2,471,064 bytes (PyTorch 2.15). As the steps that exporters write, differences and their squares would be there, too.
    #[test]
    fn a_variance_keeps_what_it_reads_alone() -> Result<()> {
        let mut builder = NetworkBuilder::new("variance", Shape::new([64]));
        let read = builder.add("a", linear(256), &[builder.input()])?;
        let first = builder.node_count();
        let mean = || Op::Reduce { reduction: ReductionKind::Mean, axes: vec![0], keep: true };
        let middle = builder.add("mean", mean(), &[read])?;
        let differences = builder.add("differences", Op::Binary(BinaryFunction::Sub), &[read, middle])?;
        let squares = builder.add("squares", Op::Binary(BinaryFunction::Mul), &[differences, differences])?;
        let variance = builder.add("variance", mean(), &[squares])?;
        builder.set_runs_from(first, PytorchRun::Variance);
        let scaled = builder.add("scaled", Op::Binary(BinaryFunction::Mul), &[read, variance])?;
        let last = builder.add("o", linear(8), &[scaled])?;
        let peak = adamw(&builder.finish(last), 512)?;
        assert!((peak / 2_471_064.0 - 1.0).abs() < 0.005, "{peak}");
        Ok(())
    }

    /// `o(F.logsigmoid(a(x)))` with the same layers: 2,481,304 bytes, counted likewise.
    #[test]
    fn the_logarithm_of_a_sigmoid_keeps_its_input_and_a_buffer() -> Result<()> {
        let mut builder = NetworkBuilder::new("logsigmoid", Shape::new([64]));
        let read = builder.add("a", linear(256), &[builder.input()])?;
        let sigmoid = builder.add("sigmoid", Op::Activation(Activation::Sigmoid), &[read])?;
        builder.set_runs(sigmoid, PytorchRun::WithReader);
        let logarithm = builder.add("logarithm", Op::Activation(Activation::Log), &[sigmoid])?;
        let last = builder.add("o", linear(8), &[logarithm])?;
        let peak = adamw(&builder.finish(last), 512)?;
        assert!((peak / 2_481_304.0 - 1.0).abs() < 0.005, "{peak}");
        Ok(())
    }

    /// `F.linear(torch.relu(F.linear(x, w, b)), w.t(), c)` with a weight of 256 x 400 and 64 samples: 2,571,032 bytes, counted likewise. With a state of its own for the second
    /// layer's weight it would be more than half as much again.
    #[test]
    fn a_weight_that_two_layers_read_is_there_once() -> Result<()> {
        let mut builder = NetworkBuilder::new("tied", Shape::new([400]));
        let read = builder.add("w", linear(256), &[builder.input()])?;
        let bent = builder.add("bent", Op::Activation(Activation::Relu), &[read])?;
        let last = builder.add("turned", linear(400), &[bent])?;
        builder.set_runs(last, PytorchRun::OnAnothers);
        builder.set_trained(last, 400);
        let peak = adamw(&builder.finish(last), 64)?;
        assert!((peak / 2_571_032.0 - 1.0).abs() < 0.005, "{peak}");
        Ok(())
    }

    /// What a constant divides or multiplies is needed for no gradient (tools/autograd/derivatives.yaml: mul, div), and a constant gets none: nothing but results are there.
    #[test]
    fn operands_are_kept_for_the_gradient_of_the_other() -> Result<()> {
        let of = |op: BinaryFunction| -> Result<f64> {
            let mut builder = NetworkBuilder::new("scaled", Shape::new([8, 512]));
            let read = builder.add("a", linear(512), &[builder.input()])?;
            let scale = builder.add("scale", Op::Parameter(Shape::new([8, 512])), &[])?;
            builder.set_trained(scale, 0);
            let scaled = builder.add("scaled", Op::Binary(op), &[read, scale])?;
            let last = builder.add("o", linear(4), &[scaled])?;
            adamw(&builder.finish(last), 256)
        };
        // A sum needs neither operand.
        assert_eq!([of(BinaryFunction::Mul)?, of(BinaryFunction::Div)?], [of(BinaryFunction::Add)?; 2]);
        Ok(())
    }

    /// `l(n2(d(n(c(x)))).mean((2, 3)))` with 3x3 convolutions of 32 channels, two `nn.InstanceNorm2d(32)` and 5 classes: the peak of PyTorch's allocator over three steps of AdamW
    /// with 4 samples of 3 x 32 x 32 is 3,402,640 bytes (PyTorch 2.15). Batch normalisation, which it runs, makes two gradients.
    #[test]
    fn instance_normalisation_makes_two_gradients() -> Result<()> {
        let mut builder = NetworkBuilder::new("instances", Shape::new([3, 32, 32]));
        let mut last = builder.input();
        for name in ["first", "second"] {
            let conv = Op::Conv(Conv { out_channels: 32, window: Window::square(3, 1, 1), groups: 1, bias: true });
            last = builder.add(name, conv, &[last])?;
            let norm = Op::GroupNorm { groups: 32, affine: Affine::None };
            last = builder.add(format!("{name}_norm"), norm, &[last])?;
            builder.set_runs(last, PytorchRun::InstanceNorm);
        }
        let mean = Op::Reduce { reduction: ReductionKind::Mean, axes: vec![1, 2], keep: false };
        let mean = builder.add("mean", mean, &[last])?;
        let last = builder.add("l", Op::Linear(Linear { out_features: 5, bias: true }), &[mean])?;
        let step = Step { optimizer: Optimizer::AdamW, zero_grad: ZeroGrad::Free, ..Step::published(Stage::Training) };
        let (network, cpu) = (builder.finish(last), Platform::for_name("cpu")?);
        let peak = Simulation::new(&network, step, &cpu).peak(4).allocated.0 as f64;
        assert!((peak / 3_402_640.0 - 1.0).abs() < 0.001, "{peak}");
        Ok(())
    }
}
