//! The weights of a network as tensors: shapes from the graph, values seeded and cheap to make.

use perf4sight_network::{Network, Node, NodeId, Op, Recurrent, WeightSpans};
use tch::{Device, Kind, TchError, Tensor};

/// The tensors that one node keeps between steps.
pub(super) struct Weights {
    pub weight: Tensor,
    pub bias: Option<Tensor>,
    /// Instead of both, those of a recurrent layer as PyTorch has them: of each direction two matrices, then two biases where it has some.
    pub of_directions: Vec<Tensor>,
    /// Running mean and variance of a batch-norm; not trained.
    pub running: Option<[Tensor; 2]>,
    /// Whether an optimizer changes weight and bias: false for frozen ones and for tables and filters that the network
    /// keeps constant.
    learned: [bool; 2],
}

/// The weights of every node that has some, by position; shared ones are stored at their owner only. The last tensor
/// holds the parameters that no operation reads.
pub(super) struct WeightStore(Vec<Option<Weights>>, #[expect(dead_code, reason = "is there, as in PyTorch")] Tensor);

impl WeightStore {
    /// Weights for every node on a device. Those that learn ask for gradients in inference too, as those of PyTorch's modules: autocast
    /// keeps its casts of these alone.
    pub fn new(network: &Network, kind: Kind, device: Device) -> Result<Self, TchError> {
        let maker = TensorMaker((kind, device));
        let weights = network.nodes().iter().map(|node| match node.shares {
            Some(_) => Ok(None),
            None => maker.weights_of(network, node),
        });
        let store = WeightStore(weights.collect::<Result<_, _>>()?, maker.zeros(network.unread())?);
        store.parameters().try_for_each(|parameter| parameter.f_set_requires_grad(true).map(drop))?;
        Ok(store)
    }

    /// The weights a node uses, its own or those it shares.
    pub fn weights_of(&self, id: NodeId, node: &Node) -> Option<&Weights> {
        self.0[node.shares.unwrap_or(id).index()].as_ref()
    }

    /// The trainable tensors, in the order their nodes run.
    pub fn parameters(&self) -> impl Iterator<Item = &Tensor> {
        self.0.iter().flatten().flat_map(Weights::trained_tensors)
    }
}

impl Weights {
    fn trained_tensors(&self) -> Vec<&Tensor> {
        let [weight, bias] = self.learned;
        let plain = self.of_directions.is_empty();
        let of_layer = std::iter::once(&self.weight).chain(&self.bias).zip(self.learned).filter(|_| plain);
        // A matrix has two axes, a bias has one.
        let of_directions =
            self.of_directions.iter().map(|tensor| (tensor, if tensor.dim() > 1 { weight } else { bias }));
        of_layer.chain(of_directions).filter_map(|(tensor, learned)| learned.then_some(tensor)).collect()
    }
}

/// Format and device of new tensors.
#[derive(Clone, Copy)]
struct TensorMaker((Kind, Device));

impl TensorMaker {
    /// None where there are none, and for unsupported operations, which do not run.
    fn weights_of(self, network: &Network, node: &Node) -> Result<Option<Weights>, TchError> {
        if let Op::Recurrent(layer) = &node.op {
            return self.recurrent(network, node, layer).map(Some);
        }
        let facts = network.facts(node);
        let Some((weight, others)) = facts.weights.split_first() else { return Ok(None) };
        let (size, bias) = (sizes(weight.dims.dims()), others.first().map(|bias| sizes(bias.dims.dims())));
        let running = match facts.buffers.as_slice() {
            [mean, variance] => {
                let [mean, variance] = [mean, variance].map(|shape| sizes(shape.dims()));
                Some([Tensor::f_zeros(mean, self.0)?, Tensor::f_ones(variance, self.0)?])
            }
            _ => None,
        };
        let (weight, bias) = match (weight.spans, bias) {
            (WeightSpans::Nothing, _) => return Ok(None),
            // For transposed filters PyTorch counts the same axes (nn/init.py).
            (WeightSpans::Filters { .. } | WeightSpans::Transposed { .. }, bias) => {
                let fan_in = size[1..].iter().product::<i64>() as u64;
                let bias = bias.map(|bias| self.uniform(&bias, fan_in)).transpose()?;
                (self.uniform(&size, fan_in)?, bias)
            }
            // Scale and shift.
            (WeightSpans::Result { .. }, Some(bias)) => {
                (Tensor::f_ones(size, self.0)?, Some(Tensor::f_zeros(bias, self.0)?))
            }
            // Rows as `nn.Embedding` has them.
            (WeightSpans::Rows, bias) => {
                let bias = bias.map(|bias| Tensor::f_zeros(bias, self.0)).transpose()?;
                (Tensor::f_randn(&size, self.0)?, bias)
            }
            (WeightSpans::Result { .. }, None) => {
                let size = node.computed_from().map_or(size, |trained| vec![trained as i64]);
                (self.uniform(&size, weight.dims.elements())?, None)
            }
        };
        let learned = network.trained_parts(node);
        Ok(Some(Weights { weight, bias, of_directions: Vec::new(), running, learned }))
    }

    fn recurrent(self, network: &Network, node: &Node, layer: &Recurrent) -> Result<Weights, TchError> {
        let [rows, features, hidden] =
            [layer.rows(), network.input_of(node, 0).features(), layer.hidden].map(|size| size as i64);
        let sizes: Vec<Vec<i64>> = [vec![rows, features], vec![rows, hidden]]
            .into_iter()
            .chain(vec![vec![rows]; if layer.bias { 2 } else { 0 }])
            .collect();
        let all = std::iter::repeat_n(&sizes, layer.directions()).flatten();
        let of_directions = all.map(|size| self.uniform(size, layer.hidden as u64)).collect::<Result<_, _>>()?;
        Ok(Weights {
            weight: self.zeros(0)?,
            bias: None,
            of_directions,
            running: None,
            learned: network.trained_parts(node),
        })
    }

    fn zeros(self, numbers: u64) -> Result<Tensor, TchError> {
        Tensor::f_zeros([numbers as i64], self.0)
    }

    /// PyTorch's default for convolutions and linear layers: uniform, bounded by one over the square root of the
    /// inputs.
    fn uniform(self, size: &[i64], fan_in: u64) -> Result<Tensor, TchError> {
        let bound = 1.0 / (fan_in.max(1) as f64).sqrt();
        Tensor::f_empty(size, self.0)?.f_uniform_(-bound, bound)
    }
}

/// Dimensions as libtorch takes them.
pub(super) fn sizes(dims: &[usize]) -> Vec<i64> {
    dims.iter().map(|&dim| dim as i64).collect()
}
