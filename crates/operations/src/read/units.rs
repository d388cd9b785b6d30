//! Rows whose times, FLOPs or bytes are in another unit than they are said to be: those too short for any GPU are refused row by row,
//! those too long are seen by what a data sheet says.

use crate::class::OperationClass;
use crate::gpus::{DataSheet, sheet};
use crate::row::OperationRow;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::median;
use std::collections::BTreeMap;

/// Microseconds of a launch.
const LAUNCH: f64 = 5.0;
/// FLOPs a microsecond of a TFLOP/s, and bytes of a GB/s.
const TERA: f64 = 1e6;
const GIGA: f64 = 1e3;
/// Networks whose operations take, in the median, so many times what the data sheet says are in another unit.
const MOST: f64 = 100.0;
/// Operations of a class that move, in the median, so many times what memory gives do not move bytes: caches give up to 2.5 times as much.
const MOST_RATE: f64 = 3.0;
/// A single operation that takes so many times as long is named.
const FAR: f64 = 300.0;
/// So many are named.
const NAMED: usize = 3;

/// By how much a row takes longer than its GPU needs at the rates of its data sheet.
fn times(row: &OperationRow, sheet: &DataSheet) -> f64 {
    let tflops = if row.element.is_half() { sheet.half_tflops } else { sheet.single_tflops };
    let [compute, memory] = [row.work.flops / (tflops * TERA), row.work.bytes / (sheet.memory_gbs * GIGA)];
    row.time_us / (LAUNCH + compute.max(memory))
}

/// Refuses networks whose times are in another unit; names single operations that take far longer than others.
///
/// # Errors
/// A network that takes a hundred times as long as its GPU needs, in the median.
pub(super) fn check(rows: &[OperationRow]) -> Result<Vec<String>> {
    let mut networks: BTreeMap<(&str, &str), Vec<(f64, &OperationRow)>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.time_us > 0.0) {
        if let Some(sheet) = sheet(&row.gpu) {
            networks.entry((&row.gpu, &row.network)).or_default().push((times(row, sheet), row));
        }
    }
    for ((gpu, network), own) in &networks {
        let usual = median(&own.iter().map(|(times, _)| *times).collect::<Vec<_>>());
        if usual > MOST {
            return Err(Error::input(format!(
                "operations of {network} on {gpu} take {usual:.0} times as long as its data sheet says, in the median"
            ))
            .expected("times in microseconds (time_us) or milliseconds (time_ms), FLOPs and bytes as counts"));
        }
    }
    check_bytes(rows)?;
    let far: Vec<&(f64, &OperationRow)> = networks.values().flatten().filter(|(times, _)| *times > FAR).collect();
    let name = |(times, row): &&(f64, &OperationRow)| {
        format!("{} of {} in {} on {} ({times:.0} times)", row.operation, row.shapes, row.network, row.gpu)
    };
    let named: Vec<String> = far.iter().take(NAMED).map(name).collect();
    let more = far.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let warning = format!("far longer than a data sheet says, perhaps in another unit: {}{more}", named.join(", "));
    Ok(Some(warning).filter(|_| !far.is_empty()).into_iter().collect())
}

/// Refuses bytes that no memory moves in the time.
fn check_bytes(rows: &[OperationRow]) -> Result<()> {
    let mut kinds: BTreeMap<(&str, &str, OperationClass), Vec<f64>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.time_us > 0.0) {
        if let Some(sheet) = sheet(&row.gpu) {
            let rate = row.work.bytes / row.time_us / (sheet.memory_gbs * GIGA);
            kinds.entry((&row.gpu, &row.network, row.class)).or_default().push(rate);
        }
    }
    for ((gpu, network, class), rates) in kinds {
        let usual = median(&rates);
        if usual > MOST_RATE {
            return Err(Error::input(format!(
                "the operations of {network} on {gpu} that are {class} move {usual:.1} times the bytes that its memory gives, in the median"
            ))
            .expected("bytes as counts, and times of the same calls"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ElementType, OperationWork};

    /// A product of 1024³ in fp16 takes 7 us on an A100, and 5 us for its launch.
    #[test]
    fn times_in_nanoseconds_are_refused_and_single_ones_named() {
        let row = |network: &str, time_us: f64| OperationRow {
            gpu: "A100".to_owned(),
            network: network.to_owned(),
            operation: "aten::mm".to_owned(),
            class: OperationClass::Product,
            shapes: "1024x1024;1024x1024".to_owned(),
            element: ElementType::Fp16,
            work: OperationWork { flops: 2.0 * 1024f64.powi(3), bytes: 6.0 * 1024f64.powi(2) },
            time_us,
            count: 1,
        };
        assert_eq!(check(&[row("a", 15.0), row("b", 20.0)]), Ok(Vec::new()));
        let error = check(&[row("a", 15.0), row("b", 20_000.0)]).unwrap_err().to_string();
        assert!(error.contains("b on A100 take") && error.contains("microseconds"), "{error}");
        let bits =
            |row: OperationRow| OperationRow { work: OperationWork { bytes: 8e3 * row.work.bytes, ..row.work }, ..row };
        assert!(check(&[bits(row("a", 15.0))]).unwrap_err().to_string().contains("times the bytes"));
        let warnings = check(&[row("a", 15.0), row("a", 16.0), row("a", 16_000.0)]).unwrap();
        assert!(warnings[0].contains("aten::mm of 1024x1024;1024x1024 in a on A100"), "{warnings:?}");
    }
}
