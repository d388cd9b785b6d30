//! Traces of PyTorch's profiler with shapes (`record_shapes=True`): each operation takes as long as its kernels, and where there
//! are none, as its call on the processor.

use super::execution_trace::{RecordedTensors, TraceNode};
use super::{MeasuredOperations, RowOrigin, convolved};
use crate::class::{OperationClass, class_of};
use crate::element::ElementType;
use crate::gpus::sheet;
use crate::row::{OperationRow, shapes};
use crate::work::{TensorShape, work};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::stats::median;
use perf4sight_base::unzipped::unzipped;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// What these files contain: a trace, or an execution trace.
#[derive(Deserialize)]
struct KinetoFile {
    #[serde(rename = "traceEvents")]
    events: Option<Vec<KinetoEvent>>,
    #[serde(default, rename = "deviceProperties")]
    devices: Vec<KinetoDevice>,
    nodes: Option<Vec<TraceNode>>,
}

#[derive(Deserialize)]
struct KinetoDevice {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct KinetoEvent {
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    ts: Value,
    #[serde(default)]
    dur: Value,
    #[serde(default)]
    tid: Value,
    args: Option<KinetoArguments>,
}

#[derive(Deserialize, Default)]
struct KinetoArguments {
    #[serde(default, rename = "External id", alias = "external id")]
    external: Value,
    #[serde(default)]
    correlation: Value,
    #[serde(default, rename = "Record function id")]
    recorded: Value,
    #[serde(default, rename = "Input Dims", alias = "Input dims")]
    dims: Value,
    #[serde(default, rename = "Input type")]
    types: Value,
    #[serde(default, rename = "Concrete Inputs")]
    concrete: Value,
}

struct OperationCall<'t> {
    event: &'t KinetoEvent,
    arguments: &'t KinetoArguments,
    class: OperationClass,
}

const NO_SHAPES: &str =
    "their shapes and types were not recorded (record_shapes=True, or an execution trace of the same run)";
const NO_TYPES: &str = "they have lists of tensors, whose types traces do not hold (an execution trace of the same run does), next to tensors of several types";
const NO_WORK: &str = "their tensors do not say what they compute";
const READ: &str = "read this trace";
/// Files of JSON in the same folders that are no traces.
const OTHERS: [&str; 3] = ["metadata.json", "gradient_name_list.json", "config.json"];

pub(super) fn is_json(file: &Path) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    (name.ends_with(".json") || name.ends_with(".json.gz")) && !OTHERS.contains(&name.as_str())
}

/// Reads the traces of a folder, with its execution traces.
pub(super) fn read(files: &[PathBuf], origin: &RowOrigin, found: &mut MeasuredOperations) -> Result<()> {
    let (mut traces, mut recorded) = (Vec::new(), RecordedTensors::default());
    for path in files {
        let KinetoFile { events, devices, nodes } = file(path)?;
        match (events, nodes) {
            (Some(events), _) => {
                check_device(&devices, origin, path)?;
                check_kernels(&events, origin, path)?;
                traces.push(events);
            }
            (None, Some(nodes)) => recorded.add(nodes),
            (None, None) => {
                let error = Error::input("is neither a trace nor an execution trace of PyTorch").file(path);
                return Err(error.expected("JSON with traceEvents or nodes"));
            }
        }
    }
    traces.iter().for_each(|events| add(events, &recorded, origin, found));
    Ok(())
}

fn file(path: &Path) -> Result<KinetoFile> {
    let mut bytes = Vec::new();
    let source = BufReader::new(input_file::open(path, READ)?);
    let read = unzipped(source).and_then(|mut source| source.read_to_end(&mut bytes));
    read.map_err(|cause| Error::io(path, READ, &cause))?;
    serde_json::from_slice(&bytes)
        .map_err(|cause| Error::input(format!("is not a complete trace of PyTorch's profiler: {cause}")).file(path))
}

