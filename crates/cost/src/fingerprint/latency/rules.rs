//! From a kernel to its time as a sum of terms, by the rules of its kind of device.

use super::processor::{Processor, Route};
use super::term::Values;
use super::terms::{KernelTerms, Rules};
use crate::features::physical::Kernel;

impl<'a> Rules<'a> {
    /// The terms of one kernel, over all of its repetitions: its computation and its traffic.
    pub(super) fn terms(&self, kernel: &Kernel, batch: f64) -> KernelTerms {
        let samples = kernel.samples(batch);
        let once = match self.processor() {
            Some(processor) => processor.terms(kernel, samples),
            None => self.accelerated(kernel, samples),
        };
        once.map(|term| term.map(|term| term.times(kernel.repeats)))
    }

    pub(super) fn processor(&self) -> Option<Processor<'a>> {
        let Rules { speed, platform } = *self;
        let (kept, cache) = (platform.kept()?, speed.cache?);
        Some(Processor { rules: *self, kept, cache })
    }

    /// The route of an operation: a kernel that does not use the library's code for its kind decides.
    pub(super) fn route(&self, kernels: &[Kernel], batch: f64) -> Route {
        let routes =
            |processor: Processor| kernels.iter().map(|kernel| processor.route(kernel, kernel.samples(batch))).max();
        self.processor().and_then(routes).unwrap_or(Route::Library)
    }

    pub(super) fn time(&self, kernel: &Kernel, batch: f64, values: &Values) -> f64 {
        self.terms(kernel, batch).iter().flatten().map(|term| term.value(values)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::physical::{Pass, kernels};
    use perf4sight_network::{Conv, Network, NetworkBuilder, Op, Shape, Window};
    use perf4sight_platform::{Parameter, Platform};
    use perf4sight_step::workload::{Stage, Step};

    /// Two depthwise convolutions of a width: the second passes a gradient on.
    fn depthwise(width: usize) -> Network {
        let mut builder = NetworkBuilder::new("depthwise", Shape::new([64, 14, 14]));
        let op = || {
            Op::Conv(Conv { out_channels: 64, window: Window::square(width, 1, width / 2), groups: 64, bias: false })
        };
        let first = builder.add("first", op(), &[builder.input()]).unwrap();
        let second = builder.add("second", op(), &[first]).unwrap();
        builder.finish(second)
    }

    /// Time of 5x5 over time of 3x3 kernels.
    fn widening(platform: &Platform, pass: Pass) -> f64 {
        let values = Parameter::ALL.map(|parameter| platform.speed.prior(parameter).typical);
        let rules = Rules { speed: &platform.speed, platform };
        let time = |width| -> f64 {
            let step = kernels(&depthwise(width), Step::published(Stage::Training));
            step.iter().filter(|kernel| kernel.pass == pass).map(|kernel| rules.time(kernel, 4.0, &values)).sum()
        };
        time(5) / time(3)
    }

    #[test]
    fn wide_depthwise_kernels_cost_what_the_device_has_code_for() {
        let [tx2, cpu] = ["tx2", "cpu"].map(|name| Platform::named(name).unwrap());
        let reread = [Pass::Forward, Pass::InputGradient, Pass::WeightGradient].map(|pass| widening(&tx2, pass));
        assert!(reread.iter().all(|ratio| (ratio - 25.0 / 9.0).abs() < 1e-9), "{reread:?}");
        // Measured on one core, 480 channels of 14x14: forward 0.36 ms with 3x3 kernels, 0.43 with 5x5; backward 0.59 and 6.3.
        assert!((widening(&cpu, Pass::Forward) - 1.0).abs() < 0.1);
        assert!(widening(&cpu, Pass::WeightGradient) > 5.0);
    }
}
