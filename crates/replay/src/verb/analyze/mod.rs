//! The published call `analyze --option replay|collect|statistic`: its arguments become those of the verbs of these names,
//! and the results get the published names.

mod critical_path;
mod graph;
mod names;
mod recorders;
mod statistic;

use super::{PendingFile, ReplayVerb, collect, one_step};
use crate::communication::CollectiveAlgorithm;
use crate::ranks::TrainingJob;
use crate::replayed_job;
use crate::request::ReplayRequest;
use crate::timeline;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::overwrite;
use perf4sight_traces::is_own_timeline;
use perf4sight_verb::config::{Setting, SettingValues, flag, integer, number, path, text, word};
use perf4sight_verb::{Context, Summary, Verb};
use recorders::ComparedClaims;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The published arguments that have an effect here. Multi-word ones are spelled with underscores or hyphens.
pub const SETTINGS: &[Setting] = &[
    word("option", options)
        .required()
        .help("What to do: replay, collect, statistic or optimize."),
    path("path")
        .many_values()
        .commas()
        .required()
        .value("DIR")
        .help("The folder of the traces: host0/0 and so on, one folder a GPU."),
    text("sub_option").alias("sub_option").help(
        "Of replay: smlt_delay_cmp or smlt_delay_comm, which stretch computation or communication by --delay-ratio; of optimize: tensor_fusion, xla, amp, memory, ^memory, from_opfs2tsfs, train_gpu, train_amp.",
    ),
    number("delay_ratio", 1e-6).or_default("1.1").alias("delay_ratio").help("By how much the sub options stretch."),
];

/// Published arguments of each of the published programs.
pub const PUBLISHED: &[Setting] = &[
    word("platform", platforms)
        .or_default("TENSORFLOW")
        .help("What recorded the traces; the files themselves show it, and a contradiction is warned about."),
    word("comm_backend", backends)
        .or_default("NCCL")
        .alias("comm_backend")
        .help("What exchanges gradients; the files themselves show it, and a contradiction is warned about."),
    word("nccl_algo", algorithms).or_default("RING").alias("nccl_algo").help("How collective operations are done."),
    path("workspace").value("DIR").help("Folder for the results, instead of the first of --path."),
    flag("pretty").help("Accepted: results are always shown with what is necessary."),
];

/// Published arguments that are accepted without effect, for what they turn on or off is always or never so here.
pub const ACCEPTED: &[Setting] = &[
    flag("update_infi_para").alias("update_infi_para").help("Accepted: updates run at the same time where they did."),
    flag("update_clip_overlapping")
        .alias("update_clip_overlapping")
        .help("Accepted: overlapping operations of a thread are cut."),
    flag("disable_revise").alias("disable_revise").help("Accepted: recorded times are never changed."),
    flag("full_trace").alias("full_trace").help("Accepted: dependencies are in the report."),
    flag("force").help("Accepted: nothing is cached."),
    flag("clean").help("Accepted: there is no log file."),
    flag("progress").help("Accepted: progress is shown on a terminal."),
    flag("sort").help("Accepted: statistics are always sorted."),
    integer("head", 1, i64::MAX).help("Accepted: the console shows the first rows of each kind, the file all."),
    integer("step_num", 1, i64::MAX).alias("step_num").help("Accepted: every recorded step is replayed."),
    text("logging_level").alias("logging_level").help("Accepted; --quiet leaves out more."),
    text("trace_level").alias("trace_level").help("Accepted: all operations are shown."),
];

/// The options, those of other verbs and those without a place here included.
pub fn options() -> Vec<&'static str> {
    ["replay", "collect", "statistic", "optimize"].into_iter().chain(ELSEWHERE.map(|(option, _)| option)).collect()
}

/// Published options, and what takes their place.
const ELSEWHERE: [(&str, &str); 8] = [
    ("graph", "perf4sight replay shows the critical path of the graph"),
    ("combine", "--option collect joins all traces"),
    ("mapping", "perf4sight breakdown shows the kernels of each operator"),
    ("compare", "--option statistic of both folders, and compare their tables"),
    ("3dcompare", "--option statistic of both folders, and compare their tables"),
    ("critical", "--option replay shows the critical path"),
    ("timeline", "--option collect writes the timeline"),
    ("topo_sort", "--option replay shows the critical path"),
];

fn platforms() -> Vec<&'static str> {
    vec!["TENSORFLOW", "MXNET", "PYTORCH"]
}

fn backends() -> Vec<&'static str> {
    vec!["NCCL", "BYTEPS", "NONE"]
}

fn algorithms() -> Vec<&'static str> {
    vec!["RING", "TREE"]
}

