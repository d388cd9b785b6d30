//! What dPRO's scripts write of a network on a GPU: `name.txt` with the operations of each precision, `avg.txt` with their
//! mean times by batch size and, on the line behind, variances, `metadata.json` with their tensors.

use super::{MeasuredOperations, RowOrigin};
use crate::class::class_of;
use crate::element::ElementType;
use crate::row::{OperationRow, shapes};
use crate::work::{OperationWork, TensorShape, work};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

const TIMES: &str = "avg.txt";
const NAMES: &str = "name.txt";
const METADATA: &str = "metadata.json";
/// The folder into which the published script moves what was recorded of the first run.
const RECORDED: &str = ".metadata";
/// What every header of `avg.txt` begins with.
const HEADER: &str = "dPRO";
/// Operations whose times scatter by more than this share are left out (`STDDEV_THREHOLD`).
const SCATTER: f64 = 0.2;
/// How the batch size is written in a header, by the versions of the script.
const BATCH: [&str; 3] = ["BS=", "--batch-size", "--train_batch_size="];
/// Weights, whose sizes do not change with the batch (`MetaInfo.get_hyper_para`).
const WEIGHTS: [&str; 2] = ["kernel", "ReadVariableOp"];

/// An operation of the model: `{"op": "Conv2D", "input": [..], "output": [..]}`.
#[derive(Deserialize)]
struct DescribedOperation {
    #[serde(default)]
    op: String,
    #[serde(default)]
    input: Vec<DescribedTensor>,
    #[serde(default)]
    output: Vec<DescribedTensor>,
}

#[derive(Deserialize)]
struct DescribedTensor {
    #[serde(default)]
    name: String,
    #[serde(default)]
    shape: Option<Vec<Option<u64>>>,
    #[serde(default)]
    dtype: String,
}

/// The times of one batch size in one precision.
struct BatchRun {
    half: bool,
    batch: u64,
    line: usize,
    means: Vec<f64>,
    variances: Option<Vec<f64>>,
}

pub(super) fn is_times(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == TIMES)
}

/// Reads the files beside `avg.txt`.
pub(super) fn read(times: &Path, origin: &RowOrigin, found: &mut MeasuredOperations) -> Result<()> {
    let folder = times.parent().unwrap_or(Path::new("."));
    let names = names(&folder.join(NAMES))?;
    let metadata = metadata(folder)?;
    let runs = runs(&input_file::text(times, "read the times of operations")?).map_err(|error| error.file(times))?;
    let recorded = recorded_batch(&metadata).or(runs.first().map(|run| run.batch)).unwrap_or(1).max(1);
    for run in &runs {
        let Some(names) = names.get(&run.half) else {
            let precision = precision(run.half);
            return Err(Error::input(format!("{NAMES} names no operations of {precision}")).file(times).line(run.line));
        };
        if names.len() != run.means.len() {
            return Err(Error::input(format!("{} times for the {} names of {NAMES}", run.means.len(), names.len()))
                .file(times)
                .line(run.line)
                .expected("a time for each name"));
        }
        for (place, name) in names.iter().enumerate() {
            match row(name, place, run, &metadata, recorded) {
                Ok(row) => {
                    let row = OperationRow { gpu: origin.gpu.clone(), network: origin.network.clone(), ..row };
                    row.check().map_err(|error| error.file(times).line(run.line + 1))?;
                    found.rows.push(row);
                }
                Err(why) => found.leave_out(why),
            }
        }
    }
    Ok(())
}

fn precision(half: bool) -> &'static str {
    if half { "fp16" } else { "fp32" }
}

