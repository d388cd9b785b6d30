//! The notes of PyTorch's default exporter on a node: its original operation, the operands of that, its module, the lines of code that made it.

use crate::schema::NodeProto;

const OPERATION: &str = "pkg.torch.onnx.fx_node";
const SCOPES: &str = "pkg.torch.onnx.name_scopes";
const RULES: &str = "pkg.onnxscript.rewriter.rule_name";
const STACK: &str = "pkg.torch.onnx.stack_trace";

/// Whether this crate reads notes with this key.
pub(super) fn is_asked_for(key: &[u8]) -> bool {
    [OPERATION, SCOPES, RULES, STACK].iter().any(|known| known.as_bytes() == key)
}

fn note<'a>(node: &'a NodeProto, key: &str) -> &'a str {
    node.metadata_props.iter().find(|note| note.key() == key).map_or("", |note| note.value())
}

/// The PyTorch operation that a node came from, as in `torch.ops.aten.conv2d.default`.
pub(super) fn operation(node: &NodeProto) -> &str {
    let call = note(node, OPERATION).split_once("[target=").map_or("", |(_, call)| call);
    call.split_once(']').map_or(call, |(target, _)| target)
}

/// The name of that operation: that of its result, where it has one.
pub(super) fn name(node: &NodeProto) -> Option<&str> {
    let (name, _) = note(node, OPERATION).strip_prefix('%')?.split_once(' ')?;
    Some(name)
}

/// Whether it ran within a `torch.autograd.Function`, whose own code decides what backward keeps: `Function.apply` calls a `forward`.
pub(super) fn is_in_function(node: &NodeProto) -> bool {
    let frames: Vec<&str> = note(node, STACK).split("File \"").collect();
    let is_forward = |frame: &str| frame.lines().next().is_some_and(|line| line.ends_with(", in forward"));
    frames.windows(2).any(|pair| pair[0].contains(".apply(") && is_forward(pair[1]))
}

/// The code that PyTorch generated for a node, where the exporter noted that in place of the program's: `<eval_with_key>.42`. A program's own `GraphModule` is generated,
/// too, but calls no operators of ATen.
pub(super) fn generated_code(node: &NodeProto) -> Option<&str> {
    let (code, line) = note(node, STACK).strip_prefix("File \"")?.split_once('"')?;
    (code.starts_with("<eval_with_key>") && line.contains("torch.ops.aten.")).then_some(code)
}

/// Whether the exporter merged a program's `pad` into this convolution, as it notes its rules.
pub(super) fn has_merged_pad(node: &NodeProto) -> bool {
    note(node, RULES).contains("FuseConvPad")
}

/// Whether it makes numbers of 16 bits of others.
pub(super) fn casts_to_16_bits(node: &NodeProto) -> bool {
    let call = note(node, OPERATION);
    call.contains("_to_copy") && ["float16", "bfloat16"].iter().any(|kind| call.contains(&format!("torch.{kind}")))
}

/// The calls that run a part of a module again for backward instead of keeping what it computes: PyTorch's own, timm's and transformers'.
const CHECKPOINTS: [&str; 4] =
    ["checkpoint(", "checkpoint_sequential(", "checkpoint_seq(", "_gradient_checkpointing_func("];

/// Whether it may have run within such a call: PyTorch was at a line of code that has one.
pub(super) fn may_be_checkpointed(node: &NodeProto) -> bool {
    let calls = |line: &str| CHECKPOINTS.iter().any(|call| line.contains(call));
    note(node, STACK).lines().any(calls)
}

/// Whether it is part of PyTorch's attention in one operation.
pub(super) fn is_attention(node: &NodeProto) -> bool {
    operation(node).contains("scaled_dot_product_attention")
}

/// The dropout rate of an attention, which the exporter notes in no other way: `dropout_p` is the fifth operand of
/// `scaled_dot_product_attention`, and zero in evaluation mode.
pub(super) fn attention_dropout(node: &NodeProto) -> Option<f32> {
    let rate = is_attention(node).then(|| arguments(node).get(4)?.parse().ok()).flatten()?;
    (rate > 0.0).then_some(rate)
}

/// Whether it is an attention whose heads of queries share heads of keys and values, as an operand says.
pub(super) fn shares_heads(node: &NodeProto) -> bool {
    is_attention(node) && note(node, OPERATION).contains("enable_gqa: True")
}

/// Whether it is an attention with a mask that the program computes: `attn_mask` is the fourth operand.
pub(super) fn is_masked_attention(node: &NodeProto) -> bool {
    is_attention(node) && arguments(node).get(3).is_some_and(|mask| mask.starts_with('%'))
}

