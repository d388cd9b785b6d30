//! What a step takes of memory by the simulation of the core, for a network file: without a recording of it.

use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::{Bytes, grouped_digits};
use perf4sight_memory::Simulations;
use perf4sight_platform::Platform;
use perf4sight_step::workload::{Accumulate, Checkpoint, Optimizer, Stage, Step};
use std::path::PathBuf;

/// The step to simulate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedStep {
    /// The network, as ONNX.
    pub network: PathBuf,
    /// Samples of a rank's step.
    pub batch: u64,
    /// How the weights change.
    pub optimizer: Optimizer,
}

/// The largest batch that is looked for.
const LARGEST: u64 = 65_536;

/// Bytes of a gradient are those of its parameter: 4, of half precision 2. Fewer are reduced where layers are frozen or a file
/// holds shared weights twice.
const BYTES: [f64; 2] = [4.0, 2.0];
/// By how much, relative, both may differ: buffers that a file holds as parameters.
const TOLERANCE: f64 = 0.05;

/// A way to need less memory that learns the same.
struct SmallerStep {
    change: String,
    step: Step,
}

impl SimulatedStep {
    /// What the step takes, and what fits into a budget; `buckets` are the bytes of DDP's buckets.
    ///
    /// # Errors
    /// A file that is no network; a budget that nothing fits into.
    pub fn to_sentences(&self, budget: Option<Bytes>, buckets: Bytes) -> Result<Vec<String>> {
        let network = perf4sight_onnx::read(&self.network)?.network;
        let platform = Platform::for_name("cuda")?;
        let simulations = Simulations::new(&network, &platform);
        let peak = |step: Step, batch: u64| Bytes(simulations.simulation(step).peak(batch).reserved.0 + buckets.0);
        let whole = peak(self.step(), self.batch);
        let mut sentences = vec![format!(
            "simulated: a step of {} samples with {} takes {whole}, of which {buckets} are DDP's buckets; contexts of CUDA and NCCL come on top",
            self.batch,
            self.optimizer.name()
        )];
        let leaner: Vec<(String, Bytes)> =
            self.smaller_steps().into_iter().map(|one| (one.change, peak(one.step, self.batch))).collect();
        sentences.extend(leaner.iter().map(|(change, bytes)| format!("simulated: with {change} it takes {bytes}")));
        let Some(budget) = budget else { return Ok(sentences) };
        sentences.push(match leaner.iter().find(|(_, bytes)| *bytes <= budget) {
            _ if whole <= budget => format!("simulated: it fits into {budget}"),
            Some((change, bytes)) => format!("simulated: to fit into {budget}, {change}: {bytes}"),
            None => return Err(self.unfit(&leaner, budget)),
        });
        let fits = |batch: &u64| peak(self.step(), *batch) <= budget;
        sentences.extend(largest(fits).map(|batch| format!("simulated: the largest batch that fits is {batch}")));
        Ok(sentences)
    }

    /// Refuses a network with fewer parameters than the job reduces gradients of.
    ///
    /// # Errors
    /// Another network; a file that is none.
    pub fn check(&self, reduced: Bytes) -> Result<()> {
        let parameters = self.parameters()?;
        match reduced.0 as f64 > BYTES[0] * parameters as f64 * (1.0 + TOLERANCE) {
            false => Ok(()),
            true => Err(Error::input(format!(
                "this is another network: it has {} parameters, and the ranks reduce {reduced} of gradients",
                grouped_digits(parameters)
            ))
            .file(&self.network)
            .expected("the network of the traces")),
        }
    }

    /// A sentence where the job reduces gradients of fewer parameters than the network has.
    ///
    /// # Errors
    /// A file that is no network.
    pub fn parameters_doubt(&self, reduced: Bytes) -> Result<Option<String>> {
        let parameters = self.parameters()?;
        let is_alike = |bytes: &f64| (reduced.0 as f64 / (bytes * parameters as f64) - 1.0).abs() <= TOLERANCE;
        Ok((!BYTES.iter().any(is_alike)).then(|| {
            format!(
                "{} may be another network than that of the traces: it has {} parameters, and the ranks reduce {reduced} of gradients",
                self.network.display(),
                grouped_digits(parameters)
            )
        }))
    }

    fn parameters(&self) -> Result<u64> {
        Ok(perf4sight_onnx::read(&self.network)?.network.parameters())
    }

    fn step(&self) -> Step {
        Step { optimizer: self.optimizer, zero_grad: self.optimizer.zero_grad(), ..Step::usual(Stage::Training) }
    }

    /// From the one that costs least time on.
    fn smaller_steps(&self) -> Vec<SmallerStep> {
        let mut passes = [2, 4, 8].into_iter().filter(|passes| *passes <= self.batch).filter_map(Accumulate::new);
        let accumulated = |accumulate: Accumulate, step: Step| Step { accumulate, ..step };
        let recomputed = Step { checkpoint: Checkpoint::EveryBlock, ..self.step() };
        let split = passes.clone().map(|passes| SmallerStep {
            change: format!("{passes} passes, accumulated"),
            step: accumulated(passes, self.step()),
        });
        let again = SmallerStep { change: "activation checkpointing of every block".to_owned(), step: recomputed };
        let both = passes.next_back().map(|passes| SmallerStep {
            change: format!("both, with {passes} passes"),
            step: accumulated(passes, recomputed),
        });
        split.chain([again]).chain(both).collect()
    }

    fn unfit(&self, leaner: &[(String, Bytes)], budget: Bytes) -> Error {
        let least = leaner.iter().min_by_key(|(_, bytes)| *bytes);
        let least = least.map_or_else(String::new, |(change, bytes)| format!("; {change} takes {bytes}"));
        Error::unfit(format!("no change of these fits a step of {} samples into {budget}{least}", self.batch))
            .file(&self.network)
            .help(
                "shard weights over the ranks (fully_shard), take fewer samples, or allow more memory (memory_budget)",
            )
    }
}

/// The largest batch that fits, if a single sample does.
fn largest(fits: impl Fn(&u64) -> bool) -> Option<u64> {
    let doubled = std::iter::successors(Some(1), |batch| Some(batch * 2)).take_while(|batch| *batch <= LARGEST);
    let mut low = doubled.take_while(&fits).last()?;
    let mut high = (2 * low).min(LARGEST);
    while high > low + 1 {
        let middle = low.midpoint(high);
        *(if fits(&middle) { &mut low } else { &mut high }) = middle;
    }
    Some(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_base::error::FailureKind;

    fn step(batch: u64) -> SimulatedStep {
        let network = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/imagenet/resnet18.onnx");
        SimulatedStep { network, batch, optimizer: Optimizer::Adam }
    }

    /// ResNet-18 has 11.7 million weights: Adam keeps at least weights, gradients and two moments, 187 MB.
    #[test]
    fn a_network_file_says_what_fits() {
        let sentences = step(32).to_sentences(Some(Bytes(2 << 30)), Bytes(0)).unwrap();
        assert!(sentences[0].contains("a step of 32 samples with adam"), "{sentences:?}");
        assert!(sentences.last().unwrap().contains("the largest batch that fits is"), "{sentences:?}");
        let error = step(32).to_sentences(Some(Bytes(187_000_000)), Bytes(0)).unwrap_err();
        assert!(error.kind() == FailureKind::Unfit && error.to_string().contains("fully_shard"), "{error}");
    }

    #[test]
    fn the_largest_batch_is_found_between_powers_of_two() {
        assert_eq!(largest(|batch| *batch <= 77), Some(77));
        assert_eq!((largest(|batch| *batch <= 1), largest(|_| false)), (Some(1), None));
    }
}
