//! Tests of `progress`.

use super::*;
use perf4sight_limit::OutputStream;
use std::time::Duration;
use tempfile::TempDir;

fn line(milliseconds: u64, text: &str) -> OutputLine {
    OutputLine { after: Duration::from_millis(milliseconds), stream: OutputStream::Output, text: text.to_owned() }
}

#[test]
fn the_way_that_comes_first_counts() {
    let (folder, pattern) = (TempDir::new().unwrap(), pattern(r"step (?<step>\d+)").unwrap());
    let mut progress = JobProgress::new(folder.path(), Some(&pattern));
    assert_eq!(progress.steps(), None);
    assert_eq!(progress.unmatched().unwrap(), r#"it wrote no line that "step (?<step>\d+)" could match"#);
    progress.add(&[line(5, "stop 10")], Duration::ZERO);
    assert_eq!(progress.unmatched().unwrap(), r#"it wrote 1 line, of which none matches "step (?<step>\d+)""#);
    progress.add(&[line(10, "step 10"), line(20, "hello"), line(30, "step 20")], Duration::ZERO);
    let steps = |progress: &JobProgress| progress.steps().map(|(way, ranks)| (way, ranks[0].last().unwrap().number));
    assert_eq!(steps(&progress), Some((ProgressSource::Output, 20)));
    fs::write(progress.file(), "{\"step\": 7, \"time\": 1}\nwhat\n").unwrap();
    progress.read_the_rest(Duration::ZERO);
    assert_eq!((steps(&progress), progress.rubbish()), (Some((ProgressSource::File, 7)), 1));
    fs::write(folder.path().join("hooked-12.jsonl"), "{\"step\": 3, \"time\": 1}\n").unwrap();
    progress.read_the_rest(Duration::ZERO);
    assert_eq!(steps(&progress), Some((ProgressSource::Hook, 3)));
}

#[test]
fn what_hooks_tell_that_cannot_be_is_a_doubt() {
    let folder = TempDir::new().unwrap();
    let mut progress = JobProgress::new(folder.path(), None);
    let steps = [1, 2].map(|step| format!("{{\"step\": {step}, \"time\": {step}, \"wait\": 5}}\n")).concat();
    fs::write(folder.path().join("hooked-12.jsonl"), steps + "what\n").unwrap();
    progress.read_the_rest(Duration::ZERO);
    let doubts = progress.doubts();
    assert!(
        doubts[0].starts_with("skipped 1 line of iterations not of the form {")
            && doubts[1].starts_with("1 line of iterations with a wait longer"),
        "{doubts:?}"
    );
}

/// A misspelt group would count lines instead of reading their numbers.
#[test]
fn a_group_of_another_name_is_refused() {
    assert!(pattern(r"(\w+) (?<step>\d+)").is_ok());
    let error = pattern(r"it (?<stap>\d+)").unwrap_err().to_string();
    assert!(error.contains("\"stap\"") && error.contains("one of step"), "{error}");
}

#[test]
fn times_that_fall_are_a_doubt() {
    let folder = TempDir::new().unwrap();
    let mut progress = JobProgress::new(folder.path(), None);
    let falling = [3, 2, 1].map(|time| format!("{{\"step\": 1, \"time\": {time}}}\n")).concat();
    fs::write(progress.file(), falling).unwrap();
    progress.read_the_rest(Duration::ZERO);
    assert!(
        progress.doubts().concat().contains("skipped 2 lines of iterations with a time not later than"),
        "{:?}",
        progress.doubts()
    );
}

#[test]
fn lines_without_numbers_are_counted_and_those_of_one_breath_are_one_time() {
    let (folder, pattern) = (TempDir::new().unwrap(), pattern("iteration").unwrap());
    let mut progress = JobProgress::new(folder.path(), Some(&pattern));
    progress.add(&[line(10, "iteration"), line(10, "iteration"), line(20, "iteration")], Duration::ZERO);
    let (_, ranks) = progress.steps().unwrap();
    assert_eq!(ranks[0].iter().map(|step| (step.number, step.time)).collect::<Vec<_>>(), [(2, 0.01), (3, 0.02)]);
    assert!(super::pattern("(").is_err());
}

/// Iterations of 20 ms that are reported as 20 s, within a second.
#[test]
fn milliseconds_are_no_seconds() {
    let folder = TempDir::new().unwrap();
    let mut progress = JobProgress::new(folder.path(), None);
    let lines: String = (1..50).map(|step| format!("{{\"step\": {step}, \"time\": {}}}\n", 20 * step)).collect();
    fs::write(progress.file(), &lines).unwrap();
    progress.read_the_rest(Duration::from_secs(1));
    assert!(progress.misfit().unwrap().contains("their time is not in seconds"));
    assert!(progress.doubts().concat().contains("their time is not in seconds"));
    let mut progress = JobProgress::new(folder.path(), None);
    progress.read_the_rest(Duration::from_secs(1000));
    assert_eq!(progress.misfit(), None);
}

/// The job writes two lines in two seconds, is interrupted, and goes on for two seconds until it is killed.
#[test]
fn lines_after_the_interrupt_do_not_count_unless_the_job_kept_all_until_then() {
    let lines = |steps: std::ops::RangeInclusive<u32>| {
        steps.map(|step| format!("{{\"step\": {step}, \"time\": {step}}}\n")).collect::<String>()
    };
    let last = |progress: &JobProgress| progress.steps().unwrap().1[0].last().unwrap().number;
    for name in [FILE, "hooked-12.jsonl"] {
        let folder = TempDir::new().unwrap();
        let mut progress = JobProgress::new(folder.path(), None);
        fs::write(folder.path().join(name), lines(1..=2)).unwrap();
        progress.add(&[], Duration::from_secs(2));
        fs::write(folder.path().join(name), lines(1..=4)).unwrap();
        progress.read_what_was_kept(Duration::from_secs(4));
        assert_eq!((last(&progress), progress.misfit()), (2, None), "{name}");
    }
    let folder = TempDir::new().unwrap();
    let mut progress = JobProgress::new(folder.path(), None);
    progress.add(&[], Duration::from_secs(2));
    fs::write(progress.file(), lines(1..=4)).unwrap();
    progress.read_what_was_kept(Duration::from_secs(4));
    assert_eq!((last(&progress), progress.misfit()), (4, None));
}

/// Epochs of three iterations; each is written twice, as by a bar of progress.
#[test]
fn numbers_of_lines_begin_anew_in_each_epoch() {
    let (folder, pattern) = (TempDir::new().unwrap(), pattern(r"step (?<step>\d+)").unwrap());
    let mut progress = JobProgress::new(folder.path(), Some(&pattern));
    for at in 0..14 {
        let text = format!("epoch {} step {}", at / 6, at / 2 % 3);
        progress.add(&[line(10 * at, &text)], Duration::ZERO);
    }
    let (_, ranks) = progress.steps().unwrap();
    assert_eq!(ranks[0].iter().map(|step| step.number).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
}
