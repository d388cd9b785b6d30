//! `cost-model` with operations: reads the traces of several GPUs, fits, and reports what is known of other networks and GPUs;
//! predicts operations.

use super::trained::{
    LeftOutError, LeftOutPrediction, LeftOutPredictions, MeasuredPrediction, TrainedFiles, TrainedModel,
    interrupted_summary, page_of, score_sentence,
};
use super::watch;
use crate::model_file::{self, CostModel};
use crate::verb::plan_table;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::output_folder;
use perf4sight_base::overwrite;
use perf4sight_base::units::{Percent, count_text};
use perf4sight_operations::{
    LeftOutGroup, LeftOutGroups, OperationModel, OperationRow, PredictedOperation, TimeEstimate, files_read,
    read_folder, read_table, rows_to_csv,
};
use perf4sight_report::{Cell, Table, TableBuilder, TableColumn, significant};
use perf4sight_verb::config::SettingValues;
use perf4sight_verb::{Context, KeyedPath, Outline, PlannedFiles, Section, Summary, TableFinding, Verb};
use serde_json::json;
use std::path::{Path, PathBuf};

/// A fit of operations of several GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainOperations {
    /// Folders `GPU/NETWORK/`.
    pub folder: PathBuf,
    /// Where to write the model.
    pub out: PathBuf,
    /// Where to write the rows, if anywhere.
    pub rows: Option<PathBuf>,
    /// Whether rows of both precisions are needed.
    pub both_precisions: bool,
    /// Whether files of others may be replaced.
    pub overwrite: bool,
}

/// Predictions of operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PredictOperations {
    pub operations: PathBuf,
    pub gpu: Option<String>,
    pub out: Option<PathBuf>,
    pub overwrite: bool,
}

/// Files of operations are read before anything runs where they have at most so many bytes, gzipped or not.
const QUICK: u64 = 8 << 20;
/// The published words of `--sub_option`.
pub(crate) const TRAIN_GPU: &str = "train_gpu";
pub(crate) const TRAIN_AMP: &str = "train_amp";
/// Where the published program keeps its models, in the workspace here.
const PUBLISHED: &str = ".cost_model/model.json";

/// The published call: `--sub_option train_gpu` or `train_amp` with `--path` and perhaps `--workspace`.
///
/// # Errors
/// No path, or several.
pub(crate) fn published(values: &SettingValues<'_>, sub_option: &str) -> Result<TrainOperations> {
    let paths: Vec<PathBuf> = values.get::<Option<_>>("path")?.unwrap_or_default();
    let [folder] = paths.as_slice() else {
        return Err(values
            .error("path", format!("{} are given", count_text(paths.len() as u64, "folder")))
            .expected("one, with folders GPU/NETWORK/"));
    };
    let workspace = values.get::<Option<PathBuf>>("workspace")?.unwrap_or_else(|| folder.clone());
    Ok(TrainOperations {
        folder: folder.clone(),
        out: workspace.join(PUBLISHED),
        rows: None,
        both_precisions: sub_option == TRAIN_AMP,
        overwrite: false,
    })
}

impl Verb for TrainOperations {
    /// Reads the rows, fits them, writes the model, and reports how far it is off for networks and GPUs that were left out.
    ///
    /// # Errors
    /// Files that cannot be read or contradict themselves; too few rows; a file of others in the model's place.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let read = files_read(&self.folder)?;
        let files = self.files(&read)?;
        let found = read_folder(&self.folder)?;
        found.warnings().into_iter().for_each(|warning| context.warn(warning));
        self.check_precisions(&found.rows)?;
        let rows = self.table(&found.rows, &read)?;
        let doubts = found.doubts().to_vec();
        let progress = context.console.progress(OperationModel::parts(&found.rows), "fitting");
        let model = match OperationModel::fit_watched(found.rows, &watch(&progress, context)) {
            Err(_) if context.cancelled() => return Ok(interrupted_summary()),
            fitted => fitted.map_err(|error| error.file(&self.folder))?.with_doubts(&doubts),
        };
        drop(progress);
        model.limits().into_iter().for_each(|limit| context.warn(limit));
        if let Some(rows) = rows {
            overwrite::save_measured(rows.0, rows.1, self.overwrite)?;
        }
        if let Some(folder) = self.out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            output_folder::make(folder)?;
        }
        let (off, _) = model.by_network().mean_percent();
        let tables = vec![groups(&model), classes(&model), parameters(&model)];
        let json = json!({
            "rows": model.rows(),
            "gpus": model.measured().collect::<Vec<_>>(),
            "networks": model.networks().collect::<Vec<_>>(),
            "share_of_trees": model.share_of_trees(),
            "left_out": tables[0].to_json(),
            "classes": tables[1].to_json(),
            "parameters": tables[2].to_json(),
            "warnings": context.warnings(),
        });
        let trained = describe_model(&model);
        let files = files.write(&CostModel::Operations(Box::new(model)), &trained, context)?;
        let column = TableColumn::number("left_out_percent", "error of networks left out");
        Ok(Summary {
            answer: trained.answer,
            findings: vec![TableFinding { about: self.out.display().to_string(), column, cell: Percent(off).into() }],
            files: files.into_iter().chain(self.rows.iter().map(|rows| ("operations", rows.clone()))).collect(),
            json,
            tables,
            ..Summary::default()
        })
    }
}

