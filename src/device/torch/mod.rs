//! libtorch on this machine's processor: the worker that runs one configuration and counts what it cost.

mod allocator;
mod executable;
mod laps;
mod measure;
mod ops;
mod process;
mod step;
mod tape;
mod weights;

use super::protocol::{self, PROTOCOL, Reply, Request};
use crate::error::{Error, Result};
use crate::network::Network;
use crate::network::onnx::{self, Loaded};
use measure::measure;
use std::io::{BufRead, Write};
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

/// Reads one [`Request`] line, runs what it asks for and writes one [`Reply`] line. Call it first thing in a process of its own: it
/// sets up libtorch, and the process, for that one measurement.
///
/// # Errors
/// When the line cannot be read or the reply cannot be written; everything else is a reply.
pub fn run_worker(mut input: impl BufRead, mut output: impl Write) -> Result<()> {
    process::die_with_parent();
    let mut line = String::new();
    input.read_line(&mut line).map_err(|cause| Error::io("standard input", "read the request", &cause))?;
    let reply = parse(&line).map_or_else(|problem| failed(&problem), |request| answer(&request));
    let written = serde_json::to_string(&reply).map_err(std::io::Error::from);
    let written = written.and_then(|reply| writeln!(output, "{reply}"));
    written.map_err(|cause| Error::io("standard output", "write the reply", &cause))
}

fn parse(line: &str) -> Result<Request> {
    let request: Request = protocol::read(line).map_err(|why| {
        let expected = format!("one line of JSON in protocol {PROTOCOL}, see device::protocol");
        Error::input(format!("no request: {why}")).expected(expected)
    })?;
    match request.place.as_str() {
        "cpu" => Ok(request),
        place => Err(Error::input(format!("this worker cannot run networks on {place}")).expected("cpu")),
    }
}

fn failed(problem: &Error) -> Reply {
    Reply::Failed { reason: problem.to_string() }
}

fn answer(request: &Request) -> Reply {
    match read(&request.network).and_then(|loaded| runnable(loaded.network)) {
        Ok(network) => measure(request, &network),
        Err(problem) => failed(&problem),
    }
}

/// Reads a network on a thread of its own, which has a heap of its own: the holes that parsing leaves, different in every process,
/// would else lie between the tensors and make the peak of the resident set vary by 8 % between equal runs.
fn read(file: &Path) -> Result<Loaded> {
    thread::scope(|scope| scope.spawn(|| onnx::read(file)).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

/// Refuses a network with operations that nobody can run, naming them.
fn runnable(network: Network) -> Result<Network> {
    let unknown = network.coverage().unknown;
    if unknown.is_empty() {
        return Ok(network);
    }
    let names: Vec<&str> = unknown.keys().map(String::as_str).collect();
    Err(Error::input(format!("{} has operations that cannot run: {}", network.name(), names.join(", "))))
}
