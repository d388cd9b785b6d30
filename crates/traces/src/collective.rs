//! The arguments of exchanges between ranks: collective operations, and sends and receives.

use crate::category::EventCategory;
use crate::raw::{RawEvent, as_written, whole_number};
use crate::trace::{Trace, TraceEvent};
use serde_json::Value;

/// The arguments of a collective operation in a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectiveArguments {
    /// The operation as the trace writes it: `allreduce`, `all_to_all`, `_allgather_base_`.
    pub operation: String,
    /// Elements sent and received by this rank, if the trace contains them. Without arguments of its own, as in traces
    /// before PyTorch 2.2 and of gloo, these are the elements of the first input tensors, twice.
    pub elements: Option<[u64; 2]>,
    /// The type of an element, as named by PyTorch.
    pub element_type: String,
    /// The number of ranks that take part; 0 if unknown.
    pub group_size: u32,
    pub group: String,
    /// The list of their ranks as written: `[0, 1]`; of more than thirty, PyTorch leaves out all but the first and the
    /// last: `[0, 1, ..., 63]`.
    pub ranks: String,
    /// The number of the operation in its group (`Seq`).
    pub sequence: Option<u64>,
    /// A number that only this operation has, the same on all ranks (`Comms Id`).
    pub comms_id: Option<u64>,
    /// The ranks that send and receive, of an operation between two.
    pub peers: [Option<u32>; 2],
}

/// Prefixes of the names of ranges and operators for exchanges.
const PREFIXES: [&[u8]; 5] = [b"gloo:", b"nccl:", b"mpi:", b"ucc:", b"c10d::"];
/// Prefixes of the ranges that last as long as an exchange on the CPU. NCCL's ranges only enqueue a kernel.
const ON_CPU: [&str; 5] = ["gloo:", "mpi:", "ucc:", "horovod:", "byteps:"];
/// Parts of the names of kernels that exchange data with other ranks: from the libraries of NVIDIA, AMD, Microsoft and
/// Intel, and from vLLM.
const KERNELS: [&str; 5] = ["nccl", "rccl", "mscclKernel", "oneccl", "cross_device_reduce"];
/// The operator of the autograd engine that adds a gradient up; its input is the gradient.
const GRADIENT: &[u8] = b"torch::autograd::AccumulateGrad";
/// The operator that all of NCCL's exchanges call.
const PARAMETERS: &[u8] = b"record_param_comms";

impl CollectiveArguments {
    /// The arguments in an event, if it belongs to an exchange.
    pub(crate) fn from_event(event: &RawEvent) -> Option<Self> {
        let arguments = &event.args;
        let number = |value: Option<&[u8]>| value.map(|value| whole_number(Some(value)));
        let operation = match arguments.collective.as_deref() {
            Some(operation) => operation,
            None => operation_in_name(event.name.as_deref()?)?,
        };
        let elements = match arguments.sent.zip(arguments.received) {
            Some((sent, received)) => Some([sent, received].map(|number| whole_number(Some(number)))),
            None => arguments.dims.and_then(elements).map(|elements| [elements; 2]),
        };
        let [source, destination] = peers_among_inputs(operation, arguments.values);
        // `-1` stands for no rank; it is no whole number.
        let rank =
            |value: Option<&[u8]>| value.filter(|value| !value.contains(&b'-')).map(|value| whole_number(Some(value)));
        Some(CollectiveArguments {
            operation: String::from_utf8_lossy(operation).into_owned(),
            elements,
            element_type: arguments.element_type.map_or_else(|| first(arguments.types), |kind| as_written(Some(kind))),
            group_size: u32::try_from(whole_number(arguments.group_size)).unwrap_or(0),
            group: as_written(arguments.group),
            ranks: as_written(arguments.ranks),
            sequence: number(arguments.sequence),
            comms_id: number(arguments.comms_id),
            peers: [(arguments.source, source), (arguments.destination, destination)]
                .map(|(peer, input)| rank(peer).and_then(|peer| u32::try_from(peer).ok()).or(input)),
        })
    }

    /// Whether it is no exchange, but a gradient that is added up.
    pub(crate) fn is_gradient(&self) -> bool {
        self.operation.as_bytes() == GRADIENT
    }

    /// Bytes of an element; none for an unknown type.
    pub fn element_bytes(&self) -> Option<u64> {
        Some(match self.element_type.trim_start_matches("c10::").to_ascii_lowercase().as_str() {
            "double" | "long" | "long int" | "complexfloat" | "complex<float>" => 8,
            "float" | "int" | "uint32" => 4,
            "half" | "bfloat16" | "short" | "short int" | "uint16" => 2,
            "byte" | "char" | "bool" | "unsigned char" | "signed char" | "float8_e4m3fn" | "float8_e5m2" => 1,
            "complexdouble" | "complex<double>" => 16,
            _ => return None,
        })
    }
}

