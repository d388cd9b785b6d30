//! Verdicts in words. They never claim more certainty than a model can have.

use crate::fingerprint::{
    CountedMemory, FitDecision, FitVerdict, MemoryLimit, PredictedValue, Prediction, PredictionInterval,
};
use perf4sight_base::units::Percent;
use perf4sight_report::Cell;

impl From<PredictedValue> for Cell {
    fn from(predicted: PredictedValue) -> Self {
        match predicted {
            PredictedValue::Latency(latency) => latency.into(),
            PredictedValue::Memory(memory) => memory.into(),
        }
    }
}

/// A higher probability is not written with more digits: those would describe the model, not reality.
const SUREST: f64 = 0.999;

pub(super) fn certainty_text(probability: f64) -> String {
    match probability {
        surest if surest > SUREST => format!("> {}", Percent(100.0 * SUREST)),
        least if least < 1.0 - SUREST => format!("< {}", Percent(100.0 * (1.0 - SUREST))),
        other => Percent(100.0 * other).to_string(),
    }
}

/// "fits (97.0 %)", "does not fit (> 99.9 %)", "open (62.0 % fits)": each with the probability of the statement.
pub(super) fn decision_text(FitVerdict { call, fits }: FitVerdict) -> String {
    match call {
        FitDecision::Fits => format!("fits ({})", certainty_text(fits)),
        FitDecision::DoesNotFit => format!("does not fit ({})", certainty_text(1.0 - fits)),
        FitDecision::Borderline => format!("open ({} fits)", certainty_text(fits)),
    }
}

/// "it needs 5.10 GiB and fits into 8 GiB (> 99.9 % sure)".
pub(super) fn verdict_text(needs: &str, place: &str, FitVerdict { call, fits }: FitVerdict) -> String {
    match call {
        FitDecision::Fits => format!("{needs} and fits into {place} ({} sure)", certainty_text(fits)),
        FitDecision::DoesNotFit => {
            format!("{needs} and does not fit into {place} ({} sure)", certainty_text(1.0 - fits))
        }
        FitDecision::Borderline => {
            let needs = needs.trim_end_matches(',');
            format!("{needs}: whether it fits into {place} is open ({} that it does)", certainty_text(fits))
        }
    }
}

/// What a step must fit into: the requested limit in words, or that of the device, which may count only `tensors`.
pub(super) fn place(asked: Option<String>, limit: Option<MemoryLimit>, device: &str, tensors: &str) -> String {
    match (asked, limit) {
        (Some(asked), _) => asked,
        (None, None) => device.to_owned(),
        (None, Some(MemoryLimit { bytes, counts: CountedMemory::All })) => {
            format!("the {} of {device}", bytes.in_full())
        }
        (None, Some(MemoryLimit { bytes, counts: CountedMemory::Tensors })) => {
            format!("the {} that the profile of {device} left to {tensors}", bytes.in_full())
        }
    }
}

/// "4.2 GiB (4.0 GiB – 4.9 GiB)" where what a step takes depends on how its file is read, else one number.
pub(super) fn tensors_text(tensors: PredictedValue, between: Option<[PredictedValue; 2]>) -> String {
    let likely = tensors.to_string();
    let ends = between.map(|ends| ends.map(|end| end.to_string()));
    match ends.filter(|ends| ends.iter().any(|end| *end != likely)) {
        Some([least, most]) => format!("{likely} ({least} – {most})"),
        None => likely,
    }
}

/// "691 MiB for its tensors, 870 MiB – 2.54 GiB in all", of a device that was not measured.
pub(super) fn believed_need(tensors: &str, PredictionInterval { low, high, .. }: PredictionInterval) -> String {
    format!("{tensors} for its tensors, {low} – {high} in all")
}

/// "31.0 ms – 39.2 ms".
pub(super) fn interval_cell(prediction: &Prediction) -> Cell {
    prediction.interval.map(|PredictionInterval { low, high, .. }| format!("{low} – {high}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_certain() {
        assert_eq!(
            [1.0, 0.9991, 0.999, 0.5, 0.0].map(certainty_text),
            ["> 99.9 %", "> 99.9 %", "99.9 %", "50.0 %", "< 0.1 %"]
        );
        assert_eq!(decision_text(FitVerdict { fits: 0.0, call: FitDecision::DoesNotFit }), "does not fit (> 99.9 %)");
        assert_eq!(decision_text(FitVerdict { fits: 0.62, call: FitDecision::Borderline }), "open (62.0 % fits)");
    }
}