/// The published names of results.
const COLLECTED: &str = "bps_trace_final.json";
const STATISTIC: &str = "statistic.txt";
const SYNTHETIC: &str = "synthetic.json";
const GRAPH: &str = "trail_dag.gml";
const CRITICAL_PATH: &str = "critical_path.json";
/// The folder and the table, beside these, that only this program writes.
const REPLAY: &str = "replay";
const TABLE_OF_ALL: &str = "statistic.csv";

/// Converts the arguments; `optimize` is another crate's.
///
/// # Errors
/// An option or sub option that has no place here, with what takes it.
pub fn parse(values: &SettingValues<'_>) -> Result<Box<dyn Verb>> {
    let traces: Vec<PathBuf> = values.get("path")?;
    let out = match (values.get::<Option<PathBuf>>("workspace")?, traces.first()) {
        (Some(workspace), _) => workspace,
        (None, Some(first)) => first.clone(),
        (None, None) => return Err(values.error("path", "there is none").expected("a folder")),
    };
    let verb: Box<dyn Verb> = match values.get::<String>("option")?.as_str() {
        "replay" => Box::new(ReplayWithFiles { replay: replay(values, traces.clone(), &out)?, out }),
        "collect" => {
            let file = out.join(COLLECTED);
            Box::new(CollectedTraces { verb: collect::verb(traces.clone(), file.clone()), file })
        }
        "statistic" => {
            Box::new(StatisticWithFile { table: super::statistic::new(traces.clone(), out.join(TABLE_OF_ALL)), out })
        }
        other => {
            let place = ELSEWHERE.iter().find(|(option, _)| *option == other).map(|(_, place)| *place);
            let error = values.error("option", format!("{other} is not done by this call"));
            return Err(error.help(place.unwrap_or("perf4sight optimize")));
        }
    };
    Ok(Box::new(ComparedClaims { verb, traces, claims: recorders::argument_claims(values)? }))
}

fn replay(values: &SettingValues<'_>, traces: Vec<PathBuf>, out: &Path) -> Result<ReplayVerb> {
    let ratio: f64 = values.get("delay_ratio")?;
    let what_ifs = match values.get::<Option<String>>("sub_option")?.as_deref() {
        None | Some("") => Vec::new(),
        Some("smlt_delay_cmp") => vec![format!("operations '*' x {ratio}")],
        Some("smlt_delay_comm") => vec![format!("communication x {ratio}")],
        Some(other) => {
            let error = values.error("sub_option", format!("{other} is not done by this call"));
            return Err(error.help("perf4sight replay shows the critical path, and --what-if what a change brings"));
        }
    };
    let algorithm = values.parse_word("nccl_algo", |word| CollectiveAlgorithm::parse(&word.to_ascii_lowercase()))?;
    let request = ReplayRequest { what_ifs, algorithm, ..ReplayRequest::default() };
    let check = |text: &String| request.check_what_if(text).map_err(|error| values.with_place("delay_ratio", error));
    request.what_ifs.iter().try_for_each(check)?;
    Ok(ReplayVerb { record: None, traces, out: out.join(REPLAY), as_all_ranks: false, request })
}

/// A replay that writes the published files as well.
struct ReplayWithFiles {
    replay: ReplayVerb,
    out: PathBuf,
}

impl Verb for ReplayWithFiles {
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let [synthetic, graph, critical] = [SYNTHETIC, GRAPH, CRITICAL_PATH].map(|name| self.out.join(name));
        [&synthetic, &critical].into_iter().try_for_each(|file| check(file, is_own_timeline))?;
        check(&graph, graph::is_ours)?;
        let files = self.replay.files()?;
        self.replay.compare(files, context, move |job, replayed| published([synthetic, graph, critical], job, replayed))
    }
}

/// The replayed step, its graph and its critical path, each with the file that it belongs into.
fn published(
    [synthetic, graph, critical]: [PathBuf; 3],
    job: &TrainingJob,
    replayed: &replayed_job::ReplayedJob,
) -> Result<Vec<PendingFile>> {
    let replayed = one_step::single_step(replayed);
    let names = names::of_graph(&replayed.step.graph, &job.ranks);
    let failed = |cause: io::Error| Error::io(&synthetic, "write this file", &cause);
    let mut step = Vec::new();
    timeline::write_replayed(&replayed, &mut step).map_err(failed)?;
    let path = critical_path::write_file(&replayed, &names).map_err(failed)?;
    let text = graph::graph_file(&replayed.step.graph, &names).into_bytes();
    let drawn = |what, file, contents| PendingFile { what, file, contents };
    Ok(vec![
        drawn("replayed step", synthetic, step),
        drawn("graph", graph, text),
        drawn("critical path", critical, path),
    ])
}

/// Statistics as a table, and as the published program keeps them.
struct StatisticWithFile {
    table: super::statistic::StatisticVerb,
    out: PathBuf,
}

