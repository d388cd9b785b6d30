//! The time of an all-reduce: from a table that was measured, else from the ring's formula.

use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Latency of an all-reduce without a table, in milliseconds, of its launch and for each further rank: NCCL's within a server of A100
/// (44 µs for 2 ranks, 93 for 8, by vTrain's tables).
const LAUNCH_MS: f64 = 0.036;
const RANK_MS: f64 = 0.008;
/// Bandwidth of a ring without a table, in bytes a millisecond: half of what NVLink gives on an A100 (`busbw` 230 GB/s).
const BYTES_PER_MS: f64 = 1e8;
/// A bus bandwidth that is this far from what time, bytes and ranks give belongs to other units or ranks. Tables round
/// times to three digits and bandwidths to two decimals.
const TOLERANCE: f64 = 0.05;

/// Times of all-reduces by ranks and bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AllReduceTimes {
    /// By ranks: (bytes, milliseconds), bytes ascending.
    tables: BTreeMap<u64, Vec<(f64, f64)>>,
}

impl AllReduceTimes {
    /// Whether nothing was measured, so that times come from the ring's formula.
    pub fn is_assumed(&self) -> bool {
        self.tables.is_empty()
    }

    /// The most ranks that were measured; none without a table.
    pub fn most_ranks(&self) -> Option<u64> {
        self.tables.keys().next_back().copied()
    }

    /// Adds a table: CSV as vTrain publishes it (`size(B),count,type,time(ns),busbw(GB/s)`), or the output of nccl-tests.
    /// The name of a CSV ends in the number of ranks: `allreduce_a100_4.csv`.
    ///
    /// # Errors
    /// A file that cannot be read; no rows; unknown columns; a bandwidth that its time, bytes and ranks contradict.
    pub fn add(&mut self, file: &Path) -> Result<()> {
        let text = input_file::text(file, "read the times of all-reduces")?;
        let (ranks, points) = parse(&text, file).map_err(|error| error.file(file))?;
        match self.tables.insert(ranks, points) {
            None => Ok(()),
            Some(_) => Err(Error::input(format!("there are two tables of all-reduces among {ranks} ranks"))
                .file(file)
                .expected("one for each number of ranks")),
        }
    }

    /// Milliseconds of the smallest all-reduce among so many ranks.
    pub fn latency_ms(&self, ranks: u64) -> f64 {
        self.milliseconds(ranks, 0.0)
    }

    /// Milliseconds of an all-reduce of so many bytes on each of `ranks`.
    pub fn milliseconds(&self, ranks: u64, bytes: f64) -> f64 {
        if ranks < 2 {
            return 0.0;
        }
        let below = self.tables.range(..=ranks).next_back();
        match below.or_else(|| self.tables.iter().next()) {
            None => LAUNCH_MS + (ranks - 1) as f64 * RANK_MS + ring_share(ranks) * bytes / BYTES_PER_MS,
            // A ring of other length moves another share of the bytes over each link.
            Some((measured, table)) => interpolate(table, bytes) * ring_share(ranks) / ring_share(*measured),
        }
    }
}

/// Bytes that a ring moves over each link, for one byte of data: `2 (n - 1) / n`.
fn ring_share(ranks: u64) -> f64 {
    2.0 * (ranks - 1) as f64 / ranks as f64
}

/// Between two sizes a straight line; below the smallest its latency; above the largest its bandwidth.
fn interpolate(table: &[(f64, f64)], bytes: f64) -> f64 {
    let above = table.partition_point(|(size, _)| *size < bytes);
    match (above.checked_sub(1).and_then(|below| table.get(below)), table.get(above)) {
        (Some((low, fast)), Some((high, slow))) => fast + (slow - fast) * (bytes - low) / (high - low),
        (None, Some((_, time))) => *time,
        (Some((size, time)), None) => time * bytes / size,
        (None, None) => 0.0,
    }
}

type TimePoints = Vec<(f64, f64)>;

fn parse(text: &str, file: &Path) -> Result<(u64, TimePoints)> {
    let (ranks, mut points) = match text.trim_start().starts_with('#') {
        true => nccl_tests(text)?,
        false => published(text, file)?,
    };
    points.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    points.dedup_by(|(one, _), (other, _)| one == other);
    match points.is_empty() {
        true => Err(Error::input("the table holds no all-reduce").expected("rows of bytes and times")),
        false => Ok((ranks, points)),
    }
}

fn published(text: &str, file: &Path) -> Result<(u64, TimePoints)> {
    let ranks = file.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.rsplit('_').next());
    let ranks = ranks.and_then(|digits| digits.parse().ok()).filter(|ranks| *ranks > 1).ok_or_else(|| {
        Error::input("the name does not end in a number of ranks").expected("a name such as allreduce_a100_4.csv")
    })?;
    let header = text.lines().next().unwrap_or("");
    if !header.starts_with("size(B),count,type,time(ns),busbw(GB/s)") {
        return Err(Error::input(format!("the columns are \"{header}\""))
            .expected("size(B),count,type,time(ns),busbw(GB/s), or the output of all_reduce_perf")
            .line(1));
    }
    let lines = text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty());
    let point = |(line, text): (usize, &str)| {
        let cells: Vec<&str> = text.split(',').collect();
        point(&cells, [0, 3, 4], 1e-6, ranks).map_err(|error| error.line(line + 1))
    };
    Ok((ranks, lines.map(point).collect::<Result<_>>()?))
}

/// The text that all_reduce_perf prints: ranks in comments, then size, count, type, redop, root, time (µs), algbw, busbw.
fn nccl_tests(text: &str) -> Result<(u64, TimePoints)> {
    let ranks = text.lines().filter(|line| line.starts_with('#') && line.contains(" Rank ")).count() as u64;
    if ranks < 2 {
        return Err(Error::input("the output of all_reduce_perf names fewer than two ranks")
            .expected("lines such as \"#  Rank  0 Group  0 Pid ...\""));
    }
    let rows = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
    let point = |(line, text): (usize, &str)| {
        let cells: Vec<&str> = text.split_whitespace().collect();
        point(&cells, [0, 5, 7], 1e-3, ranks).map_err(|error| error.line(line + 1))
    };
    Ok((ranks, rows.map(point).collect::<Result<_>>()?))
}

/// Bytes and milliseconds of a row, checked against its bus bandwidth.
fn point(cells: &[&str], [size, time, bus]: [usize; 3], unit: f64, ranks: u64) -> Result<(f64, f64)> {
    let number = |place: usize| -> Result<f64> {
        let text = cells.get(place).copied().unwrap_or("");
        let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| Error::input(format!("\"{text}\" is not a number")).expected("bytes, time and bandwidth"))
    };
    let (bytes, milliseconds, stated) = (number(size)?, number(time)? * unit, number(bus)?);
    // GB/s of a ring: bytes over each link by the time.
    let derived = ring_share(ranks) * bytes / milliseconds / 1e6;
    match (derived - stated).abs() <= TOLERANCE * derived.max(stated) + 0.01 {
        true => Ok((bytes, milliseconds)),
        false => Err(Error::input(format!(
            "{bytes} bytes in {milliseconds} ms on {ranks} ranks are {derived:.2} GB/s on the bus, not {stated}"
        ))
        .expected("the time in the unit of its heading, and the number of ranks that was measured")),
    }
}
