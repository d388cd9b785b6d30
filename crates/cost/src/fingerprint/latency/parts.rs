//! A step in the parts that a profile times one by one. Parts with the same kernels are one kind, so repeated blocks
//! of a network are computed once.

use crate::features::physical::{Kernel, KernelPass, kernels_once, runs_again};
use crate::records::layers;
use perf4sight_base::cache::Cache;
use perf4sight_memory::channels_last;
use perf4sight_network::{Network, NodeId, TrainedNetworks};
use perf4sight_step::workload::{Accumulate, Checkpoint, Stage, Step, Trainable};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The unit that is timed: an operation forward or backward, or a part of the step that belongs to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LatencyPart {
    pub(super) node: Option<NodeId>,
    pub(super) pass: layers::StepPart,
}

impl LatencyPart {
    fn from_kernel(kernel: &Kernel) -> Self {
        let (node, pass) = match kernel.pass {
            KernelPass::Forward => (Some(kernel.node), layers::StepPart::Forward),
            KernelPass::InputGradient | KernelPass::WeightGradient | KernelPass::Fork => {
                (Some(kernel.node), layers::StepPart::Backward)
            }
            KernelPass::Loss => (None, layers::StepPart::Loss),
            // zero_grad counts as part of it: the split of work between both depends on the version of PyTorch.
            KernelPass::Update => (None, layers::StepPart::Optimizer),
        };
        LatencyPart { node, pass }
    }
}

/// Identical parts, such as those of a network's repeated blocks.
#[derive(Debug, Clone)]
pub(super) struct PartKind {
    pub(super) kernels: Vec<Kernel>,
    pub(super) parts: Vec<LatencyPart>,
}

impl PartKind {
    pub(super) fn count(&self) -> f64 {
        self.parts.len() as f64
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct StepParts {
    pub(super) kinds: Vec<PartKind>,
}

#[derive(Default)]
struct PartSorter {
    kinds: Vec<PartKind>,
    alike: BTreeMap<PartKey, Vec<usize>>,
}

/// A key for parts of one kind: the number of kernels, and the pass and traffic of the first.
type PartKey = (usize, KernelPass, [u64; 2]);

impl StepParts {
    pub(super) fn new(network: &Network, step: Step) -> Self {
        StepParts::from_network_steps(&NetworkSteps::new(network), step)
    }

    pub(super) fn from_network_steps(steps: &NetworkSteps, step: Step) -> Self {
        let mut parts = StepParts::clone(&steps.single_pass(step));
        parts.run_again(&steps.runs_again(step));
        parts.repeat(step.accumulate);
        parts
    }

    fn sort_kernels(kernels: &[Kernel]) -> Self {
        let mut parts = PartSorter::default();
        // The passes of a node are mixed, but all kernels of a node are contiguous.
        for node in kernels.chunk_by(|a, b| a.node == b.node) {
            for pass in [layers::StepPart::Forward, layers::StepPart::Backward] {
                parts.add(LatencyPart { node: Some(node[0].node), pass }, node);
            }
        }
        for pass in [layers::StepPart::Loss, layers::StepPart::Optimizer] {
            parts.add(LatencyPart { node: None, pass }, kernels);
        }
        StepParts { kinds: parts.kinds }
    }

    /// Adds another forward of some nodes.
    fn run_again(&mut self, again: &[bool]) {
        for PartKind { parts, .. } in &mut self.kinds {
            let runs_again = |part: &LatencyPart| {
                part.pass == layers::StepPart::Forward && part.node.is_some_and(|node| again[node.index()])
            };
            let more: Vec<LatencyPart> = parts.iter().copied().filter(runs_again).collect();
            parts.extend(more);
        }
    }

    /// All kernels but the update run in every pass.
    fn repeat(&mut self, accumulate: Accumulate) {
        self.kinds.iter_mut().flat_map(|kind| &mut kind.kernels).for_each(|kernel| kernel.repeat(accumulate));
    }

    pub(super) fn by_part(&self) -> BTreeMap<LatencyPart, &[Kernel]> {
        let kinds = self.kinds.iter();
        kinds.flat_map(|kind| kind.parts.iter().map(|part| (*part, kind.kernels.as_slice()))).collect()
    }

    pub(super) fn kernels(&self) -> impl Iterator<Item = &Kernel> + Clone {
        self.kinds.iter().flat_map(|kind| std::iter::repeat_n(&kind.kernels, kind.parts.len()).flatten())
    }
}

impl PartSorter {
    fn add(&mut self, part: LatencyPart, among: &[Kernel]) {
        let kernels: Vec<&Kernel> = among.iter().filter(|kernel| LatencyPart::from_kernel(kernel) == part).collect();
        let Some(first) = kernels.first() else { return };
        let glance = (kernels.len(), first.pass, [first.traffic.fixed, first.traffic.sample].map(f64::to_bits));
        let is_same =
            |kind: &PartKind| kind.kernels.iter().zip(&kernels).all(|(known, kernel)| known.does_the_same(kernel));
        let alike = self.alike.entry(glance).or_default();
        match alike.iter().find(|known| is_same(&self.kinds[**known])) {
            Some(known) => self.kinds[*known].parts.push(part),
            None => {
                alike.push(self.kinds.len());
                self.kinds.push(PartKind { kernels: kernels.into_iter().copied().collect(), parts: vec![part] });
            }
        }
    }
}

/// The steps of one network; shared work is cached.
pub(super) struct NetworkSteps<'a> {
    pub(super) network: &'a Network,
    trainings: TrainedNetworks<'a>,
    channels_last: Cache<(Stage, Trainable), Vec<[bool; 2]>>,
    /// By steps of one pass without checkpoints.
    once: Cache<Step, StepParts>,
}

impl<'a> NetworkSteps<'a> {
    pub(super) fn new(network: &'a Network) -> Self {
        let (channels_last, once) = (Cache::default(), Cache::default());
        NetworkSteps { network, trainings: TrainedNetworks::new(network), channels_last, once }
    }

