//! Mixtures of normal distributions.

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MixtureComponent {
    pub(super) weight: f64,
    pub(super) mean: f64,
    /// Standard deviation; above 0.
    pub(super) deviation: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct NormalMixture(Vec<MixtureComponent>);

impl NormalMixture {
    /// A mixture of these, with weights normalised to 1.
    pub(super) fn new(mut components: Vec<MixtureComponent>) -> Self {
        let total: f64 = components.iter().map(|component| component.weight).sum();
        components.iter_mut().for_each(|component| component.weight /= total);
        NormalMixture(components)
    }

    /// The same with additional independent normal noise.
    #[must_use]
    pub(super) fn with_noise(mut self, deviation: f64) -> Self {
        self.0.iter_mut().for_each(|component| component.deviation = component.deviation.hypot(deviation));
        self
    }

    pub(super) fn mean(&self) -> f64 {
        self.0.iter().map(|component| component.weight * component.mean).sum()
    }

    /// The quantile at a share; above 0 and below 1.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let reach = |side: f64| self.0.iter().map(move |component| component.mean + side * 10.0 * component.deviation);
        let mut low = reach(-1.0).fold(f64::INFINITY, f64::min);
        let mut high = reach(1.0).fold(f64::NEG_INFINITY, f64::max);
        // After this many bisections no printed digit changes.
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if self.cumulative(middle) < share { low = middle } else { high = middle }
        }
        0.5 * (low + high)
    }

    fn cumulative(&self, value: f64) -> f64 {
        let below = |component: &MixtureComponent| {
            let distance = (value - component.mean) / component.deviation;
            component.weight * 0.5 * libm::erfc(-distance / std::f64::consts::SQRT_2)
        };
        self.0.iter().map(below).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_one_and_of_two() {
        let normal = MixtureComponent { weight: 3.0, mean: 1.0, deviation: 2.0 };
        let close = |value: f64, expected: f64| assert!((value - expected).abs() < 1e-4, "{value} {expected}");
        // 95 % of a normal distribution are below 1.64485 standard deviations.
        close(NormalMixture::new(vec![normal]).quantile(0.95), 1.0 + 2.0 * 1.64485);
        // Two that hardly overlap, one with three times the weight of the other: the lowest eighth is half of the
        // lower one.
        let far = MixtureComponent { weight: 1.0, mean: -1000.0, ..normal };
        let both = NormalMixture::new(vec![normal, far]);
        close(both.quantile(0.125), -1000.0);
        close(both.mean(), 0.75 * 1.0 - 0.25 * 1000.0);
        // 3-4-5: noise of 1.5 turns 2 into 2.5.
        close(NormalMixture::new(vec![normal]).with_noise(1.5).quantile(0.95), 1.0 + 2.5 * 1.64485);
    }
}