/// `fp32:['resnet/conv1', 'resnet/conv2']`, a line for each precision.
fn names(file: &Path) -> Result<HashMap<bool, Vec<String>>> {
    let text = input_file::text(file, "read the names of operations")?;
    let mut names = HashMap::new();
    for (place, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = || {
            Error::input("this line names no operations of a precision")
                .file(file)
                .line(place + 1)
                .expected("fp32:['...', '...'] or fp16:['...']")
        };
        let (head, list) = line.split_once(':').ok_or_else(wrong)?;
        let half = match head.trim() {
            "fp32" => false,
            "fp16" => true,
            _ => return Err(wrong()),
        };
        let inner = list.trim().strip_prefix('[').and_then(|list| list.strip_suffix(']')).ok_or_else(wrong)?;
        let quoted = inner.split(',').map(|name| plain_name(name.trim().trim_matches(['\'', '"'])).to_owned());
        names.insert(half, quoted.filter(|name| !name.is_empty()).collect());
    }
    Ok(names)
}

/// `resnet/conv1/Conv2D` for `host0.rank0->FW.resnet/conv1/Conv2D`.
fn plain_name(name: &str) -> &str {
    let own = name.rsplit("->").next().unwrap_or(name);
    let own = own.split("~>").next().unwrap_or(own);
    ["FW.", "BW.", "UPDATE_."].iter().find_map(|prefix| own.strip_prefix(prefix)).unwrap_or(own)
}

fn metadata(folder: &Path) -> Result<BTreeMap<String, DescribedOperation>> {
    let places = [folder.join(METADATA), folder.join(RECORDED).join(METADATA)];
    let file: PathBuf = places.iter().find(|file| file.exists()).unwrap_or(&places[0]).clone();
    let text = input_file::text(&file, "read the tensors of operations")?;
    serde_json::from_str(&text).map_err(|cause| {
        Error::input(format!("these are no operations of a model: {cause}"))
            .file(&file)
            .expected("{operation: {op, input: [{name, shape, dtype}], output}}")
    })
}

/// The batch size that tensors were recorded with: that of images, as published.
fn recorded_batch(metadata: &BTreeMap<String, DescribedOperation>) -> Option<u64> {
    let convolution = metadata.values().find(|described| described.op == "Conv2D")?;
    convolution.output.first()?.shape.as_ref()?.first().copied().flatten()
}

/// Headers, each with a list of means and perhaps one of variances; a header without lists is of a run that failed.
fn runs(text: &str) -> Result<Vec<BatchRun>> {
    let mut runs: Vec<BatchRun> = Vec::new();
    let mut head: Option<(bool, u64, usize)> = None;
    for (place, line) in text.lines().enumerate().map(|(place, line)| (place + 1, line.trim())) {
        if line.contains(HEADER) {
            head = Some(header(line, place)?);
        } else if line.starts_with('[') {
            let list = numbers(line).ok_or_else(|| {
                Error::input("this is not a list of numbers").line(place).expected("[0.12, 0.34], in milliseconds")
            })?;
            match (head.take(), runs.last_mut()) {
                (Some((half, batch, line)), _) => {
                    runs.push(BatchRun { half, batch, line, means: list, variances: None });
                }
                (None, Some(run)) if run.variances.is_none() => run.variances = Some(list),
                _ => return Err(Error::input("this list follows no header").line(place).expected(EXPECTED)),
            }
        }
    }
    match runs.is_empty() {
        true => Err(Error::input("holds no times").expected(EXPECTED)),
        false => Ok(runs),
    }
}

const EXPECTED: &str = "lines such as \"dPRO fp32 BS=32:\", each with a list of milliseconds and one of variances";

fn header(line: &str, place: usize) -> Result<(bool, u64, usize)> {
    let wrong = || Error::input("this header says no precision or batch size").line(place).expected(EXPECTED);
    let half = match (line.contains("fp32"), line.contains("fp16")) {
        (true, _) => false,
        (_, true) => true,
        _ => return Err(wrong()),
    };
    let behind = BATCH.iter().find_map(|word| line.split_once(word)).ok_or_else(wrong)?.1;
    let digits: String = behind.trim_start_matches([' ', '=']).chars().take_while(char::is_ascii_digit).collect();
    Ok((half, digits.parse().map_err(|_| wrong())?, place))
}

