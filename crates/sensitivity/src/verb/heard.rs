//! What a job tells of its iterations while it runs, by the way that comes first: hooks of PyTorch, lines in a file, lines of output.

use crate::{Measured, Span, Step, Steps, slowest};
use perf4sight_base::error::{Error, Result};
use perf4sight_limit::Line;
use regex::Regex;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// How iterations are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Way {
    /// Hooks in PyTorch's optimizers and loaders, or calls of `perf4sight.Profiler`.
    Hook,
    /// Lines that the job appends to the file that it is told.
    File,
    /// Lines of its output.
    Output,
    /// The whole command divided by a number of iterations.
    Division,
}

/// The variable that names the file.
pub(super) const VARIABLE: &str = "PERF4SIGHT_STEPS";
/// The file.
const FILE: &str = "steps.jsonl";
/// How files begin that hooks write beside it, one for each process.
const HOOKED: &str = "hooked-";

/// What one run tells.
pub(super) struct Heard<'a> {
    folder: PathBuf,
    pattern: Option<&'a Regex>,
    matched: Vec<Step>,
    /// Lines that it was looked for in.
    lines: usize,
}

impl Way {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Way::Hook => "hooks in PyTorch",
            Way::File => "lines in the file of PERF4SIGHT_STEPS",
            Way::Output => "lines of output",
            Way::Division => "the whole run divided by its number of iterations",
        }
    }
}

/// A regular expression for lines of output.
///
/// # Errors
/// One that is none.
pub fn pattern(text: &str) -> Result<Regex> {
    Regex::new(text).map_err(|cause| Error::usage(format!("\"{text}\" is no regular expression: {cause}")))
}

impl<'a> Heard<'a> {
    /// Nothing yet, of a run that is told in this folder.
    pub fn new(folder: &Path, pattern: Option<&'a Regex>) -> Self {
        Heard { folder: folder.to_owned(), pattern, matched: Vec::new(), lines: 0 }
    }

    /// The file for the job.
    pub fn file(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    /// Hears lines of output.
    pub fn hear(&mut self, lines: &[Line]) {
        let Some(pattern) = self.pattern else { return };
        self.lines += lines.len();
        for line in lines {
            let Some(found) = pattern.captures(&line.text) else { continue };
            let told = found.name("step").and_then(|step| step.as_str().parse().ok());
            let before = self.matched.last().copied();
            let time = line.after.as_secs_f64();
            // Lines that come in one breath have waited for each other: the last of them tells when.
            if let Some(last) = self.matched.last_mut().filter(|last| last.time >= time) {
                last.number = told.unwrap_or(last.number + 1);
                continue;
            }
            let number = told.unwrap_or(before.map_or(1, |before| before.number + 1));
            if before.is_none_or(|before| number > before.number) {
                self.matched.push(Step { number, time, wait: None });
            }
        }
    }

    /// The steps of each rank, and by which way.
    pub fn steps(&self) -> Option<(Way, Vec<Vec<Step>>)> {
        let (way, told) = self.told();
        let ranks: Vec<Vec<Step>> = told.into_iter().flat_map(|told| told.ranks.into_values()).collect();
        if !ranks.is_empty() {
            return Some((way, ranks));
        }
        (!self.matched.is_empty()).then(|| (Way::Output, vec![self.matched.clone()]))
    }

    /// What files tell, those of hooks where they tell of steps.
    fn told(&self) -> (Way, Vec<Steps>) {
        let mut told = self.hooked();
        if told.iter().any(|told| !told.ranks.is_empty()) {
            return (Way::Hook, told);
        }
        told.push(Steps::read(&read(&self.file())));
        (Way::File, told)
    }

    /// Each process that is hooked is a rank, whatever it is called.
    fn hooked(&self) -> Vec<Steps> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let is_hooked =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(HOOKED));
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_hooked).collect();
        files.sort();
        files.iter().map(|file| Steps::read(&read(file))).collect()
    }

    /// That its output was to tell of iterations, and does not.
    pub fn unmatched(&self) -> Option<String> {
        let pattern = self.pattern.filter(|_| self.matched.is_empty())?.as_str();
        Some(match self.lines {
            0 => format!("it wrote no line that \"{pattern}\" could match"),
            lines => format!("of {lines} lines that it wrote none matches \"{pattern}\""),
        })
    }

    /// How many lines of files are no steps.
    pub fn rubbish(&self) -> usize {
        self.told().1.iter().map(|told| told.rubbish).sum()
    }

    /// What was told in files that cannot be.
    pub fn doubts(&self) -> Vec<String> {
        let (_, told) = self.told();
        let words = |of: fn(&Steps) -> usize, what: &str| {
            let count: usize = told.iter().map(of).sum();
            (count > 0).then(|| format!("of the lines that were to tell of iterations, {count} {what}"))
        };
        let doubts = [
            words(|told| told.rubbish, "are none, and were passed over"),
            words(|told| told.backwards, "tell of a time no later than that of the line before, and were passed over"),
            words(
                |told| told.long_waits,
                "tell of waiting for longer than since the line before: how long it waits is not known",
            ),
        ];
        doubts.into_iter().flatten().collect()
    }

    /// The rate of the slowest rank.
    pub fn measured(&self, span: Span) -> Option<(Way, Measured)> {
        let (way, ranks) = self.steps()?;
        Some((way, slowest(ranks.iter().map(Vec::as_slice), span)?))
    }

    /// How many iterations count that every rank has told.
    pub fn iterations(&self, span: Span) -> u64 {
        let (_, ranks) = self.steps().unwrap_or((Way::Output, Vec::new()));
        ranks.iter().map(|steps| span.iterations(steps)).min().unwrap_or(0)
    }
}

