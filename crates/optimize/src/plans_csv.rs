//! Reads plans from CSV, by the names of its columns.

use crate::plan::{GPT2_VOCABULARY, MeasuredPlan, TransformerPlan};
use crate::repeated::{self, TimedPlan};
use crate::step::expected_ms;
use csv::{ReaderBuilder, StringRecord, Trim};
use perf4sight_base::error::{Error, Result, nearest};
use perf4sight_base::{input_file, stats};
use perf4sight_report::significant;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// A column: its name, other names of it, and the value where it is missing.
struct PlanColumn {
    name: &'static str,
    aliases: &'static [&'static str],
    default: Option<u64>,
}

/// The columns of a plan, in the order of [`TransformerPlan::numbers`]. Aliases: arguments of Megatron-LM, and usual short names.
const COLUMNS: [PlanColumn; 11] = [
    column("gpus", &["num_gpus", "world_size"]),
    column("global_batch", &["gbs", "global_batch_size"]),
    column("micro_batch", &["mbs", "micro_batch_size"]),
    column("hidden", &["hidden_size", "width"]),
    column("heads", &["num_heads", "num_attention_heads"]),
    column("layers", &["num_layers"]),
    column("sequence", &["seq_length", "sequence_length", "tokens"]),
    PlanColumn { name: "vocabulary", aliases: &["vocab_size", "padded_vocab_size"], default: Some(GPT2_VOCABULARY) },
    column("tensor_parallel", &["tp", "tensor_model_parallel_size"]),
    column("data_parallel", &["dp", "data_parallel_size"]),
    column("pipeline_parallel", &["pp", "pipeline_model_parallel_size"]),
];

/// Columns of the measured time, each with the milliseconds of its unit.
const TIMES: [(&str, f64); 2] = [("step_ms", 1.0), ("step_s", 1e3)];

/// Rates of FLOPs that lie further apart than this factor from a file's median come from mixed units. Plans of one
/// cluster differ by less: between the most and the least efficient row of vTrain's table is a factor of 25.
const LARGEST_RATIO: f64 = 100.0;

/// FLOPs a millisecond that no GPU reaches: ten PFLOP/s, twice what a B200 does in 8 bits without sparsity.
const IMPOSSIBLE: f64 = 1e13;

/// Times that are longer than this many times what an A100 is expected to take are in another unit: microseconds, even of a GPU
/// that is five times as fast, are 200 times as long. A T4 takes five to ten times as long as an A100.
const MOST_SLOWER: f64 = 150.0;

const fn column(name: &'static str, aliases: &'static [&'static str]) -> PlanColumn {
    PlanColumn { name, aliases, default: None }
}

/// A row of a file of plans.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanRow {
    /// The plan.
    pub plan: TransformerPlan,
    /// What its step took, in milliseconds, where the file holds it.
    pub step_ms: Option<f64>,
    /// The line in the file, from 1.
    pub line: usize,
}

/// Reads plans, each checked by [`TransformerPlan::check`]; unknown columns are ignored.
///
/// # Errors
/// A file that cannot be read; no rows; missing or repeated columns; a number that is none; plans that contradict themselves, times that no GPU reaches.
pub fn read(file: &Path) -> Result<Vec<PlanRow>> {
    read_with_ignored(file).map(|(rows, _)| rows)
}

/// The same, with a warning of columns that are ignored.
pub(crate) fn read_with_ignored(file: &Path) -> Result<(Vec<PlanRow>, Option<String>)> {
    let (rows, ignored) = read_unchecked(file)?;
    rows.iter().try_for_each(check_rate).map_err(|error| error.file(file))?;
    Ok((rows, ignored))
}

/// The same, with times of any unit.
fn read_unchecked(file: &Path) -> Result<(Vec<PlanRow>, Option<String>)> {
    let text = input_file::table(file, "read the plans")?;
    parse(&text).map_err(|error| error.file(file))
}

/// Reads plans that were all measured.
///
/// # Errors
/// See [`read`]; a row without a time; times in different units, or of one plan that are far apart.
pub fn read_measured(file: &Path) -> Result<Vec<MeasuredPlan>> {
    read_with_warnings(file).map(|(plans, _)| plans)
}

