//! The kernels of a whole step: every node forward, the loss, every node backward, the optimizer.

use super::kernel::{AccessPattern, BatchQuantity, Kernel, KernelClass, KernelPass};
use super::layer::{LayerKernels, images};
use super::update::UpdateEffort;
use super::{casts, convolution, movement, product, unknown};
use perf4sight_network::{
    AuxiliaryResult, ChannelCoupling, Network, NodeId, OperationFacts, OperationNature, TrainedNetwork,
};
use perf4sight_step::workload::{Accumulate, AutocastDevice, Loss, Step};

/// The kernels of one step of `network`, node by node in the order of the forward pass; with [`Stage::Inference`](perf4sight_step::workload::Stage) the forward
/// pass only.
pub fn kernels(network: &Network, step: Step) -> Vec<Kernel> {
    let trained = TrainedNetwork::new(network, step.trainable);
    let mut kernels = kernels_once(&trained, step);
    if step.trains() {
        let again = runs_again(&trained, &network.cuts(step.checkpoint));
        let again = kernels.iter().filter(|kernel| kernel.pass == KernelPass::Forward && again[kernel.node.index()]);
        kernels.extend(again.copied().collect::<Vec<_>>());
        kernels.iter_mut().for_each(|kernel| kernel.repeat(step.accumulate));
    }
    kernels
}

/// The kernels of a step with one pass and without checkpoints.
pub fn kernels_once(trained: &TrainedNetwork, step: Step) -> Vec<Kernel> {
    let TrainedNetwork { network, gradients: asked, in_place, reads } = trained;
    let network: &Network = network;
    let held = weight_bytes(network, step);
    // Softmax and normalisations of rows, which accelerators compute in single precision, are a small part of any
    // step.
    let numbers = network.numbers(step.precision, AutocastDevice::Processor);
    let mut kernels = Vec::with_capacity(4 * network.nodes().len());
    for (id, node) in network.iter() {
        let training = step.trains();
        let gradients: Vec<bool> = node.inputs.iter().map(|input| training && asked[input.index()]).collect();
        let in_place = in_place[id.index()];
        let (row, function) = (0.0, None);
        let own = numbers[id.index()];
        let mut layer = LayerKernels {
            network,
            node,
            step,
            numbers: own,
            gradients,
            filter: None,
            row,
            function,
            in_place,
            held,
            id,
            kernels,
        };
        layer.operation();
        casts::add(&mut layer, &numbers);
        if training {
            layer.add_gradient_sums(reads[id.index()], asked[id.index()]);
            layer.update(&network.learned_of(node));
        }
        kernels = layer.kernels;
    }
    if step.trains() {
        kernels.extend(losses(network, step, held));
    }
    kernels
}

/// For each node, whether backward runs its forward again, given checkpoints behind these nodes: in each segment, up
/// to the last node that saves a tensor.
pub fn runs_again(trained: &TrainedNetwork, cuts: &[NodeId]) -> Vec<bool> {
    let TrainedNetwork { network, gradients: asked, .. } = trained;
    let mut again = vec![false; network.nodes().len()];
    for segment in network.segments(cuts) {
        again[network.runs_again(&segment, asked)].fill(true);
    }
    again
}

impl Kernel {
    /// Every pass runs all kernels but those of the update, on its share of the samples.
    pub fn repeat(&mut self, accumulate: Accumulate) {
        if self.pass != KernelPass::Update {
            let passes = accumulate.passes() as f64;
            (self.repeats, self.launches) = (passes, self.launches * passes);
        }
    }
}

