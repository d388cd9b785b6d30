//! The fingerprint of a device that was not measured: the prior of its platform.

use super::fitted::FittedModel;
use super::{Fingerprint, FingerprintSubject};
use perf4sight_base::units::Bytes;
use perf4sight_platform::Platform;

impl Fingerprint {
    /// The prior of a device, before any measurement on it: a fit without rows. Memory of tensors is simulated; the
    /// memory of the process besides them and all latency are priors with wide intervals.
    ///
    /// ```
    /// use perf4sight_cost::fingerprint::{IntervalBasis, Fingerprint, FingerprintSubject};
    /// use perf4sight_network::zoo::{Dataset, build};
    /// use perf4sight_platform::Platform;
    /// use perf4sight_step::workload::{Quantity, Stage, Step};
    ///
    /// let (device, dataset) = ("orin".to_owned(), "imagenet".to_owned());
    /// let subject = FingerprintSubject { device, dataset, step: Step::published(Stage::Training), quantity: Quantity::Memory };
    /// let orin = Fingerprint::prior(subject, &Platform::for_name("orin")?);
    /// let network = build("resnet18", Dataset::Imagenet)?;
    /// let interval = orin.about(&network).predict(16).interval.unwrap();
    /// assert_eq!(interval.basis, IntervalBasis::Prior);
    /// assert!(interval.high.value() > interval.low.value() + 500.0);
    /// # Ok::<(), perf4sight_base::error::Error>(())
    /// ```
    pub fn prior(subject: FingerprintSubject, platform: &Platform) -> Self {
        let fitted = FittedModel::prior(subject.quantity, platform);
        Self::without_rows(subject, fitted)
    }

    /// Memory that the system of a board keeps from steps by default; none for other devices, and none where a profile shows what
    /// is left.
    pub fn kept_by_system(&self) -> Option<Bytes> {
        self.fitted.kept_by_system().filter(|_| self.is_prior())
    }

    /// Threads that are assumed to compute on a processor; none for other devices, and none where a profile shows it.
    pub fn assumed_threads(&self) -> Option<u64> {
        self.fitted.threads().filter(|_| self.is_prior())
    }

    /// Whether it is of memory, and tensors live in a processor's.
    pub fn is_on_processor(&self) -> bool {
        self.fitted.is_on_processor()
    }

    /// Total memory of the profiled device, where it is known.
    pub fn capacity(&self) -> Option<Bytes> {
        self.fitted.capacity()
    }

    /// Whether it rests on no measurement.
    pub fn is_prior(&self) -> bool {
        self.fitted_on.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_network::zoo::{Dataset, build};
    use perf4sight_step::workload::{Precision, Quantity, Stage, Step};

    #[test]
    fn a_step_needs_no_less_than_its_tensors_at_the_peak() {
        let network = build("resnet18", Dataset::Imagenet).unwrap();
        for name in Platform::names() {
            for (stage, batch) in [(Stage::Inference, 64), (Stage::Training, 1)] {
                let (device, dataset) = (name.to_owned(), "imagenet".to_owned());
                let subject =
                    FingerprintSubject { device, dataset, step: Step::published(stage), quantity: Quantity::Memory };
                let memory = Fingerprint::prior(subject, &Platform::for_name(name).unwrap());
                let about = memory.about(&network);
                let tensors = about.tensors(batch).unwrap().value();
                let parts = about.alive(batch).unwrap().total().mib();
                assert!((tensors - parts).abs() < 0.05, "{name}, {stage}: {tensors} MiB, of which {parts}");
                assert!(about.predict(batch).interval.unwrap().low.value() >= tensors, "{name}, {stage}");
            }
        }
    }

    #[test]
    fn memory_is_as_uncertain_whichever_precision_was_asked_about_first() {
        let platform = Platform::for_name("orin").unwrap();
        let network = build("squeezenet", Dataset::Imagenet).unwrap();
        let narrow = Step { precision: Precision::Bf16, ..Step::published(Stage::Training) };
        let [from_single, from_mixed, as_asked] = [Precision::Fp32, Precision::AmpBf16, Precision::Bf16].map(|first| {
            let step = Step { precision: first, ..narrow };
            let (device, dataset) = ("orin".to_owned(), "imagenet".to_owned());
            let subject = FingerprintSubject { device, dataset, step, quantity: Quantity::Memory };
            let interval =
                Fingerprint::prior(subject, &platform).about_step(&network, narrow, None).unwrap().predict(8).interval;
            interval.map(|interval| [interval.low.value(), interval.high.value()]).unwrap()
        });
        assert_eq!((from_single, from_mixed), (as_asked, as_asked));
    }

    #[test]
    fn memory_in_bfloat16_on_a_processor_may_be_that_of_other_kernels() {
        // With AMX mobilenetv2 took 6.8 MiB in inference where 6.1 were simulated (docs/accuracy/simulated-memory.md).
        let more = 6.8 / 6.1;
        let network = build("resnet18", Dataset::Imagenet).unwrap();
        let low = Step { precision: Precision::Bf16, ..Step::published(Stage::Training) };
        for (name, may_differ) in [("cpu", true), ("cuda", false)] {
            let (device, dataset) = (name.to_owned(), "imagenet".to_owned());
            let subject = FingerprintSubject { device, dataset, step: low, quantity: Quantity::Memory };
            let memory = Fingerprint::prior(subject, &Platform::for_name(name).unwrap());
            assert_eq!(memory.may_have_other_kernels(low), may_differ);
            assert!(!memory.may_have_other_kernels(Step::published(Stage::Training)));
            let about = memory.about_step(&network, low, None).unwrap();
            let high = about.predict(64).interval.unwrap().high.value();
            assert!(!may_differ || high >= more * about.tensors(64).unwrap().value(), "{name}: {high}");
        }
    }
}
