//! Writes folders as dPRO's recorders do (docs/format.md and the comments of joapolarbear/dpro), and says how long each step
//! takes by formula.

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::Path;

/// What exchanges the gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Ring,
    Tree,
    /// Without Horovod's timeline.
    MessagesOnly,
    BytePs,
}

/// A job: times in microseconds.
#[derive(Debug, Clone)]
pub struct Published {
    pub machines: usize,
    pub gpus: usize,
    pub layers: usize,
    pub steps: usize,
    pub transport: Transport,
    /// By how much the clock of each further machine is ahead.
    pub skew: f64,
    pub straggler: Option<(usize, f64)>,
}

impl Default for Published {
    fn default() -> Self {
        let transport = Transport::Ring;
        Published { machines: 2, gpus: 2, layers: 6, steps: 5, transport, skew: 1_000_000.0, straggler: None }
    }
}

const FORWARD: f64 = 3_000.0;
const BACKWARD: f64 = 6_000.0;
const REDUCE: f64 = 2_500.0;
const UPDATE: f64 = 500.0;
/// In the queue, and of each copy between a tensor and the buffer in which NCCL reduces it.
const COPY: f64 = 100.0;

type Span = (String, f64, f64);

/// What a rank does, by the true clock.
#[derive(Default)]
struct Rank {
    operations: Vec<Span>,
    /// Tensor, ready, begin of the transfer, end.
    reductions: Vec<(usize, f64, f64, f64)>,
}

impl Published {
    /// Writes the folder; returns the true length of each step.
    pub fn write(&self, folder: &Path) -> Vec<f64> {
        let mut ranks: Vec<Rank> = (0..self.machines * self.gpus).map(|_| Rank::default()).collect();
        let mut truth = Vec::new();
        let mut begin = 5_000_000.0;
        for _ in 0..self.steps {
            let end = self.step(&mut ranks, begin);
            truth.push(end - begin);
            begin = end + 2_000.0;
        }
        for (place, rank) in ranks.iter().enumerate() {
            self.write_rank(folder, place, rank);
        }
        if self.transport == Transport::BytePs {
            self.write_byteps(folder, &ranks);
        }
        truth
    }

    /// A gradient is reduced when it is ready everywhere and the one before is done; updates follow the last.
    fn step(&self, ranks: &mut [Rank], begin: f64) -> f64 {
        let mut ready = vec![Vec::new(); self.layers];
        let mut ends = Vec::new();
        for (place, rank) in ranks.iter_mut().enumerate() {
            let mut now = begin;
            let mut run = |name: String, time: f64, now: &mut f64| {
                rank.operations.push((name, *now, time));
                *now += time;
            };
            for layer in 0..self.layers {
                let late =
                    self.straggler.filter(|(slow, _)| *slow == place && layer == 1).map_or(0.0, |(_, time)| time);
                run(format!("mlp/layer{layer}/MatMul"), FORWARD + late, &mut now);
            }
            for layer in (0..self.layers).rev() {
                run(format!("gradients/mlp/layer{layer}/MatMul_1"), BACKWARD, &mut now);
                ready[layer].push(now);
            }
            ends.push(now);
        }
        let mut done = 0.0f64;
        for layer in (0..self.layers).rev() {
            let start = ready[layer].iter().copied().fold(done, f64::max);
            done = start + REDUCE;
            ranks
                .iter_mut()
                .zip(&ready[layer])
                .for_each(|(rank, ready)| rank.reductions.push((layer, *ready, start, done)));
        }
        for (rank, end) in ranks.iter_mut().zip(&ends) {
            let mut now = done.max(*end);
            for layer in 0..self.layers {
                rank.operations.push((format!("SGD/update_{layer}"), now, UPDATE));
                now += UPDATE;
            }
        }
        ends.into_iter().fold(done, f64::max) + UPDATE * self.layers as f64
    }

