//! `[record]` and `perf4sight record`: a training script runs as it is, and some of its iterations are recorded.
//!
//! Python loads the recorder (`crates/record/recorder`) before the script, from a temporary folder in the output
//! folder. The recorder finds the iterations, starts PyTorch's profiler, ends the script, and reports its progress in
//! files.

#![warn(missing_docs)]

mod change;
mod doubts;
mod long_iterations;
mod ordinary;
mod outcome;
mod overhead;
mod process_reports;
pub mod python;
mod recording;
pub mod settings;
mod warm_up;
mod watcher;

pub use change::ChangedIterations;
pub use long_iterations::{LongIterations, LongestIterations};
pub use overhead::{DOUBTFUL, OverheadClock, ProcessorWork, RecordingOverhead, WithoutRecording, average, both};
pub use recording::{PeriodTimes, ProcessorRivals, Recording};
pub use warm_up::WarmUp;

use crate::python::RecorderFolder;
use outcome::RecordOutcome;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::output_folder::{self, OutputFolder, lock_folder};
use perf4sight_base::shell::command_text;
use perf4sight_base::temporary_folder;
use perf4sight_base::units::count_text;
use perf4sight_machine::RunWatch;
use perf4sight_machine::foreground::{ForegroundCommand, ForegroundEnd};
use perf4sight_machine::program::{files_of, find_with_script};
use perf4sight_traces::recording_of;
use perf4sight_verb::config::SettingValues;
use perf4sight_verb::{Context, CountedNoun, KeyedPath, Outline, PlannedFiles, Section, Spec, Summary, Verb, VerbSpec};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::path::{self, Path, PathBuf};
use std::time::Duration;
use watcher::RecordingWatcher;

/// The section `[record]`.
pub static SPEC: Spec = Spec {
    table: settings::TABLE,
    subject: CountedNoun { one: "rank", several: "ranks" },
    parse: |values| Ok(Box::new(RecordSettings::parse(values)?)),
};

/// The environment variable that passes the settings to the recorder
/// (`crates/record/recorder/perf4sight_recorder/account.py`).
const SETTINGS: &str = "PERF4SIGHT_RECORD";

/// `perf4sight record`.
pub static VERB: VerbSpec = VerbSpec {
    table: settings::TABLE,
    after_help: settings::AFTER_HELP,
    parse: |values| Ok(Box::new(RecordSettings::parse(values)?)),
};

#[derive(Debug, Clone, PartialEq, Eq)]
/// The settings of a recording.
pub struct RecordSettings {
    command: Vec<String>,
    iterations: u64,
    warm_up: u64,
    stacks: bool,
    /// The key of the folder, and the folder.
    out_key: &'static str,
    out: PathBuf,
    time_limit: Option<Duration>,
    overwrite: bool,
}

impl Verb for RecordSettings {
    /// Runs the command until enough is recorded, or until it ends by itself.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        find_with_script(&self.command, None)?;
        self.check_room()?;
        let elsewhere = || format!("record into another folder ({})", self.out_key);
        output_folder::make(&self.out).map_err(|error| error.help(elsewhere()))?;
        let remedy = format!("wait until it has ended, or choose another folder ({})", self.out_key);
        let _held = lock_folder(&self.out, Duration::ZERO, &remedy)?;
        // Removes the folder if it is still empty at the end.
        let _out = OutputFolder::new(&self.out);
        ReplacedRecording::recover(&self.out)?;
        // Another `record` may have ended meanwhile, or the recovery may have put a recording back.
        self.check_room()?;
        self.check_own()?;
        self.record(context).and_then(|outcome| outcome.summary(context))
    }
}

impl Section for RecordSettings {
    fn outline(&self, planned: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        let step = format!(
            "records {} of {}, and times as many",
            count_text(self.iterations, "iteration"),
            command_text(&self.command)
        );
        // How many ranks there will be is not known.
        let there = ["gz", "json"].map(|ending| planned.files(&self.out, ending));
        let there = there.into_iter().collect::<Result<Vec<_>>>()?.concat().into_iter();
        let known = there.filter(|file| process_reports::is_named_so(file));
        let known = known.filter_map(|file| Some(PathBuf::from(file.file_name()?)));
        let names: BTreeSet<PathBuf> = process_reports::FIRST.map(PathBuf::from).into_iter().chain(known).collect();
        Ok(Outline {
            steps: vec![step],
            reads: files_of(&self.command).map(|file| KeyedPath::new("command", file)).collect(),
            ..Outline::default()
        }
        .results("out", &self.out, names)
        .check_value("command", || find_with_script(&self.command, None))
        .check_value("out", || self.check_room().and_then(|()| self.check_own())))
    }