fn describe_model(model: &OperationModel) -> TrainedModel {
    let groups = || left_out(model).flat_map(|one| &one.groups);
    let error = |group: &LeftOutGroup| LeftOutError {
        name: group.name.clone(),
        mean: group.mean_percent,
        nine_of_ten: Some(group.nine_of_ten_percent()),
    };
    let prediction = |one: &PredictedOperation| LeftOutPrediction {
        name: one.name.clone(),
        measured: one.measured_us,
        predicted: one.predicted_us,
        deviations: None,
    };
    let series = |one: &LeftOutGroups| {
        let all = one.groups.iter().flat_map(|group| &group.predicted);
        (format!("{} left out", one.what), all.map(prediction).collect())
    };
    TrainedModel {
        title: "A model of operations on GPUs".to_owned(),
        subtitle: format!("Fitted on {}.", count_text(model.rows() as u64, "operation")),
        answer: answer_text(model),
        errors: groups().map(error).collect(),
        predictions: LeftOutPredictions { what: "operation (us)", series: left_out(model).map(series).collect() },
        tables: vec![self::groups(model), classes(model)],
        parameters: Some(parameters(model)),
    }
}

impl TrainOperations {
    fn inputs<'a>(&'a self, read: &'a [PathBuf]) -> impl Iterator<Item = &'a Path> + Clone {
        std::iter::once(&self.folder).chain(read).map(PathBuf::as_path)
    }

    /// The files of the model, none of which is an input, such as those that are read.
    fn files(&self, read: &[PathBuf]) -> Result<TrainedFiles> {
        // An earlier model may be in the folder.
        let is_model = model_file::load(&self.out).is_ok();
        TrainedFiles::new(&self.out, self.inputs(read).filter(|_| !is_model), self.overwrite)
    }

    /// The table of rows, if it is asked for, and its file, which may be written.
    fn table(&self, rows: &[OperationRow], read: &[PathBuf]) -> Result<Option<(&PathBuf, String)>> {
        let Some(file) = &self.rows else { return Ok(None) };
        overwrite::check_inputs(file, self.inputs(read))?;
        if [self.out.clone(), page_of(&self.out)].contains(file) {
            return Err(Error::usage("the rows would replace the model or its page")
                .file(file)
                .expected("another file (rows)"));
        }
        let table = rows_to_csv(rows);
        overwrite::check_measured(file, &table, self.overwrite)?;
        Ok(Some((file, table)))
    }

    /// Refuses operations that cannot be fitted, and a file of others in the place of the rows, where all are read in seconds.
    fn check_small(&self) -> Result<()> {
        let read = files_read(&self.folder)?;
        let bytes: u64 = read.iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum();
        if bytes > QUICK {
            return Ok(());
        }
        let found = read_folder(&self.folder)?;
        self.check_precisions(&found.rows)?;
        self.table(&found.rows, &read).map(drop)
    }

    fn check_precisions(&self, rows: &[OperationRow]) -> Result<()> {
        let has = |half: bool| rows.iter().any(|row| row.element.is_half() == half);
        match self.both_precisions && !(has(true) && has(false)) {
            false => Ok(()),
            true => Err(Error::input("operations were measured in one precision alone")
                .file(&self.folder)
                .expected("times in fp32 and in fp16 or bf16")),
        }
    }
}

impl Section for TrainOperations {
    fn outline(&self, _: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        let write = |key, path: &PathBuf| KeyedPath { key, path: path.clone() };
        Ok(Outline {
            steps: vec![format!("fits the operations of {}", self.folder.display())],
            reads: vec![KeyedPath { key: "operations", path: self.folder.clone() }],
            writes: [write("out", &self.out), write("out", &page_of(&self.out))]
                .into_iter()
                .chain(self.rows.iter().map(|rows| write("rows", rows)))
                .collect(),
            ..Outline::default()
        }
        .check("operations", [&self.folder], |_| self.check_small())
        .check("out", [&self.folder], |_| self.files(&files_read(&self.folder)?).map(drop)))
    }
}

/// "12.3 % (8.1 to 16.5 %)".
fn with_interval((mean, interval): (f64, Option<[f64; 2]>)) -> String {
    match interval.map(|bounds| bounds.map(Percent)) {
        Some([low, high]) => format!("{} ({low} to {high})", Percent(mean)),
        None => Percent(mean).to_string(),
    }
}