impl LayerKernels<'_> {
    fn operation(&mut self) {
        let facts = self.network.facts(self.node);
        self.row = self.row(&facts);
        let class = match facts.nature {
            OperationNature::Convolution(conv) => return convolution::add(self, conv),
            OperationNature::Volume(conv) => return convolution::add_volume(self, conv),
            OperationNature::Transposed(transposed) => return convolution::add_transposed(self, &transposed.conv),
            OperationNature::Linear(linear) => return product::add_linear(self, linear),
            OperationNature::MatMul => return product::add_matmul(self),
            OperationNature::Attention => return product::add_attention(self),
            OperationNature::Embedding(embedding) => return movement::add_embedding(self, embedding),
            OperationNature::Input | OperationNature::Parameter => return,
            OperationNature::Normalisation => KernelClass::Normalisation,
            OperationNature::Softmax => KernelClass::Softmax,
            OperationNature::Activation(function) => {
                self.function = Some(function);
                KernelClass::Activation
            }
            OperationNature::Arithmetic(_) | OperationNature::Choice => KernelClass::Arithmetic,
            // A random number per sample costs only the multiplication with it.
            OperationNature::Dropout if facts.auxiliary == Some(AuxiliaryResult::Draw) => KernelClass::Arithmetic,
            OperationNature::Dropout => KernelClass::Dropout,
            OperationNature::Pooling(_) => KernelClass::Pooling,
            OperationNature::Movement => KernelClass::Copy,
            OperationNature::Recurrent(layer) => return unknown::add_recurrent(self, layer.cell.operator(), &facts),
            OperationNature::Unknown(known) if facts.macs > 0 => return unknown::add(self, known, &facts),
            OperationNature::Unknown(_) => KernelClass::Unknown,
        };
        movement::add(self, class, &facts.traffic);
    }

    /// Elements that are normalised, reduced, generated or moved together, except those of all samples. Zero also for
    /// joined tensors, which are copied whole, and for max pooling, which searches a maximum.
    fn row(&self, facts: &OperationFacts) -> f64 {
        let joined = matches!(facts.channels, ChannelCoupling::Joined { .. });
        if let Some(AuxiliaryResult::Statistics(rows)) = facts.auxiliary {
            self.outputs() / rows as f64
        } else if facts.nature == OperationNature::Softmax || (facts.nature == OperationNature::Movement && !joined) {
            self.node.shape.features() as f64
        } else if let (OperationNature::Pooling(window), None) = (facts.nature, facts.auxiliary) {
            let grown = self.outputs() / self.inputs();
            window.map_or(grown.max(1.0 / grown), |window| (window.kernel[0] * window.kernel[1]) as f64)
        } else {
            0.0
        }
    }

    /// One gradient arrives per reader; they are summed two by two.
    fn add_gradient_sums(&mut self, reads: usize, has_gradient: bool) {
        if reads > 1 && has_gradient {
            let sums = (reads - 1) as f64;
            let traffic = BatchQuantity::per_sample(self.bytes(3.0 * self.outputs() * sums));
            self.add_movement(KernelPass::Fork, KernelClass::Arithmetic, AccessPattern::Contiguous, traffic);
            self.add_launches(sums);
        }
    }

    /// The kernels of zero_grad and the optimizer for a node's weights, with launches for each tensor.
    fn update(&mut self, tensors: &[u64]) {
        let weights = tensors.iter().sum::<u64>() as f64;
        if weights > 0.0 {
            let UpdateEffort { moved, started } = UpdateEffort::new(self.step);
            let traffic = BatchQuantity::fixed(self.held_bytes(moved * weights));
            self.add_movement(KernelPass::Update, KernelClass::Update, AccessPattern::Contiguous, traffic);
            self.add_launches(started * tensors.len() as f64);
        }
    }
}

/// Bytes of the weights; training adds a gradient and optimizer states for each trained one.
fn weight_bytes(network: &Network, step: Step) -> f64 {
    let learned = network.nodes().iter().flat_map(|node| network.learned_of(node)).sum::<u64>();
    let copies = if step.trains() { 1 + step.optimizer.states() } else { 0 };
    step.weight() as f64 * (network.parameters() + copies * learned) as f64
}

/// Tensors of the result's size that the loss and its gradient read and write. Cross entropy: log-softmax and the
/// pick of one class, forward and backward. Mean squared error: the differences from the targets, their squares, the
/// mean, zeros, and the gradient that replaces the zeros.
fn tensors_of(loss: Loss) -> f64 {
    match loss {
        Loss::CrossEntropy => 5.0,
        Loss::MeanSquaredError => 8.0,
    }
}

/// The loss of every result that has one, and its gradient.
fn losses(network: &Network, step: Step, held: f64) -> impl Iterator<Item = Kernel> {
    let element = step.precision.held_format().bytes() as f64;
    network.loss_results().map(move |node| {
        let result = &network.node(node).shape;
        Kernel {
            node,
            class: KernelClass::Loss,
            pass: KernelPass::Loss,
            product: None,
            filter: None,
            element,
            traffic: BatchQuantity::per_sample(tensors_of(step.loss) * element * result.elements() as f64),
            windows: BatchQuantity::default(),
            access: AccessPattern::Contiguous,
            result: BatchQuantity::default(),
            images: images(result),
            row: 0.0,
            function: None,
            held,
            launches: 4.0,
            repeats: 1.0,
        }
    })
}
