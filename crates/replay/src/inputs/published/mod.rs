//! The folder that dPRO's recorders write: `host0/0/` and so on, one folder a GPU, with its operations, their graph, and
//! what Horovod, NCCL or BytePS exchanged (<https://github.com/joapolarbear/dpro>, docs/format.md).

mod byteps;
mod gml;
mod nccl;
mod operations;
mod tensors;

use super::chrome::ChromeTimeline;
use super::horovod::{self, HorovodReduction};
use super::steps;
use gml::OperationDag;
use nccl::{NcclMessage, NcclTopology};
use operations::{TracedOperation, TracedOperations};
use perf4sight_base::error::{Error, Result};
use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{CollectiveArguments, EventCategory, NewEvent, RankTrace, TraceBuilder};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use tensors::TensorTable;

/// Files by which a GPU's folder is recognised.
const MARKS: [&str; 5] =
    ["dag.gml", "comm.json", "comm_detail.json", "nccl_rank_graph.json", "gradient_name_list.json"];
const DAG: &str = "dag.gml";
const HOROVOD: &str = "comm.json";

/// Reductions that are recorded for all machines together, by the number of the machine.
struct SharedReductions {
    of_workers: BTreeMap<u32, Vec<HorovodReduction>>,
    of_servers: BTreeMap<u32, Vec<(String, Interval)>>,
    warnings: Vec<String>,
}

struct GpuFolder {
    path: PathBuf,
    /// The number of its machine among the folders.
    machine: u32,
    /// Its rank, as far as the names of the folders tell it.
    rank: Option<u32>,
}

/// What the ranks have in common: where one has no file of its own, the first one's counts.
struct ModelFiles {
    dag: OperationDag,
    tensors: TensorTable,
}

/// The folders of GPUs in a folder: those of all machines, of one, or one alone.
fn gpus(path: &Path) -> Vec<GpuFolder> {
    let is_gpu = |path: &Path| MARKS.iter().chain(&operations::FILES).any(|mark| path.join(mark).is_file());
    let is_marked = |path: &Path| MARKS.iter().any(|mark| path.join(mark).is_file());
    if is_marked(path) {
        return vec![GpuFolder { path: path.to_owned(), machine: 0, rank: None }];
    }
    let gpus_of = |machine: u32, path: &Path| -> Vec<GpuFolder> {
        folders(path)
            .into_iter()
            .filter(|path| is_gpu(path))
            .map(|path| GpuFolder { path, machine, rank: None })
            .collect()
    };
    let mut all = match gpus_of(0, path) {
        own if own.is_empty() => {
            let machines = folders(path).into_iter().filter(|path| !gpus_of(0, path).is_empty());
            machines.enumerate().flat_map(|(machine, path)| gpus_of(machine as u32, &path)).collect()
        }
        own => own,
    };
    number(&mut all);
    let marked = all.iter().any(|gpu| is_marked(&gpu.path)) || path.join(byteps::MESSAGES).is_file();
    if marked { all } else { Vec::new() }
}

/// Numbers the GPUs by their folders: `host1/0` of machines with two GPUs is rank 2, also where `host0/1` is missing. They
/// stay without a number where names have none.
fn number(gpus: &mut [GpuFolder]) {
    let machine = |gpu: &GpuFolder| gpu.path.parent().and_then(super::last_number).unwrap_or(gpu.machine);
    let numbers: Option<Vec<[u32; 2]>> =
        gpus.iter().map(|gpu| Some([machine(gpu), super::last_number(&gpu.path)?])).collect();
    let Some(numbers) = numbers else { return };
    let [machines, own] = [0, 1].map(|place| numbers.iter().map(|numbers| numbers[place]).collect::<BTreeSet<u32>>());
    let [Some(first_machine), Some(first), Some(last)] = [machines.first(), own.first(), own.last()] else { return };
    // Where no number of a GPU occurs twice, they are those of ranks.
    let of_machine = if own.len() == numbers.len() { 0 } else { u64::from(last - first) + 1 };
    for (gpu, [machine, own]) in gpus.iter_mut().zip(&numbers) {
        let rank = u64::from(machine - first_machine) * of_machine + u64::from(own - first);
        gpu.rank = u32::try_from(rank).ok();
    }
}