fn answer_text(model: &OperationModel) -> String {
    let gpus: Vec<&str> = model.measured().collect();
    let by_network = model.by_network();
    let left_out = match by_network.is_by_network() {
        true => "a network that was left out of the fit",
        false => "a fifth of the operations that was left out of the fit",
    };
    let known = format!(
        "{} of {} on {}: predictions of an operation of {left_out} are off by {} on average, those of the sum over a network by {}.",
        count_text(model.rows() as u64, "operation"),
        count_text(model.networks().count() as u64, "network"),
        gpus.join(", "),
        with_interval(by_network.mean_percent()),
        with_interval(by_network.total_percent()),
    );
    let unknown = model.by_gpu().map(|by_gpu| {
        format!(
            "On a GPU that was left out, by its data sheet alone, an operation is off by {} and the sum by {}.",
            with_interval(by_gpu.mean_percent()),
            with_interval(by_gpu.total_percent())
        )
    });
    std::iter::once(known).chain(unknown).collect::<Vec<_>>().join(" ")
}

fn left_out(model: &OperationModel) -> impl Iterator<Item = &LeftOutGroups> {
    std::iter::once(model.by_network()).chain(model.by_gpu())
}

fn groups(model: &OperationModel) -> Table {
    let all = left_out(model).flat_map(|one| one.groups.iter().map(|group| (one.what.as_str(), group)));
    TableBuilder::new("Errors of networks and GPUs that were left out of the fit", all)
        .text("kind", "left out", |(what, _)| *what)
        .text("left_out", "which", |(_, group)| group.name.clone())
        .number("rows", "operations", |(_, group)| group.rows)
        .number("mean_percent", "mean error", |(_, group)| Percent(group.mean_percent))
        .number("total_percent", "error of the sum", |(_, group)| Percent(group.total_percent))
        .table()
}

fn classes(model: &OperationModel) -> Table {
    let all = left_out(model).flat_map(|one| one.by_class().into_iter().map(|class| (one.what.as_str(), class)));
    TableBuilder::new("The same by class", all)
        .text("kind", "left out", |(what, _)| *what)
        .text("class", "class", |(_, (class, _))| *class)
        .number("rows", "operations", |(_, (_, (rows, _)))| *rows)
        .number("mean_percent", "mean error", |(_, (_, (_, percent)))| Percent(*percent))
        .table()
}

fn parameters(model: &OperationModel) -> Table {
    TableBuilder::new(
        "What operations reach of the data sheets, without what trees add; of GB/s more than 100 % where caches hold what is read",
        model.parameters(),
    )
        .text("class", "class", |(class, ..)| *class)
        .text("precision", "precision", |(_, half, ..)| if *half { "half" } else { "single" })
        .text("gpu", "GPU", |(_, _, gpu, ..)| *gpu)
        .number("rows", "operations on all GPUs", |(_, _, _, rows, _)| *rows)
        .number("flops_percent", "of FLOP/s", |(.., [flops, _, _])| Percent(100.0 * flops))
        .number("bytes_percent", "of GB/s", |(.., [_, bytes, _])| Percent(100.0 * bytes))
        .number("launch_us", "launch (us)", |(.., [_, _, launch])| *launch)
        .table()
}

impl PredictOperations {
    /// Predicts every row; compares with what was measured where the file holds it.
    pub fn run(&self, model: &OperationModel, context: &mut Context) -> Result<Summary> {
        let rows = read_table(&self.operations)?;
        let predicted = rows.iter().map(|row| self.predict(model, row)).collect::<Result<Vec<_>>>();
        let predicted = predicted.map_err(|error| error.file(&self.operations))?;
        model.doubts().iter().for_each(|doubt| context.warn(format_args!("the model of operations: {doubt}")));
        self.unmeasured_gpus(model, &rows)?.into_iter().for_each(|warning| context.warn(warning));
        unmeasured_warning(&rows, &predicted).into_iter().for_each(|warning| context.warn(warning));
        let fitted = rows.iter().map(|row| self.is_fitted(model, row)).collect::<Result<Vec<bool>>>()?;
        let table = table(&rows, &predicted, &fitted);
        if let Some(out) = &self.out {
            overwrite::save(out, table.to_csv(), self.overwrite)?;
        }
        Ok(Summary {
            answer: self.error_sentence(model, &rows, &predicted, &fitted),
            files: self.out.iter().map(|out| ("predictions", out.clone())).collect(),
            json: json!({ "predictions": table.to_json(), "warnings": context.warnings() }),
            tables: vec![table],
            ..Summary::default()
        })
    }

