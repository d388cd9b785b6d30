//! One node of a network: collects the kernels that a step runs for it.

use super::kernel::{AccessPattern, BatchQuantity, FilterGeometry, Kernel, KernelClass, KernelPass, MatrixProduct};
use perf4sight_network::{Activation, Network, Node, NodeId, NumberTypes, Shape};
use perf4sight_step::workload::Step;

/// One node of a network; collects the kernels that a step runs for it.
pub(super) struct LayerKernels<'a> {
    pub network: &'a Network,
    pub node: &'a Node,
    pub step: Step,
    pub numbers: NumberTypes,
    /// Whether a gradient flows to each of its inputs.
    pub gradients: Vec<bool>,
    /// The geometry its kernels share, where it is a convolution.
    pub filter: Option<FilterGeometry>,
    /// Elements that its kernels process together, such as those of a row or a group.
    pub row: f64,
    /// The function that its kernels compute of every element, if any.
    pub function: Option<Activation>,
    pub(super) in_place: bool,
    pub(super) held: f64,
    pub(super) id: NodeId,
    pub(super) kernels: Vec<Kernel>,
}

impl LayerKernels<'_> {
    /// Elements of one sample of the result.
    pub fn outputs(&self) -> f64 {
        self.node.shape.elements() as f64
    }

    /// Elements of one sample of the first input.
    pub fn inputs(&self) -> f64 {
        self.node.inputs.first().map_or(0.0, |id| self.network.node(*id).shape.elements() as f64)
    }

    /// Bytes of activations with this many elements.
    pub fn bytes(&self, elements: f64) -> f64 {
        self.numbers.result.bytes() as f64 * elements
    }

    /// Bytes of weights with this many elements, as they are read.
    pub fn weight_bytes(&self, elements: f64) -> f64 {
        self.numbers.weights.bytes() as f64 * elements
    }

    /// Bytes of weights with this many elements, as they are stored.
    pub fn held_bytes(&self, elements: f64) -> f64 {
        self.step.weight() as f64 * elements
    }

    /// Whether it gives one of the tensors of its weights a gradient: 0 is the weight, 1 the bias.
    pub fn trains(&self, tensor: usize) -> bool {
        self.learns_any() && self.network.trained_parts(self.node)[tensor]
    }

    /// Whether training changes any of its weights: libraries compute the gradients of filters and bias together.
    pub fn learns_any(&self) -> bool {
        self.step.trains() && self.network.trains(self.node)
    }

    /// Whether a gradient flows to any input.
    pub fn passes_on(&self) -> bool {
        self.gradients.contains(&true)
    }

    /// Adds a kernel that only moves memory.
    pub fn add_movement(
        &mut self,
        pass: KernelPass,
        class: KernelClass,
        access: AccessPattern,
        traffic: BatchQuantity,
    ) {
        self.push(Kernel { access, ..self.kernel(pass, class, traffic) });
    }

    /// Adds a kernel that casts an operand of the node: a separate operation without geometry and function.
    pub fn casts(&mut self, pass: KernelPass, traffic: BatchQuantity, result: BatchQuantity) {
        let cast = self.kernel(pass, KernelClass::Copy, traffic);
        self.push(Kernel { filter: None, row: 0.0, function: None, launches: 1.0, result, ..cast });
    }

    /// Adds a kernel that reads the node's weights again, with nothing in between that could evict them.
    pub fn moves_again(&mut self, pass: KernelPass, class: KernelClass, traffic: BatchQuantity) {
        let held = self.weight_bytes(self.network.weights_of(self.node) as f64);
        self.push(Kernel { held, ..self.kernel(pass, class, traffic) });
    }

    /// Adds a kernel whose results read windows.
    pub fn slides(&mut self, pass: KernelPass, class: KernelClass, windows: BatchQuantity, traffic: BatchQuantity) {
        self.push(Kernel { access: AccessPattern::Windowed, windows, ..self.kernel(pass, class, traffic) });
    }

    /// Adds a matrix product.
    pub fn multiplies(&mut self, pass: KernelPass, class: KernelClass, product: MatrixProduct, traffic: BatchQuantity) {
        self.push(Kernel { product: Some(product), ..self.kernel(pass, class, traffic) });
    }

    fn kernel(&self, pass: KernelPass, class: KernelClass, traffic: BatchQuantity) -> Kernel {
        Kernel {
            node: self.id,
            class,
            pass,
            product: None,
            filter: self.filter.filter(|_| pass != KernelPass::Fork && pass != KernelPass::Update),
            element: self.bytes(1.0),
            traffic,
            windows: BatchQuantity::default(),
            access: AccessPattern::Contiguous,
            result: self.result(pass),
            images: images(&self.node.shape),
            row: if pass == KernelPass::Fork || pass == KernelPass::Update { 0.0 } else { self.row },
            function: self.function.filter(|_| pass != KernelPass::Fork),
            held: self.held,
            launches: self.launches(pass),
            repeats: 1.0,
        }
    }

    fn push(&mut self, kernel: Kernel) {
        self.kernels.push(kernel);
    }

    /// The result of a pass: the output, the gradients, or the sums of the optimizer before it changes the weights.
    fn result(&self, pass: KernelPass) -> BatchQuantity {
        match pass {
            KernelPass::Forward if self.in_place => BatchQuantity::default(),
            KernelPass::Forward => BatchQuantity::per_sample(self.bytes(self.outputs())),
            KernelPass::InputGradient => BatchQuantity::per_sample(self.bytes(self.inputs())),
            KernelPass::WeightGradient => {
                BatchQuantity::fixed(self.weight_bytes(self.network.parameters_of(self.node) as f64))
            }
            KernelPass::Update => BatchQuantity::fixed(self.held_bytes(self.network.parameters_of(self.node) as f64)),
            KernelPass::Loss | KernelPass::Fork => BatchQuantity::default(),
        }
    }

    /// The processor issues an operation once, and its backward once, however many kernels they have.
    fn launches(&self, pass: KernelPass) -> f64 {
        let mut before = self.kernels.iter().rev().take_while(|kernel| kernel.node == self.id);
        let issued = before.any(|kernel| kernel.pass.is_gradient() == pass.is_gradient());
        f64::from(u8::from(!issued))
    }

    pub(super) fn add_launches(&mut self, launches: f64) {
        if let Some(kernel) = self.kernels.last_mut() {
            kernel.launches = launches;
        }
    }
}

pub(super) fn images(shape: &Shape) -> [f64; 2] {
    let [height, width] = shape.image();
    [shape.channels() as f64, (height * width) as f64]
}
