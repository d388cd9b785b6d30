//! Operations whose own measurements contradict each other: the same one, in the same network, on the same GPU.

use crate::row::OperationRow;
use perf4sight_base::stats::percentile;
use std::collections::BTreeMap;

/// The middle half of the times of an operation lie within a factor of so much, unless some are doubled, cut in two, or of another unit.
const SCATTER: f64 = 1.5;
/// So many are named.
const NAMED: usize = 3;

/// Names operations whose times differ by more than they scatter.
pub(super) fn check(rows: &[OperationRow]) -> Option<String> {
    let mut times: BTreeMap<[&str; 5], Vec<f64>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.time_us > 0.0 && !row.shapes.is_empty()) {
        let key = [&row.gpu, &row.network, &row.operation, &row.shapes, row.element.name()];
        times.entry(key).or_default().push(row.time_us);
    }
    let middle = |times: &[f64]| [25.0, 75.0].map(|part| percentile(times, part));
    let apart = |times: &[f64]| middle(times)[1] > SCATTER * middle(times)[0];
    let apart: Vec<_> = times.iter().filter(|(_, times)| apart(times)).collect();
    let name = |([gpu, network, operation, shapes, _], times): &(&[&str; 5], &Vec<f64>)| {
        let [least, most] = middle(times);
        format!("{operation} of {shapes} in {network} on {gpu} ({least:.3} and {most:.3} us)")
    };
    let named: Vec<String> = apart.iter().take(NAMED).map(name).collect();
    let more = match apart.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let sentence = "measured several times, with times that differ by more than half";
    (!apart.is_empty()).then(|| format!("{sentence}: {}{more}; the median counts", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ElementType, OperationClass, OperationWork};

    #[test]
    fn times_of_one_operation_that_contradict_each_other_are_named() {
        let row = |time_us: f64| OperationRow {
            gpu: "A100".to_owned(),
            network: "a".to_owned(),
            operation: "aten::mm".to_owned(),
            class: OperationClass::Product,
            shapes: "64x64;64x64".to_owned(),
            element: ElementType::Fp16,
            work: OperationWork { flops: 524_288.0, bytes: 24_576.0 },
            time_us,
            count: 1,
        };
        // One slow call of ten is a call that something interrupted.
        let calls = |slow: usize| (0..10).map(|call| row(if call < slow { 20.0 } else { 10.0 })).collect::<Vec<_>>();
        assert_eq!(check(&calls(1)), None);
        assert!(check(&calls(5)).unwrap().contains("aten::mm of 64x64;64x64 in a on A100"));
        assert!(check(&[row(10.0), row(30.0)]).is_some());
    }
}
