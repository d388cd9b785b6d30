//! The kernels of a whole step: every node forward, the loss, every node backward, the optimizer.

use super::kernel::{Access, Amount, Class, Filter, Kernel, Pass, Product};
use super::{convolution, movement, product};
use crate::network::{Nature, Network, Node, NodeId, Shape};
use crate::workload::Step;

/// One node of a network on its way through a step; gathers its kernels.
pub(super) struct Layer<'a> {
    pub network: &'a Network,
    pub node: &'a Node,
    pub step: Step,
    /// Whether a gradient flows to each of its inputs.
    pub gradients: Vec<bool>,
    /// The geometry its kernels share, where it is a convolution.
    pub filter: Option<Filter>,
    in_place: bool,
    held: f64,
    id: NodeId,
    kernels: Vec<Kernel>,
}

/// The kernels of one step of `network`, node by node in the order of the forward pass; with [`Stage::Inference`](crate::workload::Stage) the forward
/// pass only.
pub fn kernels(network: &Network, step: Step) -> Vec<Kernel> {
    let (readers, in_place) = (network.readers(), network.in_place());
    let (held, asked) = (held(network, step), network.gradients());
    let mut kernels = Vec::with_capacity(4 * network.nodes().len());
    for (id, node) in network.iter() {
        let training = step.trains();
        let gradients: Vec<bool> = node.inputs.iter().map(|input| training && asked[input.index()]).collect();
        let in_place = in_place[id.index()];
        let mut layer = Layer { network, node, step, gradients, filter: None, in_place, held, id, kernels };
        layer.operation();
        if training {
            layer.forks(readers[id.index()].len(), asked[id.index()]);
            layer.update(network.parameters_of(node) as f64);
        }
        kernels = layer.kernels;
    }
    if step.trains() {
        kernels.extend(loss(network, step, held));
    }
    kernels
}

