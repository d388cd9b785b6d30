//! The settings of `[slurm]`, which all sections of a configuration share.

use perf4sight_base::error::Result;
use perf4sight_verb::config::{Setting, SettingTable, SettingValues, flag, integer, text, time};
use std::time::Duration;

/// The most tasks of a run; the default of `MaxJobCount` in Slurm.
const MOST_TASKS: i64 = 10_000;

/// The shortest time limit of a task.
const LEAST_TIME: Duration = Duration::from_secs(300);

/// The section `[slurm]`.
pub static TABLE: SettingTable = SettingTable {
    section: "slurm",
    about: "how --slurm submits the sections that can be divided; without --slurm it has no effect",
    groups: &[SETTINGS],
};

const SETTINGS: &[Setting] = &[
    text("partition").help("The partition of the nodes to measure on; by default that of the cluster."),
    integer("tasks", 1, MOST_TASKS).or_default("4").help("How many tasks run at once at most."),
    integer("chunks", 1, MOST_TASKS)
        .help("Into how many tasks the work is divided; by default as many as run at once, or more where a task would take more than half an hour."),
    text("licence")
        .help("A licence of the cluster that every task holds, such as orin or orin:1, so that Slurm starts no more tasks than there are licences."),
    flag("exclusive").or_default("True")
        .help("Reserve the whole node for each task (--exclusive --mem=0). False needs a licence that keeps other measurements away."),
    time("time")
        .help("The time limit of a task; by default twice what its configurations are expected to take, and 10 minutes more. At least 5 minutes."),
    text("program").help("perf4sight on the nodes, a path or a command; by default the path of this one."),
    text("extra").many_values().or_default("[]")
        .help("More options of sbatch, such as ['--account=lab', '--constraint=jp6']; each is one word."),
    text("prologue").many_values().or_default("[]")
        .help("Lines of bash that a task runs before perf4sight, such as 'module load cuda'; a line that fails ends the task. The command is in \"$@\": 'set -- apptainer exec image.sif \"$@\"' runs it in a container."),
];

/// The checked settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SlurmSettings {
    /// The partition; none: the default of the cluster.
    pub partition: Option<String>,
    /// How many tasks run at once.
    pub tasks: usize,
    /// Into how many tasks a run is divided; none: by their expected time.
    pub chunks: Option<usize>,
    /// A licence that every task holds.
    pub licence: Option<String>,
    /// Whether a task has its node alone.
    pub exclusive: bool,
    /// The time limit of a task; none: from the expected time.
    pub time: Option<Duration>,
    /// The program on the nodes; none: the path of this one.
    pub program: Option<String>,
    /// More options of `sbatch`.
    pub extra: Vec<String>,
    /// Lines of shell before the program.
    pub prologue: Vec<String>,
    /// Whether to leave the array running instead of waiting for it.
    pub detach: bool,
}

impl SlurmSettings {
    /// The checked values of the section.
    ///
    /// # Errors
    /// Words that no command line can hold, options without a dash, tasks that would share a node without a licence.
    pub fn parse(values: &SettingValues<'_>) -> Result<Self> {
        let settings = SlurmSettings {
            partition: word(values, "partition")?,
            tasks: values.get("tasks")?,
            chunks: values.get("chunks")?,
            licence: word(values, "licence")?,
            exclusive: values.get("exclusive")?,
            time: time_limit(values)?,
            program: word(values, "program")?,
            extra: extra(values)?,
            prologue: lines(values)?,
            detach: false,
        };
        match settings.exclusive || settings.licence.is_some() {
            true => Ok(settings),
            false => Err(values
                .error("exclusive", "nothing would keep other work away from what is measured")
                .help("set a licence of which every node has one, or exclusive = True")),
        }
    }
}

/// A task gets its notice minutes before the limit, so that a shorter one would leave it no time.
fn time_limit(values: &SettingValues<'_>) -> Result<Option<Duration>> {
    match values.get::<Option<Duration>>("time")? {
        Some(time) if time < LEAST_TIME => Err(values
            .error("time", format!("{} leaves a task no time", humantime::format_duration(time)))
            .expected("5min or more")),
        time => Ok(time),
    }
}

/// A value in one line that is not empty.
fn word(values: &SettingValues<'_>, key: &str) -> Result<Option<String>> {
    let Some(word) = values.get::<Option<String>>(key)? else { return Ok(None) };
    match word.is_empty() || word.contains(char::is_control) {
        true => Err(values.error(key, format!("{word:?} is not a word")).expected("text without control characters")),
        false => Ok(Some(word)),
    }
}

/// Options with which sbatch submits nothing, something else, or elsewhere.
const NOT_EXTRA: [&str; 11] =
    ["--wrap", "--test-only", "--wait", "-W", "--clusters", "-M", "--help", "-h", "--usage", "--version", "-V"];

/// Options by which the program finds its tasks again, and has nodes alone.
const SET_HERE: [&str; 12] = [
    "--array",
    "-a",
    "--job-name",
    "-J",
    "--output",
    "-o",
    "--chdir",
    "-D",
    "--dependency",
    "-d",
    "--oversubscribe",
    "-s",
];

/// sbatch takes the first word without a dash for its script.
fn extra(values: &SettingValues<'_>) -> Result<Vec<String>> {
    let words: Vec<String> = values.get("extra")?;
    // The value of an option of one letter may follow it at once.
    let name = |word: &str| match word.starts_with("--") {
        true => word.split('=').next().unwrap_or_default().to_owned(),
        false => word.chars().take(2).collect(),
    };
    // sbatch takes the beginning of a long option for the whole.
    let is_of = |all: &[&str], word: &String| {
        let name = name(word);
        all.iter().any(|option| *option == name || (name.len() > 3 && option.starts_with(&name)))
    };
    if let Some(word) = words.iter().find(|word| is_of(&NOT_EXTRA, word)) {
        return Err(values.error("extra", format!("{word} would keep sbatch from submitting the tasks here")));
    }
    if let Some(word) = words.iter().find(|word| is_of(&SET_HERE, word)) {
        return Err(values.error("extra", format!("{word} is set by perf4sight itself")).help("leave it out"));
    }
    let wrong = |word: &&String| !word.starts_with('-') || word.as_str() == "--" || word.contains(char::is_control);
    match words.iter().find(wrong) {
        Some(word) => Err(values
            .error("extra", format!("{word:?} is not an option of sbatch"))
            .expected("one word with its value, such as --account=lab")),
        None => Ok(words),
    }
}

fn lines(values: &SettingValues<'_>) -> Result<Vec<String>> {
    let lines: Vec<String> = values.get("prologue")?;
    match lines.iter().find(|line| line.contains('\0')) {
        Some(line) => Err(values.error("prologue", format!("{line:?} is not a line of shell"))),
        None => Ok(lines),
    }
}
