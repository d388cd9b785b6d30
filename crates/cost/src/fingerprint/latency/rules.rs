//! From a kernel to its time as a sum of terms, by the rules of its kind of device.

use super::processor::{KernelRoute, ProcessorRules};
use super::term::ParameterValues;
use super::terms::{DeviceRules, KernelTerms};
use crate::features::physical::Kernel;

impl<'a> DeviceRules<'a> {
    /// The terms of one kernel, over all of its repetitions: its computation and its traffic.
    pub(super) fn terms(&self, kernel: &Kernel, batch: f64) -> KernelTerms {
        let samples = kernel.samples(batch);
        let once = match self.processor() {
            Some(processor) => processor.terms(kernel, samples),
            None => self.accelerator_terms(kernel, samples),
        };
        once.map(|term| term.map(|term| term.times(kernel.repeats)))
    }

    pub(super) fn processor(&self) -> Option<ProcessorRules<'a>> {
        let DeviceRules { speed, platform } = *self;
        let (kept, cache) = (platform.native_convolutions()?, speed.cache?);
        Some(ProcessorRules { rules: *self, kept, cache })
    }

    /// The route of an operation: a kernel that does not use the library's code for its kind decides.
    pub(super) fn route(&self, kernels: &[Kernel], batch: f64) -> KernelRoute {
        let routes = |processor: ProcessorRules| {
            kernels.iter().map(|kernel| processor.route(kernel, kernel.samples(batch))).max()
        };
        self.processor().and_then(routes).unwrap_or(KernelRoute::Library)
    }

    pub(super) fn time(&self, kernel: &Kernel, batch: f64, values: &ParameterValues) -> f64 {
        self.terms(kernel, batch).iter().flatten().map(|term| term.value(values)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::physical::{KernelPass, kernels};
    use perf4sight_network::{Conv, Network, NetworkBuilder, Op, Shape, Window};
    use perf4sight_platform::{Platform, SpeedParameter};
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
    fn widening(platform: &Platform, pass: KernelPass) -> f64 {
        let values = SpeedParameter::ALL.map(|parameter| platform.speed.prior(parameter).typical);
        let rules = DeviceRules { speed: &platform.speed, platform };
        let time = |width| -> f64 {
            let step = kernels(&depthwise(width), Step::published(Stage::Training));
            step.iter().filter(|kernel| kernel.pass == pass).map(|kernel| rules.time(kernel, 4.0, &values)).sum()
        };
        time(5) / time(3)
    }

    #[test]
    fn wide_depthwise_kernels_cost_what_the_device_has_code_for() {
        let [tx2, cpu] = ["tx2", "cpu"].map(|name| Platform::for_name(name).unwrap());
        let reread = [KernelPass::Forward, KernelPass::InputGradient, KernelPass::WeightGradient]
            .map(|pass| widening(&tx2, pass));
        assert!(reread.iter().all(|ratio| (ratio - 25.0 / 9.0).abs() < 1e-9), "{reread:?}");
        // Measured on one core, 480 channels of 14x14: forward 0.36 ms with 3x3 kernels, 0.43 with 5x5; backward 0.59 and 6.3.
        assert!((widening(&cpu, KernelPass::Forward) - 1.0).abs() < 0.1);
        assert!(widening(&cpu, KernelPass::WeightGradient) > 5.0);
    }
}
