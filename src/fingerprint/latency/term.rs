//! Summands of a kernel's time: each a power of the device's parameters times losses `1 + parameter x share`.

use crate::platform::Parameter;

/// How many parameters there are.
pub(super) const COUNT: usize = Parameter::ALL.len();

/// The value of every parameter, in the order of [`Parameter::ALL`].
pub(super) type Values = [f64; COUNT];

/// One summand of a kernel's time: `work x product of the factors / rate x product of (1 + parameter x share)`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Term {
    work: f64,
    rate: Parameter,
    factors: [Option<Parameter>; 2],
    losses: [(Parameter, f64); 5],
}

impl Term {
    /// A term without losses.
    pub(super) fn new(work: f64, rate: Parameter, factors: [Option<Parameter>; 2]) -> Self {
        Term { work, rate, factors, losses: [(Parameter::Step, 0.0); 5] }
    }

    /// The same, losing shares of its speed.
    pub(super) fn losing<const N: usize>(mut self, losses: [(Parameter, f64); N]) -> Self {
        self.losses[..N].copy_from_slice(&losses);
        self
    }

    /// The same with so many times the work.
    pub(super) fn times(self, factor: f64) -> Self {
        Term { work: self.work * factor, ..self }
    }

    pub(super) fn value(&self, values: &Values) -> f64 {
        let factors: f64 = self.factors.iter().flatten().map(|&factor| values[factor as usize]).product();
        let losing = self.losses.iter().filter(|(_, share)| *share != 0.0);
        let losses: f64 = losing.map(|&(loss, share)| 1.0 + values[loss as usize] * share).product();
        self.work * factors * losses / values[self.rate as usize]
    }

    /// Adds the term, and its derivatives by the logarithms of the parameters.
    pub(super) fn add_to(&self, values: &Values, sum: &mut f64, slopes: &mut Values) {
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

    /// Whether two terms differ in nothing but their work.
    fn is_like(&self, other: &Term) -> bool {
        self.rate == other.rate && self.factors == other.factors && self.losses == other.losses
    }
}

/// Terms summed up: those that differ in nothing but their work are one.
#[derive(Debug, Clone, Default)]
pub(super) struct Terms(Vec<Term>);

impl Terms {
    pub(super) fn push(&mut self, term: Term) {
        match self.0.iter_mut().find(|known| known.is_like(&term)) {
            Some(known) => known.work += term.work,
            None => self.0.push(term),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Term> {
        self.0.iter()
    }
}
