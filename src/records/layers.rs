//! Times of single operations, measured in place inside the step of their network: `{log_dir}/layers/{variant}-gt.csv`.
//!
//! In the dialect of the other rows. A configuration is a block of rows, one for every operation and pass that ran, closed by one with
//! pass `step`: the plain step, timed in turn with them, whose time the others add up to.

use super::append::RowFile;
use super::cells::{Format, Row, begins_formula, ends_cell, written};
use super::log::{ENDING, Rows};
use super::record::Outcome;
use super::variant::Variant;
use crate::error::{Result, suggestion};
use crate::units::Milliseconds;
pub use crate::workload::Pass;
use crate::workload::{Stage, Workload};
use std::path::{Path, PathBuf};

/// The name of the folder beside `latency` and `memory`, and of the variable in `profile_variables`.
const LAYERS: &str = "layers";

/// `outcome` comes last, because no outcome reads as another one when it is cut.
const FORMAT: Format = Format {
    kind: LAYERS,
    columns: &[
        "passed",
        "latency",
        "test_var",
        "bs",
        "dataset",
        "net_name",
        "model",
        "stage",
        "steps",
        "spread",
        "node",
        "op",
        "pass",
        "inputs",
        "output",
        "parameters",
        "outcome",
    ],
    optional: &[],
};

/// The operation that a row times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The node's name in the network file, as [`node_cell`] writes it.
    pub node: String,
    /// Its operation by kind: `conv`, `batch-norm`, ...
    pub op: String,
    /// Shapes of its inputs for one sample.
    pub inputs: Vec<Vec<usize>>,
    /// Shape of its output for one sample.
    pub output: Vec<usize>,
    /// Its trainable parameters.
    pub parameters: u64,
}

/// Time of one operation in one pass, or of what belongs to no operation.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerRow {
    /// The network at its level.
    pub variant: Variant,
    /// Stage and batch size.
    pub workload: Workload,
    /// The data set whose shapes the network has.
    pub dataset: String,
    /// The network's file; only its stem counts.
    pub file: PathBuf,
    /// The operation; none for loss, zero_grad, optimizer and the whole step.
    pub operation: Option<Operation>,
    /// In which part of the step.
    pub pass: Pass,
    /// Mean over the middle half of the steps, so that the operations add up to a step; of the plain step, the median.
    pub time: Milliseconds,
    /// Steps behind it.
    pub steps: usize,
    /// Half-width of the median's confidence interval relative to it.
    pub spread: f64,
    /// `Measured`, `Disturbed` or `Throttled`.
    pub outcome: Outcome,
}

/// The layer rows of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerLog {
    /// Those of whole configurations, in the order of the file.
    pub rows: Vec<LayerRow>,
    /// Line at which a configuration begins that a crash cut off; it is in no row.
    pub torn: Option<usize>,
    whole: u64,
}

impl LayerLog {
    /// What a reader of the rows should be told.
    pub fn warning(&self, file: &Path) -> Option<String> {
        let line = self.torn?;
        Some(format!("{}:{line}: a configuration's layers were cut off by a crash and are left out", file.display()))
    }
}

/// The file that holds the layer rows of `variant`.
pub fn file(log_dir: &Path, variant: &Variant) -> PathBuf {
    log_dir.join(LAYERS).join(format!("{variant}{ENDING}"))
}

/// Reads a file of layer rows.
///
/// # Errors
/// A file that cannot be read, a header without a required column, and any cell that is not what its column holds.
pub fn read(file: &Path) -> Result<LayerLog> {
    let mut rows = Rows::read(file, FORMAT, layer)?;
    let closed = rows.whole.iter().rposition(|(_, row)| row.pass == Pass::Step).map_or(0, |last| last + 1);
    let unclosed = rows.whole.get(closed).map(|(position, _)| *position);
    rows.whole.truncate(closed);
    let (torn, whole) = match unclosed {
        Some(position) => (Some(position.line), position.start),
        None => (rows.torn, rows.bytes),
    };
    Ok(LayerLog { rows: rows.whole.into_iter().map(|(_, row)| row).collect(), torn, whole })
}

/// One file of layer rows, open for more.
#[derive(Debug)]
pub struct LayerAppender {
    file: RowFile,
}

