//! The script of a task, and the arguments of `sbatch`.
//!
//! Slurm runs the script by a shell, so every word that a user wrote is quoted in it; only the lines of `prologue` are
//! meant as shell. Everything else goes to `sbatch` as arguments, which no shell sees.

use super::run_folder::{OUTPUT, SubmittedRun};
use super::settings::SlurmSettings;
use perf4sight_base::error::{Error, Result};
use std::path::{Path, PathBuf};

/// Seconds before the time limit at which a task is asked to end: a measurement that is cut off ends within five.
pub(crate) const NOTICE: u64 = 120;

/// The time limit of the job that merges, in minutes, where that of a task is not shorter.
const MERGE_MINUTES: u64 = 10;

/// Where tasks run, and with which program.
pub(crate) struct TaskPlace<'a> {
    /// The settings.
    pub settings: &'a SlurmSettings,
    /// This program.
    pub executable: PathBuf,
    /// The current folder, to which the paths of the configuration are relative.
    pub folder: PathBuf,
}

/// A part of the tasks of a run: one job array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobArray {
    /// The first task.
    pub first: usize,
    /// How many there are.
    pub count: usize,
}

impl JobArray {
    /// The arrays of so many tasks, none with more than `most`.
    pub fn cut(tasks: usize, most: usize) -> Vec<Self> {
        (0..tasks).step_by(most.max(1)).map(|first| JobArray { first, count: most.min(tasks - first) }).collect()
    }
}

/// The end of the name of the job that merges.
pub(crate) const MERGE: &str = "merge";

/// The words of the programs that a run's scripts call.
pub(crate) fn task_script(run: &SubmittedRun, place: &TaskPlace<'_>) -> Result<String> {
    let command = command(run, place, "slurm-task")?;
    let prologue: String = place.settings.prologue.iter().map(|line| format!("{line}\n")).collect();
    Ok(format!(
        "#!/bin/bash\n# A task of perf4sight's [{section}]. Its first task is $1.\n{FAILING}set -- {command} \"$(($1 + SLURM_ARRAY_TASK_ID))\" \"$SLURMD_NODENAME\" \
         \"${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID\" {name}\n{prologue}# Slurm's signal reaches perf4sight itself.\nexec \"$@\"\n",
        section = run.section,
        name = run.name,
    ))
}

/// The script of the job that merges.
pub(crate) fn merge_script(run: &SubmittedRun, place: &TaskPlace<'_>) -> Result<String> {
    let command = command(run, place, "slurm-merge")?;
    let prologue: String = place.settings.prologue.iter().map(|line| format!("{line}\n")).collect();
    Ok(format!("#!/bin/bash\n{FAILING}set -- {command}\n{prologue}exec \"$@\"\n"))
}

/// What would be measured after a line of the prologue failed is something else, such as another Python.
const FAILING: &str = "trap 'echo \"perf4sight: this part of prologue failed: $BASH_COMMAND\" >&2; exit 1' ERR\n";

fn command(run: &SubmittedRun, place: &TaskPlace<'_>, verb: &str) -> Result<String> {
    let program = match &place.settings.program {
        Some(program) => program.clone(),
        None => text(&place.executable)?,
    };
    let words = [program, "--quiet".to_owned(), verb.to_owned(), text(&run.folder)?];
    shlex::try_join(words.iter().map(String::as_str))
        .map_err(|cause| Error::config(format!("{words:?} cannot be written into a script: {cause}")))
}

/// The options that choose the nodes of a task.
pub(crate) fn node_choice(settings: &SlurmSettings, minutes: u64, measures: bool) -> Vec<String> {
    let mut words = vec!["--nodes=1".to_owned(), "--ntasks=1".to_owned(), format!("--time={minutes}")];
    // --exclusive gives all processors of a node, and --mem=0 all of its memory.
    words.extend(
        (settings.exclusive && measures)
            .then(|| ["--exclusive".to_owned(), "--mem=0".to_owned()])
            .into_iter()
            .flatten(),
    );
    words.extend(settings.licence.iter().filter(|_| measures).map(|licence| format!("--licenses={licence}")));
    words.extend(chosen(settings));
    words
}

