//! What arguments ask of a step beside its stage.

use crate::error::{Error, Result};
use crate::workload::{Changes, Optimizer, Precision, Stage, ZeroGrad};
use clap::Args;

/// Every one may be left out.
#[derive(Debug, Args)]
pub(super) struct StepArguments {
    /// How the step changes the weights; by default as the steps that were profiled
    #[arg(long, value_parser = Optimizer::ALL.map(Optimizer::name))]
    optimizer: Option<String>,

    /// What becomes of gradients; by default as in the steps that were profiled, with another optimizer free, as PyTorch does, but keep
    /// with sgd, as published
    #[arg(long, value_parser = ZeroGrad::ALL.map(ZeroGrad::name))]
    zero_grad: Option<String>,

    /// What numbers the step computes with
    #[arg(long, value_parser = Precision::ALL.map(Precision::name))]
    precision: Option<String>,
}

impl StepArguments {
    /// What they ask for.
    ///
    /// # Errors
    /// What only training has, asked of inference.
    pub fn changes(&self, stage: Stage) -> Result<Changes> {
        let only_training = [("--optimizer", &self.optimizer), ("--zero-grad", &self.zero_grad)];
        if let (Stage::Inference, Some((option, _))) = (stage, only_training.iter().find(|(_, word)| word.is_some())) {
            return Err(Error::usage(format!("{option} asks for what inference does not have"))
                .help(format!("leave {option} out, or ask for --stage training")));
        }
        Ok(Changes {
            optimizer: self.optimizer.as_deref().map(Optimizer::parse).transpose()?,
            zero_grad: self.zero_grad.as_deref().map(ZeroGrad::parse).transpose()?,
            precision: self.precision.as_deref().map(Precision::parse).transpose()?,
        })
    }
}