    fn write_rank(&self, folder: &Path, place: usize, rank: &Rank) {
        let (machine, gpu) = (place / self.gpus, place % self.gpus);
        let path = folder.join(format!("host{machine}/{gpu}"));
        fs::create_dir_all(&path).unwrap();
        let off = self.skew * machine as f64;
        let mut events = vec![
            json!({"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "/device:GPU:0"}}),
            json!({"ph": "M", "name": "thread_name", "pid": 7, "tid": 3, "args": {"name": "TensorFlow Ops"}}),
        ];
        let of_step = 3 * self.layers;
        events.extend(rank.operations.iter().enumerate().map(|(nth, (name, start, time))| {
            let args = json!({"long_name": format!("{name}:MatMul"), "group_id": nth / of_step});
            json!({"ph": "X", "name": "MatMul", "pid": 7, "tid": 3, "ts": start + off, "dur": time, "args": args})
        }));
        let mut zipped = GzEncoder::new(fs::File::create(path.join("trace.json.gz")).unwrap(), Compression::fast());
        zipped.write_all(json!({"traceEvents": events}).to_string().as_bytes()).unwrap();
        zipped.finish().unwrap();
        let write = |name: &str, text: String| fs::write(path.join(name), text).unwrap();
        write("dag.gml", self.dag());
        let names: Vec<String> = (0..self.layers).map(|layer| format!("layer{layer}/kernel")).collect();
        write("gradient_name_list.json", json!({"gradient_name_list": names, "model_name": "mlp"}).to_string());
        let operation = |layer: usize| json!({"op": "MatMul", "input": [], "output": [{"name": names[layer], "shape": [1000, 1000], "dtype": "float32"}]});
        let metadata: serde_json::Map<String, Value> =
            (0..self.layers).map(|layer| (format!("gradients/mlp/layer{layer}/MatMul_1"), operation(layer))).collect();
        write("metadata.json", Value::Object(metadata).to_string());
        if matches!(self.transport, Transport::Ring | Transport::Tree) {
            write("comm.json", self.horovod(rank, off));
        }
        if self.transport != Transport::BytePs {
            write("comm_detail.json", self.messages(rank, off));
            write("nccl_rank_graph.json", self.topology(place));
        }
    }

    fn dag(&self) -> String {
        let names =
            [("mlp/layer", "/MatMul"), ("gradients/mlp/layer", "/MatMul_1"), ("Comm.", ""), ("SGD/update_", "")];
        let mut text = "graph [\n  directed 1\n".to_owned();
        for (kind, (before, after)) in names.iter().enumerate() {
            for layer in 0..self.layers {
                text += &format!(
                    "  node [\n    id {}\n    label \"{before}{layer}{after}\"\n  ]\n",
                    kind * self.layers + layer
                );
            }
        }
        let mut edge = |from: usize, to: usize| text += &format!("  edge [\n    source {from}\n    target {to}\n  ]\n");
        let count = self.layers;
        for layer in 0..count {
            if layer + 1 < count {
                edge(layer, layer + 1);
                edge(count + layer + 1, count + layer);
            }
            edge(count + layer, 2 * count + layer);
            edge(2 * count + layer, 3 * count + layer);
        }
        edge(count - 1, 2 * count - 1);
        text + "]\n"
    }

    /// Horovod's list has no end, and the negotiations are a process of their own.
    fn horovod(&self, rank: &Rank, off: f64) -> String {
        let mut events: Vec<(f64, Value)> = Vec::new();
        let process = |pid: usize, name: String| {
            (0.0, json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}))
        };
        events.extend((0..self.layers).map(|layer| process(layer + 1, format!("horovod_allreduce.{layer}"))));
        events.push(process(99, "Sync".to_owned()));
        for (layer, ready, start, end) in &rank.reductions {
            let [queued, copied_in] = [start + COPY, start + 2.0 * COPY];
            let own = |name: &str, begin: f64, end: f64| (layer + 1, name.to_owned(), begin, end);
            for (pid, name, begin, end) in [
                (99, layer.to_string(), *ready, *start),
                own("QUEUE", *start, queued),
                own("MEMCPY_IN_FUSION_BUFFER", queued, copied_in),
                own("NCCL_ALLREDUCE", copied_in, end - COPY),
                own("MEMCPY_OUT_FUSION_BUFFER", end - COPY, *end),
            ] {
                events.push((begin + off, json!({"ph": "B", "name": name, "ts": begin + off, "pid": pid})));
                events.push((
                    (end + off - 0.001).max(begin + off),
                    json!({"ph": "E", "name": name, "ts": end + off, "pid": pid}),
                ));
            }
        }
        events.sort_by(|one, other| one.0.total_cmp(&other.0));
        let lines: Vec<String> = events.into_iter().map(|(_, event)| event.to_string()).collect();
        format!("[\n{},\n", lines.join(",\n"))
    }

