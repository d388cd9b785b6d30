//! Operators of PyTorch that its default exporter writes in steps, which it notes: they make nothing but their result, and keep what they read
//! (tools/autograd/derivatives.yaml).

use crate::call::{NodeCall, NodeMisfit};
use crate::notes;
use crate::translate::{GraphTranslation, own_name};
use crate::value::{Feature, Value};
use perf4sight_network::{BinaryFunction, Op, PytorchRun};

/// The result of such an operator, at the last of its steps; those before it are then read by nothing.
pub(super) fn whole(to: &mut GraphTranslation, call: &NodeCall) -> Result<Option<Feature>, NodeMisfit> {
    let operation = notes::operation(call.node);
    let is_result =
        notes::name(call.node).is_some_and(|name| call.node.output.first().is_some_and(|made| made == name));
    if to.ours || !is_result {
        return Ok(None);
    }
    let first = to.builder.node_count();
    let made = if operation.contains(".addcmul.") {
        sum_of(to, call, [BinaryFunction::Mul, BinaryFunction::Add])?
    } else if operation.contains(".addcdiv.") {
        sum_of(to, call, [BinaryFunction::Div, BinaryFunction::Add])?
    } else if operation.contains(".lerp.Scalar") {
        between(to, call)?
    } else if operation.contains(".logcumsumexp.") {
        summed(to, call)?
    } else {
        None
    };
    if made.is_some() {
        to.builder.set_runs_from(first, PytorchRun::InOperator);
    }
    Ok(made)
}

/// The first operands, if they are features of one size.
fn operands<const COUNT: usize>(to: &GraphTranslation, call: &NodeCall) -> Option<[Feature; COUNT]> {
    let arguments = notes::arguments(call.node);
    let read = arguments.get(..COUNT)?.iter().map(|name| match to.values.get(name.strip_prefix('%')?) {
        Some(Value::Feature(feature)) => Some(*feature),
        _ => None,
    });
    let read: [Feature; COUNT] = read.collect::<Option<Vec<_>>>()?.try_into().ok()?;
    let is_alike =
        |one: &Feature| one.batch == read[0].batch && to.builder.shape(one.id) == to.builder.shape(read[0].id);
    read.iter().all(is_alike).then_some(read)
}

/// `addcmul` and `addcdiv`: the product or quotient of two tensors is added to a third.
fn sum_of(
    to: &mut GraphTranslation,
    call: &NodeCall,
    [inner, outer]: [BinaryFunction; 2],
) -> Result<Option<Feature>, NodeMisfit> {
    let Some([whole, one, other]) = operands(to, call) else { return Ok(None) };
    let inner = to.add_like(&format!("{}_inner", own_name(call)), Op::Binary(inner), &[one, other])?;
    to.add_like(own_name(call), Op::Binary(outer), &[whole, inner]).map(Some)
}

/// `lerp`: the gradient of each operand is the incoming one times a number.
fn between(to: &mut GraphTranslation, call: &NodeCall) -> Result<Option<Feature>, NodeMisfit> {
    let Some([from, end]) = operands(to, call) else { return Ok(None) };
    let mut scaled = |what: &str, of: Feature| {
        to.add_like(&format!("{}_{what}", own_name(call)), Op::Binary(BinaryFunction::Mul), &[of])
    };
    let parts = [scaled("from", from)?, scaled("end", end)?];
    to.add_like(own_name(call), Op::Binary(BinaryFunction::Add), &parts).map(Some)
}

fn summed(to: &mut GraphTranslation, call: &NodeCall) -> Result<Option<Feature>, NodeMisfit> {
    let Some([of]) = operands(to, call) else { return Ok(None) };
    let Some(axis) = notes::arguments(call.node).get(1).and_then(|axis| axis.parse().ok()) else { return Ok(None) };
    let axis = to.axis(of, axis)?;
    to.add_like(own_name(call), Op::CumSum { axis }, &[of]).map(Some)
}

#[cfg(test)]
mod tests {
    use crate::tests::*;
    use perf4sight_network::PytorchRun;

    const OPERATION: &str = "pkg.torch.onnx.fx_node";

    /// `torch.addcmul(x, x, b)` as the default exporter writes it: its steps are one operator.
    #[test]
    fn steps_of_a_noted_operator_are_one() {
        let note = "%addcmul : [num_users=1] = call_function[target=torch.ops.aten.addcmul.default](args = (%x, %x, %b), kwargs = {value: 0.5})";
        let draft = Draft::new().number("half", 0.5).node("Sigmoid", &["x"], "b", vec![]);
        let draft = draft.noted(OPERATION, "%b : call_function[target=torch.ops.aten.sigmoid.default](args = (%x,))");
        let draft = draft.node("Mul", &["half", "x"], "tmp", vec![]).noted(OPERATION, note);
        let draft = draft.node("Mul", &["tmp", "b"], "tmp_0", vec![]).noted(OPERATION, note);
        let loaded =
            draft.node("Add", &["x", "tmp_0"], "addcmul", vec![]).noted(OPERATION, note).output("addcmul").load();
        let runs: Vec<_> = loaded.network.nodes().iter().map(|node| (node.op.kind(), node.runs)).collect();
        let [_, _, product, sum] = runs[..] else { panic!("{runs:?}") };
        assert_eq!([product, sum].map(|(_, runs)| runs), [PytorchRun::InOperator; 2]);
        assert!(loaded.network.other_readings().is_empty() && loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        let nodes = loaded.network.nodes();
        assert_eq!(nodes[nodes[3].inputs[0].index()].name, nodes[0].name);
    }

    /// `roll` by one row: two slices that are joined turned around. The default exporter notes that they are one operator, the older one does not.
    #[test]
    fn parts_that_are_joined_turned_around_may_be_one_operator() {
        let rolled = |note: &str| {
            let draft = Draft::new()
                .numbers("axes", &[2])
                .numbers("zero", &[0])
                .numbers("last", &[-1])
                .numbers("end", &[1 << 40]);
            let draft = draft.node("Slice", &["x", "last", "end", "axes"], "behind", vec![]).noted(OPERATION, note);
            let draft = draft.node("Slice", &["x", "zero", "last", "axes"], "front", vec![]).noted(OPERATION, note);
            let draft = draft.node("Concat", &["behind", "front"], "roll", vec![with::int("axis", 2)]);
            draft.noted(OPERATION, note).output("roll").load()
        };
        let parts = |network: &Network| network.nodes().iter().filter(|node| node.runs == PytorchRun::Part).count();
        let noted = rolled(
            "%roll : [num_users=1] = call_function[target=torch.ops.aten.roll.default](args = (%x, [1], [2]), kwargs = {})",
        );
        assert_eq!(parts(&noted.network), 2);
        let open = rolled("");
        let others: Vec<_> = open.network.other_readings().iter().map(parts).collect();
        assert_eq!((parts(&open.network), others), (2, vec![2, 0]));
        assert!(open.warnings.iter().any(|warning| warning.contains("`roll`")), "{:?}", open.warnings);
    }
}
