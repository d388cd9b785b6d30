//! Costs of collective operations from a table of nccl-tests, such as `all_reduce_perf` prints it.

use super::periods::{self, LinkPeriod};
use super::{CollectiveAlgorithm, CostEstimate, GroupCost, shape};
use crate::collectives::CollectiveOperation;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::count_text;

#[derive(Debug, Clone, Copy, PartialEq)]
struct TableRow {
    bytes: u64,
    /// Nanoseconds of the operation out of place.
    time: f64,
}

/// The cost of an operation of so many ranks, from the text of a table: rows of `size count type [redop root] time algbw
/// busbw ...`, with sizes in bytes and times in microseconds; lines that begin with `#` are comments.
///
/// ```
/// use perf4sight_replay::collectives::CollectiveOperation;
/// use perf4sight_replay::communication::{CollectiveAlgorithm, cost_of_table};
/// // 10 µs for each of the two messages of two ranks, and 0.1 ns per byte.
/// let table = "#  size  count  type  redop  root  time  algbw  busbw  #wrong\n\
///              1000000  250000  float  sum  -1  120.0  8.33  8.33  0\n\
///              4000000  1000000  float  sum  -1  420.0  9.52  9.52  0\n";
/// let cost = cost_of_table(table, CollectiveOperation::AllReduce, CollectiveAlgorithm::Ring, 2)?;
/// assert!((cost.latency.value - 10_000.0).abs() < 1.0 && (cost.per_byte.value - 0.1).abs() < 1e-6);
/// # Ok::<(), perf4sight_base::error::Error>(())
/// ```
///
/// # Errors
/// Fewer than two sizes, rows that are no numbers, times that get shorter with the size.
pub fn cost_of_table(
    text: &str,
    operation: CollectiveOperation,
    algorithm: CollectiveAlgorithm,
    ranks: u32,
) -> Result<GroupCost> {
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let rows =
        lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).map(|(number, line)| row(line, number));
    let rows: Vec<TableRow> = rows.collect::<Result<_>>()?;
    let period = |row: &TableRow| LinkPeriod { time: row.time, shape: shape(operation, algorithm, ranks, row.bytes) };
    let periods: Vec<LinkPeriod> = rows.iter().map(period).collect();
    let line = periods::line(&periods).filter(|[latency, per_byte]| *latency >= 0.0 && *per_byte > 0.0);
    let [latency, per_byte] = line.ok_or_else(|| {
        Error::input(format!("{} of the table show no latency and time per byte", count_text(rows.len() as u64, "row")))
            .expected("times of two sizes or more that get longer with the size")
    })?;
    let relative = periods
        .iter()
        .map(|LinkPeriod { time, shape }| (latency * shape.messages + per_byte * shape.bytes) / time - 1.0);
    let worst = relative.fold(0.0, |worst: f64, error| worst.max(error.abs()));
    let within = |value: f64| CostEstimate { value, low: value * (1.0 - worst).max(0.0), high: value * (1.0 + worst) };
    Ok(GroupCost {
        latency: within(latency),
        unknown_latency: None,
        per_byte: within(per_byte),
        per_byte_within_node: None,
    })
}

/// Columns behind the type up to the time: reduction and root, which some operations leave out.
fn row(line: &str, number: usize) -> Result<TableRow> {
    let wrong = || {
        Error::input(format!("line {number} is not a row of nccl-tests: \"{line}\""))
            .expected("size, count, type, reduction, root, time in microseconds, bandwidths")
    };
    let columns: Vec<&str> = line.split_whitespace().collect();
    let bytes = columns.first().and_then(|size| size.parse().ok()).ok_or_else(wrong)?;
    // The root is a whole number, or -1 where there is none; times have decimals.
    let is_time = |text: &&&str| text.contains('.');
    let time: f64 = columns.iter().skip(2).find(is_time).and_then(|time| time.parse().ok()).ok_or_else(wrong)?;
    match time > 0.0 {
        true => Ok(TableRow { bytes, time: time * 1000.0 }),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_without_two_sizes_are_refused_with_the_line() {
        let cost = |text| cost_of_table(text, CollectiveOperation::AllReduce, CollectiveAlgorithm::Ring, 8);
        let message = |text| cost(text).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(message("1024 256 float sum -1 30.0 1 1 0").contains("1 row of the table"));
        assert!(message("1024 256 float sum -1 fast 1 1 0").contains("line 1 is not a row"));
        assert!(message("# nothing\n").contains("0 rows"));
    }
}