/// Refuses a trace of another GPU than its folder says, or of one that no data sheet has in a folder of one that has.
fn check_device(devices: &[KinetoDevice], origin: &RowOrigin, path: &Path) -> Result<()> {
    let (Some(KinetoDevice { name }), Some(folder)) = (devices.first(), sheet(&origin.gpu)) else { return Ok(()) };
    // A name without a number is no model's.
    let is_model = || name.contains(|letter: char| letter.is_ascii_digit());
    match sheet(name).map_or_else(is_model, |own| own.contradicts(folder)) {
        false => Ok(()),
        true => Err(Error::input(format!("was recorded on {name}, and is in a folder of {}", folder.name))
            .file(path)
            .expected("folders GPU/NETWORK/ with traces of that GPU")),
    }
}

/// Refuses a trace of operations without kernels in a folder of a GPU: calls on the processor say nothing of what that GPU takes.
fn check_kernels(events: &[KinetoEvent], origin: &RowOrigin, path: &Path) -> Result<()> {
    let Some(folder) = sheet(&origin.gpu) else { return Ok(()) };
    if calls(events).is_empty() || !kernel_times(events).is_empty() {
        return Ok(());
    }
    let error = Error::input(format!("has no kernels of a GPU, and is in a folder of {}", folder.name)).file(path);
    Err(error.expected("a trace with ProfilerActivity.CUDA, or a folder that is named after the processor"))
}

/// A number, or a text that is one.
fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

fn id(value: &Value) -> Option<u64> {
    number(value).filter(|id| *id > 0.0).map(|id| id as u64)
}

/// Adds the rows of a trace.
fn add(events: &[KinetoEvent], recorded: &RecordedTensors, origin: &RowOrigin, found: &mut MeasuredOperations) {
    let called = calls(events);
    let of_lists = only_float(&called);
    let kernels = kernel_times(events);
    let times: Vec<(&OperationCall, f64)> = match kernels.is_empty() {
        true => innermost(&called),
        false => launching(&called, events, &kernels),
    };
    let mut rows: BTreeMap<(String, String, ElementType), (OperationRow, Vec<f64>)> = BTreeMap::new();
    for (call, time) in times {
        match row(call, recorded, origin, of_lists) {
            Ok(row) => {
                let key = (row.operation.clone(), row.shapes.clone(), row.element);
                rows.entry(key).or_insert_with(|| (row, Vec::new())).1.push(time);
            }
            Err(why) => found.leave_out(why),
        }
    }
    let measured = rows.into_values().map(|(row, times)| OperationRow {
        time_us: median(&times),
        count: times.len() as u32,
        ..row
    });
    found.rows.extend(measured.filter(|row| row.time_us > 0.0 && row.check().is_ok()));
}

/// The number of the call that launched an event, or that it is.
fn correlation(event: &KinetoEvent) -> Option<u64> {
    id(&event.args.as_ref()?.correlation)
}

/// Microseconds of the kernels that each call of the runtime launched, by its number; copies from and to the host are none.
fn kernel_times(events: &[KinetoEvent]) -> HashMap<u64, f64> {
    let is_kernel = |event: &&KinetoEvent| {
        let kind = event.cat.to_ascii_lowercase();
        let is_copy = kind.starts_with("gpu_mem") && !event.name.contains("HtoD") && !event.name.contains("DtoH");
        kind == "kernel" || is_copy
    };
    let mut times: HashMap<u64, f64> = HashMap::new();
    for event in events.iter().filter(is_kernel) {
        if let (Some(launch), Some(time)) = (correlation(event), number(&event.dur)) {
            *times.entry(launch).or_default() += time;
        }
    }
    times
}

