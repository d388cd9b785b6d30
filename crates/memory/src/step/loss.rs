//! The loss of every result that is compared, and its gradient.

use super::forward::ForwardRecorder;
use crate::tensor::{StepPhase, TensorId, TensorRole};
use perf4sight_network::NodeId;
use perf4sight_step::workload;

/// The loss, which is the sum of those of all results, and the tensors that backward needs of each result with a
/// gradient.
pub(super) struct LossTensors {
    pub value: TensorId,
    pub kept: Vec<(NodeId, TensorsForLoss)>,
}

/// The tensors that the loss of one result keeps for backward.
pub(super) enum TensorsForLoss {
    /// Cross-entropy: the logarithms of probabilities, and the sum of the weights of classes.
    Classes { log_softmax: TensorId, total_weight: TensorId },
    /// Squared differences: the result as it was read.
    Result(TensorId),
}

impl TensorsForLoss {
    fn tensors(self) -> Vec<TensorId> {
        match self {
            TensorsForLoss::Classes { log_softmax, total_weight } => vec![log_softmax, total_weight],
            TensorsForLoss::Result(read) => vec![read],
        }
    }
}

impl ForwardRecorder<'_> {
    /// The losses of all results, one after the other, and their sum; that of one pass of several is divided.
    pub fn loss(&mut self, results: &[(NodeId, TensorId)]) -> LossTensors {
        let context = self.context;
        let (mut value, mut kept) = (None, Vec::new());
        for output in context.network.loss_results() {
            let result = results.iter().find(|(node, _)| *node == output).map(|(_, result)| *result);
            let (loss, keeps) = self.loss_of(output, result.expect("what is compared is one of the results"));
            value = Some(match value {
                Some(sum) => self.combine(&[sum, loss], output),
                None => loss,
            });
            match context.is_tracked(output) {
                true => kept.push((output, keeps)),
                false => self.recorder.release_all(keeps.tensors()),
            }
        }
        let output = context.network.output();
        let value = value.unwrap_or_else(|| self.recorder.allocate(context.scalar(), TensorRole::Activations, output));
        let value = if context.step.accumulate.passes() > 1 { self.combine(&[value], output) } else { value };
        LossTensors { value, kept }
    }

    /// One scalar computed from others, which are released.
    fn combine(&mut self, scalars: &[TensorId], output: NodeId) -> TensorId {
        let made = self.recorder.allocate(self.context.scalar(), TensorRole::Activations, output);
        self.recorder.release_all(scalars.iter().copied());
        made
    }

    /// The loss of one result, which autocast casts back where it is in fewer bits.
    fn loss_of(&mut self, output: NodeId, result: TensorId) -> (TensorId, TensorsForLoss) {
        let (context, recorder) = (self.context, &mut self.recorder);
        recorder.begin(StepPhase::Loss, output);
        let scores = context.scores(output);
        let read = match context.casts_result(output) {
            true => recorder.allocate(scores, TensorRole::Activations, output),
            false => recorder.retain(result),
        };
        let mut allocate = |amount| recorder.allocate(amount, TensorRole::Activations, output);
        match context.step.loss {
            // log_softmax, then nll_loss with its sum of weights (aten/src/ATen/native/LossNLL.cpp).
            workload::Loss::CrossEntropy => {
                let log_softmax = allocate(scores);
                let (value, total_weight) = (allocate(context.scalar()), allocate(context.scalar()));
                recorder.release(read);
                (value, TensorsForLoss::Classes { log_softmax, total_weight })
            }
            // The squares of all differences, then their mean; its tensor is allocated at the size of the differences
            // and keeps that memory (mse_loss of aten/src/ATen/native/BinaryOps.cpp).
            workload::Loss::MeanSquaredError => {
                let (mean, squares) = (allocate(scores), allocate(scores));
                recorder.release(squares);
                (mean, TensorsForLoss::Result(read))
            }
        }
    }

    /// The gradient of a result: through nll_loss, then through log_softmax; or through mse_loss.
    pub fn loss_backward(&mut self, output: NodeId, kept: TensorsForLoss) -> TensorId {
        let (context, recorder) = (self.context, &mut self.recorder);
        let scores = context.scores(output);
        let mut gradient = recorder.allocate(scores, TensorRole::ActivationGradients, output);
        match kept {
            TensorsForLoss::Classes { log_softmax, total_weight } => {
                let of_log_softmax = gradient;
                recorder.release(total_weight);
                gradient = recorder.allocate(scores, TensorRole::ActivationGradients, output);
                recorder.release(of_log_softmax);
                recorder.release(log_softmax);
            }
            TensorsForLoss::Result(read) => recorder.release(read),
        }
        match context.casts_result(output) {
            true => recorder.cast_back(gradient, context.gradient(output), (TensorRole::ActivationGradients, output)),
            false => gradient,
        }
    }
}