impl Layer<'_> {
    /// Elements of one sample of the result.
    pub fn outputs(&self) -> f64 {
        self.node.shape.elements() as f64
    }

    /// Elements of one sample of the first input.
    pub fn inputs(&self) -> f64 {
        self.node.inputs.first().map_or(0.0, |id| self.network.node(*id).shape.elements() as f64)
    }

    /// Bytes of so many elements of activations.
    pub fn bytes(&self, elements: f64) -> f64 {
        self.step.activation() as f64 * elements
    }

    /// Bytes of so many elements of weights.
    pub fn weight_bytes(&self, elements: f64) -> f64 {
        self.step.weight() as f64 * elements
    }

    /// Whether a gradient flows to any input.
    pub fn passes_on(&self) -> bool {
        self.gradients.contains(&true)
    }

    /// Adds a kernel that only moves memory.
    pub fn moves(&mut self, pass: Pass, class: Class, access: Access, traffic: Amount) {
        self.push(Kernel { access, ..self.kernel(pass, class, traffic) });
    }

    /// Adds a kernel whose results read windows.
    pub fn slides(&mut self, pass: Pass, class: Class, windows: Amount, traffic: Amount) {
        self.push(Kernel { access: Access::Windowed, windows, ..self.kernel(pass, class, traffic) });
    }

    /// Adds a matrix product.
    pub fn multiplies(&mut self, pass: Pass, class: Class, product: Product, traffic: Amount) {
        self.push(Kernel { product: Some(product), ..self.kernel(pass, class, traffic) });
    }

    fn kernel(&self, pass: Pass, class: Class, traffic: Amount) -> Kernel {
        Kernel {
            node: self.id,
            class,
            pass,
            product: None,
            filter: self.filter.filter(|_| pass != Pass::Fork && pass != Pass::Update),
            element: self.step.activation() as f64,
            traffic,
            windows: Amount::default(),
            access: Access::Contiguous,
            result: self.result(pass),
            images: images(&self.node.shape),
            held: self.held,
            launches: self.launches(pass),
        }
    }

    fn push(&mut self, kernel: Kernel) {
        self.kernels.push(kernel);
    }

    /// What a pass makes: the result, the gradients, or what the optimizer adds up before it touches the weights.
    fn result(&self, pass: Pass) -> Amount {
        match pass {
            Pass::Forward if self.in_place => Amount::default(),
            Pass::Forward => Amount::per_sample(self.bytes(self.outputs())),
            Pass::InputGradient => Amount::per_sample(self.bytes(self.inputs())),
            Pass::WeightGradient | Pass::Update => {
                Amount::fixed(self.weight_bytes(self.network.parameters_of(self.node) as f64))
            }
            Pass::Loss | Pass::Fork => Amount::default(),
        }
    }

    /// The processor issues an operation once, and once its backward, whatever kernels they consist of.
    fn launches(&self, pass: Pass) -> f64 {
        let mut before = self.kernels.iter().rev().take_while(|kernel| kernel.node == self.id);
        let issued = before.any(|kernel| kernel.pass.is_gradient() == pass.is_gradient());
        f64::from(u8::from(!issued))
    }

    /// Says how often the processor starts the last kernel.
    fn launched(&mut self, launches: f64) {
        if let Some(kernel) = self.kernels.last_mut() {
            kernel.launches = launches;
        }
    }

    fn operation(&mut self) {
        let facts = self.network.facts(self.node);
        let class = match facts.nature {
            Nature::Convolution(conv) => return convolution::add(self, conv),
            Nature::Linear(linear) => return product::add_linear(self, linear),
            Nature::MatMul => return product::add_matmul(self),
            Nature::Input | Nature::Parameter => return,
            Nature::Normalisation => Class::Normalisation,
            Nature::Softmax => Class::Softmax,
            Nature::Activation(_) => Class::Activation,
            Nature::Arithmetic(_) => Class::Arithmetic,
            Nature::Dropout => Class::Dropout,
            Nature::Pooling(_) => Class::Pooling,
            Nature::Movement => Class::Copy,
            Nature::Unknown(_) => Class::Unknown,
        };
        movement::add(self, class, &facts.traffic);
    }

    /// A gradient per reader arrives; they are summed two by two.
    fn forks(&mut self, readers: usize, has_gradient: bool) {
        if readers > 1 && has_gradient {
            let sums = (readers - 1) as f64;
            let traffic = Amount::per_sample(self.bytes(3.0 * self.outputs() * sums));
            self.moves(Pass::Fork, Class::Arithmetic, Access::Contiguous, traffic);
            self.launched(sums);
        }
    }

    /// zero_grad writes the gradient, each tensor's on its own; the optimizer reads gradient, weight and states and writes the latter two.
    fn update(&mut self, weights: f64) {
        if weights > 0.0 {
            let moved = 4.0 + 2.0 * self.step.optimizer.states() as f64;
            self.moves(
                Pass::Update,
                Class::Update,
                Access::Contiguous,
                Amount::fixed(self.weight_bytes(moved * weights)),
            );
            self.launched(self.network.tensors_of(self.node).len() as f64);
        }
    }
}

/// The weights; training keeps gradient and states of each.
fn held(network: &Network, step: Step) -> f64 {
    let copies = if step.trains() { 2 + step.optimizer.states() } else { 1 };
    (copies * step.weight()) as f64 * network.parameters() as f64
}

fn images(shape: &Shape) -> [f64; 2] {
    let [height, width] = shape.image();
    [shape.channels() as f64, (height * width) as f64]
}

/// Cross-entropy over the classes and its gradient: log-softmax and the pick of one class, there and back.
fn loss(network: &Network, step: Step, held: f64) -> Vec<Kernel> {
    let element = step.activation() as f64;
    let kernel = Kernel {
        node: network.output(),
        class: Class::Loss,
        pass: Pass::Loss,
        product: None,
        filter: None,
        element,
        traffic: Amount::per_sample(5.0 * element * network.output_shape().elements() as f64),
        windows: Amount::default(),
        access: Access::Contiguous,
        result: Amount::default(),
        images: images(network.output_shape()),
        held,
        launches: 4.0,
    };
    vec![kernel]
}