/// The calls that launched kernels, each the innermost of a known class around the call of the runtime, with the microseconds of their
/// kernels. Numbers of operations are of no use: in older traces those of kernels are the runtime's.
fn launching<'c, 't>(
    calls: &'c [OperationCall<'t>],
    events: &[KinetoEvent],
    kernels: &HashMap<u64, f64>,
) -> Vec<(&'c OperationCall<'t>, f64)> {
    let threads = threads(calls);
    let mut times: BTreeMap<usize, f64> = BTreeMap::new();
    let is_launch =
        |event: &&KinetoEvent| event.cat.contains("runtime") || event.cat.contains("driver") || event.cat == "Runtime";
    for event in events.iter().filter(is_launch) {
        let kernel = correlation(event).and_then(|launch| kernels.get(&launch));
        let (Some(kernel), Some(at)) = (kernel, number(&event.ts)) else { continue };
        let around = threads.get(&event.tid.to_string()).and_then(|calls| innermost_call(calls, at));
        around.into_iter().for_each(|place| *times.entry(place).or_default() += kernel);
    }
    times.into_iter().map(|(place, time)| (&calls[place], time)).collect()
}

/// Of the calls of each thread the start, the microseconds and the place among all, by starts and the outer ones first.
fn threads(calls: &[OperationCall]) -> BTreeMap<String, Vec<(f64, f64, usize)>> {
    let mut threads: BTreeMap<String, Vec<(f64, f64, usize)>> = BTreeMap::new();
    for (place, call) in calls.iter().enumerate() {
        if let (Some(start), Some(time)) = (number(&call.event.ts), number(&call.event.dur)) {
            threads.entry(call.event.tid.to_string()).or_default().push((start, time, place));
        }
    }
    threads
        .values_mut()
        .for_each(|calls| calls.sort_by(|one, other| one.0.total_cmp(&other.0).then(other.1.total_cmp(&one.1))));
    threads
}

/// The innermost of the calls of a thread around a moment.
fn innermost_call(calls: &[(f64, f64, usize)], at: f64) -> Option<usize> {
    let begun = calls.partition_point(|(start, ..)| *start <= at);
    let mut before = calls[..begun].iter().rev().take(DEEPEST);
    before.find(|(start, time, _)| start + time >= at).map(|(.., place)| *place)
}

/// Calls that begin between one and a launch inside it, and have ended by then.
const DEEPEST: usize = 64;

/// The calls of operations of a known class.
fn calls(events: &[KinetoEvent]) -> Vec<OperationCall<'_>> {
    let is_call = |event: &&KinetoEvent| matches!(event.cat.as_str(), "cpu_op" | "Operator" | "operator");
    events.iter().filter(is_call).filter_map(call).collect()
}

fn call(event: &KinetoEvent) -> Option<OperationCall<'_>> {
    Some(OperationCall { event, arguments: event.args.as_ref()?, class: class_of(&event.name)? })
}

/// The calls without another one of a known class inside, with their microseconds.
fn innermost<'c, 't>(calls: &'c [OperationCall<'t>]) -> Vec<(&'c OperationCall<'t>, f64)> {
    let mut found = Vec::new();
    for timed in threads(calls).into_values() {
        let ends_before_next = |(at, (start, time, _)): &(usize, &(f64, f64, usize))| {
            timed.get(at + 1).is_none_or(|next| next.0 >= start + time)
        };
        let innermost = timed.iter().enumerate().filter(ends_before_next);
        found.extend(innermost.map(|(_, (_, time, place))| (&calls[*place], *time)));
    }
    found
}

/// The row of a call, without its time; or why there is none.
fn row(
    call: &OperationCall,
    recorded: &RecordedTensors,
    origin: &RowOrigin,
    of_lists: Option<ElementType>,
) -> std::result::Result<OperationRow, &'static str> {
    let name = &call.event.name;
    let node = recorded.node(id(&call.arguments.recorded).or(id(&call.arguments.external)), name);
    let own = tensors(&call.arguments.dims, &call.arguments.types, of_lists);
    let is_known = own.is_some() || node.as_ref().is_some_and(|(inputs, _)| !inputs.is_empty());
    let own = if is_known { own.unwrap_or_default() } else { return Err(NO_TYPES) };
    let (inputs, mut outputs) = match (own.is_empty(), node) {
        (false, None) => (own, Vec::new()),
        (_, Some((inputs, outputs))) if !inputs.is_empty() => (inputs, outputs),
        (false, Some((_, outputs))) => (own, outputs),
        (true, _) => return Err(NO_SHAPES),
    };
    if call.class == OperationClass::Convolution && outputs.is_empty() {
        outputs.extend(convolved::output(name, &inputs, &texts(&call.arguments.concrete)));
    }
    let work = work(name, call.class, &inputs, &outputs).ok_or(NO_WORK)?;
    let element = inputs.iter().map(|tensor| tensor.element).find(|element| element.is_float());
    Ok(OperationRow {
        gpu: origin.gpu.clone(),
        network: origin.network.clone(),
        operation: name.clone(),
        class: call.class,
        shapes: shapes(&inputs),
        element: element.unwrap_or(inputs[0].element),
        work,
        time_us: 0.0,
        count: 1,
    })
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().map(|item| item.as_str().unwrap_or_default().to_owned()).collect()
}

