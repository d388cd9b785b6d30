//! Verdicts in words. They never claim more certainty than a model can have.

use crate::fingerprint::{Call, Counts, Interval, MemoryLimit, Predicted, Prediction, Verdict};
use perf4sight_base::units::{Bytes, Percent};
use perf4sight_report::Cell;

impl From<Predicted> for Cell {
    fn from(predicted: Predicted) -> Self {
        match predicted {
            Predicted::Latency(latency) => latency.into(),
            Predicted::Memory(memory) => memory.into(),
        }
    }
}

/// A higher probability is not written with more digits: those would describe the model, not reality.
const SUREST: f64 = 0.999;

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

/// "it needs 5.10 GiB and fits into 8 GiB (> 99.9 % sure)".
pub(super) fn stated(needs: &str, place: &str, Verdict { call, fits }: Verdict) -> String {
    match call {
        Call::Fits => format!("{needs} and fits into {place} ({} sure)", sure(fits)),
        Call::DoesNotFit => format!("{needs} and does not fit into {place} ({} sure)", sure(1.0 - fits)),
        Call::Borderline => {
            let needs = needs.trim_end_matches(',');
            format!("{needs}: whether it fits into {place} is open ({} that it does)", sure(fits))
        }
    }
}

/// What a step must fit into: the requested limit, or that of the device, which may count only `tensors`.
pub(super) fn place(asked: Option<Bytes>, limit: Option<MemoryLimit>, device: &str, tensors: &str) -> String {
    match (asked, limit) {
        (Some(asked), _) => asked.in_full(),
        (None, None) => device.to_owned(),
        (None, Some(MemoryLimit { bytes, counts: Counts::All })) => format!("the {} of {device}", bytes.in_full()),
        (None, Some(MemoryLimit { bytes, counts: Counts::Tensors })) => {
            format!("the {} that the profile of {device} allowed {tensors}", bytes.in_full())
        }
    }
}

/// "31.0 ms – 39.2 ms".
pub(super) fn ends(prediction: &Prediction) -> Cell {
    prediction.interval.map(|Interval { low, high, .. }| format!("{low} – {high}")).into()
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