    /// The parts of a step with one pass and without checkpoints; other steps run some of them again.
    fn single_pass(&self, step: Step) -> Arc<StepParts> {
        let once = Step { accumulate: Accumulate::default(), checkpoint: Checkpoint::None, ..step };
        self.once.get_or_compute(once, || StepParts::sort_kernels(&self.laid_out(once)))
    }

    fn runs_again(&self, step: Step) -> Vec<bool> {
        let trained = self.trainings.for_trainable(step.trainable);
        match step.trains() {
            true => runs_again(&trained, &self.trainings.cuts(step.checkpoint)),
            false => vec![false; self.network.nodes().len()],
        }
    }

    /// The kernels that a step runs at least once, with the memory layout of the images that convolutions read.
    pub(super) fn laid_out(&self, step: Step) -> Vec<Kernel> {
        let trained = self.trainings.for_trainable(step.trainable);
        // The layout depends on no other property of a step.
        let channels_last =
            self.channels_last.get_or_compute((step.stage, step.trainable), || channels_last(&trained, step));
        let mut kernels = kernels_once(&trained, step);
        for kernel in &mut kernels {
            if let (Some(filter), [image, ..]) = (&mut kernel.filter, self.network.node(kernel.node).inputs.as_slice())
            {
                filter.channels_last = channels_last[image.index()];
            }
        }
        kernels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::physical::kernels;
    use perf4sight_network::zoo::{Dataset, build};
    use perf4sight_network::{Affine, Conv, NetworkBuilder, Op, Shape, Window};
    use perf4sight_step::workload::{Stage, Step};

    #[test]
    fn repeated_blocks_are_of_one_kind_and_no_kernel_is_lost() {
        let resnet50 = build("resnet50", Dataset::Imagenet).unwrap();
        let parts = StepParts::new(&resnet50, Step::published(Stage::Training));
        let all = kernels(&resnet50, Step::published(Stage::Training));
        let traffic = |kernels: &mut dyn Iterator<Item = &Kernel>| -> f64 {
            kernels.map(|kernel| kernel.launches + kernel.traffic.for_batch(3.0)).sum()
        };
        let (found, known) = (traffic(&mut parts.kernels()), traffic(&mut all.iter()));
        assert!((found / known - 1.0).abs() < 1e-12 && parts.kernels().count() == all.len());
        // Normalisations of 256x14x14: two in each of stage 3's six blocks, but the first, before the stride, is of 256x28x28.
        assert_eq!(parts.kinds.iter().map(|kind| kind.parts.len()).max(), Some(11));
        assert!(parts.kinds.len() * 2 < parts.by_part().len(), "{}", parts.kinds.len());
    }

    #[test]
    fn what_runs_again_and_in_passes_is_what_the_step_runs() {
        let network = build("mobilenetv2", Dataset::Imagenet).unwrap();
        let published = Step::published(Stage::Training);
        for checkpoint in [Checkpoint::None, Checkpoint::Segments(4), Checkpoint::EveryBlock] {
            for accumulate in [1, 4].map(|passes| Accumulate::new(passes).unwrap()) {
                let step = Step { checkpoint, accumulate, ..published };
                let (parts, all) = (StepParts::new(&network, step), kernels(&network, step));
                let work = |kernels: &mut dyn Iterator<Item = &Kernel>| -> f64 {
                    kernels.map(|kernel| kernel.launches + kernel.repeats * kernel.traffic.for_batch(3.0)).sum()
                };
                let (found, known) = (work(&mut parts.kernels()), work(&mut all.iter()));
                assert!((found / known - 1.0).abs() < 1e-12 && parts.kernels().count() == all.len(), "{step}");
            }
        }
        let forward =
            |step| StepParts::new(&network, step).kernels().filter(|kernel| kernel.pass == KernelPass::Forward).count();
        let again = forward(Step { checkpoint: Checkpoint::EveryBlock, ..published });
        assert!(again > forward(published), "{again} kernels forward");
    }

    /// A depthwise convolution of tokens: channels-last images, either direct or as rows that are viewed as images.
    fn of_tokens(rows: bool) -> Network {
        let mut builder = NetworkBuilder::new("tokens", Shape::new([28, 28, 512]));
        let norm = Op::LayerNorm { axis: 2, affine: Affine::ScaleAndShift };
        let mut at = builder.add("norm", norm, &[builder.input()]).unwrap();
        let mut add = |name: &str, op: Op| at = builder.add(name, op, &[at]).unwrap();
        if rows {
            add("rows", Op::Reshape(Shape::new([784, 512])));
            add("turned", Op::Transpose { order: vec![1, 0] });
            add("image", Op::Reshape(Shape::new([512, 28, 28])));
        } else {
            add("image", Op::Transpose { order: vec![2, 0, 1] });
        }
        let window = Window::square(5, 1, 2);
        add("conv", Op::Conv(Conv { out_channels: 512, window, groups: 512, bias: true }));
        builder.finish(at)
    }

    #[test]
    fn a_single_image_seen_in_rows_is_not_channels_last() {
        let channels_last = |network: &Network| {
            let kernels = NetworkSteps::new(network).laid_out(Step::published(Stage::Training));
            kernels.iter().find_map(|kernel| kernel.filter).unwrap().channels_last
        };
        // .stride() in PyTorch, for transposed rows viewed as an image: (512, 1, 14336, 512) for one sample, (401408,
        // 1, 14336, 512) for several; its convolution copies the first, not the second (ONEDNN_VERBOSE=1).
        assert_eq!([false, true].map(|rows| channels_last(&of_tokens(rows))), [[true, true], [false, true]]);
        assert_eq!(channels_last(&build("mobilenetv2", Dataset::Imagenet).unwrap()), [false; 2]);
    }
}