/// The type of all floating-point tensors whose type is recorded; none where they differ, or there are none.
fn only_float(calls: &[OperationCall]) -> Option<ElementType> {
    let types = calls.iter().filter_map(|call| call.arguments.types.as_array()).flatten();
    let floats: BTreeSet<ElementType> = types
        .filter_map(|name| ElementType::from_spelling(name.as_str()?))
        .filter(|element| element.is_float())
        .collect();
    floats.first().copied().filter(|_| floats.len() == 1)
}

/// Tensors of their sizes and types; lists of tensors hold several, of the type `of_lists` where theirs is not recorded: none where that is
/// not known either. What has no sizes, such as a number, is no tensor.
pub(super) fn tensors(dims: &Value, types: &Value, of_lists: Option<ElementType>) -> Option<Vec<TensorShape>> {
    let items = dims.as_array().map(Vec::as_slice).unwrap_or_default();
    let types = types.as_array().map(Vec::as_slice).unwrap_or_default();
    let of = |(place, item)| of_item(item, types.get(place).unwrap_or(&Value::Null), of_lists);
    let found = items.iter().enumerate().map(of).collect::<Option<Vec<_>>>()?;
    Some(found.into_iter().flatten().collect())
}

fn of_item(item: &Value, types: &Value, of_lists: Option<ElementType>) -> Option<Vec<TensorShape>> {
    let items = item.as_array().map(Vec::as_slice).unwrap_or_default();
    if items.iter().any(Value::is_array) {
        let inner = items.iter().enumerate();
        let inner = inner.map(|(place, inner)| of_item(inner, types.get(place).unwrap_or(types), of_lists));
        return Some(inner.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect());
    }
    let Some(shape) = items.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>().filter(|shape| !shape.is_empty())
    else {
        return Some(Vec::new());
    };
    let spelled = types.as_str().unwrap_or_default();
    // The profiler writes "TensorList" for a list, whatever it holds.
    match (ElementType::from_spelling(spelled), spelled.contains("List")) {
        (None, true) => of_lists.map(|element| vec![TensorShape { shape, element }]),
        (element, _) => Some(element.map(|element| TensorShape { shape, element }).into_iter().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rows(trace: &Value, gpu: &str) -> Result<MeasuredOperations> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        std::fs::write(&path, trace.to_string()).unwrap();
        let mut found = MeasuredOperations::default();
        read(&[path], &RowOrigin { gpu: gpu.to_owned(), network: "mlp".to_owned() }, &mut found)?;
        Ok(found)
    }

    fn call(name: &str, start: u64, time: u64, external: u64) -> Value {
        json!({"ph": "X", "cat": "cpu_op", "name": name, "ts": start, "dur": time, "tid": 1, "args": {
            "External id": external, "Input Dims": [[8, 16], [16, 32], []], "Input type": ["float", "float", "Scalar"]}})
    }

    /// Two calls of the same product whose kernels take 3 + 4 and 9 us: 8 us in the median.
    #[test]
    fn an_operation_takes_as_long_as_its_kernels() {
        let kernel = |time: u64, correlation: u64| json!({"ph": "X", "cat": "kernel", "name": "gemm", "ts": 9, "dur": time, "tid": 7, "args": {"correlation": correlation}});
        let launch = |correlation: u64, at: u64| json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at, "dur": 1, "tid": 1, "args": {"correlation": correlation, "External id": correlation}});
        let events = json!([
            call("aten::linear", 0, 50, 1),
            call("aten::mm", 1, 40, 2),
            call("aten::mm", 60, 40, 3),
            launch(11, 5),
            launch(12, 20),
            launch(13, 70),
            kernel(3, 11),
            kernel(4, 12),
            kernel(9, 13)
        ]);
        let trace = json!({"traceEvents": events, "deviceProperties": [{"name": "NVIDIA H100 80GB HBM3"}]});
        let found = rows(&trace, "H100").unwrap();
        assert_eq!(found.rows.len(), 1);
        let row = &found.rows[0];
        assert_eq!((row.time_us, row.count, row.shapes.as_str(), row.work.flops), (8.0, 2, "8x16;16x32", 8192.0));
        assert!(rows(&trace, "A100").unwrap_err().to_string().contains("recorded on NVIDIA H100 80GB HBM3"));
        for other in ["NVIDIA A100-SXM4-40GB MIG 3g.20gb", "NVIDIA H20"] {
            let trace = json!({"traceEvents": events, "deviceProperties": [{"name": other}]});
            for folder in ["A100", "H200"] {
                assert!(rows(&trace, folder).unwrap_err().to_string().contains(other), "{other} in {folder}");
            }
            assert!(rows(&trace, other).is_ok());
        }
    }

    #[test]
    fn without_kernels_the_innermost_call_counts() {
        let trace = json!({"traceEvents": [call("aten::linear", 0, 50, 1), call("aten::mm", 1, 40, 2)]});
        let found = rows(&trace, "cpu").unwrap();
        assert_eq!(found.rows.iter().map(|row| row.time_us).collect::<Vec<_>>(), [40.0]);
        for folder in ["A100", "NVIDIA H100 80GB HBM3"] {
            let refused = rows(&trace, folder).unwrap_err().to_string();
            assert!(refused.contains("has no kernels of a GPU") && refused.contains("trace.json"), "{refused}");
        }
    }

    #[test]
    fn calls_without_shapes_are_counted() {
        let bare = json!({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 5, "tid": 1, "args": {"External id": 1}});
        let found = rows(&json!({"traceEvents": [bare]}), "cpu").unwrap();
        assert!(found.rows.is_empty() && found.warnings()[0].contains("record_shapes=True"), "{:?}", found.warnings());
    }

    /// Two lists of 8 x 16 in a trace whose other tensors are of half precision are read and written with 2 bytes each: 2 x 2 x 128 x 2. Next to
    /// single precision nobody knows what they are.
    #[test]
    fn lists_are_of_the_type_that_all_tensors_have_or_unknown() {
        let typed = |name: &str, dims: Value, types: Value| {
            json!({"ph": "X", "cat": "cpu_op", "name": name, "ts": 0, "dur": 5,
            "tid": name, "args": {"External id": 1, "Input Dims": dims, "Input type": types}})
        };
        let cat = typed("aten::cat", json!([[[8, 16], [8, 16]], []]), json!(["TensorList", "Scalar"]));
        let product = |half: &str| typed("aten::mm", json!([[8, 16], [16, 32]]), json!([half, half]));
        let half = rows(&json!({"traceEvents": [cat, product("c10::Half")]}), "cpu").unwrap();
        let row = half.rows.iter().find(|row| row.operation == "aten::cat").unwrap();
        assert_eq!((row.element, row.work.bytes), (ElementType::Fp16, 1024.0));
        let both =
            [cat, product("c10::Half"), typed("aten::add", json!([[8, 16], [8, 16]]), json!(["float", "float"]))];
        let mixed = rows(&json!({"traceEvents": both}), "cpu").unwrap();
        assert_eq!(mixed.rows.iter().filter(|row| row.operation == "aten::cat").count(), 0);
        assert!(mixed.warnings()[0].contains("lists of tensors"), "{:?}", mixed.warnings());
    }
}