/// The same, with warnings: of columns that are ignored, plans that were measured twice with times that noise does not explain, and of other plans with the same time.
pub(crate) fn read_with_warnings(file: &Path) -> Result<(Vec<MeasuredPlan>, Vec<String>)> {
    let (rows, ignored) = read_unchecked(file)?;
    let measured = rows.iter().map(|row| {
        row.step_ms.map(|step_ms| MeasuredPlan { plan: row.plan, step_ms }).ok_or_else(|| {
            let error = Error::input("this plan has no measured step").line(row.line);
            ignored.iter().cloned().fold(error.expected("a positive number as step_ms or step_s"), Error::help)
        })
    });
    let measured: Vec<MeasuredPlan> = measured.collect::<Result<_>>().map_err(|error| error.file(file))?;
    let checked = check_units(&measured, &rows).and_then(|()| check_repeated(&measured, &rows));
    let repeated = checked.map_err(|error| error.file(file))?;
    let warnings = ignored.into_iter().chain(repeated).chain(same_times(&measured)).collect();
    Ok((measured, warnings))
}

/// That most of the plans have one time: measurements do not agree in all digits.
fn same_times(measured: &[MeasuredPlan]) -> Option<String> {
    let mut plans: HashMap<u64, HashSet<[(&str, u64); COLUMNS.len()]>> = HashMap::new();
    measured.iter().for_each(|one| {
        plans.entry(one.step_ms.to_bits()).or_default().insert(one.plan.numbers());
    });
    let different: HashSet<_> = measured.iter().map(|one| one.plan.numbers()).collect();
    let (time, count) =
        plans.into_iter().map(|(time, plans)| (f64::from_bits(time), plans.len())).max_by_key(|(_, count)| *count)?;
    (count > 1 && 2 * count > different.len()).then(|| {
        format!("{count} of {} plans that differ take {time} ms each, and measurements do not agree in all digits: see that the times are theirs", different.len())
    })
}

/// Headings that nothing is read from.
fn ignored_warning(header: &StringRecord) -> Option<String> {
    let is_known = |heading: &str| {
        let columns = COLUMNS.iter().flat_map(|column| [column.name].into_iter().chain(column.aliases.iter().copied()));
        let mut known = columns.chain(TIMES.map(|(name, _)| name));
        heading.is_empty()
            || known.any(|name| heading_places(&StringRecord::from(vec![heading]), name).next().is_some())
    };
    let ignored: Vec<&str> = header.iter().filter(|heading| !is_known(heading)).collect();
    (!ignored.is_empty()).then(|| format!("columns of plans that are not used: {}", ignored.join(", ")))
}

fn parse(text: &str) -> Result<(Vec<PlanRow>, Option<String>)> {
    let mut reader = ReaderBuilder::new().trim(Trim::All).from_reader(text.as_bytes());
    let header = reader.headers().map_err(malformed_error)?.clone();
    if header.len() == 1 && header[0].contains([';', '\t']) {
        return Err(Error::input("the header is one cell").expected("cells with commas between them").line(1));
    }
    let places = ColumnPlaces::find(&header)?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(malformed_error)?;
        let line = record.position().map_or(0, |position| position.line() as usize);
        rows.push(places.row(&record, line).map_err(|error| error.line(line))?);
    }
    match rows.is_empty() {
        true => Err(Error::input("the table holds no plans").expected("a header and at least one row")),
        false => Ok((rows, ignored_warning(&header))),
    }
}

fn malformed_error(error: csv::Error) -> Error {
    let line = error.position().map(|position| position.line() as usize);
    let problem = Error::input(format!("this is not a table of comma-separated values: {error}"));
    line.into_iter().fold(problem, Error::line)
}

/// Where the columns are.
struct ColumnPlaces {
    numbers: [Option<usize>; COLUMNS.len()],
    time: Option<(usize, f64)>,
}

impl ColumnPlaces {
    fn find(header: &StringRecord) -> Result<Self> {
        let mut numbers = [None; COLUMNS.len()];
        for (place, column) in numbers.iter_mut().zip(&COLUMNS) {
            *place = column.find(header)?;
        }
        let mut times =
            TIMES.iter().flat_map(|&(name, unit)| heading_places(header, name).map(move |place| (place, unit)));
        let time = times.next();
        match times.next() {
            Some(_) => {
                Err(Error::input("the time of a step is given twice").expected("step_ms or step_s, not both").line(1))
            }
            None => Ok(ColumnPlaces { numbers, time }),
        }
    }

