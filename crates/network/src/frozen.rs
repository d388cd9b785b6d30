//! Networks that are trained in part: selects the trained weights, and checks that there is at least one.

use super::graph::{Network, Node};
use super::op::{Op, OperationNature};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::count_text;
use perf4sight_step::workload::{FrozenNormalisation, Step, Trainable, Workload};
use std::borrow::Cow;

/// A layer has at most a weight and a bias; in a normalisation they are scale and shift.
const BIAS: usize = 1;

impl Network {
    /// The same network with all other weights frozen. Shared weights are trained if their owner's are.
    pub fn trained_in(&self, trainable: Trainable) -> Cow<'_, Network> {
        if trainable == Trainable::All {
            return Cow::Borrowed(self);
        }
        let mut network = self.clone();
        let learned = self.last_with_weights(trainable);
        for (index, node) in self.nodes().iter().enumerate() {
            let selected = |tensor: usize| match trainable {
                Trainable::All => true,
                Trainable::Classifier | Trainable::Last(_) => learned.contains(&index),
                Trainable::Bias => tensor == BIAS,
                Trainable::Normalisation => self.facts(node).nature == OperationNature::Normalisation,
                Trainable::Layers(patterns) => patterns.match_name(&node.name),
            };
            let frozen =
                [0, BIAS].map(|tensor| node.frozen[tensor] || node.weights[tensor].is_none() || !selected(tensor));
            network.nodes_mut()[index].frozen = frozen;
        }
        Cow::Owned(network)
    }

    /// The same network without a gradient of the weights of some nodes.
    #[must_use]
    pub fn with_frozen(mut self, is_frozen: impl Fn(&Node) -> bool) -> Network {
        self.nodes_mut().iter_mut().filter(|node| is_frozen(node)).for_each(|node| node.frozen = [true; 2]);
        self
    }

    /// The operations whose weights are read last, if only these are trained; for tied weights the owner.
    fn last_with_weights(&self, trainable: Trainable) -> Vec<usize> {
        let count = match trainable {
            Trainable::Classifier => 1,
            Trainable::Last(count) => usize::try_from(count).unwrap_or(usize::MAX),
            Trainable::All | Trainable::Bias | Trainable::Normalisation | Trainable::Layers(_) => 0,
        };
        let mut last = Vec::new();
        let read = |node: &Node| node.is_reached && self.parameters_of(self.owner(node)) > 0;
        for (id, node) in self.iter().rev().filter(|(_, node)| read(node)) {
            let owner = node.shares.unwrap_or(id).index();
            if last.len() < count && !last.contains(&owner) {
                last.push(owner);
            }
        }
        last
    }

    /// Refuses a training step that the network cannot take; other steps have no such conditions.
    ///
    /// # Errors
    /// No weights would be trained, or patterns match all of them, or the network has too few places to be cut.
    pub fn check_step(&self, step: Step) -> Result<()> {
        if !step.trains() {
            return Ok(());
        }
        self.check_trainable(step.trainable)?;
        self.check_checkpoint(step.checkpoint)
    }

    /// Refuses to train nothing, and patterns that match everything: a step has one spelling.
    fn check_trainable(&self, trainable: Trainable) -> Result<()> {
        let mut weighty = self.nodes().iter().filter(|node| self.parameters_of(node) > 0);
        if let Trainable::Layers(patterns) = trainable
            && weighty.all(|node| patterns.match_name(&node.name))
        {
            return Err(Error::input(format!("trainable = {trainable} matches every layer of {}", self.name()))
                .expected("patterns that leave some of its weights as they are")
                .help("write trainable = all for the step that changes them all"));
        }
        let gradients = self.trained_in(trainable).gradients();
        if self.loss_results().any(|output| gradients[output.index()]) {
            return Ok(());
        }
        let names: Vec<&str> =
            self.nodes().iter().filter(|node| self.parameters_of(node) > 0).map(|node| node.name.as_str()).collect();
        if names.is_empty() {
            return Err(Error::input(format!("{} has no weights, so that there is nothing to train", self.name()))
                .expected("a network with weights")
                .help("use its inference (stage = inference)"));
        }
        if trainable == Trainable::All {
            return Err(Error::input(format!("no gradient reaches a weight of {}", self.name()))
                .expected("a result that is numbers, and that its weights reach by operations with a gradient, unlike argmax and comparisons")
                .help("use its inference (stage = inference), or export what a loss is computed of"));
        }
        let some: Vec<&str> = names.iter().rev().take(3).copied().collect();
        Err(Error::input(format!("trainable = {trainable} leaves nothing of {} to train", self.name()))
            .expected(format!("weights that it has, such as those of {}", some.join(", ")))
            .help("perf4sight inspect lists its layers"))
    }

    /// Whether training changes a node's weight or scale, and its bias or shift, also if they are shared.
    pub fn trained_parts(&self, node: &Node) -> [bool; 2] {
        let trained = self.is_trained(node);
        self.owner(node).frozen.map(|frozen| trained && !frozen)
    }

    /// Why PyTorch refuses a step: a batch normalisation would have a single value of each channel in a pass
    /// (`_verify_batch_size` in torch/nn/functional.py).
    pub fn refused_pass(&self, Workload { step, batch }: Workload) -> Option<String> {
        let samples = batch / step.accumulate.passes();
        let normalisation = self.normalising_single_values(step, samples)?;
        Some(format!(
            "PyTorch refuses to train with {} in a pass: the batch normalisation {normalisation} has a single value of each channel",
            count_text(samples, "sample")
        ))
    }

    fn normalising_single_values(&self, step: Step, samples: u64) -> Option<&str> {
        let values = |node: &Node| {
            let Op::BatchNorm { axis } = node.op else { return None };
            let channels = node.shape.dims().get(axis).copied().unwrap_or(1).max(1) as u64;
            Some(samples * node.shape.elements() / channels)
        };
        let refused =
            |node: &&Node| self.works_as_in_training(node, step) && values(node).is_some_and(|values| values < 2);
        self.nodes().iter().find(refused).map(|node| node.name.as_str())
    }

    /// Whether a node runs as in training: in a training step all do, except frozen batch normalisations, which keep their
    /// statistics.
    pub fn works_as_in_training(&self, node: &Node, step: Step) -> bool {
        let keeps = step.frozen_normalisation == FrozenNormalisation::Eval && node.is_reached && !self.trains(node);
        step.trains() && !(keeps && matches!(node.op, Op::BatchNorm { .. }))
    }

    /// Whether a node has weights that training may change, frozen or not.
    pub(super) fn is_trained(&self, node: &Node) -> bool {
        node.shares.is_some() || self.parameters_of(node) > 0
    }

    pub(super) fn owner<'a>(&'a self, node: &'a Node) -> &'a Node {
        node.shares.map_or(node, |owner| self.node(owner))
    }

    /// Elements that training changes in each tensor of a node; shared ones are counted at their owner.
    pub fn learned_of(&self, node: &Node) -> Vec<u64> {
        let tensors = self.tensors_of(node).into_iter().zip(self.trained_parts(node));
        tensors.filter(|(_, learned)| *learned).map(|(elements, _)| elements).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Affine, Embedding, Linear, NetworkBuilder, NetworkInput, Op, Shape};
    use perf4sight_step::workload::Trainable;

    #[test]
    fn a_classifier_that_has_its_weights_from_a_table_trains_that_table() {
        // GPT: words looked up, normalised, and classified by the same table.
        let mut builder = NetworkBuilder::reading("tied", "ids", NetworkInput::integers(Shape::new([6])));
        let table = Op::Embedding(Embedding { rows: 10, width: 4, fixed: None });
        let words = builder.add("words", table, &[builder.input()]).unwrap();
        let norm = Op::LayerNorm { axis: 1, affine: Affine::ScaleAndShift };
        let norm = builder.add("norm", norm, &[words]).unwrap();
        let head = builder.add("head", Op::Linear(Linear { out_features: 10, bias: false }), &[norm]).unwrap();
        builder.share(head, words).unwrap();
        let network = builder.finish(head);
        let trained = |trainable| {
            let part = network.trained_in(trainable);
            part.nodes().iter().map(|node| part.learned_of(node).iter().sum::<u64>()).collect::<Vec<_>>()
        };
        assert_eq!(trained(Trainable::Classifier), [0, 40, 0, 0]);
        assert_eq!(trained(Trainable::Last(2)), [0, 40, 8, 0]);
    }
}