impl LayerAppender {
    /// Opens the layer rows of `variant` under `log_dir` and reads what is there; what a crash cut off is removed.
    ///
    /// # Errors
    /// A file that holds something else, or that was written with other columns.
    pub fn open(log_dir: &Path, variant: &Variant) -> Result<(Self, Option<LayerLog>)> {
        let file = RowFile { path: file(log_dir, variant), header: FORMAT.header() };
        if !file.path.exists() {
            return Ok((LayerAppender { file }, None));
        }
        let log = read(&file.path)?;
        file.mend(log.whole)?;
        Ok((LayerAppender { file }, Some(log)))
    }

    /// Writes the rows of one configuration, the plain step last, and waits until the disk has them.
    ///
    /// # Errors
    /// When they cannot be written; none of them stays then.
    pub fn append(&self, rows: &[LayerRow]) -> Result<()> {
        self.file.append(&rows.iter().map(cells).collect::<Vec<_>>())
    }
}

/// A node's name as a row holds it: with `/` for what would end a cell or row, and before what would be read as something else than a
/// name.
pub fn node_cell(name: &str) -> String {
    let cell = name.replace(ends_cell, "/");
    if cell == "None" || begins_formula(&cell) { format!("/{cell}") } else { cell }
}

fn layer(row: &Row<'_>) -> Result<LayerRow> {
    let file = PathBuf::from(row.cell("model"));
    let number = |column| row.value(column, true).map(Option::unwrap_or_default);
    Ok(LayerRow {
        variant: row.variant(&file)?,
        workload: row.workload(Stage::Training)?,
        dataset: row.cell("dataset").to_owned(),
        file,
        operation: operation(row)?,
        pass: pass(row)?,
        time: Milliseconds(number("latency")?),
        steps: number("steps")? as usize,
        spread: row.spread()?.unwrap_or_default(),
        outcome: row.outcome()?,
    })
}

fn pass(row: &Row<'_>) -> Result<Pass> {
    let word = row.cell("pass");
    Pass::ALL.into_iter().find(|pass| pass.name() == word).ok_or_else(|| {
        let names = Pass::ALL.map(Pass::name);
        row.wrong("pass", &names.join(", ")).help(suggestion(word, names))
    })
}

fn operation(row: &Row<'_>) -> Result<Option<Operation>> {
    if row.cell("node") == "None" {
        return Ok(None);
    }
    let inputs = row.cell("inputs").split('+').filter(|shape| *shape != "None").map(shape).collect::<Option<_>>();
    let expected = "lengths joined by x, shapes by +, such as 64x56x56+64x56x56";
    Ok(Some(Operation {
        node: row.cell("node").to_owned(),
        op: row.cell("op").to_owned(),
        inputs: inputs.ok_or_else(|| row.wrong("inputs", expected))?,
        output: shape(row.cell("output")).ok_or_else(|| row.wrong("output", expected))?,
        parameters: row.optional("parameters", str::parse)?.unwrap_or_default(),
    }))
}

fn shape(text: &str) -> Option<Vec<usize>> {
    text.split('x').map(|length| length.parse().ok()).collect()
}

/// The cells of a row, in the order of the columns.
fn cells(row: &LayerRow) -> Vec<String> {
    let passed = if row.outcome.passed() { "True" } else { "False" };
    let joined = |shape: &Vec<usize>| shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
    let of = |cell: &dyn Fn(&Operation) -> String| written(row.operation.as_ref().map(cell));
    let inputs = |operation: &Operation| match operation.inputs.as_slice() {
        [] => "None".to_owned(),
        inputs => inputs.iter().map(joined).collect::<Vec<_>>().join("+"),
    };
    vec![
        passed.to_owned(),
        row.time.0.to_string(),
        LAYERS.to_owned(),
        row.workload.batch.to_string(),
        row.dataset.clone(),
        row.variant.network.clone(),
        row.file.display().to_string(),
        row.workload.step.stage.to_string(),
        row.steps.to_string(),
        row.spread.to_string(),
        of(&|operation| node_cell(&operation.node)),
        of(&|operation| operation.op.clone()),
        row.pass.name().to_owned(),
        of(&inputs),
        of(&|operation| joined(&operation.output)),
        of(&|operation| operation.parameters.to_string()),
        row.outcome.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodes_name_is_one_cell_and_no_formula() {
        let cells = ["/features/conv", "a|b", "a\nb\u{1b}", "=1+1", "None"].map(node_cell);
        assert_eq!(cells, ["/features/conv", "a/b", "a/b/", "/=1+1", "/None"]);
    }
}
