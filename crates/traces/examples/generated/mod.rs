//! A trace of any size, the same each time: iterations of a network with many layers, as PyTorch's profiler writes them.

use std::io::{Result, Write};

/// Layers of an iteration.
const LAYERS: u64 = 200;
/// Nanoseconds that a layer takes, forward and backward each.
const LAYER: u64 = 60_000;

/// Writes whole iterations until there are so many bytes; how many events those are.
pub fn write(target: impl Write, bytes: u64) -> Result<u64> {
    let mut trace = Generated { target, written: 0, events: 0, id: 0 };
    trace.text("{\n  \"schemaVersion\": 1,\n  \"with_stack\": 1,\n  \"baseTimeNanoseconds\": 1700000000000000000,\n  \"traceEvents\": [\n")?;
    for iteration in 0.. {
        trace.iteration(iteration)?;
        if trace.written >= bytes {
            break;
        }
    }
    // The last event has no comma behind it, and no time: it names a thread.
    trace.text("  {\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": 7, \"tid\": 7, \"args\": {\"name\": \"python\"}}\n  ],\n  \"traceName\": \"x\"\n}\n")?;
    Ok(trace.events)
}

struct Generated<W> {
    target: W,
    written: u64,
    events: u64,
    id: u64,
}

impl<W: Write> Generated<W> {
    fn text(&mut self, text: &str) -> Result<()> {
        self.written += text.len() as u64;
        self.target.write_all(text.as_bytes())
    }

    fn event(
        &mut self,
        (category, name): (&str, &str),
        track: [u64; 2],
        [start, duration]: [u64; 2],
        args: &str,
    ) -> Result<()> {
        let [process, thread] = track;
        let times = [start, duration].map(|time| format!("{}.{:03}", time / 1000, time % 1000));
        self.events += 1;
        self.text(&format!(
            "  {{\n    \"ph\": \"X\", \"cat\": \"{category}\", \"name\": \"{name}\", \"pid\": {process}, \"tid\": {thread},\n    \"ts\": {}, \"dur\": {},\n    \"args\": {{\n      {args}\n    }}\n  }},\n",
            times[0], times[1]
        ))
    }

    fn iteration(&mut self, iteration: u64) -> Result<()> {
        let length = 2 * LAYERS * LAYER + 100_000;
        let begin = 1_000_000_000 + iteration * (length + 5_000);
        self.event(
            ("user_annotation", &format!("ProfilerStep#{iteration}")),
            [7, 7],
            [begin, length],
            "\"External id\": 1, \"Ev Idx\": 0",
        )?;
        (0..2 * LAYERS).try_for_each(|layer| self.layer(layer, begin + layer * LAYER))
    }

    fn layer(&mut self, layer: u64, begin: u64) -> Result<()> {
        self.id += 1;
        let (id, track) = (self.id, [7, if layer < LAYERS { 7 } else { 8 }]);
        let python = format!("\"Python id\": {id}, \"Python parent id\": {}, \"Ev Idx\": {id}", id - 1);
        let operator = format!(
            "\"External id\": {id},\"Record function id\": 0, \"Sequence number\": {layer}, \"Fwd thread id\": 0, \"Input Dims\": [[{}, 64], [64, 64], []], \"Input type\": [\"float\", \"float\", \"Scalar\"], \"Ev Idx\": {id}",
            layer % 32
        );
        let launch = format!("\"External id\": {id}, \"cbid\": 211, \"correlation\": {id}");
        let kernel = format!(
            "\"External id\": {id}, \"device\": 0, \"context\": 1, \"stream\": 7, \"correlation\": {id}, \"grid\": [64, 1, 1], \"block\": [128, 1, 1], \"est. achieved occupancy %\": 50"
        );
        self.event(
            ("python_function", &format!("nn.Module: Linear_{}", layer % LAYERS)),
            track,
            [begin, 55_000],
            &python,
        )?;
        self.event(
            ("python_function", "torch/nn/modules/linear.py(124): forward"),
            track,
            [begin + 1_000, 52_000],
            &python,
        )?;
        self.event(("python_function", "<built-in function linear>"), track, [begin + 2_000, 50_000], &python)?;
        self.event(("cpu_op", "aten::linear"), track, [begin + 3_000, 45_123], &operator)?;
        self.event(("cpu_op", "aten::addmm"), track, [begin + 8_000, 35_007], &operator)?;
        self.event(("cuda_runtime", "cudaLaunchKernel"), track, [begin + 30_000, 8_001], &launch)?;
        let name = format!(
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_{}x64_8x5_tn_align1>(cutlass::Params)",
            32 << (layer % 4)
        );
        self.event(("kernel", &name), [0, 7], [begin + 40_000, 30_000 + layer], &kernel)
    }
}
