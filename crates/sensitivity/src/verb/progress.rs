//! The progress of a job: the end times of its iterations, from hooks in PyTorch, lines in a file or lines of output.

use super::arrivals::Misfit;
use super::steps_file::StepsFile;
use crate::steps::StepNumbers;
use crate::{MeasuredRate, ReportedStep, StepSpan, slowest};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::count_text;
use perf4sight_limit::OutputLine;
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The source of a job's iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProgressSource {
    /// Hooks in PyTorch's optimizers and loaders, or calls of `perf4sight.Profiler`.
    Hook,
    /// Lines that the job appends to the file in `PERF4SIGHT_STEPS`.
    File,
    Output,
    /// The number of iterations divided by the time of the whole command.
    Division,
}

/// The variable with the path of the file.
pub(super) const VARIABLE: &str = "PERF4SIGHT_STEPS";
/// The form of a line of it.
pub(super) const FORM: &str = "{\"step\": 12, \"time\": 3.25}";
const FILE: &str = "steps.jsonl";
/// The group of a pattern that holds the number of the iteration.
const NUMBER: &str = "step";
/// The prefix of the files that hooks write next to it, one for each process.
const HOOKED: &str = "hooked-";
/// The most files of hooks: processes of one job on one machine.
const MOST_FILES: usize = 1024;

pub(super) struct JobProgress<'a> {
    folder: PathBuf,
    /// The file of PERF4SIGHT_STEPS.
    own: StepsFile,
    /// Files of hooks, one for each process.
    hooked: BTreeMap<PathBuf, StepsFile>,
    pattern: Option<&'a Regex>,
    matched: Vec<ReportedStep>,
    numbers: StepNumbers,
    /// Number of output lines that were searched for the pattern.
    lines: usize,
}

impl ProgressSource {
    pub fn to_text(self) -> &'static str {
        match self {
            ProgressSource::Hook => "hooks in PyTorch",
            ProgressSource::File => "lines in the file of PERF4SIGHT_STEPS",
            ProgressSource::Output => "lines of output",
            ProgressSource::Division => "the whole run divided by its number of iterations",
        }
    }
}

/// A regular expression for lines of output.
///
/// # Errors
/// Text that is not a regular expression; a named group other than that of the number.
pub fn pattern(text: &str) -> Result<Regex> {
    let pattern =
        Regex::new(text).map_err(|cause| Error::usage(format!("\"{text}\" is not a regular expression: {cause}")))?;
    match pattern.capture_names().flatten().find(|name| *name != NUMBER) {
        None => Ok(pattern),
        Some(name) => Err(Error::usage(format!("\"{text}\" names a group \"{name}\", which means nothing here"))
            .one_of(name, [NUMBER])),
    }
}

impl<'a> JobProgress<'a> {
    /// No progress yet, of a run whose files are in this folder.
    pub fn new(folder: &Path, pattern: Option<&'a Regex>) -> Self {
        let own = StepsFile::new(folder.join(FILE));
        let (hooked, matched, numbers) = (BTreeMap::new(), Vec::new(), StepNumbers::default());
        JobProgress { folder: folder.to_owned(), own, hooked, pattern, matched, numbers, lines: 0 }
    }

