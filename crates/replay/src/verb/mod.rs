//! `[replay]` and `perf4sight replay`: who waits for whom in distributed training, from the traces of all ranks.

pub mod analyze;
pub mod collect;
mod csv;
mod files;
mod hang;
mod headline;
mod interruptible;
mod json;
mod one_step;
mod operations_csv;
mod page;
mod settings;
pub mod statistic;
mod tables;
#[cfg(test)]
mod tests;
mod traces;
mod until_cancelled;

use crate::graph::recorded::{RecordedSteps, RecordingDistortion, StepCorrection};
use crate::hang::HangReport;
use crate::inputs;
use crate::plain_step::PlainStep;
use crate::ranks::TrainingJob;
use crate::replayed_job::ReplayedJob;
use crate::request::ReplayRequest;
use crate::{Analysis, timeline};
use flate2::Compression;
use flate2::write::GzEncoder;
use interruptible::interruptible;
use perf4sight_base::atomic_write;
use perf4sight_base::error::{Error, FailureKind, Result};
use perf4sight_base::result_files::ResultFiles;
use perf4sight_base::stats::median;
use perf4sight_base::units::{Bytes, Milliseconds, Percent, count_text};
use perf4sight_record::RecordSettings;
use perf4sight_report::{Cell, TableColumn};
use perf4sight_traces::rank_list;
use perf4sight_verb::config::SettingValues;
use perf4sight_verb::{
    Context, CountedNoun, Outline, PlannedFiles, Section, Spec, Summary, TableFinding, Verb, VerbSpec,
};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The section `[replay]`.
pub static SPEC: Spec = Spec {
    table: settings::TABLE,
    subject: CountedNoun { one: "rank", several: "ranks" },
    parse: |values| Ok(Box::new(ReplayVerb::parse(values)?)),
};

/// `perf4sight replay`.
pub static VERB: VerbSpec = VerbSpec {
    table: settings::TABLE,
    after_help: settings::AFTER_HELP,
    parse: |values| Ok(Box::new(ReplayVerb::parse(values)?)),
};

/// The settings of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayVerb {
    /// What to record first, into the folder that is then read.
    record: Option<RecordSettings>,
    traces: Vec<PathBuf>,
    out: PathBuf,
    as_all_ranks: bool,
    request: ReplayRequest,
}

/// What the results show.
struct ReplayResults {
    analysis: Analysis,
    /// None if the traces cannot be replayed; a warning gives the reason.
    replayed: Option<ReplayedJob>,
    answer: String,
    warnings: Vec<String>,
    /// What the dumps of flight recorders show.
    hang: HangReport,
    /// Why changes that were requested are not predicted.
    failure: Option<Error>,
}

impl ReplayResults {
    /// Replays a job. Where that fails, who waits for whom is shown all the same.
    fn replay_job(analysis: Analysis, hang: HangReport, of_dumps: &[String], request: &ReplayRequest) -> Self {
        let mut warnings = [of_dumps, analysis.warnings().as_slice()].concat();
        let several_jobs = analysis.several_jobs();
        let (replayed, failure) = match ReplayedJob::replay(&analysis, request) {
            Ok(replayed) => {
                let failure = without_answer(&replayed).or_else(|| unlike_record(&replayed));
                (Some(replayed), failure)
            }
            // What was given is wrong, not what was recorded.
            Err(error) if request.what_ifs.is_empty() && error.kind() != FailureKind::Usage => {
                warnings.push(format!("the steps cannot be replayed: {}", error.in_one_line()));
                (None, None)
            }
            Err(error) => (None, Some(error)),
        };
        warnings.extend(replayed.iter().flat_map(|replayed| replay_warnings(&analysis, replayed)));
        let hangs = hang.headline();
        let waits = analysis.first_straggler().is_some_and(|first| first.share >= BESIDE_A_HANG);
        let answer = (hangs.is_none() || waits).then(|| headline::headline(&analysis, replayed.as_ref()));
        let answer = hangs.into_iter().chain(answer).collect::<Vec<_>>().join("; ");
        ReplayResults { analysis, replayed, answer, warnings, hang, failure: several_jobs.or(failure) }
    }
}

/// What Ctrl-C leaves of a run.
fn interrupted_summary() -> Summary {
    Summary { headline: "interrupted; nothing was written".to_owned(), ..Summary::default() }
}

/// The parts of a run that its progress shows.
const PARTS: u64 = 4;

