//! Finds the platform whose rules fit measured rows: compares the allocated memory of rows with every known platform.

use super::query::SimulatedMemory;
use crate::fingerprint::rows::MeasuredRow;
use crate::records::RowReading;
use perf4sight_base::stats::median;
use perf4sight_memory::Simulation;
use perf4sight_platform::Platform;
use perf4sight_step::workload::Step;
use rayon::prelude::*;

/// The number of rows compared, from the smallest levels: their networks are most certainly the ones that were
/// measured.
const LOOKED_AT: usize = 24;

/// Other rules fit clearly better if their error is less than half, and lower by this many percentage points.
const CLEARLY: f64 = 2.0;

/// A platform whose rules fit rows clearly better than the assumed ones.
#[derive(Debug, Clone, PartialEq)]
pub struct LikelierPlatform {
    /// The name of the platform that fits better.
    pub platform: String,
    /// Median error of its rules in percent.
    pub error: f64,
    /// Median error of the assumed rules in percent.
    pub assumed: f64,
}

/// The known platform whose rules fit the allocated memory of some rows best, if that is clearly not the assumed one.
/// None where the rows do not have the allocated memory.
pub fn likelier_platform(step: Step, rows: &[MeasuredRow], assumed: &Platform) -> Option<LikelierPlatform> {
    let mut rows: Vec<(&MeasuredRow, f64)> =
        rows.iter().filter_map(|row| Some((row, allocated_memory(row)?))).collect();
    rows.sort_by_key(|(row, _)| row.record.variant.level);
    rows.truncate(rows.len().min(LOOKED_AT));
    let off = error(step, &rows, assumed)?;
    let known = Platform::names().filter_map(|name| Platform::for_name(name).ok());
    let errors = known.filter_map(|platform| Some((error(step, &rows, &platform)?, platform.name)));
    let (error, platform) = errors.min_by(|a, b| a.0.total_cmp(&b.0))?;
    (error < 0.5 * off && error + CLEARLY < off).then_some(LikelierPlatform { platform, error, assumed: off })
}

/// MiB of tensors that the profiler counted.
fn allocated_memory(row: &MeasuredRow) -> Option<f64> {
    match row.record.reading {
        RowReading::Memory(columns) => columns.allocated.map(|bytes| bytes.mib()).filter(|mib| *mib > 0.0),
        RowReading::Latency(_) => None,
    }
}

/// Median error of a platform's rules for the allocated memory, in percent.
fn error(step: Step, rows: &[(&MeasuredRow, f64)], platform: &Platform) -> Option<f64> {
    let off = rows.par_iter().map(|(row, measured)| {
        let simulated = SimulatedMemory::new(&Simulation::new(&row.network, step, platform), row.record.workload.batch);
        100.0 * (simulated.allocated / measured - 1.0).abs()
    });
    let off: Vec<f64> = off.collect();
    (!off.is_empty()).then(|| median(&off))
}
