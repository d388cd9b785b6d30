//! `gpu x 1.5` and `cpu x 1.5`: processors that do their work faster by a factor. `gpu = H100`: another GPU, by a model of
//! operations.

use super::clause::WhatIfClause;
use super::kernel::{KernelBits, class_of_kernel};
use super::{HalfPrecisionShares, Scenario, StepChange, WhatIfFacts};
use crate::graph::{NodeId, StepGraph, TaskGraph, WorkKind};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Percent;
use perf4sight_operations::{KnownGpu, OperationClass, OperationModel, TimeScaling};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
struct FasterDevice {
    factor: f64,
    device: &'static str,
    /// Whether a node is work of the device.
    is_own: fn(&TaskGraph, NodeId) -> bool,
    /// What stays as it is.
    stays: &'static str,
}

pub(super) fn parse_gpu(clause: &WhatIfClause) -> Option<Result<Box<dyn StepChange>>> {
    faster(clause, "gpu", is_scaled, "communication and copies from and to the host stay as they are")
}

pub(super) fn parse_cpu(clause: &WhatIfClause) -> Option<Result<Box<dyn StepChange>>> {
    let is_own = |graph: &TaskGraph, id| {
        matches!(graph.node(id).kind, WorkKind::Operation | WorkKind::Launch) && !graph.waits_for_batch(id)
    };
    faster(clause, "cpu", is_own, "communication and waiting for a loader's workers stay as they are")
}

fn faster(
    clause: &WhatIfClause,
    device: &'static str,
    is_own: fn(&TaskGraph, NodeId) -> bool,
    stays: &'static str,
) -> Option<Result<Box<dyn StepChange>>> {
    let factor = clause.factor_of(device)?;
    Some(factor.map(|factor| Box::new(FasterDevice { factor, device, is_own, stays }) as Box<dyn StepChange>))
}

impl StepChange for FasterDevice {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let graph = &mut scenario.step.graph;
        let found: Vec<NodeId> = graph.ids().filter(|id| (self.is_own)(graph, *id)).collect();
        if found.is_empty() {
            return Err(Error::usage(format!("the traces contain no work of a {}", self.device))
                .help("\"gpu x ...\" is for kernels, \"cpu x ...\" for operations on threads"));
        }
        for id in found {
            graph.set_duration(id, (graph.node(id).duration as f64 / self.factor).round() as u64);
        }
        Ok(())
    }

    fn assumption(&self) -> Option<String> {
        Some(format!("all work of the {} is faster by the same factor; {}", self.device, self.stays))
    }
}

/// Another GPU.
#[derive(Debug)]
struct OtherGpu {
    model: Arc<OperationModel>,
    /// The GPU of the traces, as the change or the traces say; none where neither does.
    from: Option<KnownGpu>,
    to: KnownGpu,
    /// By which power of its error the model is off: 0, or a bound.
    off: f64,
    /// The precision of kernels.
    in_half: HalfPrecisionShares,
}

/// A kernel, as a model of operations knows it.
struct KernelOfModel {
    class: Option<OperationClass>,
    bits: Option<KernelBits>,
    /// Whether it computes in half precision or in single; none where neither is known.
    half: Option<bool>,
    /// Its class, if such operations were measured; in eight bits and in double precision none were.
    measured: Option<OperationClass>,
}

/// From this share of the kernels' time on, operations that were never measured are too much.
const UNMEASURED: f64 = 0.5;

/// What the model knows little of: unlike measured operations, of unknown precision, never measured.
const DOUBTFUL: [&str; 3] = [
    "operations unlike those that were measured, mostly in size: they rest on what is usual of GPUs",
    "kernels whose precision the traces do not show (record_shapes=True records it): the interval holds single and half precision",
    "operations that were never measured: the interval holds all that the data sheets allow",
];

/// A smaller share of the kernels' time is not worth a sentence.
const TOLD: f64 = 0.02;

/// Between the GPU of the traces and the other one, where traces do not say it: `gpu = A100 -> H100`.
const ARROW: &str = "->";

pub(super) fn parse_other_gpu(clause: &WhatIfClause, known: &WhatIfFacts) -> Option<Result<Box<dyn StepChange>>> {
    let value = clause.value_of("gpu")?;
    if known.operations.is_none() {
        return Some(Ok(Box::new(WithoutModel)));
    }
    Some(other_gpu(value, known).map(|change| Box::new(change) as Box<dyn StepChange>))
}