impl Verb for ReplayVerb {
    /// Records the ranks if that is requested, reads the traces, analyses them, and writes the results.
    ///
    /// # Errors
    /// Files that are no traces of one job, a folder that cannot be written to or has files of other programs.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let files = self.files()?;
        self.request.check()?;
        let Some(record) = &self.record else { return self.compare(files, context, |_, _| Ok(Vec::new())) };
        let recorded = record.run(context)?;
        if context.cancelled() {
            return Ok(recorded);
        }
        context.console.note(format!("record: {}", recorded.headline));
        match (self.compare(files, context, |_, _| Ok(Vec::new())), recorded.failure) {
            (Ok(replayed), failure) => Ok(Summary {
                tables: recorded.tables.into_iter().chain(replayed.tables).collect(),
                failure: failure.or(replayed.failure),
                ..replayed
            }),
            // What became of the command explains why its traces cannot be compared.
            (Err(error), Some(failure)) => {
                context.warn(error);
                Err(failure)
            }
            (Err(error), None) => Err(error),
        }
    }
}

impl ReplayVerb {
    /// Reads the traces, analyses them, and writes the results; `also` draws more files of the replay, if there is one.
    fn compare(
        &self,
        files: ResultFiles,
        context: &mut Context,
        also: impl FnOnce(&TrainingJob, &ReplayedJob) -> Result<Vec<PendingFile>> + Send + 'static,
    ) -> Result<Summary> {
        let progress = context.console.progress(PARTS, "replaying");
        progress.set_item("reading traces");
        let traces = self.traces.clone();
        let Some(inputs) = interruptible(&context.cancel, move || inputs::read(&traces))? else {
            return Ok(interrupted_summary());
        };
        let hang = HangReport::from_dumps(&inputs.dumps);
        let unasked = (inputs.ranks.is_empty() && !self.request.what_ifs.is_empty())
            .then(|| "dumps without times show nothing of what changes would bring".to_owned());
        let of_dumps = inputs.dumps.iter().flat_map(inputs::FlightDump::warnings);
        let of_dumps: Vec<String> = of_dumps.chain(hang.warnings()).chain(unasked).chain(inputs.passed_over).collect();
        of_dumps.iter().for_each(|warning| context.warn(warning));
        if inputs.ranks.is_empty() {
            return hang::without_times(files, &hang, &inputs.dumps, &of_dumps);
        }
        let job = TrainingJob::from_traces(inputs.ranks)?;
        self.check_alone(&job)?;
        progress.advance(1);
        progress.set_item("comparing ranks");
        let Some(analysis) = interruptible(&context.cancel, move || Ok(Analysis::new(job)))? else {
            return Ok(interrupted_summary());
        };
        progress.advance(1);
        progress.set_item(format!("replaying, in up to {}", Bytes(RecordedSteps::memory_needed(&analysis.job))));
        let (request, warnings) = (self.request.clone(), of_dumps.clone());
        let replay = move || Ok(ReplayResults::replay_job(analysis, hang, &warnings, &request));
        let Some(shown) = interruptible(&context.cancel, replay)? else { return Ok(interrupted_summary()) };
        progress.advance(1);
        progress.set_item("drawing");
        let drawn = interruptible(&context.cancel, move || draw(&shown, also).map(|drawn| (shown, drawn)))?;
        let Some((shown, drawn)) = drawn else { return Ok(interrupted_summary()) };
        let (others, json) = drawn.write_all(files)?;
        progress.advance(1);
        drop(progress);
        shown.warnings[of_dumps.len()..].iter().for_each(|warning| context.warn(warning));
        let replayed = shown.replayed.iter().flat_map(tables::replayed::console_tables);
        Ok(Summary {
            tables: [hang::table(&shown.hang)]
                .into_iter()
                .chain(tables::console_tables(&shown.analysis))
                .chain(replayed)
                .filter(|table| !table.is_empty())
                .collect(),
            findings: findings(&shown.analysis),
            files: [("report", files::REPORT), ("timeline", files::TIMELINE)]
                .map(|(what, name)| (what, self.out.join(name)))
                .into_iter()
                .chain(others)
                .collect(),
            headline: shown.answer,
            json,
            failure: shown.failure,
            ..Summary::default()
        })
    }
}

/// A file that is not written yet.
struct PendingFile {
    /// What it is, for the list of files.
    what: &'static str,
    file: PathBuf,
    contents: Vec<u8>,
}

impl PendingFile {
    /// Writes it; returns its row in the list of files.
    fn save(self) -> Result<(&'static str, PathBuf)> {
        atomic_write::save(&self.file, self.contents).map(|()| (self.what, self.file))
    }
}