/// The calls of transformers that make a mask in an export, and none in a run where nothing is padded (masking_utils.py).
const MASKS: [&str; 4] = [
    "create_causal_mask(",
    "create_sliding_window_causal_mask(",
    "create_chunked_causal_mask(",
    "create_bidirectional_mask(",
];

/// Whether the code of transformers made it for a mask.
pub(super) fn is_of_library_mask(node: &NodeProto) -> bool {
    let stack = note(node, STACK);
    MASKS.iter().any(|call| stack.contains(call))
}

/// Whether a program's own `view`, `reshape` or `flatten` may be what a node is of; not one that the exporter needs for another operation, such as the transposed keys of
/// an attention.
pub(super) fn is_reshaped(node: &NodeProto) -> bool {
    let operation = operation(node);
    operation.is_empty() || ["view", "reshape", "flatten"].iter().any(|name| operation.contains(name))
}

/// Whether an operand of a node's original operation is a copy that the program made (`contiguous()`, which files leave out).
pub(super) fn is_copied(node: &NodeProto, place: usize) -> bool {
    arguments(node)
        .get(place)
        .is_some_and(|operand| operand.starts_with("%clone") || operand.starts_with("%contiguous"))
}

/// The names of what the operation read, in the order of its arguments.
pub(super) fn read(node: &NodeProto) -> Vec<&str> {
    let of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    arguments(node)
        .into_iter()
        .flat_map(|argument| {
            argument.split('%').skip(1).filter_map(move |name| name.split(|letter| !of_name(letter)).next())
        })
        .collect()
}

/// The parameters and buffers that a node's original operation read.
pub(super) fn noted_tensors(node: &NodeProto) -> impl Iterator<Item = &str> {
    let names = note(node, OPERATION).split(|letter: char| !letter.is_alphanumeric() && !matches!(letter, '_' | '%'));
    names.filter_map(|name| name.strip_prefix('%')).filter(|name| name.starts_with("p_") || name.starts_with("b_"))
}

/// The arguments of the operation, as in `["%x", "%p_conv1_weight", "None", "[2, 2]"]`.
pub(super) fn arguments(node: &NodeProto) -> Vec<&str> {
    let Some((_, list)) = note(node, OPERATION).split_once("args = (") else { return Vec::new() };
    let (mut depth, mut start, mut arguments) = (0usize, 0, Vec::new());
    for (place, letter) in list.char_indices() {
        let ends = letter == ')' && depth == 0;
        if ends || (letter == ',' && depth == 0) {
            arguments.push(list[start..place].trim());
            start = place + 1;
        }
        match letter {
            _ if ends => break,
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    arguments
}

/// The modules in whose calls a node runs, as in `layers/layers.0/layers.0.attn`; empty in the network's own code, `None` without a note.
pub(super) fn calls(node: &NodeProto) -> Option<String> {
    let (scopes, _) = note(node, SCOPES).rsplit_once("', '")?;
    let names = scopes.split("', '").map(|name| name.trim_start_matches(['[', '\'']));
    Some(names.filter(|name| !name.is_empty()).collect::<Vec<_>>().join("/"))
}

/// The module of a node, as in `layers.0.attn`; empty for the network itself, `None` without a note.
pub(super) fn module(node: &NodeProto) -> Option<&str> {
    // ['', 'layers', 'layers.0', 'layers.0.attn', 'add_3']: the operation comes last.
    let (scopes, _) = note(node, SCOPES).rsplit_once("', '")?;
    Some(scopes.rsplit_once('\'').map_or(scopes, |(_, module)| module))
}

pub(super) fn reads_parameter(node: &NodeProto) -> bool {
    noted_tensors(node).any(|name| name.starts_with("p_"))
}

/// Whether the batch normalisation after a layer was folded into it.
pub(super) fn holds_batch_norm(node: &NodeProto) -> bool {
    let layer = matches!(node.op_type(), "Conv" | "ConvTranspose" | "Gemm" | "MatMul");
    // Without its notes, the exporter is recognised by the name of the bias that folding makes: that of the filters with a
    // suffix.
    let filters = node.input.get(1).filter(|filters| filters.ends_with(".weight"));
    let named = filters.zip(node.input.get(2)).is_some_and(|(filters, bias)| *bias == format!("{filters}_bias"));
    layer && (named || note(node, RULES).contains("BatchNorm") || note(node, OPERATION).contains("batch_norm"))
}