fn other_gpu(value: &str, known: &WhatIfFacts) -> Result<OtherGpu> {
    let model = known.operations.clone().ok_or_else(no_model)?;
    let (from, to) = match value.split_once(ARROW) {
        Some((from, to)) => (Some(model.device(from.trim())?), to.trim()),
        // A request is checked before its traces are read.
        None if known.gpus.is_empty() => (None, value),
        None => (Some(model.device(known.gpu()?)?), value),
    };
    from.as_ref().map_or(Ok(()), |from| check_recorded(from, &model, known))?;
    Ok(OtherGpu { from, to: model.device(to)?, model, off: 0.0, in_half: known.in_half.clone() })
}

pub(crate) fn no_model() -> Error {
    Error::usage("no model says what operations take on other GPUs")
        .help("give one (cost_model); perf4sight cost-model train fits it")
}

/// Another GPU where no model says what operations take on it: it has no answer, and other changes have theirs.
#[derive(Debug)]
struct WithoutModel;

impl StepChange for WithoutModel {
    fn apply(&self, _: &mut Scenario) -> Result<()> {
        Err(no_model())
    }
}

/// Refuses a GPU that some ranks were not recorded on. A name without a number is no model's, and may be of any.
fn check_recorded(from: &KnownGpu, model: &OperationModel, known: &WhatIfFacts) -> Result<()> {
    let has_number = |name: &str| name.contains(|letter: char| letter.is_ascii_digit());
    let differs = |name: &String| model.device(name).map_or_else(|_| has_number(name), |own| own != *from);
    let is_other = |names: &&Vec<String>| names.iter().all(differs);
    match known.gpus.iter().find(is_other) {
        None => Ok(()),
        Some(names) => {
            Err(Error::usage(format!("the traces were recorded on {}, not on {}", names.join(", "), from.name))
                .expected("the GPU of all ranks"))
        }
    }
}

impl OtherGpu {
    fn scaling(&self) -> Result<TimeScaling> {
        let from = self.from.as_ref().ok_or_else(|| {
            Error::usage("the traces do not say which GPU they were recorded on")
                .expected(format!("both GPUs, such as \"gpu = A100 -> {}\"", self.to.name))
        })?;
        Ok(self.model.scaling(from, &self.to))
    }

    fn kernel(&self, scaling: &TimeScaling, graph: &TaskGraph, id: NodeId) -> KernelOfModel {
        let (class, bits) = (class_of_kernel(graph, id), self.in_half.of_kernel(graph, id));
        let half = match bits {
            Some(KernelBits::Half) => Some(true),
            Some(KernelBits::Single) => Some(false),
            Some(KernelBits::Eight | KernelBits::Double) | None => None,
        };
        let has_rate = half.is_some() || bits.is_none();
        let measured = class.filter(|class| has_rate && scaling.knows(*class, half));
        KernelOfModel { class, bits, half, measured }
    }

    /// Refuses kernels that are mostly of classes or precisions that were never measured.
    fn check(&self, scaling: &TimeScaling, graph: &TaskGraph, kernels: &[NodeId]) -> Result<()> {
        let time = |id: &NodeId| graph.node(*id).duration as f64;
        let mut unknown: BTreeMap<String, f64> = BTreeMap::new();
        for id in kernels {
            if let KernelOfModel { class: Some(class), bits, measured: None, .. } = self.kernel(scaling, graph, *id) {
                let precision = bits.map_or("", KernelBits::to_text);
                *unknown.entry(format!("{}{precision}", class.name())).or_default() += time(id);
            }
        }
        let all: f64 = kernels.iter().map(time).sum();
        let share = unknown.values().sum::<f64>() / all.max(1.0);
        if share <= UNMEASURED {
            return Ok(());
        }
        let names: Vec<String> = unknown.into_keys().collect();
        Err(Error::usage(format!(
            "{} of the kernels' time is of operations that the model never measured: {}",
            Percent(100.0 * share),
            names.join(", ")
        ))
        .help("train it on networks that contain some, in the precision of the traces"))
    }
}

impl StepChange for OtherGpu {
    fn apply(&self, scenario: &mut Scenario) -> Result<()> {
        let scaling = self.scaling()?;
        let graph = &mut scenario.step.graph;
        let kernels: Vec<NodeId> = graph.ids().filter(|id| is_scaled(graph, *id)).collect();
        if kernels.is_empty() {
            return Err(Error::usage("the traces contain no work of a GPU"));
        }
        self.check(&scaling, graph, &kernels)?;
        for id in kernels {
            let time = graph.node(id).duration as f64;
            let kernel = self.kernel(&scaling, graph, id);
            let ratio = scaling.ratio_at(self.off, kernel.measured, kernel.half, time / 1e3);
            graph.set_duration(id, (time * ratio).round() as u64);
        }
        Ok(())
    }