    fn is_from_earlier_run(&self, file: &Path) -> bool {
        let recording = if process_reports::is_recording(file) { Some(file.to_owned()) } else { recording_of(file) };
        recording.is_some_and(|recording| Recording::read(&recording).is_ok())
    }
}

impl RecordSettings {
    fn parse(values: &SettingValues<'_>) -> Result<Self> {
        RecordSettings::into_folder(values, "out")
    }

    /// A recording by [`settings::COMMAND`] and [`settings::HOW`], into the folder of a key.
    ///
    /// # Errors
    /// A script where the program that runs it belongs.
    pub fn into_folder(values: &SettingValues<'_>, out_key: &'static str) -> Result<Self> {
        Ok(RecordSettings {
            command: values.command("command")?,
            iterations: values.get("iterations")?,
            warm_up: values.get("warm_up")?,
            stacks: values.get("stacks")?,
            out_key,
            out: values.get(out_key)?,
            time_limit: values.get("time_limit")?,
            overwrite: values.get("overwrite")?,
        })
    }

    /// Checks that the output folder can be used. An existing recording is replaced only on request: the user may want
    /// to compare with it. The script loads modules from the folder, and `PYTHONPATH` is split at colons; Kineto writes
    /// no file with a newline in its path.
    fn check_room(&self) -> Result<()> {
        let out = self.absolute_out()?;
        if out.to_str().is_none_or(|text| text.contains([':', '\n', '\r'])) {
            return Err(Error::usage(
                "Python cannot load the recorder from a folder with a colon, a line end or bytes that are no text in its path",
            )
            .file(out)
            .help(format!("record into another folder ({})", self.out_key)));
        }
        match process_reports::files(&self.out).first() {
            Some(file) if !self.overwrite && process_reports::is_own(file) => Err(Error::usage("a recording is stored here already")
                .file(file)
                .help(format!(
                    "record into another folder (--{}, or the key {0} of a configuration), or replace this recording (--overwrite)",
                    self.out_key
                ))),
            _ => Ok(()),
        }
    }

    /// Checks that files with the names of a recording are one, so that no file of others is replaced.
    fn check_own(&self) -> Result<()> {
        match process_reports::files(&self.out).into_iter().find(|file| !process_reports::is_own(file)) {
            Some(file) => {
                Err(Error::usage("a file of this name is here already, and it is not of a recording of perf4sight")
                    .file(&file)
                    .expected("a trace with its rank0.recording.json, or no such file")
                    .help(format!("record into another folder ({}), or move this file", self.out_key)))
            }
            None => Ok(()),
        }
    }

    fn absolute_out(&self) -> Result<PathBuf> {
        path::absolute(&self.out).map_err(|cause| Error::io(&self.out, "find this folder", &cause))
    }

    fn record(&self, context: &Context) -> Result<RecordOutcome<'_>> {
        let out = self.absolute_out()?;
        let python = RecorderFolder::write(&out)?;
        let replaced = ReplacedRecording::set_aside(&out)?;
        let ended = self.run_command(&out, &python, context);
        let removed = !python.modules().is_dir();
        let recordings = process_reports::recordings(&out);
        replaced.settle(&out, &recordings)?;
        Ok(RecordOutcome {
            settings: self,
            ended: ended?,
            reports: process_reports::read(&python.reports()),
            recordings: recordings?,
            removed,
        })
    }

    fn run_command(&self, out: &Path, python: &RecorderFolder, context: &Context) -> Result<ForegroundEnd> {
        let settings = json!({
            "iterations": self.iterations,
            "warm_up": self.warm_up,
            "stacks": self.stacks,
            "out": out,
            "reports": python.reports(),
        });
        let command = ForegroundCommand {
            words: &self.command,
            environment: &[(SETTINGS, settings.to_string().into())],
            first_folder: ("PYTHONPATH", &python.modules()),
            quiet: context.console.mode().is_json(),
            limit: self.time_limit,
        };
        let mut watcher = RecordingWatcher::new(python.reports(), context);
        command.run(&RunWatch::quiet(&context.cancel), || watcher.look())
    }
}