    /// The GPU of a row: that of the request, or its own.
    fn gpu<'r>(&'r self, row: &'r OperationRow) -> Result<&'r str> {
        match (&self.gpu, row.gpu.as_str()) {
            (Some(gpu), _) => Ok(gpu),
            (None, "") => Err(Error::usage("the rows name no GPU").expected("a column gpu, or --gpu NAME")),
            (None, own) => Ok(own),
        }
    }

    /// Whether the model was fitted on the row's network, and on its GPU.
    fn is_fitted(&self, model: &OperationModel, row: &OperationRow) -> Result<bool> {
        let network = !row.network.is_empty() && model.networks().any(|name| name == row.network);
        Ok(network && model.device(self.gpu(row)?)?.measured)
    }

    /// What was measured on the GPU of the request; on others it says nothing of the predictions.
    fn error_sentence(
        &self,
        model: &OperationModel,
        rows: &[OperationRow],
        predicted: &[TimeEstimate],
        fitted: &[bool],
    ) -> String {
        let name = |gpu: &str| model.device(gpu).map(|device| device.name).ok();
        let asked = self.gpu.as_deref().and_then(name);
        let is_own = |row: &OperationRow| self.gpu.is_none() || row.gpu.is_empty() || name(&row.gpu) == asked;
        let own = rows.iter().zip(predicted).zip(fitted).filter(|((row, _), _)| is_own(row) && row.time_us > 0.0);
        let scored = own.map(|((row, one), is_fitted)| MeasuredPrediction {
            is_fitted: *is_fitted,
            measured: row.time_us,
            predicted: one.time_us,
            interval: one.interval_us,
        });
        score_sentence(scored, "measured operation")
    }

    fn predict(&self, model: &OperationModel, row: &OperationRow) -> Result<TimeEstimate> {
        model.predict(row, &model.device(self.gpu(row)?)?)
    }

    /// A warning for each GPU that was never measured.
    fn unmeasured_gpus(&self, model: &OperationModel, rows: &[OperationRow]) -> Result<Vec<String>> {
        let mut names: Vec<&str> = rows.iter().map(|row| self.gpu(row)).collect::<Result<_>>()?;
        names.sort_unstable();
        names.dedup();
        let devices = names.into_iter().map(|name| model.device(name)).collect::<Result<Vec<_>>>()?;
        let sentence = |device: perf4sight_operations::KnownGpu| {
            format!("no operation was measured on {}: its data sheet is all that is known of it", device.name)
        };
        Ok(devices.into_iter().filter(|device| !device.measured).map(sentence).collect())
    }
}

fn table(rows: &[OperationRow], predicted: &[TimeEstimate], fitted: &[bool]) -> Table {
    let measured = |row: &OperationRow| if row.time_us > 0.0 { Cell::from(row.time_us) } else { Cell::from("") };
    TableBuilder::new(
        "Predicted operations; nine of ten measurements are expected in the interval",
        rows.iter().zip(predicted).zip(fitted),
    )
    .text("operation", "operation", |((row, _), _)| row.operation.clone())
    .text("shapes", "shapes", |((row, _), _)| row.shapes.clone())
    .text("type", "type", |((row, _), _)| row.element.name())
    .number("flops", "FLOPs", |((row, _), _)| row.work.flops)
    .number("bytes", "bytes", |((row, _), _)| row.work.bytes)
    .number("predicted_us", "time (us)", |((_, one), _)| one.time_us)
    .number("low_us", "from (us)", |((_, one), _)| one.interval_us.0)
    .number("high_us", "to (us)", |((_, one), _)| one.interval_us.1)
    .number("measured_us", "measured (us)", |((row, _), _)| measured(row))
    .text("fitted", "fitted", |(_, fitted)| plan_table::fitted_cell(**fitted))
    .text("unlike", "unlike measured", |((_, one), _)| if one.unlike { "yes" } else { "no" })
    .table()
}

/// That operations are unlike all measured ones, with the one that is least certain.
fn unmeasured_warning(rows: &[OperationRow], predicted: &[TimeEstimate]) -> Option<String> {
    let unlike: Vec<(&OperationRow, &TimeEstimate)> =
        rows.iter().zip(predicted).filter(|(_, one)| one.unlike).collect();
    let width = |one: &TimeEstimate| one.interval_us.1 / one.interval_us.0;
    let (row, least_certain) = unlike.iter().max_by(|(_, one), (_, other)| width(one).total_cmp(&width(other)))?;
    Some(format!(
        "{} of {} are unlike those measured of their class, mostly in size: their times rest on what is usual of GPUs ({} {}: {} to {} us)",
        unlike.len(),
        count_text(rows.len() as u64, "operation"),
        row.operation,
        row.shapes,
        significant(least_certain.interval_us.0),
        significant(least_certain.interval_us.1)
    ))
}