/// All files before they are written.
struct PendingFiles {
    own: Vec<(&'static str, Vec<u8>)>,
    others: Vec<PendingFile>,
    /// What `replay.json` contains.
    json: Value,
}

/// Draws all files.
fn draw(
    shown: &ReplayResults,
    also: impl FnOnce(&TrainingJob, &ReplayedJob) -> Result<Vec<PendingFile>>,
) -> Result<PendingFiles> {
    let json = json::to_json(shown);
    let mut own = vec![
        (files::CSV, csv::to_table(&shown.analysis).to_csv().into_bytes()),
        (files::REPORT, page::build_page(shown).to_html().into_bytes()),
        (files::TIMELINE, zipped_step(shown)?),
    ];
    let Some(replayed) = &shown.replayed else { return Ok(PendingFiles { own, others: Vec::new(), json }) };
    own.push((files::OPERATIONS, operations_csv::to_table(&one_step::single_step(replayed)).to_csv().into_bytes()));
    Ok(PendingFiles { own, others: also(&shown.analysis.job, replayed)?, json })
}

impl PendingFiles {
    /// Writes all files; returns the list of the other ones, and the contents of `replay.json`.
    fn write_all(self, mut files: ResultFiles) -> Result<(Vec<(&'static str, PathBuf)>, Value)> {
        self.own.into_iter().for_each(|(name, contents)| files.add(name, contents));
        files.write_all(self.json.clone())?;
        let others = self.others.into_iter().map(PendingFile::save).collect::<Result<_>>()?;
        Ok((others, self.json))
    }
}

/// The events of a step of median length, and the replayed typical step.
fn zipped_step(ReplayResults { analysis, replayed, .. }: &ReplayResults) -> Result<Vec<u8>> {
    let mut zipped = GzEncoder::new(Vec::new(), Compression::fast());
    let failed = |cause: std::io::Error| Error::io(Path::new(files::TIMELINE), "compress this file", &cause);
    let window = timeline::window(analysis, analysis.typical());
    timeline::write(analysis, Some(window), replayed.as_ref(), &mut zipped).map_err(failed)?;
    zipped.finish().map_err(failed)
}

/// The findings about each rank for the closing table of a configuration.
fn findings(analysis: &Analysis) -> Vec<TableFinding> {
    let of_rank = |straggler: &crate::waiting::Straggler| {
        let columns = [
            (TableColumn::number("waited_for_ms", "others wait"), Cell::from(Milliseconds(straggler.caused.mean))),
            (TableColumn::number("waited_for_percent", "of the mean step"), Percent(100.0 * straggler.share).into()),
        ];
        let about = format!("rank {}", analysis.job.ranks[straggler.rank].number);
        columns.map(|(column, cell)| TableFinding { about: about.clone(), column, cell })
    };
    let is_known = analysis.is_waiting_known();
    analysis.stragglers.iter().filter(|_| is_known).flat_map(of_rank).collect()
}

impl Section for ReplayVerb {
    fn outline(&self, _: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        let outline = Outline::of_traces("compares the ranks in", &self.traces)
            .results("out", &self.out, files::NAMES)
            .check_value("out", || self.files().map(drop))
            .check("traces", &self.traces, |_| inputs::check(&self.traces));
        Ok(self.request.outline(outline))
    }
}

impl ReplayVerb {
    fn parse(values: &SettingValues<'_>) -> Result<Self> {
        let what_ifs = values.get::<Option<Vec<String>>>("what_if")?.unwrap_or_default();
        let request = ReplayRequest::parse(values, what_ifs)?;
        let check = |text: &String| request.check_what_if(text).map_err(|error| values.with_place("what_if", error));
        // A model that is not there may be written by an earlier section.
        if request.check_model().is_ok() {
            request.what_ifs.iter().try_for_each(check)?;
        }
        let record = values.get::<Option<bool>>("record")?.unwrap_or(false);
        let record = record.then(|| RecordSettings::into_folder(values, "recording")).transpose()?;
        if record.is_none() && values.writes("command") {
            return Err(values
                .error("command", "traces are read here, and no command is run")
                .help("--record runs one"));
        }
        let traces = if record.is_some() { vec![values.get("recording")?] } else { traces::traces(values)? };
        let out: PathBuf = values.get("out")?;
        if record.is_some() && traces[0] == out {
            // The results would be read as traces.
            return Err(values.error("recording", "this is the folder of the results, too").expected("another folder"));
        }
        Ok(ReplayVerb { traces, record, out, as_all_ranks: values.get("as_all_ranks")?, request })
    }