    fn assumption(&self) -> Option<String> {
        let scaling = self.scaling().ok()?;
        let unmeasured = self.from.iter().chain([&self.to]).filter(|gpu| !gpu.measured);
        let by_sheet = unmeasured.map(|gpu| format!(", {} by its data sheet alone", gpu.name)).collect::<String>();
        Some(format!(
            "kernels change as the model of operations says for {}{by_sheet}: sums over networks that it was not fitted on were off by up to {}; copies from and to the host, the processor, recorded gaps and communication stay as they are",
            self.to.name,
            Percent(100.0 * scaling.off.exp_m1())
        ))
    }

    fn doubts(&self, step: &StepGraph) -> Vec<String> {
        let Ok(scaling) = self.scaling() else { return Vec::new() };
        let graph = &step.graph;
        let (mut all, mut doubtful) = (0.0, [0.0; 3]);
        for id in graph.ids().filter(|id| is_scaled(graph, *id)) {
            let time = graph.node(id).duration as f64;
            let KernelOfModel { measured, half, .. } = self.kernel(&scaling, graph, id);
            let is_unlike = measured.is_some_and(|class| scaling.is_unlike(class, half, time / 1e3));
            let is_such = [is_unlike, measured.is_some() && half.is_none(), measured.is_none()];
            all += time;
            doubtful.iter_mut().zip(is_such).for_each(|(sum, is_such)| *sum += if is_such { time } else { 0.0 });
        }
        let shares = doubtful.into_iter().map(|time| time / f64::max(all, 1.0)).zip(DOUBTFUL);
        let told = shares.filter(|(share, _)| *share >= TOLD);
        let told = told.map(|(share, what)| format!("{} of the kernels' time is of {what}", Percent(100.0 * share)));
        told.chain(self.model.doubts().iter().map(|doubt| format!("the model of operations: {doubt}"))).collect()
    }

    fn known_after(&self, mut known: WhatIfFacts) -> WhatIfFacts {
        known.gpus = vec![vec![self.to.name.clone()]];
        known
    }

    fn bounds(&self) -> Vec<Box<dyn StepChange>> {
        let bound = |off| {
            let (from, to, model) = (self.from.clone(), self.to.clone(), self.model.clone());
            Box::new(OtherGpu { model, from, to, off, in_half: self.in_half.clone() }) as Box<dyn StepChange>
        };
        vec![bound(-1.0), bound(1.0)]
    }
}

