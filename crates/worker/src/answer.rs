//! Reads a request line and writes a reply line: one configuration, run on the processor or on a GPU.

use super::cuda::Cuda;
use super::measure::measure;
use perf4sight_base::error::{Error, Result};
use perf4sight_network::{Network, NodeId};
use perf4sight_onnx as onnx;
use perf4sight_onnx::LoadedOnnx;
use perf4sight_step::protocol::{self, GpuInfo, PROTOCOL, StepTask, WorkerReply, WorkerRequest, WorkerTask};
use perf4sight_step::workload::Checkpoint;
use std::io::{BufRead, Write};
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

/// Reads one [`WorkerRequest`] line, runs it and writes one [`WorkerReply`] line. Call it first thing in a process of its own: it
/// sets up libtorch, and the process, for that one measurement. `libtorch_cuda` is the configured path of the CUDA half
/// of libtorch.
///
/// # Errors
/// When the line cannot be read or the reply cannot be written; everything else is a reply.
pub(super) fn answer_request(
    mut input: impl BufRead,
    mut output: impl Write,
    libtorch_cuda: Option<&Path>,
) -> Result<()> {
    let mut line = String::new();
    input.read_line(&mut line).map_err(|cause| Error::io("standard input", "read the request", &cause))?;
    let reply =
        parse(&line).and_then(|request| reply(&request, libtorch_cuda)).unwrap_or_else(|problem| failed(&problem));
    let written = serde_json::to_string(&reply).map_err(std::io::Error::from);
    let written = written.and_then(|reply| writeln!(output, "{reply}"));
    written.map_err(|cause| Error::io("standard output", "write the reply", &cause))
}

fn parse(line: &str) -> Result<WorkerRequest> {
    protocol::read_request(line).map_err(|why| {
        let expected = format!("one line of JSON in protocol {PROTOCOL}, see device::protocol");
        Error::input(format!("no request: {why}")).expected(expected)
    })
}

fn failed(problem: &Error) -> WorkerReply {
    WorkerReply::Failed { reason: problem.to_string() }
}

fn reply(request: &WorkerRequest, libtorch_cuda: Option<&Path>) -> Result<WorkerReply> {
    let gpu = gpu_of(&request.place, libtorch_cuda)?;
    let WorkerTask::Step(task) = &request.task else {
        return Err(Error::input("this worker trains no detectors").expected("a request of the task step"));
    };
    let network = read(&task.network).and_then(|loaded| runnable(loaded.network))?;
    network.check_step(task.workload.step)?;
    task.workload.check()?;
    let cuts = cuts(&network, task)?;
    Ok(measure(request, task, &network, &cuts, gpu))
}

fn cuts(network: &Network, task: &StepTask) -> Result<Vec<NodeId>> {
    let cuts: Vec<NodeId> =
        network.iter().filter(|(_, node)| task.cuts.contains(&node.name)).map(|(id, _)| id).collect();
    let checkpoint = task.workload.step.checkpoint;
    match cuts.len() == task.cuts.len() && cuts.is_empty() == (checkpoint == Checkpoint::None) {
        true => Ok(cuts),
        false => Err(Error::input(format!("checkpoint = {checkpoint} is cut behind {:?}", task.cuts))
            .expected("names of the network's nodes, and none where nothing runs again")),
    }
}

/// The GPU of a place such as `cuda:0`, with its number; none of the processor.
fn gpu_of(place: &str, libtorch_cuda: Option<&Path>) -> Result<Option<(usize, GpuInfo)>> {
    if place == "cpu" {
        return Ok(None);
    }
    let refused = |why: &str| Error::device(format!("this worker cannot run networks on {place}{why}"));
    let index: usize = place
        .strip_prefix("cuda:")
        .and_then(|index| index.parse().ok())
        .ok_or_else(|| refused("").expected("cpu, or cuda: and the number of a GPU"))?;
    let mut gpus = Cuda::load(libtorch_cuda).map_err(|why| refused(&format!(", only on cpu: {why}")))?.gpus;
    if index >= gpus.len() {
        return Err(refused(&format!(": there are {} GPUs", gpus.len())).expected(places(gpus.len())));
    }
    Ok(Some((index, gpus.swap_remove(index))))
}

/// `cpu, cuda:0, cuda:1`.
fn places(gpus: usize) -> String {
    std::iter::once("cpu".to_owned())
        .chain((0..gpus).map(|index| format!("cuda:{index}")))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Reads a network on a thread of its own, which has a heap of its own: otherwise the holes that parsing leaves,
/// different in every process, would be between the tensors and make the peak of the resident set vary by 8 % between
/// equal runs.
fn read(file: &Path) -> Result<LoadedOnnx> {
    thread::scope(|scope| scope.spawn(|| onnx::read(file)).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

/// Refuses a network with operations that are not supported, and names them.
fn runnable(network: Network) -> Result<Network> {
    let unknown = network.coverage().unknown;
    if unknown.is_empty() {
        return Ok(network);
    }
    let names: Vec<&str> = unknown.keys().map(String::as_str).collect();
    Err(Error::input(format!("{} has operations that cannot run: {}", network.name(), names.join(", "))))
}