/// The folders in a folder, in the order of the numbers in their names.
fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.is_dir() && !is_hidden(path)).collect();
    folders.sort_by_key(|path| (super::last_number(path), path.clone()));
    folders
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with('.'))
}

/// Whether a folder has the published layout.
pub(super) fn is_published(path: &Path) -> bool {
    path.is_dir() && !gpus(path).is_empty()
}

/// Whether a folder of that layout has what Horovod or the patched NCCL recorded.
pub(super) fn is_of_horovod(path: &Path) -> bool {
    gpus(path).iter().any(|gpu| [HOROVOD, nccl::MESSAGES, nccl::GRAPH].iter().any(|file| gpu.path.join(file).exists()))
}

/// Whether a folder of that layout has what BytePS recorded.
pub(super) fn is_of_byteps(path: &Path) -> bool {
    path.join(byteps::MESSAGES).exists()
}

/// Reads all ranks of a folder.
///
/// # Errors
/// A file that cannot be read or is damaged in a way that leaves nothing of it, two folders of one rank.
pub(super) fn read(path: &Path) -> Result<Vec<RankTrace>> {
    let gpus = gpus(path);
    let shared = shared_files(&gpus)?;
    let byteps = byteps::read(path)?;
    let topologies: Vec<NcclTopology> = gpus.iter().map(|gpu| NcclTopology::read(&gpu.path)).collect::<Result<_>>()?;
    let size = topologies.iter().flat_map(NcclTopology::ranks).max().map(|last| last + 1);
    let last = gpus.iter().filter_map(|gpu| gpu.rank).max();
    let by_folders = last.map_or(0, |last| last.saturating_add(1)).max(gpus.len() as u32);
    let mut ranks: BTreeMap<u32, (RankTrace, &Path)> = BTreeMap::new();
    for (place, (gpu, topology)) in gpus.iter().zip(&topologies).enumerate() {
        let number = topology.rank.or(gpu.rank).unwrap_or(place as u32);
        let trace = rank(gpu, &shared, byteps.as_ref(), number, Some(size.unwrap_or(by_folders)))?;
        if let Some((_, other)) = ranks.insert(number, (RankTrace { rank: number, trace }, &gpu.path)) {
            return Err(Error::input(format!("is rank {number}, as {} is", other.display())).file(&gpu.path));
        }
    }
    let mut ranks: Vec<RankTrace> = ranks.into_values().map(|(ranked, _)| ranked).collect();
    if let Some(first) = ranks.first_mut() {
        first.trace.damage.of_other_files.extend(nccl::broken_rings(&topologies));
        first.trace.damage.of_other_files.extend(broken_graphs(&gpus));
        first.trace.damage.of_other_files.extend(byteps.into_iter().flat_map(|byteps| byteps.warnings));
    }
    Ok(ranks)
}

/// The graph and the tensors of the first GPU that has them.
fn shared_files(gpus: &[GpuFolder]) -> Result<ModelFiles> {
    let dag = gpus.iter().map(|gpu| gpu.path.join(DAG)).find(|file| file.exists());
    let mut dag = dag.map_or_else(|| Ok(OperationDag::default()), |file| gml::read(&file))?;
    let none = HashSet::new();
    dag.names.iter_mut().for_each(|name| *name = operations::standard_name(name, &none));
    for gpu in gpus {
        let tensors = TensorTable::read(&gpu.path)?;
        if tensors != TensorTable::default() {
            return Ok(ModelFiles { dag, tensors });
        }
    }
    Ok(ModelFiles { dag, tensors: TensorTable::default() })
}

/// The graphs after the first that cannot be read, in sentences: that of the first GPU is used for all.
fn broken_graphs(gpus: &[GpuFolder]) -> Vec<String> {
    let files = gpus.iter().map(|gpu| gpu.path.join(DAG)).filter(|file| file.exists()).skip(1);
    files
        .filter_map(|file| gml::read(&file).err())
        .map(|error| format!("{error}; another GPU's graph is used"))
        .collect()
}