/// What a file says until now; nothing where it cannot be read.
fn read(file: &Path) -> String {
    fs::read(file).map_or(String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_limit::Stream;
    use std::time::Duration;
    use tempfile::TempDir;

    fn line(milliseconds: u64, text: &str) -> Line {
        Line { after: Duration::from_millis(milliseconds), stream: Stream::Output, text: text.to_owned() }
    }

    #[test]
    fn the_way_that_comes_first_counts() {
        let (folder, pattern) = (TempDir::new().unwrap(), pattern(r"step (?<step>\d+)").unwrap());
        let mut heard = Heard::new(folder.path(), Some(&pattern));
        assert_eq!(heard.steps(), None);
        assert_eq!(heard.unmatched().unwrap(), r#"it wrote no line that "step (?<step>\d+)" could match"#);
        heard.hear(&[line(5, "stop 10")]);
        assert_eq!(heard.unmatched().unwrap(), r#"of 1 lines that it wrote none matches "step (?<step>\d+)""#);
        heard.hear(&[line(10, "step 10"), line(20, "hello"), line(30, "step 20")]);
        let steps = |heard: &Heard| heard.steps().map(|(way, ranks)| (way, ranks[0].last().unwrap().number));
        assert_eq!(steps(&heard), Some((Way::Output, 20)));
        fs::write(heard.file(), "{\"step\": 7, \"time\": 1}\nwhat\n").unwrap();
        assert_eq!((steps(&heard), heard.rubbish()), (Some((Way::File, 7)), 1));
        fs::write(folder.path().join("hooked-12.jsonl"), "{\"step\": 3, \"time\": 1}\n").unwrap();
        assert_eq!(steps(&heard), Some((Way::Hook, 3)));
    }

    #[test]
    fn what_hooks_tell_that_cannot_be_is_a_doubt() {
        let folder = TempDir::new().unwrap();
        let heard = Heard::new(folder.path(), None);
        let steps = [1, 2].map(|step| format!("{{\"step\": {step}, \"time\": {step}, \"wait\": 5}}\n")).concat();
        fs::write(folder.path().join("hooked-12.jsonl"), steps + "what\n").unwrap();
        let doubts = heard.doubts();
        assert!(doubts[0].contains("1 are none") && doubts[1].contains("1 tell of waiting for longer"), "{doubts:?}");
    }

    #[test]
    fn times_that_fall_are_a_doubt() {
        let folder = TempDir::new().unwrap();
        let heard = Heard::new(folder.path(), None);
        let falling = [3, 2, 1].map(|time| format!("{{\"step\": 1, \"time\": {time}}}\n")).concat();
        fs::write(heard.file(), falling).unwrap();
        assert!(heard.doubts().concat().contains("2 tell of a time no later than"), "{:?}", heard.doubts());
    }

    #[test]
    fn lines_without_numbers_are_counted_and_those_of_one_breath_are_one_time() {
        let (folder, pattern) = (TempDir::new().unwrap(), pattern("iteration").unwrap());
        let mut heard = Heard::new(folder.path(), Some(&pattern));
        heard.hear(&[line(10, "iteration"), line(10, "iteration"), line(20, "iteration")]);
        let (_, ranks) = heard.steps().unwrap();
        assert_eq!(ranks[0].iter().map(|step| (step.number, step.time)).collect::<Vec<_>>(), [(2, 0.01), (3, 0.02)]);
        assert!(super::pattern("(").is_err());
    }
}