    fn row(&self, record: &StringRecord, line: usize) -> Result<PlanRow> {
        let mut values = [0; COLUMNS.len()];
        for ((value, place), column) in values.iter_mut().zip(self.numbers).zip(&COLUMNS) {
            *value = column.read(place.and_then(|place| record.get(place)))?;
        }
        let plan = plan(values);
        plan.check()?;
        Ok(PlanRow { plan, step_ms: self.step(record)?, line })
    }

    /// The measured time; none where the cell is empty.
    fn step(&self, record: &StringRecord) -> Result<Option<f64>> {
        let cell = self.time.and_then(|(place, unit)| Some((record.get(place)?, unit)));
        let Some((text, unit)) = cell.filter(|(text, _)| !text.is_empty()) else { return Ok(None) };
        match text.parse::<f64>() {
            Ok(time) if time.is_finite() && time > 0.0 => Ok(Some(time * unit)),
            _ => Err(Error::input(format!("the time of a step is \"{text}\"")).expected("a positive number")),
        }
    }
}

impl PlanColumn {
    /// Its place in the header; none where it may be missing.
    fn find(&self, header: &StringRecord) -> Result<Option<usize>> {
        let names = || [self.name].into_iter().chain(self.aliases.iter().copied());
        let mut places = names().flat_map(|name| heading_places(header, name));
        match (places.next(), places.next()) {
            (Some(_), Some(_)) => Err(Error::input(format!("the column {} is there twice", self.name))
                .expected(format!("one of {}", names().collect::<Vec<_>>().join(", ")))
                .line(1)),
            (place, _) if place.is_some() || self.default.is_some() => Ok(place),
            _ => Err(self.missing(header)),
        }
    }

    fn missing(&self, header: &StringRecord) -> Error {
        let error = Error::input(format!("there is no column {}", self.name)).line(1);
        let names = COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>().join(",");
        let error = error.expected(format!("the columns {names}; or {}", self.aliases.join(", ")));
        nearest(self.name, header.iter())
            .into_iter()
            .fold(error, |error, near| error.help(format!("is \"{near}\" meant?")))
    }

    fn read(&self, cell: Option<&str>) -> Result<u64> {
        match (cell.unwrap_or(""), self.default) {
            ("", Some(default)) => Ok(default),
            (text, _) => text
                .parse()
                .map_err(|_| Error::input(format!("{} is \"{text}\"", self.name)).expected("a whole number from 1")),
        }
    }
}

/// Where a heading is, perhaps several times.
fn heading_places(header: &StringRecord, name: &str) -> impl Iterator<Item = usize> {
    let headings = header.iter().map(|heading| heading.trim_start_matches('\u{feff}')).enumerate();
    headings.filter(move |(_, heading)| heading.eq_ignore_ascii_case(name)).map(|(place, _)| place)
}

/// The inverse of [`TransformerPlan::numbers`].
fn plan(values: [u64; COLUMNS.len()]) -> TransformerPlan {
    let [gpus, global_batch, micro_batch, hidden, heads, layers, sequence, vocabulary, t, d, p] = values;
    TransformerPlan {
        gpus,
        global_batch,
        micro_batch,
        hidden,
        heads,
        layers,
        sequence,
        vocabulary,
        tensor_parallel: t,
        data_parallel: d,
        pipeline_parallel: p,
    }
}

/// Refuses a time that no GPU reaches.
fn check_rate(row: &PlanRow) -> Result<()> {
    let rate = row.step_ms.map(|step_ms| row.plan.flops_per_gpu() / step_ms);
    match rate.filter(|rate| *rate > IMPOSSIBLE) {
        Some(rate) => Err(in_another_unit(rate, "more than any does").line(row.line)),
        None => Ok(()),
    }
}

/// Refuses times in another unit than they are said to be, or of which some are in another than the others.
fn check_units(measured: &[MeasuredPlan], rows: &[PlanRow]) -> Result<()> {
    let rate = |one: &MeasuredPlan| one.plan.flops_per_gpu() / one.step_ms;
    let median = |value: &dyn Fn(&MeasuredPlan) -> f64| stats::median(&measured.iter().map(value).collect::<Vec<_>>());
    let usual = median(&rate);
    if usual > IMPOSSIBLE {
        return Err(in_another_unit(usual, "more than any does"));
    }
    if median(&|one| one.step_ms / expected_ms(&one.plan)) > MOST_SLOWER {
        return Err(in_another_unit(
            usual,
            "the median of the table, and take more than a hundred times as long as on an A100",
        ));
    }
    let odd = measured.iter().zip(rows).find(|(one, _)| (rate(one) / usual).ln().abs() > LARGEST_RATIO.ln());
    let Some((one, row)) = odd else { return Ok(()) };
    let problem = format!(
        "{} ms would be {} TFLOP/s a GPU, where the median of the table is {}",
        significant(one.step_ms),
        significant(rate(one) / 1e9),
        significant(usual / 1e9)
    );
    Err(Error::input(problem).expected("times of all rows in the same unit").line(row.line))
}