/// Reads the files of a GPU.
fn rank(
    gpu: &GpuFolder,
    model: &ModelFiles,
    byteps: Option<&SharedReductions>,
    number: u32,
    size: Option<u32>,
) -> Result<perf4sight_traces::Trace> {
    let known: HashSet<&str> = model.dag.names.iter().map(String::as_str).collect();
    let TracedOperations { all, mut warnings } = operations::read(&gpu.path, &known)?;
    let mut reductions = match byteps {
        Some(byteps) => byteps.of_workers.get(&gpu.machine).cloned().unwrap_or_default(),
        None => horovod_reductions(&gpu.path, &mut warnings)?,
    };
    let messages = nccl::messages(&gpu.path, &mut warnings)?;
    let mut windows = windows(&all, &reductions, &messages);
    if reductions.is_empty() {
        reductions = by_messages(&messages, &windows);
    }
    reductions.iter_mut().for_each(|one| one.size = one.size.take().or_else(|| model.tensors.size(&one.tensors)));
    let mut builder = TraceBuilder::new(&gpu.path);
    *builder.header() = perf4sight_traces::TraceHeader { rank: Some(number), world_size: size, ..Default::default() };
    builder.damage().others.extend(warnings);
    let mut events = RankEvents::default();
    all.iter().for_each(|operation| events.add_operation(&mut builder, operation));
    reductions.iter().for_each(|reduction| events.add_reduction(&mut builder, reduction, &mut windows, &model.tensors));
    messages.iter().for_each(|message| add_message(&mut builder, message));
    for (name, time) in byteps.and_then(|byteps| byteps.of_servers.get(&gpu.machine)).into_iter().flatten() {
        add_detail(&mut builder, name, ["server", "sums"], *time, "reduce");
    }
    steps::mark(&mut builder, MAIN, &windows);
    events.add_dependencies(&mut builder, &model.dag, &model.tensors, windows.len());
    Ok(builder.finish())
}

fn horovod_reductions(folder: &Path, warnings: &mut Vec<String>) -> Result<Vec<HorovodReduction>> {
    let file = folder.join(HOROVOD);
    if !file.exists() {
        return Ok(Vec::new());
    }
    let timeline = ChromeTimeline::read(&file)?;
    warnings.extend(timeline.warnings.iter().cloned());
    Ok(horovod::reductions(&timeline))
}

/// The steps: of the operations; without any, all that was exchanged is one.
fn windows(all: &[TracedOperation], reductions: &[HorovodReduction], messages: &[NcclMessage]) -> Vec<Interval> {
    let mut windows: BTreeMap<usize, Interval> = BTreeMap::new();
    let exchanged = reductions.iter().map(|one| one.time).chain(messages.iter().map(|message| message.time));
    let exchanged = exchanged.map(|time| (0, time)).filter(|_| all.is_empty());
    for (step, time) in all.iter().map(|operation| (operation.step, operation.time)).chain(exchanged) {
        let window = windows.entry(step).or_insert(time);
        *window = (window.0.min(time.0), window.1.max(time.1));
    }
    windows.into_values().collect()
}

/// The step in which a moment is.
fn step_at(windows: &[Interval], moment: i64) -> Option<usize> {
    windows.partition_point(|window| window.0 <= moment).checked_sub(1)
}

/// The reductions of messages alone: in each step, those of the same tensors.
fn by_messages(messages: &[NcclMessage], windows: &[Interval]) -> Vec<HorovodReduction> {
    let mut all: BTreeMap<(usize, &[String]), Interval> = BTreeMap::new();
    for message in messages {
        let Some(step) = step_at(windows, message.time.0) else { continue };
        let time = all.entry((step, &message.tensors)).or_insert(message.time);
        *time = (time.0.min(message.time.0), time.1.max(message.time.1));
    }
    let reduction = |((_, tensors), time): ((usize, &[String]), Interval)| HorovodReduction {
        tensors: tensors.to_vec(),
        operation: "allreduce".to_owned(),
        time,
        phases: Vec::new(),
        size: None,
        ready: BTreeMap::new(),
    };
    all.into_iter().map(reduction).collect()
}

/// The track of the first thread of operations, which marks the steps.
const MAIN: [&str; 2] = ["GPU", "operator0"];

