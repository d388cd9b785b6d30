//! Numbers of a file's arithmetic on shapes, in which the batch that it leaves open is a symbol.

use std::cmp::Ordering;
use std::fmt::{Debug, Formatter, Result};
use std::ops::{Add, Div, Mul, Sub};

/// A number of `batches` x the open batch + `rest`; not a number (NaN) if it has no such form, as the square of the batch.
///
/// Any multiple of the batch is larger than all numbers without it.
#[derive(Clone, Copy)]
pub(super) struct BatchNumber {
    batches: f64,
    rest: f64,
}

/// The shape of a whole tensor, batch included.
pub(super) type TensorDims = Vec<BatchNumber>;

impl BatchNumber {
    pub const BATCH: BatchNumber = BatchNumber { batches: 1.0, rest: 0.0 };

    const NONE: BatchNumber = BatchNumber { batches: f64::NAN, rest: f64::NAN };

    /// Its value, unless that depends on the batch.
    pub fn fixed_value(self) -> Option<f64> {
        (self.batches == 0.0).then_some(self.rest)
    }

    /// Its value as an integer of this type.
    pub fn as_integer<I: TryFrom<i64>>(self) -> Option<I> {
        let value = self.fixed_value().filter(|value| value.fract() == 0.0)?;
        I::try_from(value as i64).ok()
    }

    /// Whether an axis can be so long.
    pub fn is_length(self) -> bool {
        self >= 0 && self.map(f64::fract) == 0
    }

    /// The nearest integer in range.
    pub fn nearest(self) -> i64 {
        self.fixed_value().unwrap_or(self.batches * f64::INFINITY) as i64
    }

    /// The multiple of the batch, and the rest.
    pub fn parts(self) -> [i64; 2] {
        [self.batches as i64, self.rest as i64]
    }

    /// The function's value; of multiples of the batch only where it grows in proportion, as a rounding of whole numbers does.
    pub fn map(self, function: impl Fn(f64) -> f64) -> BatchNumber {
        const MANY: f64 = 1024.0;
        let grows = || function(0.0) == 0.0 && function(MANY * self.batches) == MANY * function(self.batches);
        if self.batches == 0.0 || grows() { self.map_parts(function) } else { BatchNumber::NONE }
    }

    fn map_parts(self, function: impl Fn(f64) -> f64) -> BatchNumber {
        BatchNumber {
            batches: if self.batches == 0.0 { 0.0 } else { function(self.batches) },
            rest: function(self.rest),
        }
    }

    pub fn min(self, other: impl Into<BatchNumber>) -> BatchNumber {
        let other = other.into();
        match self.batches == other.batches {
            true => BatchNumber { rest: self.rest.min(other.rest), ..self },
            false if self.batches < other.batches => self,
            false => other,
        }
    }

    pub fn max(self, other: impl Into<BatchNumber>) -> BatchNumber {
        (self * -1).min(other.into() * -1) * -1
    }
}

macro_rules! numbers_from {
    ($($kind:ty)*) => {
        $(impl From<$kind> for BatchNumber {
            fn from(value: $kind) -> BatchNumber {
                BatchNumber { batches: 0.0, rest: value as f64 }
            }
        })*
    };
}

numbers_from!(u8 i32 i64 u64 usize f64);

impl<N: Copy + Into<BatchNumber>> PartialEq<N> for BatchNumber {
    fn eq(&self, other: &N) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl<N: Copy + Into<BatchNumber>> PartialOrd<N> for BatchNumber {
    fn partial_cmp(&self, other: &N) -> Option<Ordering> {
        let other: BatchNumber = (*other).into();
        [self.batches, self.rest].partial_cmp(&[other.batches, other.rest])
    }
}

macro_rules! operator {
    ($operator:ident::$name:ident, $compute:expr) => {
        impl<N: Into<BatchNumber>> $operator<N> for BatchNumber {
            type Output = BatchNumber;

            fn $name(self, other: N) -> BatchNumber {
                let compute: fn(BatchNumber, BatchNumber) -> BatchNumber = $compute;
                compute(self, other.into())
            }
        }
    };
}

operator!(Add::add, |a, b| BatchNumber { batches: a.batches + b.batches, rest: a.rest + b.rest });
operator!(Sub::sub, |a, b| a + b * -1);
operator!(Mul::mul, |a, b| match (a.fixed_value(), b.fixed_value()) {
    (_, Some(times)) => a.map_parts(|part| part * times),
    (Some(times), None) => b.map_parts(|part| part * times),
    (None, None) => BatchNumber::NONE,
});
operator!(Div::div, |a, b| match (a.fixed_value(), b.fixed_value()) {
    (_, Some(by)) => a.map_parts(|part| part / by),
    (None, None) if [a.rest, b.rest] == [0.0, 0.0] => (a.batches / b.batches).into(),
    _ => BatchNumber::NONE,
});

impl Debug for BatchNumber {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match [self.batches, self.rest] {
            [0.0, value] => write!(f, "{value}"),
            [1.0, 0.0] => f.write_str("batch"),
            [batches, 0.0] => write!(f, "{batches} x batch"),
            [batches, _] if batches.is_nan() => f.write_str("?"),
            [batches, rest] => write!(f, "{batches} x batch + {rest}"),
        }
    }
}

pub(super) fn numbers<N: Copy + Into<BatchNumber>>(values: &[N]) -> Vec<BatchNumber> {
    values.iter().map(|&value| value.into()).collect()
}

pub(super) fn product<N: Copy + Into<BatchNumber>>(dims: &[N]) -> BatchNumber {
    dims.iter().fold(1.into(), |product, &dim| product * dim)
}

/// The values as integers of a type; `None` if one is none.
pub(super) fn as_integers<I: TryFrom<i64>>(values: &[BatchNumber]) -> Option<Vec<I>> {
    values.iter().map(|value| value.as_integer()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BATCH: BatchNumber = BatchNumber::BATCH;

    #[test]
    fn the_batch_goes_through_arithmetic_as_a_symbol() {
        // Windows of an image, as Swin counts its images again: batch x 64 / 64.0, and the last but one of a batch.
        assert_eq!(BATCH * 64 / 64.0, BATCH);
        assert_eq!((BATCH * 12 / (BATCH * 4), BATCH - 1 + 1), (3.into(), BATCH));
        assert_eq!((BATCH * 3 - 2).parts(), [3, -2]);
        assert_eq!((BATCH * 3).map(f64::floor), BATCH * 3);
    }

    #[test]
    fn what_is_no_multiple_of_the_batch_equals_nothing() {
        for none in [BATCH * BATCH, BatchNumber::from(1) / BATCH, BATCH.map(f64::sqrt), (BATCH / 4).map(f64::floor)] {
            assert!(none != none && none.fixed_value().is_none() && none.as_integer::<u64>().is_none(), "{none:?}");
        }
    }

    #[test]
    fn any_multiple_of_the_batch_is_larger_than_a_number() {
        assert!(BATCH > 1 << 20 && BATCH - 1 > 7 && BATCH * 2 > BATCH + 9 && BatchNumber::from(3) > 2.5);
        assert_eq!((BATCH.max(7), BATCH.min(7)), (BATCH, 7.into()));
    }

    #[test]
    fn messages_call_the_batch_so() {
        assert_eq!(format!("{:?}", [BATCH, 6.into(), BATCH * 4, BATCH + 1]), "[batch, 6, 4 x batch, 1 x batch + 1]");
    }
}
