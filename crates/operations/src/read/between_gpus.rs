//! Rows that are not of the GPU whose folder they are in: products faster than its data sheet allows, or the same operations slower on
//! one GPU than on another, and faster by data sheets.

use crate::class::OperationClass;
use crate::gpus::{DataSheet, sheet};
use crate::model::by_sheets;
use crate::row::OperationRow;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::stats::median;
use std::collections::BTreeMap;

/// Shorter operations, in microseconds, are bound by launches and read from clocks that are too coarse.
const SHORT: f64 = 20.0;
/// Rates and ratios beyond those of data sheets by less are of clocks and of rounded times.
const BEYOND: f64 = 1.25;
/// The share of products that are too fast from which on no single times are wrong, but all of them.
const SHARE: f64 = 0.1;
/// The fewest operations that say something of two GPUs.
const LEAST: usize = 5;

/// Refuses rows that their GPU cannot have been measured with; names pairs of GPUs that were perhaps taken for each other.
///
/// # Errors
/// Products that are faster than a data sheet allows.
pub(super) fn check(rows: &[OperationRow]) -> Result<Vec<String>> {
    let mut networks: BTreeMap<(&str, &str), Vec<&OperationRow>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.class == OperationClass::Product && row.time_us >= SHORT) {
        networks.entry((&row.gpu, &row.network)).or_default().push(row);
    }
    for ((gpu, network), own) in networks {
        sheet(gpu).map_or(Ok(()), |sheet| check_rates(sheet, network, &own))?;
    }
    Ok(exchanged_warnings(rows))
}

/// How much of the most FLOP/s a product reaches.
fn reached_share(row: &OperationRow, sheet: &DataSheet) -> f64 {
    row.work.flops / row.time_us / sheet.most_flops(row.element.is_half())
}

fn check_rates(sheet: &DataSheet, network: &str, products: &[&OperationRow]) -> Result<()> {
    let reached: Vec<f64> = products.iter().map(|row| reached_share(row, sheet)).collect();
    let beyond = reached.iter().filter(|reached| **reached > BEYOND).count();
    if beyond < 2 || (beyond as f64) < SHARE * products.len() as f64 {
        return Ok(());
    }
    let most = reached.iter().copied().fold(0.0, f64::max);
    Err(Error::input(format!(
        "{beyond} of {} products of {network} on {} are faster than its data sheet allows, one {most:.1} times",
        products.len(),
        sheet.name
    ))
    .expected("folders GPU/NETWORK/ with what was measured on that GPU"))
}

/// Pairs of GPUs on which the same operations take times that contradict the data sheets.
fn exchanged_warnings(rows: &[OperationRow]) -> Vec<String> {
    let mut times: BTreeMap<(&str, &str, &str), BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.time_us > 0.0 && !row.shapes.is_empty() && sheet(&row.gpu).is_some()) {
        let key = (row.operation.as_str(), row.shapes.as_str(), row.element.name());
        times.entry(key).or_default().entry(&row.gpu).or_default().push(row.time_us);
    }
    let mut ratios: BTreeMap<[&str; 2], Vec<f64>> = BTreeMap::new();
    for gpus in times.into_values() {
        let gpus: Vec<(&str, f64)> = gpus.into_iter().map(|(gpu, times)| (gpu, median(&times))).collect();
        for (place, (one, time)) in gpus.iter().enumerate() {
            for (other, elsewhere) in gpus[..place].iter().filter(|(_, elsewhere)| elsewhere.max(*time) >= SHORT) {
                ratios.entry([*one, *other]).or_default().push(elsewhere / time);
            }
        }
    }
    let known = ratios.into_iter().filter(|(_, ratios)| ratios.len() >= LEAST);
    known.filter_map(|(gpus, ratios)| contradiction(gpus, median(&ratios))).collect()
}

/// What says that two GPUs were taken for each other, from how many times as long operations take on the second as on the first.
fn contradiction([one, other]: [&str; 2], ratio: f64) -> Option<String> {
    let [least, most] = by_sheets(one, other);
    let is_possible = (least / BEYOND..=most * BEYOND).contains(&ratio);
    (!is_possible).then(|| {
        format!(
            "the same operations take {ratio:.2} times as long on {other} as on {one}, in the median, and by their data sheets {least:.2} to {most:.2} times: rows of one may be in the folder of the other"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ElementType, OperationWork};

    const TERA: f64 = 1e6;

    /// Products of these sizes that reach so much of what the GPU's data sheet says, in the folder of another one.
    fn rows(gpu: &str, folder: &str, reached: f64) -> Vec<OperationRow> {
        let tflops = sheet(gpu).unwrap().half_tflops;
        let row = |width: u64| {
            let flops = 2.0 * (width as f64).powi(3);
            OperationRow {
                gpu: folder.to_owned(),
                network: "net".to_owned(),
                operation: "aten::mm".to_owned(),
                class: OperationClass::Product,
                shapes: format!("{width}x{width};{width}x{width}"),
                element: ElementType::Bf16,
                work: OperationWork { flops, bytes: 6.0 * (width as f64).powi(2) },
                time_us: flops / (TERA * tflops * reached),
                count: 1,
            }
        };
        [2048, 3072, 4096, 5120, 6144, 8192].map(row).to_vec()
    }

    /// Half of an H100's 989 TFLOP/s are four times a V100's 125; a third of both are below, but three times as long on the wrong one.
    #[test]
    fn rows_in_the_folder_of_another_gpu_are_seen_by_data_sheets() {
        assert_eq!(check(&[rows("V100", "V100", 0.6), rows("H100", "H100", 0.6)].concat()), Ok(Vec::new()));
        let swapped = |reached: f64| check(&[rows("V100", "H100", reached), rows("H100", "V100", reached)].concat());
        let error = swapped(0.5).unwrap_err().to_string();
        assert!(error.contains("6 of 6 products of net on V100") && error.contains("4.0 times"), "{error}");
        let warnings = swapped(0.1).unwrap();
        assert!(warnings.len() == 1 && warnings[0].contains("on H100 as on V100"), "{warnings:?}");
    }
}