/// The events of a rank by step and published name.
#[derive(Default)]
struct RankEvents<'a> {
    operations: HashMap<(usize, &'a str), u32>,
    /// By the name of a tensor in the graph: `Comm.3`.
    reductions: HashMap<(usize, String), u32>,
    threads: Vec<&'a str>,
    ends: HashMap<u32, i64>,
}

impl<'a> RankEvents<'a> {
    fn add_operation(&mut self, builder: &mut TraceBuilder, operation: &'a TracedOperation) {
        let place = self.threads.iter().position(|known| *known == operation.thread).unwrap_or_else(|| {
            self.threads.push(&operation.thread);
            self.threads.len() - 1
        });
        let (thread, time) = (format!("operator{place}"), operation.time);
        let track = [MAIN[0], &thread];
        let span = NewEvent { name: &operation.name, category: EventCategory::Operator, track, time, collective: None };
        if let Some(event) = builder.add(span) {
            self.operations.insert((operation.step, &operation.name), event);
            self.ends.insert(event, time.1);
        }
    }

    /// Adds a reduction that began in a step; the step lasts at least as long.
    fn add_reduction(
        &mut self,
        builder: &mut TraceBuilder,
        reduction: &HorovodReduction,
        windows: &mut [Interval],
        tensors: &TensorTable,
    ) {
        let Some(step) = step_at(windows, reduction.time.0) else { return };
        windows[step].1 = windows[step].1.max(reduction.time.1);
        let Some(event) = reduction.exchange(step, reduction.time.0).add(builder) else { return };
        self.ends.insert(event, reduction.time.1);
        for tensor in &reduction.tensors {
            self.reductions.insert((step, tensors.timeline_name(tensor)), event);
        }
    }

    /// Makes the events of each step wait as the graph says.
    fn add_dependencies(&self, builder: &mut TraceBuilder, dag: &OperationDag, tensors: &TensorTable, steps: usize) {
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); dag.names.len()];
        dag.edges.iter().for_each(|[from, to]| before[*to].push(*from));
        for step in 0..steps {
            let mut waits: Vec<Vec<u32>> = vec![Vec::new(); dag.names.len()];
            for &node in &dag.order {
                let mut latest: Vec<u32> =
                    before[node].iter().flat_map(|before| waits[*before].iter().copied()).collect();
                latest.sort_by_key(|event| std::cmp::Reverse(self.ends.get(event)));
                latest.dedup();
                latest.truncate(KEPT);
                let own = self.event(step, &dag.names[node], tensors);
                own.iter().for_each(|own| latest.iter().for_each(|event| builder.depend(*event, *own)));
                waits[node] = own.map_or(latest, |own| vec![own]);
            }
        }
    }

    fn event(&self, step: usize, name: &str, tensors: &TensorTable) -> Option<u32> {
        let tensor = name.strip_prefix("Comm.").map(|tensor| tensors.timeline_name(tensor));
        match tensor {
            Some(tensor) => self.reductions.get(&(step, tensor)).copied(),
            None => self.operations.get(&(step, name)).copied(),
        }
    }
}

/// Operations that were not recorded pass on only what ended last of what they wait for: the rest ends before it anyway.
const KEPT: usize = 4;

fn add_message(builder: &mut TraceBuilder, message: &NcclMessage) {
    let [one_loop, channel, chunk, slice] = message.part;
    let name = format!("Comm.{}.{}", message.tensors.join("+"), message.direction);
    let thread = format!("channel {channel} {}", message.direction);
    let operation = format!("{} {one_loop}_{channel}_{chunk}_{slice}", message.direction);
    add_detail(builder, &name, ["NCCL", &thread], message.time, &operation);
}

/// Adds a part of an exchange that the timeline shows and the statistics count; its exchange is in the graph as a whole.
fn add_detail(builder: &mut TraceBuilder, name: &str, track: [&str; 2], time: Interval, operation: &str) {
    let collective = Some(CollectiveArguments { operation: operation.to_owned(), ..CollectiveArguments::default() });
    builder.add(NewEvent { name, category: EventCategory::DeviceAnnotation, track, time, collective });
}