/// Whether a node runs on a GPU alone: copies from and to the host take as long as the bus.
fn is_scaled(graph: &TaskGraph, id: NodeId) -> bool {
    let name = graph.name(id);
    graph.node(id).kind == WorkKind::Kernel && !name.contains("HtoD") && !name.contains("DtoH")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::communication::CommunicationCosts;
    use crate::graph::{GraphBuilder, Resource, ResourceKind, TaskNode};
    use crate::what_if::parse_with;
    use perf4sight_operations::{ElementType, OperationRow, TensorShape, sheet, work};

    fn model() -> Arc<OperationModel> {
        model_of(&[ElementType::Fp32])
    }

    /// Products whose times are a launch of 4 us and all FLOP/s of the data sheet.
    fn model_of(elements: &[ElementType]) -> Arc<OperationModel> {
        let mut rows = Vec::new();
        let networks = [("V100", "one"), ("V100", "two"), ("H100", "one"), ("H100", "two")];
        for ((gpu, network), element) in
            networks.into_iter().flat_map(|own| elements.iter().map(move |one| (own, *one)))
        {
            for tokens in [16u64, 64, 256, 1024, 4096, 16384] {
                let tensors =
                    [[tokens, 1024], [1024, 4096]].map(|shape| TensorShape { shape: shape.to_vec(), element });
                let work = work("aten::mm", OperationClass::Product, &tensors, &[]).unwrap();
                let sheet = sheet(gpu).unwrap();
                let tflops = if element.is_half() { sheet.half_tflops } else { sheet.single_tflops };
                let time_us = 4.0 + work.flops / (1e6 * tflops);
                let [gpu, network] = [gpu, network].map(str::to_owned);
                let shapes = format!("{tokens}x1024;1024x4096");
                rows.push(OperationRow {
                    gpu,
                    network,
                    operation: "aten::mm".to_owned(),
                    class: OperationClass::Product,
                    shapes,
                    element,
                    work,
                    time_us,
                    count: 1,
                });
            }
        }
        Arc::new(OperationModel::fit(rows).unwrap())
    }

    /// A stream with a long product, a short one, and a copy from the host.
    fn scenario() -> Scenario {
        let mut builder = GraphBuilder::default();
        let stream = Resource { rank: Some(0), kind: ResourceKind::Stream, name: "7".to_owned() };
        let resource = builder.resource(stream);
        let product = builder.call("aten::mm", None);
        let kernel = builder.call("sgemm", Some(product));
        let copy = builder.call("Memcpy HtoD (Pageable -> Device)", None);
        for (call, duration) in [(kernel, 8_000_000), (kernel, 4_300), (copy, 50_000)] {
            builder.node(TaskNode { duration, call, resource, kind: WorkKind::Kernel, priority: 0 });
        }
        let step = StepGraph { graph: builder.finish().unwrap(), ..StepGraph::default() };
        Scenario { step, communication: CommunicationCosts::default() }
    }

    fn known_gpu(gpu: Option<&str>) -> WhatIfFacts {
        let gpus = gpu.map(|name| vec![name.to_owned()]).into_iter().collect();
        WhatIfFacts { operations: Some(model()), gpus, ..WhatIfFacts::default() }
    }

    /// The long product scales by 15.7 to 67 TFLOP/s, the short one and the copy not at all.
    #[test]
    fn kernels_take_what_the_model_says_of_the_other_gpu() {
        let change = other_gpu("H100", &known_gpu(Some("Tesla V100-SXM2-32GB"))).unwrap();
        let mut scenario = scenario();
        change.apply(&mut scenario).unwrap();
        let times: Vec<f64> = scenario.step.graph.nodes().iter().map(|node| node.duration as f64).collect();
        assert!((times[0] / 8e6 / (15.7 / 67.0) - 1.0).abs() < 0.2, "{times:?}");
        assert!((times[1] / 4300.0 - 1.0).abs() < 0.2, "{times:?}");
        assert_eq!(times[2], 50_000.0);
        let bounds = change.bounds().into_iter().map(|bound| {
            let mut scenario = self::scenario();
            bound.apply(&mut scenario).unwrap();
            scenario.step.graph.nodes()[0].duration as f64
        });
        let bounds: Vec<f64> = bounds.collect();
        assert!(bounds[0] <= times[0] && times[0] <= bounds[1], "{bounds:?} {times:?}");
    }

    /// From 15.7 TFLOP/s of a V100 in single precision to 989 of an H100 in half, in either order; with a model of single precision alone, or none, half of
    /// the time is a guess, as the answer says, and may be a sixteenth.
    #[test]
    fn a_change_rests_on_those_before_it() {
        let long = |texts: [&str; 2], mut known: WhatIfFacts| {
            let mut scenario = scenario();
            let mut assumed = String::new();
            let mut bounds = [0.0; 2];
            for text in texts {
                let change = parse_with(text, &known).unwrap();
                let with = |change: &dyn StepChange| {
                    let mut other = scenario.clone();
                    change.apply(&mut other).unwrap();
                    other.step.graph.nodes()[0].duration as f64 / 8e6
                };
                bounds = [0, 1].map(|place| with(change.bounds()[place].as_ref()));
                change.apply(&mut scenario).unwrap();
                assumed += &change.assumption().unwrap();
                known = change.known_after(known);
            }
            (scenario.step.graph.nodes()[0].duration as f64 / 8e6, bounds, assumed)
        };
        let both = WhatIfFacts {
            operations: Some(model_of(&[ElementType::Fp32, ElementType::Bf16])),
            ..known_gpu(Some("V100"))
        };
        for texts in [["gpu = H100", "precision = bf16"], ["precision = bf16", "gpu = H100"]] {
            let (share, _, assumed) = long(texts, both.clone());
            assert!((share / (15.7 / 989.0) - 1.0).abs() < 0.3, "{texts:?}: {share}");
            assert!(assumed.contains("model of operations says of"), "{assumed}");
        }
        let (share, [least, most], assumed) = long(["gpu = H100", "precision = bf16"], known_gpu(Some("V100")));
        // A product without tensor cores: half of the way from half of its time to the 67 of 989 that an H100 allows, between 1/16 and all.
        let guess = (0.5f64 * 67.0 / 989.0).sqrt();
        assert!(
            (share / (15.7 / 67.0 * guess) - 1.0).abs() < 0.2 && assumed.contains("not trained on products in both"),
            "{assumed}"
        );
        let bounds = [least / share * guess - 1.0 / 16.0, most / share * guess - 1.0];
        assert!(bounds.iter().all(|off| off.abs() < 0.01), "{least} {share} {most}");
    }

    /// Kernels of 8 ms and 4.3 µs take half; the copy of 50 µs goes over the bus, which no GPU makes faster.
    #[test]
    fn a_faster_gpu_does_not_make_copies_from_the_host_faster() {
        let mut scenario = scenario();
        crate::what_if::parse("gpu x 2").unwrap().apply(&mut scenario).unwrap();
        let times: Vec<u64> = scenario.step.graph.nodes().iter().map(|node| node.duration).collect();
        assert_eq!(times, [4_000_000, 2_150, 50_000]);
    }

    /// The loader's workers are other processes: only copying the batch, 2 ms, takes half on a faster processor.
    #[test]
    fn a_faster_processor_does_not_wait_less_for_a_loader() {
        let mut builder = GraphBuilder::default();
        let thread = Resource { rank: Some(0), kind: ResourceKind::Thread, name: "main".to_owned() };
        let resource = builder.resource(thread);
        for (name, duration) in
            [("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 8_000_000), ("aten::copy_", 2_000_000)]
        {
            let call = builder.call(name, None);
            builder.node(TaskNode { duration, call, resource, kind: WorkKind::Operation, priority: 0 });
        }
        let step = StepGraph { graph: builder.finish().unwrap(), ..StepGraph::default() };
        let mut scenario = Scenario { step, ..scenario() };
        crate::what_if::parse("cpu x 2").unwrap().apply(&mut scenario).unwrap();
        let times: Vec<u64> = scenario.step.graph.nodes().iter().map(|node| node.duration).collect();
        assert_eq!(times, [8_000_000, 1_000_000]);
    }

    #[test]
    fn what_is_not_known_is_asked_for() {
        let message = |value: &str, known: &WhatIfFacts| match other_gpu(value, known) {
            Ok(change) => change.apply(&mut scenario()).unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(message("H100", &WhatIfFacts::default()).contains("give one (cost_model)"));
        assert!(message("H100", &known_gpu(None)).contains("gpu = A100 -> H100"));
        assert!(message("Voodoo", &known_gpu(Some("V100"))).contains("trained on (H100, V100)"));
        assert!(message("V100 -> H100", &known_gpu(Some("H100"))).contains("recorded on H100, not on V100"));
        assert!(other_gpu("V100 -> H100", &known_gpu(None)).unwrap().apply(&mut scenario()).is_ok());
        // Products in half precision, which the model never measured.
        let half = HalfPrecisionShares::new([("aten::mm".to_owned(), 1.0)].into());
        let refused = message("H100", &WhatIfFacts { in_half: half, ..known_gpu(Some("V100")) });
        assert!(refused.contains("never measured: product in half precision"), "{refused}");
        // One rank on each: no one ratio is that of both.
        let two = WhatIfFacts { gpus: vec![vec!["V100".to_owned()], vec!["H100".to_owned()]], ..known_gpu(None) };
        for value in ["H100", "V100"] {
            assert!(message(value, &two).contains("say several GPUs: V100, H100"));
        }
        assert!(message("V100 -> H100", &two).contains("recorded on H100, not on V100"));
        // A slice, and a GPU whose name is the beginning of that of another one.
        for own in ["Tesla V100 MIG 3g.20gb", "NVIDIA H20"] {
            assert!(message("V100 -> H100", &known_gpu(Some(own))).contains(&format!("recorded on {own}")), "{own}");
        }
    }

    /// Nobody measured products in fp8, which are refused, not taken for those in half or single precision.
    #[test]
    fn products_in_eight_bits_are_not_those_in_half_precision() {
        let eight = HalfPrecisionShares::of_calls([("aten::mm".to_owned(), [3, 0, 0, 0])].into());
        let change = other_gpu("H100", &WhatIfFacts { in_half: eight, ..known_gpu(Some("V100")) }).unwrap();
        let refused = change.apply(&mut scenario()).unwrap_err().to_string();
        assert!(refused.contains("never measured: product in 8 bits"), "{refused}");
    }
}
