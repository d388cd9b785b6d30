//! The job's command, with the profiler's options that are passed on to the script, as published.

use super::Sensitivity;
use perf4sight_base::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

perf4sight_base::words! {
    /// An option that a script may take.
    pub enum PassedOption {
        Batch = "--batch",
        /// Processes that load data.
        Workers = "--workers",
        MaxIterations = "--max-iterations",
        Data = "--data",
    }
}

/// A script longer than this is not searched.
const LONGEST: u64 = 4 << 20;

impl PassedOption {
    /// Parses a name; none for `none`.
    ///
    /// # Errors
    /// An unknown name.
    pub fn parse(word: &str) -> Result<Option<Self>> {
        let found = PassedOption::ALL.into_iter().find(|passed| passed.name() == format!("--{word}"));
        match (found, word) {
            (None, "none") => Ok(None),
            (None, _) => {
                let known = ["batch", "workers", "max-iterations", "data", "none"];
                Err(Error::usage(format!("\"{word}\" is nothing that is passed to a script")).one_of(word, known))
            }
            (found, _) => Ok(found),
        }
    }

    fn short(self) -> Option<&'static str> {
        match self {
            PassedOption::Batch => Some("-b"),
            PassedOption::Workers => Some("-j"),
            PassedOption::MaxIterations | PassedOption::Data => None,
        }
    }

    fn value(self, asked: &Sensitivity) -> Option<String> {
        match self {
            PassedOption::Batch => asked.batch.map(|batch| batch.to_string()),
            PassedOption::Workers => asked.workers.map(|workers| workers.to_string()),
            PassedOption::MaxIterations => asked.max_iterations.map(|most| most.to_string()),
            PassedOption::Data => {
                let inside = asked.container_mnt.as_ref().filter(|_| asked.docker_img.is_some());
                asked.data.as_ref().map(|data| inside.unwrap_or(data).display().to_string())
            }
        }
    }

    /// The number of words at the beginning that are this option and its value; 0 where it is another one.
    fn length(self, words: &[String]) -> usize {
        let Some(first) = words.first() else { return 0 };
        let long = first.strip_prefix(self.name());
        let short = self.short().and_then(|short| first.strip_prefix(short)).filter(|_| !first.starts_with("--"));
        match (long, short) {
            (Some(""), _) | (_, Some("")) => words.len().min(2),
            (Some(value), _) if value.starts_with('=') => 1,
            (_, Some(_)) => 1,
            _ => 0,
        }
    }
}

/// A command, and the options that were not passed on to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JobCommand {
    pub words: Vec<String>,
    /// The names of options that the script does not seem to accept.
    pub kept: Vec<String>,
}

impl JobCommand {
    /// The command with the options that are passed; the profiler's value replaces one in the command.
    pub fn from_settings(asked: &Sensitivity) -> Self {
        let script = script(&asked.command);
        let (head, arguments) = asked.command.split_at((script + 1).min(asked.command.len()));
        let (mut arguments, mut passed, mut kept) = (arguments.to_vec(), Vec::new(), Vec::new());
        let text = text_of(&asked.command[script]);
        for option in PassedOption::ALL {
            let Some(value) = option.value(asked) else { continue };
            let stands = without(option, &mut arguments.clone());
            let known = stands || text.as_ref().is_some_and(|text| text.contains(option.name()));
            match asked.pass.as_ref().map_or(known, |chosen| chosen.contains(&option)) {
                true => {
                    without(option, &mut arguments);
                    passed.extend([option.name().to_owned(), value]);
                }
                false if asked.pass.is_none() => kept.push(option.name().to_owned()),
                false => {}
            }
        }
        let words = [head, &arguments, &passed].concat();
        let words = asked.nodes.as_ref().map_or(words.clone(), |nodes| nodes.in_command(&words));
        JobCommand { words, kept }
    }
}

/// Removes an option and its value; returns whether it was there.
fn without(option: PassedOption, arguments: &mut Vec<String>) -> bool {
    let (before, mut at) = (arguments.len(), 0);
    while at < arguments.len() {
        match option.length(&arguments[at..]) {
            0 => at += 1,
            length => drop(arguments.drain(at..at + length)),
        }
    }
    arguments.len() < before
}

/// The index of the script: the last of the first words that are no options and name a file, after its interpreter or
/// launcher.
fn script(words: &[String]) -> usize {
    let is_script = |word: &String| !word.starts_with('-') && Path::new(word).is_file();
    words.iter().enumerate().skip(1).find(|(_, word)| is_script(word)).map_or(0, |(at, _)| at)
}

/// The text of a script; none where it is no file or too long.
fn text_of(script: &str) -> Option<String> {
    let about = fs::metadata(script).ok()?;
    (about.is_file() && about.len() <= LONGEST).then(|| fs::read_to_string(script).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &str) -> Vec<String> {
        words.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn an_option_is_taken_out_however_it_is_written() {
        for written in ["--batch 32", "--batch=32", "-b 32", "-b32"] {
            let mut arguments = words(&format!("--lr 1 {written} --best x"));
            assert!(without(PassedOption::Batch, &mut arguments), "{written}");
            assert_eq!(arguments, words("--lr 1 --best x"), "{written}");
        }
        assert!(!without(PassedOption::Batch, &mut words("--batches 3 --bias")));
    }

    #[test]
    fn an_argument_given_to_both_counts_for_the_profiler() {
        let asked = Sensitivity {
            command: words("no-such-script --batch 8 --lr 1"),
            batch: Some(64),
            ..Sensitivity::default()
        };
        assert_eq!(JobCommand::from_settings(&asked).words, words("no-such-script --lr 1 --batch 64"));
        let asked = Sensitivity { pass: Some(vec![]), ..asked };
        assert_eq!(JobCommand::from_settings(&asked).words, asked.command);
    }

    #[test]
    fn what_a_script_does_not_name_is_kept_and_told_unless_it_is_to_be_passed() {
        let asked = Sensitivity { command: words("no-such-script --lr 1"), workers: Some(3), ..Sensitivity::default() };
        let command = JobCommand::from_settings(&asked);
        assert_eq!((command.words, command.kept), (asked.command.clone(), vec!["--workers".to_owned()]));
        let asked = Sensitivity { pass: Some(vec![PassedOption::Workers]), ..asked };
        assert_eq!(JobCommand::from_settings(&asked).words, words("no-such-script --lr 1 --workers 3"));
    }
}
