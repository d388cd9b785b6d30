//! Whose rules rows were measured under: what they say the allocator took, besides what every known device's rules say.

use super::query::Simulated;
use crate::fingerprint::rows::Row;
use crate::records::Reading;
use perf4sight_base::stats::median;
use perf4sight_memory::Simulation;
use perf4sight_platform::Platform;
use perf4sight_step::workload::Step;
use rayon::prelude::*;

/// Rows that are looked at: the smallest levels, whose networks are surest to be the ones that were measured.
const LOOKED_AT: usize = 24;

/// Other rules fit clearly better when they are off by less than half as much, and by so many percentage points less.
const CLEARLY: f64 = 2.0;

/// A kind of device whose rules fit rows clearly better than those that were assumed.
#[derive(Debug, Clone, PartialEq)]
pub struct Likelier {
    /// Its name.
    pub platform: String,
    /// How far off its rules are, median in percent.
    pub error: f64,
    /// How far off the assumed ones are.
    pub assumed: f64,
}

/// The known device whose rules fit the allocated memory of some rows best, if that is clearly not the assumed one. None where rows do
/// not tell what was allocated.
pub fn likelier(step: Step, rows: &[Row], assumed: &Platform) -> Option<Likelier> {
    let mut rows: Vec<(&Row, f64)> = rows.iter().filter_map(|row| Some((row, allocated(row)?))).collect();
    rows.sort_by_key(|(row, _)| row.record.variant.level);
    rows.truncate(rows.len().min(LOOKED_AT));
    let off = error(step, &rows, assumed)?;
    let known = Platform::names().filter_map(|name| Platform::named(name).ok());
    let errors = known.filter_map(|platform| Some((error(step, &rows, &platform)?, platform.name)));
    let (error, platform) = errors.min_by(|a, b| a.0.total_cmp(&b.0))?;
    (error < 0.5 * off && error + CLEARLY < off).then_some(Likelier { platform, error, assumed: off })
}

/// MiB of tensors that the profiler counted.
fn allocated(row: &Row) -> Option<f64> {
    match row.record.reading {
        Reading::Memory(columns) => columns.allocated.map(|bytes| bytes.mib()).filter(|mib| *mib > 0.0),
        Reading::Latency(_) => None,
    }
}

/// Median percentage by which the rules of a device miss what was allocated.
fn error(step: Step, rows: &[(&Row, f64)], platform: &Platform) -> Option<f64> {
    let off = rows.par_iter().map(|(row, measured)| {
        let simulated = Simulated::new(&Simulation::new(&row.network, step, platform), row.record.workload.batch);
        100.0 * (simulated.allocated / measured - 1.0).abs()
    });
    let off: Vec<f64> = off.collect();
    (!off.is_empty()).then(|| median(&off))
}
