//! Verdicts in words. They never claim more certainty than a model can have.

use crate::fingerprint::{Call, Verdict};
use perf4sight_base::units::Percent;

/// A higher probability is not written with more digits: those would describe the model, not reality.
const SUREST: f64 = 0.999;

/// "97.0 %", and never "100.0 %".
pub(super) fn sure(probability: f64) -> String {
    match probability {
        surest if surest > SUREST => format!("> {}", Percent(100.0 * SUREST)),
        least if least < 1.0 - SUREST => format!("< {}", Percent(100.0 * (1.0 - SUREST))),
        other => Percent(100.0 * other).to_string(),
    }
}

/// "fits (97.0 %)", "does not fit (> 99.9 %)", "open (62.0 % fits)": each with the probability of the statement.
pub(super) fn called(Verdict { call, fits }: Verdict) -> String {
    match call {
        Call::Fits => format!("fits ({})", sure(fits)),
        Call::DoesNotFit => format!("does not fit ({})", sure(1.0 - fits)),
        Call::Borderline => format!("open ({} fits)", sure(fits)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_certain() {
        assert_eq!([1.0, 0.9991, 0.999, 0.5, 0.0].map(sure), ["> 99.9 %", "> 99.9 %", "99.9 %", "50.0 %", "< 0.1 %"]);
        assert_eq!(called(Verdict { fits: 0.0, call: Call::DoesNotFit }), "does not fit (> 99.9 %)");
        assert_eq!(called(Verdict { fits: 0.62, call: Call::Borderline }), "open (62.0 % fits)");
    }
}