    fn messages(&self, rank: &Rank, off: f64) -> String {
        let count = 2 * (self.machines * self.gpus - 1);
        let mut events = Vec::new();
        for (layer, _, start, end) in &rank.reductions {
            let begin = start + 2.0 * COPY;
            let time = (end - COPY - begin) / (2 * count) as f64;
            for chunk in 0..count {
                // A message is received after it was sent. A receive that is recorded from its beginning on counts twice in dPRO.
                for (half, direction) in ["SEND", "RECV"].into_iter().enumerate() {
                    let args = json!({"loopId": 0, "channelId": 0, "chunkId": chunk, "sliceId": 0});
                    let name = format!("horovod_allreduce.{layer}.{direction}");
                    let start = begin + off + (2 * chunk + half) as f64 * time;
                    events.push(json!({"ph": "X", "name": name, "pid": "comm_detail", "tid": 0, "cat": "Comm", "ts": start, "dur": time, "args": args}));
                }
            }
        }
        json!({"traceEvents": events}).to_string()
    }

    fn topology(&self, rank: usize) -> String {
        let ranks = self.machines * self.gpus;
        let (before, next) = ((rank + ranks - 1) % ranks, (rank + 1) % ranks);
        let ring = format!(
            "{before}[1000] -> {rank}[2000] [receive] via NET/Socket/0,{rank}[2000] -> {next}[3000] via direct shared memory"
        );
        let (up, down) = (rank as i64 - 1, if rank + 1 < ranks { rank as i64 + 1 } else { -1 });
        let tree = format!("[0] {down}/-1/-1->{rank}->{up}|{up}->{rank}->{down}/-1/-1");
        match self.transport {
            Transport::Tree => json!({"Tree": {"-1": tree}}),
            _ => json!({"RealRing": {"0": ring}}),
        }
        .to_string()
    }

    /// Every machine is a worker and a server, tensors alternate between the servers, messages take 100 us and are noted where
    /// they arrive.
    fn write_byteps(&self, folder: &Path, ranks: &[Rank]) {
        let mut events = Vec::new();
        let mut processes: Vec<String> = Vec::new();
        for (worker, rank) in ranks.iter().enumerate() {
            for (layer, ready, _, end) in &rank.reductions {
                let server = layer % self.machines;
                let (up, down) =
                    (format!("worker_{worker} -> server_{server}"), format!("server_{server} -> worker_{worker}"));
                let [at_server, at_worker] = [server, worker].map(|machine| self.skew * machine as f64);
                let flow = [
                    (&up, "PUSH", ready + at_server, ready + 100.0 + at_server),
                    (&down, "PUSH", ready + 150.0 + at_worker, ready + 250.0 + at_worker),
                    (&up, "PULL", ready + 300.0 + at_server, ready + 400.0 + at_server),
                    (&down, "PULL", end - 100.0 + at_worker, end + at_worker),
                ];
                for (process, operation, begin, end) in flow {
                    let pid = processes.iter().position(|known| known == process).unwrap_or_else(|| {
                        processes.push(process.clone());
                        processes.len() - 1
                    });
                    let name = format!("BytePSPushPull.{layer}.{operation}");
                    events.push(json!({"ph": "B", "name": name, "ts": begin, "pid": pid, "tid": 0}));
                    events.push(json!({"ph": "E", "name": name, "ts": end, "pid": pid, "tid": 0}));
                }
            }
        }
        let names = processes.iter().enumerate().map(
            |(pid, name)| json!({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}),
        );
        let all: Vec<Value> = names.chain(events).collect();
        fs::write(folder.join("comm_timeline.json"), Value::Array(all).to_string()).unwrap();
    }
}