impl Trace {
    /// Bytes of the gradient that an event adds up, if it does and the trace contains shapes and types.
    pub fn gradient_bytes(&self, event: &TraceEvent) -> Option<u64> {
        let arguments = self.arguments(event).filter(|arguments| arguments.is_gradient())?;
        let [elements, _] = arguments.elements?;
        elements.checked_mul(arguments.element_bytes()?)
    }

    /// Whether an event lasts as long as an exchange with other ranks: a kernel of an accelerator, or a range of a
    /// library on the CPU.
    pub fn is_exchange(&self, event: &TraceEvent) -> bool {
        let name = self.name(event);
        let kernel = || self.collective(event).is_some() || KERNELS.iter().any(|known| name.contains(known));
        let range = || ON_CPU.iter().any(|known| name.starts_with(known));
        event.category == EventCategory::Kernel && kernel() || event.category == EventCategory::Annotation && range()
    }
}

/// Whether what begins with this name lasts as long as an exchange with other ranks.
///
/// ```
/// use perf4sight_traces::names_exchange;
/// assert!(names_exchange("ncclDevKernel_AllReduce") && names_exchange("gloo:all_reduce"));
/// assert!(!names_exchange("aten::mm"));
/// ```
pub fn names_exchange(name: &str) -> bool {
    KERNELS.iter().chain(&ON_CPU).any(|known| name.starts_with(known))
}

/// The operation in the name of a range or an operator for exchanges: `all_reduce` in `gloo:all_reduce`.
fn operation_in_name(name: &[u8]) -> Option<&[u8]> {
    if name == PARAMETERS {
        return Some(b"");
    }
    if name == GRADIENT {
        return Some(GRADIENT);
    }
    PREFIXES.iter().find_map(|prefix| name.strip_prefix(*prefix))
}

/// The elements of the first input, which is a tensor or a list of tensors; none if it is neither.
fn elements(dims: &[u8]) -> Option<u64> {
    let dims: Value = serde_json::from_slice(dims).ok()?;
    let first = dims.as_array()?.first()?.as_array()?;
    match first.first()? {
        Value::Array(_) => first.iter().map(|tensor| product(tensor.as_array()?)).sum(),
        Value::Number(_) => product(first),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Object(_) => None,
    }
}

/// Sender and receiver among the inputs of `c10d::send(tensors, process_group, dst, tag)` and `c10d::recv_(tensors,
/// process_group, src, tag)` (torch/csrc/distributed/c10d/Ops.cpp): with gloo no other argument contains them. They are
/// numbers of ranks in the group.
fn peers_among_inputs(operation: &[u8], inputs: Option<&[u8]>) -> [Option<u32>; 2] {
    let peer = || serde_json::from_slice::<Vec<String>>(inputs?).ok()?.get(2)?.parse().ok();
    match operation {
        b"send" => [None, peer()],
        b"recv_" => [peer(), None],
        _ => [None; 2],
    }
}

fn product(dims: &[Value]) -> Option<u64> {
    dims.iter().try_fold(1u64, |product, size| product.checked_mul(size.as_u64()?))
}

fn first(types: Option<&[u8]>) -> String {
    let types: Option<Vec<String>> = types.and_then(|types| serde_json::from_slice(types).ok());
    types.and_then(|types| types.into_iter().next()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_those_of_the_first_input() {
        assert_eq!(elements(b"[[660490]]"), Some(660_490));
        assert_eq!(elements(b"[[[2, 3], [4]], [], []]"), Some(10));
        assert_eq!(elements(b"[[], []]"), None);
        assert_eq!(elements(b"[[\"a\"]]"), None);
        assert_eq!(elements(b"[[18446744073709551615, 2]]"), None);
    }

    /// As PyTorch 2.11 writes them.
    #[test]
    fn peers_are_inputs_of_send_and_receive() {
        let inputs = br#"["", "", "2", "0"]"#;
        assert_eq!(peers_among_inputs(b"send", Some(inputs)), [None, Some(2)]);
        assert_eq!(peers_among_inputs(b"recv_", Some(inputs)), [Some(2), None]);
        assert_eq!(peers_among_inputs(b"broadcast_", Some(inputs)), [None; 2]);
        assert_eq!(peers_among_inputs(b"send", Some(b"[\"\"]")), [None; 2]);
        assert_eq!(peers_among_inputs(b"send", None), [None; 2]);
    }
}