fn numbers(list: &str) -> Option<Vec<f64>> {
    let inner = list.strip_prefix('[')?.strip_suffix(']')?;
    inner.split(',').map(|number| number.trim().parse().ok().filter(|number: &f64| number.is_finite())).collect()
}

/// The row of an operation in a run; or why there is none.
fn row(
    name: &str,
    place: usize,
    run: &BatchRun,
    metadata: &BTreeMap<String, DescribedOperation>,
    recorded: u64,
) -> std::result::Result<OperationRow, &'static str> {
    let mean = run.means[place];
    let variance = run.variances.as_ref().and_then(|variances| variances.get(place)).copied().unwrap_or(0.0);
    if mean <= 0.0 {
        return Err("they have no time");
    }
    if variance.max(0.0).sqrt() / mean > SCATTER {
        return Err("their times scatter by more than 20 %");
    }
    let cast = ["CastToFp16", "CastToFp32"].into_iter().find(|cast| name.contains(cast));
    let described = match cast {
        Some(_) => name.split('-').next().and_then(|before| metadata.get(before)),
        None => metadata.get(name),
    };
    let described = described.ok_or("metadata.json does not hold them")?;
    let operation = cast.unwrap_or(&described.op);
    let class = class_of(operation).ok_or("no class has them")?;
    let growth = run.batch as f64 / recorded as f64;
    let (reads, writes): (&[DescribedTensor], &[DescribedTensor]) = match cast {
        Some(_) => (&described.output, &[]),
        None => (&described.input, &described.output),
    };
    let (inputs, outputs) = (tensors(reads, run.half), tensors(writes, run.half));
    let own = work(operation, class, &inputs, &outputs).ok_or("their tensors do not say what they compute")?;
    let sides = reads.iter().chain(writes);
    let grown: f64 = sides.map(|tensor| bytes(tensor, run.half) * (growth_of(tensor, recorded, growth) - 1.0)).sum();
    Ok(OperationRow {
        gpu: String::new(),
        network: String::new(),
        operation: operation.to_owned(),
        class,
        shapes: grown_shapes(reads, recorded, growth),
        element: if run.half { ElementType::Fp16 } else { ElementType::Fp32 },
        // Each product sums up, or keeps, the batch once.
        work: OperationWork { flops: own.flops * growth, bytes: own.bytes + grown },
        time_us: 1e3 * mean,
        count: 1,
    })
}

fn tensors(described: &[DescribedTensor], half: bool) -> Vec<TensorShape> {
    described.iter().filter_map(|tensor| from_description(tensor, half)).collect()
}

fn from_description(described: &DescribedTensor, half: bool) -> Option<TensorShape> {
    let shape: Option<Vec<u64>> = described.shape.as_ref()?.iter().copied().collect();
    let element = ElementType::from_spelling(&described.dtype).unwrap_or(ElementType::Fp32);
    let element = if half && element == ElementType::Fp32 { ElementType::Fp16 } else { element };
    Some(TensorShape { shape: shape?, element })
}

fn bytes(described: &DescribedTensor, half: bool) -> f64 {
    let tensor = from_description(described, half);
    tensor.map_or(0.0, |tensor| tensor.shape.iter().map(|size| *size as f64).product::<f64>() * tensor.element.bytes())
}

/// By how much a tensor grows with the batch: one that begins with the recorded batch, unless it is a weight.
fn growth_of(described: &DescribedTensor, recorded: u64, growth: f64) -> f64 {
    let is_weight = WEIGHTS.iter().any(|word| described.name.contains(word));
    let first = described.shape.as_ref().and_then(|shape| shape.first().copied().flatten());
    if !is_weight && first.is_some_and(|first| first % recorded == 0) { growth } else { 1.0 }
}

