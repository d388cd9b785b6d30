//! Summands of a kernel's time: each a power of the device's parameters times losses `1 + parameter x share`.

use perf4sight_platform::SpeedParameter;

pub(super) const COUNT: usize = SpeedParameter::ALL.len();

/// The value of every parameter, in the order of [`SpeedParameter::ALL`].
pub(super) type ParameterValues = [f64; COUNT];

/// One summand of a kernel's time: `work x product of the factors / rate x product of (1 + parameter x share)`.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeTerm {
    work: f64,
    rate: SpeedParameter,
    factors: [Option<SpeedParameter>; 2],
    losses: [(SpeedParameter, f64); 5],
}

impl TimeTerm {
    pub(super) fn new(work: f64, rate: SpeedParameter, factors: [Option<SpeedParameter>; 2]) -> Self {
        TimeTerm { work, rate, factors, losses: [(SpeedParameter::Step, 0.0); 5] }
    }

    pub(super) fn with_losses<const N: usize>(mut self, losses: [(SpeedParameter, f64); N]) -> Self {
        self.losses[..N].copy_from_slice(&losses);
        self
    }

    pub(super) fn times(self, factor: f64) -> Self {
        TimeTerm { work: self.work * factor, ..self }
    }

    pub(super) fn value(&self, values: &ParameterValues) -> f64 {
        let [value] = self.evaluate(&|parameter| [values[parameter as usize]]);
        value
    }

    /// Its value for several devices at once, given the parameters of each.
    pub(super) fn evaluate<const N: usize>(&self, values: &impl Fn(SpeedParameter) -> [f64; N]) -> [f64; N] {
        let (mut factors, mut losses) = ([1.0; N], [1.0; N]);
        for factor in self.factors.into_iter().flatten() {
            combine(&mut factors, values(factor), |product, factor| product * factor);
        }
        for (loss, share) in self.losses.into_iter().filter(|(_, share)| *share != 0.0) {
            combine(&mut losses, values(loss), |product, loss| product * (1.0 + loss * share));
        }
        let rates = values(self.rate);
        std::array::from_fn(|device| self.work * factors[device] * losses[device] / rates[device])
    }

    /// Adds the term, and its derivatives by the logarithms of the parameters.
    pub(super) fn add_to(&self, values: &ParameterValues, sum: &mut f64, slopes: &mut ParameterValues) {
        let value = self.value(values);
        *sum += value;
        slopes[self.rate as usize] -= value;
        for factor in self.factors.into_iter().flatten() {
            slopes[factor as usize] += value;
        }
        for (loss, share) in self.losses {
            let lost = values[loss as usize] * share;
            slopes[loss as usize] += value * lost / (1.0 + lost);
        }
    }

    fn is_like(&self, other: &TimeTerm) -> bool {
        self.rate == other.rate && self.factors == other.factors && self.losses == other.losses
    }
}

/// Combines the number of each device with another one.
pub(super) fn combine<const N: usize>(numbers: &mut [f64; N], others: [f64; N], change: impl Fn(f64, f64) -> f64) {
    numbers.iter_mut().zip(others).for_each(|(number, other)| *number = change(*number, other));
}

/// A sum of terms; those that differ only in their work are merged.
#[derive(Debug, Clone, Default)]
pub(super) struct TimeTerms(Vec<TimeTerm>);

impl TimeTerms {
    pub(super) fn push(&mut self, term: TimeTerm) {
        let place = self.index_of(&term);
        self.0[place].work += term.work;
    }

    /// Adds some terms a number of times, one after the other. A product instead of the sum would differ in its last
    /// digit, and trees of a fit could split elsewhere.
    pub(super) fn push_all(&mut self, terms: &[TimeTerm], times: usize) {
        let places: Vec<usize> = terms.iter().map(|term| self.index_of(term)).collect();
        for _ in 0..times {
            places.iter().zip(terms).for_each(|(place, term)| self.0[*place].work += term.work);
        }
    }

    fn index_of(&mut self, term: &TimeTerm) -> usize {
        self.0.iter().position(|known| known.is_like(term)).unwrap_or_else(|| {
            self.0.push(term.times(0.0));
            self.0.len() - 1
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &TimeTerm> {
        self.0.iter()
    }
}
