//! Predictions for programs: a flat table with a row per network and batch size, and JSON with all data.

use super::answer::{BatchPrediction, NetworkAnswer, PredictionBreakdown};
use super::answers::{DeviceAnswers, DevicePredictions};
use crate::fingerprint::{
    DeviceFingerprints, ExpectedError, FingerprintSubject, IntervalBasis, MemoryLimit, PredictedValue, Prediction,
};
use perf4sight_base::error::Error;
use perf4sight_base::units::Bytes;
use perf4sight_report::{Cell, Table, TableColumn};
use perf4sight_step::workload::Quantity;
use serde_json::{Map, Value, json};

impl DevicePredictions {
    /// Every prediction with all details, for CSV.
    pub(super) fn flat(&self) -> Table {
        let tables = self.devices.iter().map(DeviceAnswers::flat);
        let join = |mut all: Table, more: Table| {
            all.rows.extend(more.rows);
            all
        };
        tables.reduce(join).unwrap_or_else(|| Table::new("", []))
    }

    /// All data, for programs; a list if there are several devices.
    pub(super) fn json(&self, asked: Option<Bytes>, warnings: &[String]) -> Value {
        let skipped = |(network, error): &(String, Error)| json!({ "network": network, "problem": error.to_string() });
        let mut answer = match self.devices.as_slice() {
            [one] => one.json(asked),
            several => json!({ "devices": several.iter().map(|device| device.json(asked)).collect::<Value>() }),
        };
        answer["skipped"] = self.skipped.iter().map(skipped).collect();
        answer["remarks"] = self.remarks().into();
        answer["warnings"] = warnings.into();
        answer
    }
}

impl DeviceAnswers {
    /// Every prediction with all details, for CSV.
    fn flat(&self) -> Table {
        let heads = ["network", "device", "dataset", "stage"].map(|key| TableColumn::text(key, ""));
        let tail = ["max_batch_safe", "max_batch_likely", "limit_bytes"].map(|key| TableColumn::number(key, ""));
        let tail = tail.into_iter().chain(["limit_counts", "step"].map(|key| TableColumn::text(key, "")));
        let mut table = Table::new("", heads.into_iter().chain(columns(&self.fingerprints)).chain(tail));
        let (FingerprintSubject { device, dataset, .. }, step) = (self.fingerprints.subject(), self.step.cell());
        for answer in &self.answers {
            let heads = [&answer.network, device, dataset, self.step.stage.name()].map(Cell::from);
            let max_batch = [answer.max_batch.map(|max| max.safe), answer.max_batch.map(|max| max.likely)];
            let limit = [
                Cell::from(answer.limit.map(|limit| limit.bytes)),
                answer.limit.map(|limit| limit.counts.name()).into(),
                step.as_str().into(),
            ];
            let tail = max_batch.map(Cell::from).into_iter().chain(limit);
            for point in &answer.points {
                let cells = cells(point);
                table.row(heads.iter().cloned().chain(cells).chain(tail.clone()));
            }
        }
        table
    }

    fn json(&self, asked: Option<Bytes>) -> Value {
        let FingerprintSubject { device, dataset, .. } = self.fingerprints.subject();
        let fitted = self.fingerprints.iter().map(|one| {
            let (step, prior) = (one.subject().step.cell(), one.is_prior());
            let about = json!({ "prior": prior, "method": one.recipe().method.name(), "step": step, "scores": one.scores, "left_out": one.left_out, "settings": one.settings });
            (one.subject().quantity.name().to_owned(), about)
        });
        json!({
            "device": device,
            "dataset": dataset,
            "stage": self.step.stage,
            "step": self.step.cell(),
            "fingerprints": fitted.collect::<Map<_, _>>(),
            "networks": self.answers.iter().map(|answer| self.network(answer, asked)).collect::<Value>(),
        })
    }