/// The shapes with this batch.
fn grown_shapes(described: &[DescribedTensor], recorded: u64, growth: f64) -> String {
    let grown = described.iter().filter_map(|described| {
        let mut tensor = from_description(described, false)?;
        let factor = growth_of(described, recorded, growth);
        tensor.shape.iter_mut().take(1).for_each(|first| *first = (*first as f64 * factor).round() as u64);
        Some(tensor)
    });
    shapes(&grown.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn folder(times: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            NAMES,
            "fp32:['host0.rank0->FW.net/conv/Conv2D', 'net/dense/MatMul']\nfp16:['net/conv/Conv2D', 'net/dense/MatMul', 'net/conv/Conv2D-0-CastToFp16-AutoMixedPrecision']\n",
        );
        write(TIMES, times);
        let tensor = |name: &str, shape: &[u64]| json!({"name": name, "shape": shape, "dtype": "float32"});
        let metadata = json!({
            "net/conv/Conv2D": {"op": "Conv2D", "input": [tensor("x", &[4, 8, 8, 3]), tensor("net/kernel", &[3, 3, 3, 16])], "output": [tensor("y", &[4, 8, 8, 16])]},
            "net/dense/MatMul": {"op": "MatMul", "input": [tensor("x", &[4, 64]), tensor("d/ReadVariableOp", &[64, 10])], "output": [tensor("y", &[4, 10])]},
        });
        write(METADATA, &metadata.to_string());
        folder
    }

    fn rows(times: &str) -> Result<MeasuredOperations> {
        let folder = folder(times);
        let mut found = MeasuredOperations::default();
        let origin = RowOrigin { gpu: "V100".to_owned(), network: "net".to_owned() };
        read(&folder.path().join(TIMES), &origin, &mut found)?;
        Ok(found)
    }

    /// Recorded with four images; with eight, products and activations are twice as many, weights the same.
    #[test]
    fn work_grows_with_the_batch_and_halves_in_half_precision() {
        let times = "dPRO fp32 BS=4: \n[1.0, 0.5]\n[0.0001, 0.0]\ndPRO fp16 BS=8: \n[1.0, 0.5, 0.1]\n[0.0, 0.0, 0.0]\n";
        let found = rows(times).unwrap();
        let flops = 2.0 * 4.0 * 8.0 * 8.0 * 16.0 * 27.0;
        let [image, filter, result] = [4.0 * 192.0, 27.0 * 16.0, 4.0 * 64.0 * 16.0];
        let work: Vec<(f64, f64)> = found.rows.iter().map(|row| (row.work.flops, row.work.bytes)).collect();
        assert_eq!(work[0], (flops, 4.0 * (image + filter + result)));
        assert_eq!(work[2], (2.0 * flops, 2.0 * (2.0 * image + filter + 2.0 * result)));
        assert_eq!(work[1].0, 2.0 * 4.0 * 64.0 * 10.0);
        let cast = &found.rows[4];
        assert_eq!((cast.operation.as_str(), cast.time_us, cast.work.flops), ("CastToFp16", 100.0, 0.0));
    }

    #[test]
    fn scattered_times_and_unknown_operations_are_counted() {
        let found = rows("dPRO fp32 BS=4: \n[1.0, 0.5]\n[0.09, 0.0]\n").unwrap();
        assert_eq!(found.rows.len(), 1);
        assert!(found.warnings()[0].contains("scatter by more than 20 %"));
    }

    #[test]
    fn files_that_do_not_fit_together_are_refused_with_their_line() {
        let message = |times: &str| rows(times).unwrap_err().to_string();
        assert!(message("dPRO fp32 BS=4: \n[1.0]\n").contains("1 times for the 2 names"));
        assert!(message("dPRO int8 BS=4: \n[1.0]\n").contains("no precision or batch size"));
        assert!(message("[1.0]\n").contains("follows no header"));
        assert!(message("nothing").contains("holds no times"));
    }
}