    pub fn file(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// Adds lines of output, and reads a piece of each file; the job has run for `after`.
    pub fn add(&mut self, lines: &[OutputLine], after: Duration) {
        self.read(after);
        let Some(pattern) = self.pattern else { return };
        self.lines += lines.len();
        for line in lines {
            let Some(found) = pattern.captures(&line.text) else { continue };
            let number = found.name(NUMBER).and_then(|step| step.as_str().parse().ok());
            self.matched_at(line.after.as_secs_f64(), number);
        }
    }

    /// Adds a line of output that ended an iteration, with its number where it has one. A number that was there before
    /// is that of the same iteration, and a smaller one that of another epoch.
    fn matched_at(&mut self, time: f64, number: Option<u64>) {
        if number.is_some() && number == self.numbers.previous() {
            return;
        }
        let before = self.matched.last().map_or(0, |last| last.number);
        let number = number.map_or(before + 1, |number| self.numbers.continued_number(number));
        match self.matched.last_mut() {
            // Lines that arrive together were buffered: the last one counts.
            Some(last) if last.time >= time => last.number = number.max(before),
            Some(_) if number <= before => {}
            _ => self.matched.push(ReportedStep { number, time, wait: None }),
        }
    }

    /// Reads a piece of each file, and returns whether all are complete.
    fn read(&mut self, after: Duration) -> bool {
        let is_hooked =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(HOOKED));
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()).filter(is_hooked).take(MOST_FILES) {
            if self.hooked.len() < MOST_FILES {
                self.hooked.entry(path.clone()).or_insert_with(|| StepsFile::new(path));
            }
        }
        let own = self.own.read(after);
        self.hooked.values_mut().fold(own, |all, file| file.read(after) && all)
    }

    /// Reads the rest of the files after the job has ended by itself, as far as it counts.
    pub fn read_the_rest(&mut self, after: Duration) {
        while !self.read(after) {}
    }

    /// Reads the rest after we ended the job. Iterations after that do not count: nobody knows how long it goes on, and what it does to end
    /// is no training. So of files with iterations no more is read; a file without any is read, because some jobs keep their lines and write
    /// them when they end.
    pub fn read_what_was_kept(&mut self, after: Duration) {
        let files = self.hooked.values_mut().chain([&mut self.own]);
        files.filter(|file| !file.steps.ranks.is_empty()).for_each(StepsFile::close);
        self.read_the_rest(after);
    }

    /// Adds lines of one process, for a simulated run.
    pub fn write(&mut self, lines: &str) {
        self.own.steps.add(lines);
    }

    /// The steps of each rank, and their source: each process with hooks is a rank.
    pub fn steps(&self) -> Option<(ProgressSource, Vec<&[ReportedStep]>)> {
        let (way, files) = self.files();
        let ranks: Vec<&[ReportedStep]> = files.flat_map(|file| file.steps.ranks.values().map(Vec::as_slice)).collect();
        if !ranks.is_empty() {
            return Some((way, ranks));
        }
        (!self.matched.is_empty()).then(|| (ProgressSource::Output, vec![self.matched.as_slice()]))
    }

    /// The files that count: those of hooks where these have steps.
    fn files(&self) -> (ProgressSource, impl Iterator<Item = &StepsFile>) {
        let is_hooked = self.hooked.values().any(|file| !file.steps.ranks.is_empty());
        let way = if is_hooked { ProgressSource::Hook } else { ProgressSource::File };
        (way, self.hooked.values().chain((!is_hooked).then_some(&self.own)))
    }

    /// Why no line of output matched, where a pattern was specified.
    pub fn unmatched(&self) -> Option<String> {
        let pattern = self.pattern.filter(|_| self.matched.is_empty())?.as_str();
        Some(match self.lines {
            0 => format!("it wrote no line that \"{pattern}\" could match"),
            lines => format!("it wrote {}, of which none matches \"{pattern}\"", count_text(lines as u64, "line")),
        })
    }

    /// Number of lines in files that are not steps.
    pub fn rubbish(&self) -> usize {
        self.files().1.map(|file| file.steps.rubbish).sum()
    }

    /// Times in the file of PERF4SIGHT_STEPS that are not seconds, as a sentence; hooks have a clock of their own.
    pub fn misfit(&self) -> Option<String> {
        let is_hooked = self.files().0 == ProgressSource::Hook;
        self.own.misfit().filter(|_| !is_hooked).map(Misfit::to_text)
    }

    /// Iterations that every rank has reported.
    pub fn fewest(&self) -> usize {
        self.steps().map_or(0, |(_, ranks)| ranks.iter().map(|steps| steps.len()).min().unwrap_or(0))
    }

    /// Reports behind the warm-up, and the seconds from the first to the last of them, of the rank with the fewest.
    pub fn reports(&self, span: StepSpan) -> (usize, f64) {
        let ranks = self.steps().map_or(Vec::new(), |(_, ranks)| ranks);
        ranks.iter().map(|steps| span.reports(steps)).min_by(|a, b| a.0.cmp(&b.0)).unwrap_or((0, 0.0))
    }

    /// Warnings about invalid content of the files.
    pub fn doubts(&self) -> Vec<String> {
        let words = |of: fn(&StepsFile) -> usize, words: &dyn Fn(String) -> String| {
            let count: usize = self.files().1.map(of).sum();
            (count > 0).then(|| words(count_text(count as u64, "line")))
        };
        let doubts = [
            words(|file| file.steps.rubbish, &|lines| format!("skipped {lines} of iterations not of the form {FORM}")),
            words(|file| file.steps.backwards, &|lines| {
                format!("skipped {lines} of iterations with a time not later than that of the line before")
            }),
            words(|file| file.steps.long_waits, &|lines| {
                format!(
                    "{lines} of iterations with a wait longer than the time since the line before: how long the job waited is not known"
                )
            }),
        ];
        let refused =
            self.files().1.filter_map(|file| file.refused.map(|why| format!("{}: {why}", file.path.display())));
        doubts.into_iter().flatten().chain(refused).chain(self.misfit()).collect()
    }

    /// The rate of the slowest rank.
    pub fn measured(&self, span: StepSpan) -> Option<(ProgressSource, MeasuredRate)> {
        let (way, ranks) = self.steps()?;
        Some((way, slowest(ranks, span)?))
    }

    /// Counted iterations that every rank has reported.
    pub fn iterations(&self, span: StepSpan) -> u64 {
        let ranks = self.steps().map_or(Vec::new(), |(_, ranks)| ranks);
        ranks.iter().map(|steps| span.iterations(steps)).min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