fn in_another_unit(flops_a_ms: f64, why: &str) -> Error {
    Error::input(format!("a plan would do {} TFLOP/s a GPU, {why}", significant(flops_a_ms / 1e9)))
        .expected("milliseconds as step_ms, seconds as step_s")
}

/// Warns of times of one plan that are far apart, and refuses those that are too far.
fn check_repeated(measured: &[MeasuredPlan], rows: &[PlanRow]) -> Result<Vec<String>> {
    let timed = measured.iter().zip(rows).map(|(one, row)| TimedPlan {
        plan: one.plan.numbers(),
        time: one.step_ms,
        row: format!("line {}", row.line),
        line: Some(row.line),
    });
    repeated::check(&timed.collect::<Vec<_>>(), "ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        "gpus,global_batch,micro_batch,hidden,heads,layers,sequence,tensor_parallel,data_parallel,pipeline_parallel";

    /// Reads plans of a layer that vTrain measured: 372 ms for 16 samples of 24 layers of width 1024 on two A100.
    fn read_steps(columns: &str, steps: &[&str]) -> Result<Vec<MeasuredPlan>> {
        let rows: String = steps.iter().map(|step| format!("2,16,8,1024,16,24,1024,1,1,2,{step}\n")).collect();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{HEADER},{columns}\n{rows}")).unwrap();
        read_measured(file.path())
    }

    #[test]
    fn times_in_other_units_twice_or_that_contradict_each_other_are_refused() {
        assert_eq!(read_steps("step_ms", &["372.2", "380"]).unwrap().len(), 2);
        for (columns, steps, expected) in [
            ("step_ms", &["372200", "380000"][..], "take more than a hundred times as long"),
            ("step_ms", &["0.0372"], "more than any does"),
            ("step_ms,step_ms", &["372,372"], "given twice"),
            ("step_ms,gpus", &["372,2"], "gpus is there twice"),
            ("step_ms", &["372", "10000"], "takes 10000 ms here, and 372 ms in line 2"),
        ] {
            let error = read_steps(columns, steps).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        // Lines of Windows are counted as editors do.
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{HEADER}\r\n5,8,1,1024,16,24,1024,4,1,1\r\n")).unwrap();
        let error = read(file.path()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}:2: ", file.path().display())), "{error}");
    }

    /// The second of two candidates would do more than any GPU.
    #[test]
    fn times_of_candidates_that_no_gpu_reaches_are_refused() {
        let row = "2,16,8,1024,16,24,1024,1,1,2";
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{HEADER},step_ms\n{row},372\n{row},1e-300\n{row},\n")).unwrap();
        let tiny = read(file.path()).unwrap_err().to_string();
        assert!(tiny.contains(":3: ") && tiny.contains("more than any does"), "{tiny}");
    }

    /// Three plans that differ in their batch, in turns.
    #[test]
    fn what_is_not_used_and_times_that_are_copied_are_named() {
        let warnings = |columns: &str, steps: &[&str]| {
            let plans = steps.iter().zip([16, 32, 64].iter().cycle());
            let rows: String =
                plans.map(|(step, batch)| format!("2,{batch},8,1024,16,24,1024,1,1,2,{step}\n")).collect();
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), format!("{HEADER},{columns}\n{rows}")).unwrap();
            read_with_warnings(file.path()).unwrap().1
        };
        assert_eq!(warnings("step_ms", &["372", "700", "1400"]), Vec::<String>::new());
        let once = ["4 measurements of 3 plans are fitted: of each plan the median"];
        assert_eq!(warnings("step_ms", &["372", "700", "1400", "372"]), once);
        assert_eq!(
            warnings("step_ms,Name", &["372,a", "700,b", "1400,c"]),
            ["columns of plans that are not used: Name"]
        );
        let same = warnings("step_ms", &["700", "700", "1400"]);
        assert!(same.len() == 1 && same[0].starts_with("2 of 3 plans that differ take 700 ms each"), "{same:?}");
    }
}