    fn files(&self) -> Result<ResultFiles> {
        files::new(&self.out, self.traces.iter().map(PathBuf::as_path))
    }

    /// Refuses one rank of several, unless it was requested to stand for all, and several ranks if that was requested of one.
    fn check_alone(&self, job: &TrainingJob) -> Result<()> {
        match (job.single_rank_error(), self.as_all_ranks) {
            (Some(alone), false) => {
                Err(alone.help("add the others, or let this one stand for all (perf4sight replay --as-all-ranks)"))
            }
            (None, true) if job.ranks.len() > 1 => {
                let several = format!("one rank alone can stand for all, and there are traces of {}", job.ranks.len());
                Err(Error::usage(several).help("leave out as_all_ranks, or name the trace of one rank"))
            }
            _ => Ok(()),
        }
    }
}

/// Who waits for whom is part of the answer about a job that hangs from this share of a step on.
const BESIDE_A_HANG: f64 = 0.02;

/// From this difference between record and replay on, in percent, it is warned about.
const FAR: f64 = 2.0;

/// From this difference between recorded steps and the replay of their faster half on, in percent, something disturbed them.
const DISTURBED: f64 = 5.0;

/// Which steps are not replayed, and why.
fn not_replayed(analysis: &Analysis, replayed: &ReplayedJob) -> Option<String> {
    let steps: Vec<usize> = replayed.steps.iter().map(|step| step.step).collect();
    analysis.job.not_replayed_warning(&steps, replayed.unlike.as_ref(), "what-ifs")
}

/// Warnings about the replay.
fn replay_warnings(analysis: &Analysis, replayed: &ReplayedJob) -> Vec<String> {
    let (unlike, independent) = (not_replayed(analysis, replayed), independent(analysis, replayed));
    let alone = (replayed.steps.len() == 1 && replayed.answered_scenarios().next().is_some())
        .then(|| "by how much steps differ is not known of one alone, and is in no interval of what-ifs".to_owned());
    let far = (replayed.worst() > FAR)
        .then(|| format!("the replay of a step is up to {} off what was recorded", Percent(replayed.worst())));
    let longer = 100.0 * (replayed.as_recorded as f64 / replayed.undisturbed.max(1) as f64 - 1.0);
    let disturbed = (longer > DISTURBED && replayed.mean.is_none()).then(|| {
        format!(
            "recorded steps take {} longer than the replayed step, each of whose operations takes what it does in the faster half of the steps: in the others the ranks did something more, or other programs disturbed them",
            Percent(longer)
        )
    });
    let varies = replayed.mean.map(|mean| {
        format!(
            "steps differ in what takes long in them: the replayed step that is shown is the one of median length, and those of all what-ifs are the mean of all, {} without a change",
            Milliseconds(mean as f64 / 1e6)
        )
    });
    let ahead = replayed.ahead.map(|on_threads| {
        let [step, on_threads] = [replayed.typical, on_threads].map(|time| Milliseconds(time as f64 / 1e6));
        format!(
            "threads run ahead of their GPUs, which fall further behind in each step: what is replayed is the step on GPUs, {step}, which is the time from one step to the next once threads have to wait for room in the queue, and not the {on_threads} that they take until then; what-ifs are of the former"
        )
    });
    let late = late_step(analysis, replayed);
    let varying = replayed.mean.is_some();
    let distorted = replayed.distortion.map(|(plain, distortion)| distortion_text(plain, distortion, varying));
    let unknown = replayed.plain_bounds.filter(|_| replayed.answered_scenarios().next().is_some()).map(|bounds| {
        let [least, most] = bounds.map(|bound| Milliseconds(bound as f64 / 1e6));
        let measure = match replayed.distortion {
            None => "; perf4sight record measures it, or give its time (perf4sight replay --plain-step-ms)",
            Some(_) => "",
        };
        format!(
            "what recording adds to a step is not known, and is in all times: the intervals of what-ifs hold steps from {least}, with each operation at its shortest, to {most}, as recorded, and the plain step, without recording, may be shorter still{measure}"
        )
    });
    let absent = Some(analysis.job.missing())
        .filter(|missing| !missing.is_empty() && replayed.answered_scenarios().next().is_some());
    let absent = absent.map(|missing| {
        format!(
            "what-ifs change the waiting for {} as if it were transfer: it is part of the transfers, for there is no trace of {}; the intervals go to a step that stays as long as it is, and to one that changes as the work of the others does",
            rank_list(&missing),
            if missing.len() == 1 { "that rank" } else { "those ranks" }
        )
    });
    let assumed = replayed.answered_scenarios().flat_map(|(text, outcome)| {
        outcome.assumptions.iter().map(move |assumption| format!("what-if \"{text}\": {assumption}"))
    });
    let unanswered = replayed
        .unanswered_scenarios()
        .map(|(text, why)| format!("what-if \"{text}\" cannot be asked of these traces: {}", why.in_one_line()));
    [unlike, independent, alone, ahead, late, far, varies, disturbed, distorted, unknown, absent]
        .into_iter()
        .flatten()
        .chain(assumed)
        .chain(unanswered)
        .collect()
}

/// What was asked and has no answer; a warning gives the reason of each.
fn without_answer(replayed: &ReplayedJob) -> Option<Error> {
    let texts: Vec<String> = replayed.unanswered_scenarios().map(|(text, _)| format!("\"{text}\"")).collect();
    let have = if texts.len() == 1 { "has" } else { "have" };
    (!texts.is_empty()).then(|| {
        let all = count_text(replayed.what_ifs.len() as u64, "what-if");
        Error::usage(format!("{} of {all} {have} no answer: {}", texts.len(), texts.join(", ")))
    })
}

/// A replay that is so far off what was recorded, in percent, follows other waits than the job did.
const BROKEN: f64 = 50.0;

/// That most steps take other times than they were recorded with, so that nothing follows from them.
fn unlike_record(replayed: &ReplayedJob) -> Option<Error> {
    let off: Vec<f64> = replayed.steps.iter().map(|step| step.error().abs()).collect();
    (!off.is_empty() && median(&off) > BROKEN).then(|| {
        Error::input(format!(
            "the replay of a step is {} off what was recorded, in the median: it is not an answer, nor is any change of it",
            Percent(median(&off))
        ))
        .help("traces that contradict themselves or are incomplete give such replays; the warnings name what was found")
    })
}

/// Ranks of which nobody knows whom they wait for.
fn independent(analysis: &Analysis, replayed: &ReplayedJob) -> Option<String> {
    replayed.answered_scenarios().next()?;
    let ranks = rank_list(&analysis.unknown_waiting()?);
    Some(format!(
        "who waits for whom is not known of {ranks}: what-ifs take ranks for independent where nothing shows that they wait, and the intervals go to a step that stays as long as it is"
    ))
}

/// From this ratio to the next longer step on, a warning names the step.
const LATE: f64 = 1.2;

/// Says that the replayed step and what-ifs are without a step that is longer than all others by far.
fn late_step(analysis: &Analysis, replayed: &ReplayedJob) -> Option<String> {
    let mut by_time: Vec<_> = replayed.steps.iter().collect();
    by_time.sort_by_key(|step| std::cmp::Reverse(step.recorded));
    let [longest, next, ..] = by_time.as_slice() else { return None };
    let is_late = longest.recorded as f64 > LATE * next.recorded as f64 && replayed.mean.is_none();
    is_late.then(|| {
        let [longest_ms, next_ms] = [longest, next].map(|step| Milliseconds(step.recorded as f64 / 1e6));
        format!(
            "{} takes {longest_ms}, all others {next_ms} at most: the replayed step and what-ifs are without what made that one longer",
            analysis.job.steps[longest.step].name
        )
    })
}

/// How recorded steps differ from plain ones, and what was done about it.
fn distortion_text(plain: PlainStep, distortion: RecordingDistortion, varies: bool) -> String {
    let middle = if varies { "mean" } else { "median" };
    let longer = if distortion.percent() < 0.0 { "shorter" } else { "longer" };
    let done = match distortion.correction {
        StepCorrection::Threads(_) => {
            "the work of threads was shortened until it took as long as a step without recording"
        }
        StepCorrection::All(_) => "all times were stretched until it took as long as a step without recording",
        StepCorrection::None => {
            "recording does not explain how far that is from a step without it: nothing was corrected"
        }
    };
    let measured = match plain.steps {
        Some(steps) => format!("the {middle} of {} without recording", count_text(steps as u64, "step")),
        None => "the plain step".to_owned(),
    };
    let percent = Percent(distortion.percent().abs());
    let [recorded, replayed, time] =
        [distortion.recorded, distortion.replayed, distortion.plain].map(|time| Milliseconds(time as f64 / 1e6));
    format!(
        "the {middle} recorded step, {recorded}, is {percent} {longer} than {measured}, {time}; the replayed step took {replayed}, and {done}"
    )
}
