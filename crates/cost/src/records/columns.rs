//! The columns of all files of rows, in one table that headers, readers and writers use.

use super::cells::RowCell;
use super::dialect::{NONE, SEPARATOR, join_words, optional_text};
use super::layer::{LayerOperation, LayerRecord, node_cell};
use super::record::{MeasurementOutcome, MemoryColumns, RowReading, RowRecord};
use super::variant::Variant;
use MissingColumn::{Assumed, Refused, Unknown};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::{Bytes, Milliseconds};
use perf4sight_step::workload::{Stage, Step, StepPart, Variable, Workload};
use std::path::PathBuf;

/// The largest batch size that is read; a larger value is damage. Rows of other programs may have larger batch sizes
/// than a step can be requested with.
const LARGEST_READ: u64 = 1 << 32;

pub(super) struct RowLine {
    pub variable: Variable,
    pub record: RowRecord,
    /// None for a whole step.
    pub operation: Option<LayerOperation>,
    pub pass: StepPart,
}

/// The most memory that a step can use, as a multiple of its device's: the rest would be swap.
const MOST_USED: f64 = 4.0;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingColumn {
    /// It is not a file of rows.
    Refused,
    /// It is a published file: its rows get a default value. New rows are never appended to it.
    Assumed,
    /// It is a file of an earlier version: the value is unknown, as if the cell held `None`.
    Unknown,
}

pub(super) struct RowColumn {
    pub name: &'static str,
    files: &'static [Variable],
    pub lacking: MissingColumn,
    content: CellFormat,
}