    fn network(&self, answer: &NetworkAnswer, asked: Option<Bytes>) -> Value {
        let mut predictions = Table::new("", columns(&self.fingerprints));
        answer.points.iter().for_each(|point| predictions.row(cells(point)));
        let limit = |limit: MemoryLimit| {
            let source = if asked.is_some() { "asked" } else { "profile" };
            json!({ "bytes": limit.bytes.0, "counts": limit.counts.name(), "source": source })
        };
        let quantities = self.fingerprints.iter().map(|one| one.subject().quantity);
        let expected = quantities.map(|quantity| (quantity.name().to_owned(), error(answer.expected.get(&quantity))));
        let expected: Map<_, _> = expected.collect();
        json!({
            "network": answer.network,
            "answer": self.sentence(answer, asked),
            "limit": answer.limit.map(limit),
            "expected_error": expected,
            "max_batch": answer.max_batch.map(|max| json!({ "safe": max.safe, "likely": max.likely })),
            "unlike": answer.out_of_distribution(),
            "predictions": predictions.to_json(),
            "breakdown": answer.breakdown.as_ref().map(breakdown_json),
        })
    }
}

fn columns(fingerprints: &DeviceFingerprints) -> Vec<TableColumn> {
    let mut columns = vec![TableColumn::number("bs", "")];
    for fingerprint in fingerprints.iter() {
        let (quantity, unit) = match fingerprint.subject().quantity {
            Quantity::Latency => ("latency", "ms"),
            Quantity::Memory => ("memory", "bytes"),
        };
        let keys = ["", "_low", "_high"].map(|end| TableColumn::number(format!("{quantity}{end}_{unit}"), ""));
        columns.extend(keys.into_iter().chain([TableColumn::text(format!("{quantity}_interval"), "")]));
    }
    columns.extend([
        TableColumn::number("throughput_per_s", ""),
        TableColumn::number("tensors_bytes", ""),
        TableColumn::number("tensors_low_bytes", ""),
        TableColumn::number("tensors_high_bytes", ""),
        TableColumn::number("need_bytes", ""),
        TableColumn::text("verdict", ""),
        TableColumn::number("fits_probability", ""),
        TableColumn::text("unlike", ""),
    ]);
    columns
}

fn cells(point: &BatchPrediction) -> Vec<Cell> {
    let mut cells = vec![point.batch.into()];
    point.predictions().for_each(|prediction| cells.extend(prediction_cells(prediction)));
    let bytes = |memory: PredictedValue| Bytes::from_mib(memory.value());
    cells.extend([
        point.throughput().into(),
        point.tensors.map(bytes).into(),
        point.tensors_between.map(|[least, _]| bytes(least)).into(),
        point.tensors_between.map(|[_, most]| bytes(most)).into(),
        point.need.map(bytes).into(),
        point.verdict.map(|verdict| verdict.call.to_string()).into(),
        point.verdict.map(|verdict| verdict.fits).into(),
        point.out_of_distribution().join("; ").into(),
    ]);
    cells
}

/// The expected error and its test: on `levels` of profiled networks or on networks `left_out`.
fn error(expected: Option<&ExpectedError>) -> Value {
    match expected {
        Some(ExpectedError::Levels { mape, rows }) => json!({ "of": "levels", "mape": mape, "rows": rows }),
        Some(ExpectedError::LeftOut { mape, networks, worst, worst_mape }) => json!({
            "of": "left_out", "mape": mape, "networks": networks, "worst": worst, "worst_mape": worst_mape
        }),
        None => Value::Null,
    }
}

/// Value, lower end, upper end, and the basis of the interval.
fn prediction_cells(prediction: &Prediction) -> [Cell; 4] {
    let interval = prediction.interval;
    let basis = interval.map(|interval| match interval.basis {
        IntervalBasis::Conformal => "conformal",
        IntervalBasis::Estimated => "estimated",
        IntervalBasis::Levels => "levels",
        IntervalBasis::Networks => "networks",
        IntervalBasis::Rows => "rows",
        IntervalBasis::Prior => "prior",
        IntervalBasis::OtherStep => "other_step",
    });
    [
        prediction.value.into(),
        interval.map(|interval| interval.low).into(),
        interval.map(|interval| interval.high).into(),
        basis.into(),
    ]
}

fn breakdown_json(breakdown: &PredictionBreakdown) -> Value {
    let parts = breakdown.tables().into_iter().map(|table| (table.columns[0].key.clone(), table.to_json()));
    let parts: Map<String, Value> = parts.collect();
    json!({ "bs": breakdown.batch, "by": parts })
}
