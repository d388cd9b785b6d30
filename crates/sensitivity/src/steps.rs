//! Step times that a job reports as JSON lines, from any language.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The end of an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReportedStep {
    /// Iterations until then.
    pub number: u64,
    /// Time in seconds since an arbitrary origin.
    pub time: f64,
    /// Seconds that the job waited for data since the previous step; none where it does not report them.
    pub wait: Option<f64>,
}

/// All steps of a job, by rank.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportedSteps {
    /// By rank, in the order of time.
    pub ranks: BTreeMap<u32, Vec<ReportedStep>>,
    /// How many lines are not steps.
    pub rubbish: usize,
    /// How many lines were skipped because their time is not later than that of the previous line.
    pub backwards: usize,
    /// How many steps report a longer wait than the time since the previous line; their wait is unknown.
    pub long_waits: usize,
    numbers: BTreeMap<u32, StepNumbers>,
    count: usize,
}

/// The most steps that are kept; more do not improve a rate.
const MOST: usize = 1_000_000;

/// The two clocks of a job, one for waiting and one for steps, may differ by this share of a step.
const CLOCKS: f64 = 0.01;

#[derive(Deserialize)]
struct StepLine {
    step: u64,
    time: f64,
    #[serde(default)]
    wait: Option<f64>,
    #[serde(default)]
    rank: u32,
}

impl ReportedSteps {
    /// Parses lines such as `{"step": 12, "time": 3.25, "wait": 0.01, "rank": 0}`; `wait` and `rank` are optional. A
    /// last line without a newline is still being written and does not count.
    ///
    /// ```
    /// use perf4sight_sensitivity::ReportedSteps;
    /// let steps = ReportedSteps::read("{\"step\": 1, \"time\": 0.5}\n{\"step\": 2, \"time\": 1.0}\nwhat?\n{\"step\": 3, \"ti");
    /// assert_eq!((steps.ranks[&0].len(), steps.rubbish), (2, 1));
    /// ```
    pub fn read(text: &str) -> Self {
        let mut steps = ReportedSteps::default();
        steps.add(text.rfind('\n').map_or("", |end| &text[..end]));
        steps
    }

    /// Adds whole lines; ignores those above the limit.
    pub fn add(&mut self, lines: &str) {
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            if self.is_full() {
                return;
            }
            match serde_json::from_str::<StepLine>(line) {
                Ok(line) => self.add_line(&line),
                Err(_) => self.rubbish += 1,
            }
        }
    }

    /// Whether the limit on steps is reached.
    pub fn is_full(&self) -> bool {
        self.count + self.rubbish + self.backwards >= MOST
    }

    /// Adds a step, unless its time is not later than the previous one.
    fn add_line(&mut self, line: &StepLine) {
        let steps = self.ranks.entry(line.rank).or_default();
        let sound = line.time.is_finite() && line.wait.is_none_or(|wait| wait >= 0.0 && wait.is_finite());
        if !sound {
            self.rubbish += 1;
            return;
        }
        if steps.last().is_some_and(|before| line.time <= before.time) {
            self.backwards += 1;
            return;
        }
        let since = steps.last().map(|before| line.time - before.time);
        let too_long = |wait: &f64| since.is_some_and(|since| *wait > since * (1.0 + CLOCKS));
        self.long_waits += usize::from(line.wait.as_ref().is_some_and(too_long));
        let wait = line.wait.filter(|wait| !too_long(wait));
        let number = self.numbers.entry(line.rank).or_default().continued_number(line.step);
        steps.push(ReportedStep { number, time: line.time, wait });
        self.count += 1;
    }
}

/// Step numbers that continue where the job restarts them, as in each epoch.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StepNumbers {
    before: Option<u64>,
    epochs: u64,
}

impl StepNumbers {
    /// The number that was reported last.
    pub fn previous(&self) -> Option<u64> {
        self.before
    }

    pub fn continued_number(&mut self, number: u64) -> u64 {
        if let Some(before) = self.before.filter(|before| number <= *before) {
            // An epoch that begins with 0 has one iteration more than its last number.
            self.epochs = self.epochs.saturating_add(if number == 0 { before.saturating_add(1) } else { before });
        }
        self.before = Some(number);
        self.epochs.saturating_add(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(reported: &[u64]) -> Vec<u64> {
        let line = |(time, step): (usize, &u64)| format!("{{\"step\": {step}, \"time\": {time}}}\n");
        let text: String = reported.iter().enumerate().map(line).collect();
        ReportedSteps::read(&text).ranks[&0].iter().map(|step| step.number).collect()
    }

    #[test]
    fn numbers_of_epochs_count_on() {
        assert_eq!(numbers(&[1, 2, 3, 1, 2, 3, 1]), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(numbers(&[0, 1, 2, 0, 1, 2, 0]), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(numbers(&[10, 20, 30, 10, 20]), [10, 20, 30, 40, 50]);
    }

    #[test]
    fn steps_beyond_a_million_are_passed_over() {
        let line = |time: usize| format!("{{\"step\": {time}, \"time\": {time}}}\n");
        let mut steps = ReportedSteps::default();
        (0..=MOST).for_each(|time| steps.add(&line(time)));
        assert!(steps.is_full() && steps.ranks[&0].len() == 1_000_000);
    }

    #[test]
    fn ranks_are_told_apart_and_what_cannot_be_is_counted() {
        let text = "{\"step\": 1, \"time\": 1.0, \"rank\": 1, \"wait\": 0.5}\n\n{\"step\": 1, \"time\": 1.0}\n\
                    {\"step\": 2, \"time\": 0.5}\n{\"step\": 2, \"time\": 2.0, \"wait\": -1}\n{\"step\": -2, \"time\": 3}\n[]\n";
        let steps = ReportedSteps::read(text);
        assert_eq!(steps.ranks[&1], [ReportedStep { number: 1, time: 1.0, wait: Some(0.5) }]);
        assert_eq!(steps.ranks[&0], [ReportedStep { number: 1, time: 1.0, wait: None }]);
        assert_eq!(steps.rubbish, 3, "waiting that is none, two lines that are no steps");
        assert_eq!(steps.backwards, 1, "time that goes back");
    }

    /// A wait cannot be longer than the time between two lines; before the first line nothing bounds it.
    #[test]
    fn waiting_for_longer_than_since_the_line_before_is_counted_and_unknown() {
        let text = "{\"step\": 1, \"time\": 1.0, \"wait\": 9}\n{\"step\": 2, \"time\": 1.5, \"wait\": 1e30}\n\
                    {\"step\": 3, \"time\": 2.0, \"wait\": 0.5}\n";
        let steps = ReportedSteps::read(text);
        let waits: Vec<Option<f64>> = steps.ranks[&0].iter().map(|step| step.wait).collect();
        assert_eq!((steps.long_waits, waits), (1, vec![Some(9.0), None, Some(0.5)]));
    }
}