/// How a cell is parsed into a line, and formatted from it.
enum CellFormat {
    Line(fn(&RowCell<'_>, &mut RowLine) -> Result<()>, fn(&RowLine) -> String),
    /// MiB.
    Memory(fn(&mut MemoryColumns) -> &mut Option<Bytes>),
    /// `None` if the row is not of an operation.
    Operation(fn(&RowCell<'_>, &mut LayerOperation) -> Result<()>, fn(&LayerOperation) -> String),
}

const ALL: &[Variable] = &Variable::ALL;
const TIMES: &[Variable] = &[Variable::Latency, Variable::Layers];
const LATENCY: &[Variable] = &[Variable::Latency];
const MEMORY: &[Variable] = &[Variable::Memory];
const LAYERS: &[Variable] = &[Variable::Layers];

/// The columns in the order in which they are written, the published ones first. They are also read in this order, so
/// that a column can depend on earlier ones.
///
/// `outcome` comes last: a row cut off inside its last cell has all its cells, but a truncated outcome is never
/// another valid one. Neither is the truncated end of `model`, which is the last column of published rows. Some
/// published files lack `free`.
const COLUMNS: &[RowColumn] = &[
    column("passed", ALL, Refused, CellFormat::Line(read_passed, |line| passed_word(line.record.outcome).to_owned())),
    column("latency", TIMES, Refused, CellFormat::Line(read_latency, write_latency)),
    column("mem_alloc", MEMORY, Refused, CellFormat::Memory(|memory| &mut memory.allocated)),
    column("mem_reserved", MEMORY, Refused, CellFormat::Memory(|memory| &mut memory.reserved)),
    column("mem_used", MEMORY, Refused, CellFormat::Memory(|memory| &mut memory.used)),
    column("mem_avail", MEMORY, Refused, CellFormat::Memory(|memory| &mut memory.available)),
    column("free", MEMORY, Unknown, CellFormat::Memory(|memory| &mut memory.free)),
    column("capacity", MEMORY, Refused, CellFormat::Memory(|memory| &mut memory.capacity)),
    column("test_var", ALL, Refused, CellFormat::Line(check_variable, |line| line.variable.to_string())),
    column("bs", ALL, Refused, CellFormat::Line(read_batch, |line| line.record.workload.batch.to_string())),
    column("dataset", ALL, Refused, CellFormat::Line(read_dataset, |line| line.record.dataset.clone())),
    column("net_name", ALL, Refused, CellFormat::Line(read_network, |line| line.record.variant.network.clone())),
    column("model", ALL, Refused, CellFormat::Line(read_model, |line| line.record.file.display().to_string())),
    column("stage", ALL, Assumed, CellFormat::Line(read_stage, |line| line.record.workload.step.stage.to_string())),
    column("steps", ALL, Unknown, CellFormat::Line(read_steps, |line| optional_text(line.record.steps))),
    column("spread", ALL, Unknown, CellFormat::Line(read_spread, |line| optional_text(line.record.spread))),
    column("visits", LATENCY, Unknown, CellFormat::Line(read_visits, |line| join_words(&line.record.visits, " "))),
    column("mem_heap", MEMORY, Unknown, CellFormat::Memory(|memory| &mut memory.heap)),
    column("node", LAYERS, Refused, CellFormat::Line(read_node, write_node)),
    column("op", LAYERS, Refused, CellFormat::Operation(read_op, |operation| operation.op.clone())),
    column("pass", LAYERS, Refused, CellFormat::Line(read_pass, |line| line.pass.name().to_owned())),
    column("inputs", LAYERS, Refused, CellFormat::Operation(read_inputs, write_inputs)),
    column(
        "output",
        LAYERS,
        Refused,
        CellFormat::Operation(read_output, |operation| join_words(&operation.output, "x")),
    ),
    column("parameters", LAYERS, Refused, CellFormat::Operation(read_parameters, |op| op.parameters.to_string())),
    column("step", ALL, Unknown, CellFormat::Line(read_step, |line| line.record.workload.step.cell())),
    column("outcome", ALL, Assumed, CellFormat::Line(read_outcome, |line| line.record.outcome.to_string())),
];

const fn column(
    name: &'static str,
    files: &'static [Variable],
    lacking: MissingColumn,
    content: CellFormat,
) -> RowColumn {
    RowColumn { name, files, lacking, content }
}

/// The columns of files of that variable, in the order they are written.
pub(super) fn columns_of(variable: Variable) -> impl Iterator<Item = &'static RowColumn> {
    COLUMNS.iter().filter(move |column| column.files.contains(&variable))
}

pub(super) fn header(variable: Variable) -> String {
    columns_of(variable).map(|column| column.name).collect::<Vec<_>>().join(SEPARATOR)
}

impl RowColumn {
    pub fn read(&self, cell: &RowCell<'_>, line: &mut RowLine) -> Result<()> {
        match self.content {
            CellFormat::Line(read, _) => read(cell, line),
            CellFormat::Operation(read, _) => line.operation.as_mut().map_or(Ok(()), |operation| read(cell, operation)),
            CellFormat::Memory(field) => {
                let mib = match self.lacking {
                    MissingColumn::Unknown => cell.optional()?,
                    MissingColumn::Refused | MissingColumn::Assumed => {
                        cell.measured_number(line.record.outcome.passed())?
                    }
                };
                if let RowReading::Memory(memory) = &mut line.record.reading {
                    *field(memory) = mib.map(Bytes::from_mib);
                }
                Ok(())
            }
        }
    }

    fn write(&self, line: &RowLine) -> String {
        match (&self.content, line.record.reading) {
            (CellFormat::Line(_, write), _) => write(line),
            (CellFormat::Operation(_, write), _) => optional_text(line.operation.as_ref().map(write)),
            (CellFormat::Memory(field), RowReading::Memory(mut memory)) => {
                optional_text(field(&mut memory).map(Bytes::mib))
            }
            (CellFormat::Memory(_), RowReading::Latency(_)) => NONE.to_owned(),
        }
    }
}

impl RowLine {
    /// A line before its cells are read: of a file without a `stage` column, it is of `stage`.
    pub fn unread(variable: Variable, stage: Stage) -> Self {
        let reading = match variable {
            Variable::Latency | Variable::Layers => RowReading::Latency(None),
            Variable::Memory => RowReading::Memory(MemoryColumns::default()),
        };
        let workload = Workload::published(stage, 1);
        let record = RowRecord::new(Variant::new("", 0), workload, MeasurementOutcome::Measured, reading);
        RowLine { variable, record, operation: None, pass: StepPart::Step }
    }

    /// Refuses a step that passed with more memory than its device has, swap included: numbers in another unit.
    ///
    /// # Errors
    /// As said.
    pub fn check_memory(&self) -> Result<()> {
        let RowReading::Memory(MemoryColumns { used: Some(used), capacity: Some(capacity), .. }) = self.record.reading
        else {
            return Ok(());
        };
        if !self.record.outcome.passed() || used.mib() <= MOST_USED * capacity.mib() {
            return Ok(());
        }
        Err(Error::input(format!("a step used {used} of a device that has {capacity}"))
            .expected("mem_used and capacity in MiB")
            .help("correct the row or remove it"))
    }

    pub fn cells(&self) -> Vec<String> {
        columns_of(self.variable).map(|column| column.write(self)).collect()
    }
}

impl From<&RowRecord> for RowLine {
    fn from(record: &RowRecord) -> Self {
        RowLine { variable: record.quantity().into(), record: record.clone(), operation: None, pass: StepPart::Step }
    }
}

impl From<&LayerRecord> for RowLine {
    fn from(layer: &LayerRecord) -> Self {
        let LayerRecord { record, operation, pass } = layer.clone();
        RowLine { variable: Variable::Layers, record, operation, pass }
    }
}

impl From<RowLine> for LayerRecord {
    fn from(line: RowLine) -> Self {
        let RowLine { record, operation, pass, .. } = line;
        LayerRecord { record, operation, pass }
    }
}

fn passed_word(outcome: MeasurementOutcome) -> &'static str {
    if outcome.passed() { "True" } else { "False" }
}

/// A published row has no `outcome`: there, not passed means that the step did not fit.
fn read_passed(cell: &RowCell<'_>, line: &mut RowLine) -> Result<()> {
    let outcomes = [MeasurementOutcome::Measured, MeasurementOutcome::OutOfMemory];
    let outcome = outcomes.into_iter().find(|outcome| passed_word(*outcome) == cell.text);
    line.record.outcome = outcome.ok_or_else(|| cell.wrong("True or False"))?;
    Ok(())
}

fn read_outcome(cell: &RowCell<'_>, line: &mut RowLine) -> Result<()> {
    let outcome = cell.one_of(MeasurementOutcome::ALL, MeasurementOutcome::name)?;
    let word = passed_word(line.record.outcome);
    if passed_word(outcome) != word {
        return Err(cell.wrong(&format!("a word that goes with passed = {word}")));
    }
    line.record.outcome = outcome;
    Ok(())
}

fn read_latency(cell: &RowCell<'_>, line: &mut RowLine) -> Result<()> {
    let milliseconds = cell.measured_number(line.record.outcome.passed())?;
    line.record.reading = RowReading::Latency(milliseconds.map(Milliseconds));
    Ok(())
}

fn write_latency(line: &RowLine) -> String {
    match line.record.reading {
        RowReading::Latency(latency) => optional_text(latency.map(|latency| latency.0)),
        RowReading::Memory(_) => NONE.to_owned(),
    }
}

fn check_variable(cell: &RowCell<'_>, line: &mut RowLine) -> Result<()> {
    let (found, expected) = (cell.text, line.variable);
    if found == expected.name() {
        return Ok(());
    }
    let mixed = Error::input(format!("a {found} row among {expected} rows"));
    Err(cell.with_place(mixed).help("move it to the folder of its kind"))
}

fn read_batch(cell: &RowCell<'_>, line: &mut RowLine) -> Result<()> {
    let batch = cell.text.parse().ok().filter(|batch| (1..=LARGEST_READ).contains(batch));
    line.record.workload.batch = batch.ok_or_else(|| cell.wrong("a batch size of 1 or more"))?;
    Ok(())
}

fn read_dataset(cell: &RowCell<'_>, line: &mut RowLine) -> Result<()> {
    line.record.dataset = cell.text.to_owned();
    Ok(())
}

fn read_network(cell: &RowCell<'_>, line: &mut RowLine) -> Result<()> {
    line.record.variant.network = cell.text.to_owned();
    Ok(())
}

/// `net_name` is the known name that the file's stem begins with.
fn read_model(cell: &RowCell<'_>, line: &mut RowLine) -> Result<()> {
    let file = PathBuf::from(cell.text);
    let known_ending = file.extension().is_some_and(|ending| ending == "py" || ending == "onnx");
    let stem = file.file_stem().and_then(|stem| stem.to_str()).filter(|_| known_ending);
    let stem = stem.ok_or_else(|| cell.wrong("the path of a .onnx or .py file"))?;
    let variant =
        Variant::parse(stem, [line.record.variant.network.as_str()]).map_err(|error| cell.with_place(error))?;
    (line.record.variant, line.record.file) = (variant, file);
    Ok(())
}

fn read_stage(cell: &RowCell<'_>, line: &mut RowLine) -> Result<()> {
    line.record.workload.step.stage = Stage::parse(cell.text).map_err(|error| cell.with_place(error))?;
    Ok(())
}

/// Rows of earlier versions are of published steps.
fn read_step(cell: &RowCell<'_>, line: &mut RowLine) -> Result<()> {
    let step = &mut line.record.workload.step;
    if cell.text != NONE {
        *step = Step::from_cell(step.stage, cell.text).map_err(|error| cell.with_place(error))?;
    }
    Ok(())
}

fn read_steps(cell: &RowCell<'_>, line: &mut RowLine) -> Result<()> {
    line.record.steps = cell.optional()?;
    Ok(())
}

fn read_spread(cell: &RowCell<'_>, line: &mut RowLine) -> Result<()> {
    line.record.spread = cell.share()?;
    Ok(())
}

fn read_visits(cell: &RowCell<'_>, line: &mut RowLine) -> Result<()> {
    line.record.visits = cell.numbers()?;
    Ok(())
}

fn read_pass(cell: &RowCell<'_>, line: &mut RowLine) -> Result<()> {
    line.pass = cell.one_of(StepPart::ALL, StepPart::name)?;
    Ok(())
}

fn read_node(cell: &RowCell<'_>, line: &mut RowLine) -> Result<()> {
    line.operation =
        (cell.text != NONE).then(|| LayerOperation { node: cell.text.to_owned(), ..LayerOperation::default() });
    Ok(())
}

fn write_node(line: &RowLine) -> String {
    optional_text(line.operation.as_ref().map(|operation| node_cell(&operation.node)))
}

fn read_op(cell: &RowCell<'_>, operation: &mut LayerOperation) -> Result<()> {
    operation.op = cell.text.to_owned();
    Ok(())
}

fn read_inputs(cell: &RowCell<'_>, operation: &mut LayerOperation) -> Result<()> {
    let shapes = cell.text.split('+').filter(|shape| *shape != NONE);
    operation.inputs = shapes.map(|text| shape(cell, text)).collect::<Result<_>>()?;
    Ok(())
}

fn write_inputs(operation: &LayerOperation) -> String {
    join_words(&operation.inputs.iter().map(|shape| join_words(shape, "x")).collect::<Vec<_>>(), "+")
}

fn read_output(cell: &RowCell<'_>, operation: &mut LayerOperation) -> Result<()> {
    operation.output = shape(cell, cell.text)?;
    Ok(())
}

fn shape(cell: &RowCell<'_>, text: &str) -> Result<Vec<usize>> {
    let lengths: Option<Vec<usize>> = text.split('x').map(|length| length.parse().ok()).collect();
    lengths.ok_or_else(|| cell.wrong("lengths joined by x, shapes by +, such as 64x56x56+64x56x56"))
}

fn read_parameters(cell: &RowCell<'_>, operation: &mut LayerOperation) -> Result<()> {
    operation.parameters = cell.optional()?.unwrap_or_default();
    Ok(())
}