impl Verb for StatisticWithFile {
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let published = self.out.join(STATISTIC);
        check(&published, statistic::is_ours)?;
        self.table.check().map_err(output_elsewhere_error)?;
        self.table.count(context, move |job| {
            Ok(Some(PendingFile {
                what: "statistics",
                file: published,
                contents: statistic::statistic_file(job)?.into(),
            }))
        })
    }
}

/// Refuses to replace a file of others.
fn check(file: &Path, is_ours: impl FnOnce(File) -> bool) -> Result<()> {
    overwrite::check(file, false, is_ours).map_err(output_elsewhere_error)
}

/// The published call replaces no files of others.
fn output_elsewhere_error(error: Error) -> Error {
    error.help("choose another folder (--workspace)")
}

/// The verb that joins traces, into a file that is not of others.
struct CollectedTraces {
    verb: Box<dyn Verb>,
    file: PathBuf,
}

impl Verb for CollectedTraces {
    fn run(&self, context: &mut Context) -> Result<Summary> {
        check(&self.file, is_own_timeline)?;
        self.verb.run(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_report::{Console, ConsoleSettings, OutputMode};
    use perf4sight_verb::config::{ConfigDocument, ConfigEntry, SettingTable, Value, ValueOrigin};
    use std::sync::Arc;
    use std::time::SystemTime;

    const TABLE: SettingTable =
        SettingTable { section: "analyze", about: "", groups: &[SETTINGS, PUBLISHED, ACCEPTED] };

    fn verb(arguments: &[(&str, &str)]) -> Result<Box<dyn Verb>> {
        let entry = |(key, value): &(&str, &str)| ConfigEntry {
            key: (*key).to_owned(),
            value: Value::Text((*value).to_owned()),
            origin: ValueOrigin::Argument(format!("--{key}")),
        };
        let document = ConfigDocument::of_arguments("analyze", arguments.iter().map(entry).collect());
        parse(&SettingValues::of_arguments(&document, &TABLE)?)
    }

    #[test]
    fn results_get_the_published_names() {
        let folder = tempfile::tempdir().unwrap();
        let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/chakra");
        let [traces, out] = [traces.as_path(), folder.path()].map(|path| path.to_str().unwrap());
        let settings = ConsoleSettings { mode: OutputMode::Json, colour: false, bars: false, width: None };
        let console = Console::writing_to(settings, std::io::sink(), std::io::sink());
        let mut context =
            Context::new(console, || SystemTime::UNIX_EPOCH, Arc::default(), PathBuf::new(), String::new());
        for (option, file) in [
            ("replay", SYNTHETIC),
            ("replay", GRAPH),
            ("replay", CRITICAL_PATH),
            ("collect", COLLECTED),
            ("statistic", STATISTIC),
        ] {
            let arguments =
                [("option", option), ("path", traces), ("workspace", out), ("sub_option", "smlt_delay_comm")];
            // Twice: results of our own are replaced.
            for _ in 0..2 {
                verb(&arguments).unwrap().run(&mut context).unwrap();
            }
            assert!(folder.path().join(file).metadata().unwrap().len() > 100, "{file}");
            std::fs::write(folder.path().join(file), "of somebody else").unwrap();
            assert!(verb(&arguments).unwrap().run(&mut context).is_err(), "{file}");
            std::fs::remove_file(folder.path().join(file)).unwrap();
        }
        assert!(folder.path().join(REPLAY).join("report.html").exists() && folder.path().join(TABLE_OF_ALL).exists());
    }

    /// Without `--workspace` the results are next to the traces, which they are not taken for.
    #[test]
    fn results_next_to_traces_are_no_traces() {
        let folder = tempfile::tempdir().unwrap();
        let job = [crate::synthetic::cluster(&crate::synthetic::SyntheticCluster::default(), 1).unwrap()];
        crate::synthetic::write_traces(&job, &[], folder.path()).unwrap();
        let settings = ConsoleSettings { mode: OutputMode::Json, colour: false, bars: false, width: None };
        let console = Console::writing_to(settings, std::io::sink(), std::io::sink());
        let mut context =
            Context::new(console, || SystemTime::UNIX_EPOCH, Arc::default(), PathBuf::new(), String::new());
        for option in ["replay", "collect", "replay", "statistic"] {
            let arguments = [("option", option), ("path", folder.path().to_str().unwrap())];
            verb(&arguments).unwrap().run(&mut context).unwrap();
        }
    }

    #[test]
    fn options_without_a_place_say_what_takes_it() {
        let error =
            |arguments: &[(&str, &str)]| verb(arguments).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error(&[("option", "combine"), ("path", "x")]).contains("--option collect joins all traces"));
        assert!(error(&[("option", "optimize"), ("path", "x")]).contains("perf4sight optimize"));
        let unknown = error(&[("option", "replay"), ("path", "x"), ("sub_option", "bottleneck")]);
        assert!(unknown.contains("bottleneck is not done"), "{unknown}");
    }
}