/// The folder that keeps an older recording while it may be replaced. It is removed only once a new recording exists,
/// whatever fails.
struct ReplacedRecording(Option<PathBuf>);

/// The prefix of that folder's name; random letters follow.
const REPLACED: &str = "replaced.";
/// The prefix once the folder may be removed.
const REMOVED: &str = "removed.";

impl ReplacedRecording {
    /// Recovers recordings that a killed `record` had set aside.
    fn recover(out: &Path) -> Result<()> {
        let entries = fs::read_dir(out).map_err(|cause| Error::io(out, "look for recordings", &cause))?;
        let is_ours = |path: &PathBuf, prefix: &str| {
            let named = path.file_name().unwrap_or_default().to_string_lossy().starts_with(prefix);
            // A folder with any other contents belongs to the user, although it is marked.
            let holds =
                || fs::read_dir(path).is_ok_and(|files| files.count() == 1 + process_reports::files(path).len());
            named && temporary_folder::is_marked(path) && holds()
        };
        let folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        folders.iter().filter(|path| is_ours(path, REMOVED)).try_for_each(|path| removed(path))?;
        let set_aside = folders.into_iter().filter(|path| is_ours(path, REPLACED));
        set_aside.map(|folder| ReplacedRecording(Some(folder))).try_for_each(|replaced| match replaced.was_moving() {
            true => replaced.put_back(out),
            false => replaced.settle(out, &process_reports::recordings(out)),
        })
    }

    /// Whether `record` was killed while it moved the files: recordings are moved first and moved back last, so the
    /// folder then holds recordings without traces.
    fn was_moving(&self) -> bool {
        let is_recording = |file: &PathBuf| process_reports::is_recording(file);
        self.0.as_deref().is_some_and(|folder| process_reports::files(folder).iter().all(is_recording))
    }

    /// Removes the older recording if there are new ones; otherwise puts it back.
    fn settle(self, out: &Path, recordings: &Result<Vec<Recording>>) -> Result<()> {
        match recordings.as_ref().is_ok_and(|recordings| !recordings.is_empty()) {
            true => self.remove(),
            false => self.put_back(out),
        }
    }

    fn set_aside(out: &Path) -> Result<Self> {
        let files = process_reports::files(out);
        if files.is_empty() {
            return Ok(ReplacedRecording(None));
        }
        let folder = temporary_folder::make_marked(REPLACED, out);
        let folder = folder.map_err(|cause| Error::io(out, "set the older recording aside", &cause))?;
        let (recordings, traces) = files.into_iter().partition(|file| process_reports::is_recording(file));
        let set_aside = move_into(&folder, [recordings, traces]);
        let replaced = ReplacedRecording(Some(folder));
        match set_aside {
            Ok(()) => Ok(replaced),
            Err(error) => replaced.put_back(out).and(Err(error)),
        }
    }

    fn put_back(self, out: &Path) -> Result<()> {
        let Some(folder) = self.0 else { return Ok(()) };
        let files = process_reports::files(&folder).into_iter();
        let (recordings, traces) = files.partition(|file| process_reports::is_recording(file));
        move_into(out, [traces, recordings])?;
        temporary_folder::remove_marked(&folder).map_err(|cause| Error::io(&folder, "remove this folder", &cause))
    }

    fn remove(self) -> Result<()> {
        let Some(folder) = self.0 else { return Ok(()) };
        // A process killed after this line leaves nothing to put back.
        let name = folder.file_name().unwrap_or_default().to_string_lossy().replacen(REPLACED, REMOVED, 1);
        let done = folder.with_file_name(name);
        fs::rename(&folder, &done).map_err(|cause| Error::io(&folder, "set the older recording aside", &cause))?;
        removed(&done)
    }
}

fn removed(folder: &Path) -> Result<()> {
    temporary_folder::remove_marked(folder).map_err(|cause| Error::io(folder, "remove the older recording", &cause))
}

/// Moves the files of the first list first.
fn move_into(folder: &Path, files: [Vec<PathBuf>; 2]) -> Result<()> {
    for file in files.concat() {
        let name = file.file_name().unwrap_or_default();
        fs::rename(&file, folder.join(name)).map_err(|cause| Error::io(&file, "move this recording", &cause))?;
    }
    Ok(())
}
