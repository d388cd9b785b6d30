//! The weights of a network as tensors: shapes from the graph, values seeded and cheap to make.

use perf4sight::network::{Conv, Linear, Network, Node, NodeId, Op};
use tch::{Device, Kind, TchError, Tensor};

/// What one node keeps between steps.
pub(super) struct Weights {
    pub weight: Tensor,
    pub bias: Option<Tensor>,
    /// Running mean and variance of a batch-norm; not trained.
    pub running: Option<[Tensor; 2]>,
}

/// The weights of every node that has some, by position; shared ones lie at their owner only.
pub(super) struct WeightStore(Vec<Option<Weights>>);

impl WeightStore {
    /// Weights for every node on a device; `trained` ones collect gradients.
    pub fn new(network: &Network, trained: bool, device: Device) -> Result<Self, TchError> {
        let maker = Maker((Kind::Float, device));
        let weights = network.nodes().iter().map(|node| match node.shares {
            Some(_) => Ok(None),
            None => maker.weights_of(network, node),
        });
        let store = WeightStore(weights.collect::<Result<_, _>>()?);
        store.parameters().try_for_each(|parameter| parameter.f_set_requires_grad(trained).map(drop))?;
        Ok(store)
    }

    /// The weights a node uses, its own or those it shares.
    pub fn of(&self, id: NodeId, node: &Node) -> Option<&Weights> {
        self.0[node.shares.unwrap_or(id).index()].as_ref()
    }

    /// The trainable tensors, in the order their nodes run.
    pub fn parameters(&self) -> impl Iterator<Item = &Tensor> {
        self.0.iter().flatten().flat_map(|weights| std::iter::once(&weights.weight).chain(&weights.bias))
    }
}

/// How tensors are made: fp32, in the memory of one device.
#[derive(Clone, Copy)]
struct Maker((Kind, Device));

impl Maker {
    fn weights_of(self, network: &Network, node: &Node) -> Result<Option<Weights>, TchError> {
        let weights = match &node.op {
            Op::Conv(conv) => self.filters(conv, network.input_of(node, 0).channels())?,
            Op::Linear(linear) => self.matrix(linear, network.input_of(node, 0).dims().last().copied().unwrap_or(1))?,
            Op::BatchNorm => {
                let channels = [node.shape.channels() as i64];
                let running = Some([Tensor::f_zeros(channels, self.0)?, Tensor::f_ones(channels, self.0)?]);
                Weights { running, ..self.scale_and_shift(&channels)? }
            }
            Op::LayerNorm { axis } => self.scale_and_shift(&sizes(&node.shape.dims()[*axis..]))?,
            Op::Parameter(shape) => {
                Weights { weight: self.uniform(&sizes(shape.dims()), shape.elements())?, bias: None, running: None }
            }
            _ => return Ok(None),
        };
        Ok(Some(weights))
    }

    fn filters(self, conv: &Conv, channels: usize) -> Result<Weights, TchError> {
        let [height, width] = conv.window.kernel;
        let seen = channels / conv.groups;
        self.affine(&sizes(&[conv.out_channels, seen, height, width]), conv.bias)
    }

    fn matrix(self, linear: &Linear, features: usize) -> Result<Weights, TchError> {
        self.affine(&sizes(&[linear.out_features, features]), linear.bias)
    }

    fn affine(self, size: &[i64], bias: bool) -> Result<Weights, TchError> {
        let fan_in = size[1..].iter().product::<i64>() as u64;
        let bias = bias.then(|| self.uniform(&size[..1], fan_in)).transpose()?;
        Ok(Weights { weight: self.uniform(size, fan_in)?, bias, running: None })
    }

    fn scale_and_shift(self, size: &[i64]) -> Result<Weights, TchError> {
        Ok(Weights { weight: Tensor::f_ones(size, self.0)?, bias: Some(Tensor::f_zeros(size, self.0)?), running: None })
    }

    /// PyTorch's default for convolutions and linear layers: uniform within one over the square root of the inputs.
    fn uniform(self, size: &[i64], fan_in: u64) -> Result<Tensor, TchError> {
        let bound = 1.0 / (fan_in.max(1) as f64).sqrt();
        Tensor::f_empty(size, self.0)?.f_uniform_(-bound, bound)
    }
}

/// Dimensions as libtorch takes them.
pub(super) fn sizes(dims: &[usize]) -> Vec<i64> {
    dims.iter().map(|&dim| dim as i64).collect()
}
