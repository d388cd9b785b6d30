//! What arguments ask of a step beside its stage.

use clap::{Args, value_parser};
use perf4sight_base::error::{Error, Result};
use perf4sight_step::workload::{
    Accumulate, Changes, Checkpoint, FrozenNormalisation, Loss, Optimizer, Precision, Setting, Stage, Trainable,
    ZeroGrad,
};

/// Every one may be left out.
#[derive(Debug, Args)]
pub(super) struct StepArguments {
    /// How the step changes the weights; by default as the steps that were profiled, and as published where there are none
    #[arg(long, value_parser = Optimizer::ALL.map(Optimizer::name))]
    optimizer: Option<String>,

    /// What becomes of gradients; by default free, as PyTorch does; where steps were profiled as in these, and with sgd instead of their
    /// optimizer keep, as published
    #[arg(long, value_parser = ZeroGrad::ALL.map(ZeroGrad::name))]
    zero_grad: Option<String>,

    /// What numbers the step computes with: fp32, under autocast (amp_bf16, amp_fp16), or with weights in bfloat16 too
    #[arg(long, value_parser = Precision::ALL.map(Precision::name))]
    precision: Option<String>,

    /// Which weights training changes: all, classifier, "last N" for those of the last N operations with weights, bias, normalisation, or
    /// patterns of layer names such as 'layer4.*,fc'
    #[arg(long, value_name = "WEIGHTS")]
    trainable: Option<String>,

    /// How batch normalisations work whose weights are not trained: with the statistics of the batch, or with those they keep
    #[arg(long, value_parser = FrozenNormalisation::ALL.map(FrozenNormalisation::name))]
    frozen_normalisation: Option<String>,

    /// In how many passes the samples of a batch go through the network before the weights are changed
    #[arg(long, value_name = "PASSES", value_parser = value_parser!(u64).range(1..=Accumulate::MOST))]
    accumulate: Option<u64>,

    /// Which parts of forward run again in backward instead of being kept: none, "N segments" for all but the last of N, or "every block"
    #[arg(long, value_name = "SEGMENTS")]
    checkpoint: Option<String>,

    /// What the network's result is compared with: classes, also of every pixel or place, or as many numbers
    #[arg(long, value_parser = Loss::ALL.map(Loss::name))]
    loss: Option<String>,
}

impl StepArguments {
    /// What they ask for.
    ///
    /// # Errors
    /// What only training has, asked of inference.
    pub fn changes(&self, stage: Stage) -> Result<Changes> {
        let vain = |setting: &Setting| self.asks_for(*setting) && !setting.is_of(stage);
        if let Some(setting) = Setting::ALL.into_iter().find(vain) {
            let option = format!("--{}", setting.key().replace('_', "-"));
            return Err(Error::usage(format!("{option} asks for what inference does not have"))
                .help(format!("leave {option} out, or ask for --stage training")));
        }
        Ok(Changes {
            optimizer: self.optimizer.as_deref().map(Optimizer::parse).transpose()?,
            zero_grad: self.zero_grad.as_deref().map(ZeroGrad::parse).transpose()?,
            precision: self.precision.as_deref().map(Precision::parse).transpose()?,
            trainable: self.trainable.as_deref().map(Trainable::parse).transpose()?,
            frozen_normalisation: self.frozen_normalisation.as_deref().map(FrozenNormalisation::parse).transpose()?,
            accumulate: self.accumulate.and_then(Accumulate::new),
            checkpoint: self.checkpoint.as_deref().map(Checkpoint::parse).transpose()?,
            loss: self.loss.as_deref().map(Loss::parse).transpose()?,
        })
    }

    fn asks_for(&self, setting: Setting) -> bool {
        match setting {
            Setting::Optimizer => self.optimizer.is_some(),
            Setting::ZeroGrad => self.zero_grad.is_some(),
            Setting::Precision => self.precision.is_some(),
            Setting::Trainable => self.trainable.is_some(),
            Setting::FrozenNormalisation => self.frozen_normalisation.is_some(),
            Setting::Accumulate => self.accumulate.is_some(),
            Setting::Checkpoint => self.checkpoint.is_some(),
            Setting::Loss => self.loss.is_some(),
        }
    }
}