/// The arguments of `sbatch` for an array, behind the array `after`.
pub(crate) fn array_arguments(
    run: &SubmittedRun,
    place: &TaskPlace<'_>,
    array: JobArray,
    after: Option<u64>,
) -> Result<Vec<String>> {
    let mut words = run.choice.clone();
    words.extend([
        format!("--array=0-{}%{}", array.count - 1, place.settings.tasks),
        format!("--signal=B:TERM@{NOTICE}"),
        "--requeue".to_owned(),
        "--open-mode=append".to_owned(),
    ]);
    words.extend(after.map(|job| format!("--dependency=afterany:{job}")));
    // Without %a all tasks of an array would write into one file.
    words.extend(common(run, place, &array.first.to_string(), &format!("{}+%a", array.first))?);
    words.extend([script_path(&run.folder.join("task.sh"))?, array.first.to_string()]);
    Ok(words)
}

/// The arguments of `sbatch` for the job that merges when these have ended.
pub(crate) fn merge_arguments(run: &SubmittedRun, place: &TaskPlace<'_>, arrays: &[u64]) -> Result<Vec<String>> {
    let jobs: Vec<String> = arrays.iter().map(u64::to_string).collect();
    let mut words = vec!["--ntasks=1".to_owned(), format!("--time={}", MERGE_MINUTES.min(run.minutes))];
    words.extend(chosen(place.settings));
    words.push(format!("--dependency=afterany:{}", jobs.join(":")));
    words.extend(common(run, place, MERGE, MERGE)?);
    words.push(script_path(&run.folder.join("merge.sh"))?);
    Ok(words)
}

/// The user's choices.
fn chosen(settings: &SlurmSettings) -> Vec<String> {
    let partition = settings.partition.iter().map(|partition| format!("--partition={partition}"));
    partition.chain(settings.extra.iter().cloned()).collect()
}

/// What no option of the user may replace, because the run is found again by it.
fn common(run: &SubmittedRun, place: &TaskPlace<'_>, name: &str, output: &str) -> Result<Vec<String>> {
    // Slurm replaces % in the names of output files.
    let folder = text(&run.folder.join(OUTPUT))?.replace('%', "%%");
    Ok(vec![
        "--parsable".to_owned(),
        format!("--job-name={}{name}", run.name),
        format!("--output={folder}/{output}"),
        format!("--chdir={}", text(&place.folder)?),
    ])
}

fn script_path(path: &Path) -> Result<String> {
    text(path)
}

/// A path that Slurm can be given. A backslash in the name of an output file keeps Slurm from replacing %a in it, and is
/// lost (sbatch(1), "filename pattern").
pub(crate) fn text(path: &Path) -> Result<String> {
    match path.to_str() {
        Some(text) if !text.contains(|char: char| char.is_control() || char == '\\') => Ok(text.to_owned()),
        _ => Err(Error::usage("Slurm cannot be given this path")
            .file(path)
            .expected("UTF-8 without line breaks and backslashes")
            .help("rename the folder, or work in another one")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_slurm_reads_otherwise_are_refused() {
        let refused = |path: &str| text(Path::new(path)).is_err();
        assert!(refused("/a\nb") && refused("/a\\b"));
        assert!(!refused("/a $(b) 'c' %j ;d"));
    }

    #[test]
    fn arrays_hold_no_more_tasks_than_the_cluster_allows() {
        let array = |first, count| JobArray { first, count };
        assert_eq!(JobArray::cut(7, 3), [array(0, 3), array(3, 3), array(6, 1)]);
        assert_eq!(JobArray::cut(3, 3), [array(0, 3)]);
    }
}
