//! `[optimize]` and `perf4sight optimize`: what to change in a recorded job, or which of some plans to run.

use super::choose_plan::ChoosePlan;
use super::half_precision;
use super::strategy::{OptimizeTraces, SEARCHES};
use crate::passes::{PASSES, PassSettings};
use crate::search::{SearchMethod, SearchOptions, SearchSettings};
use crate::simulated_memory::SimulatedStep;
use perf4sight_base::error::{Error, Result};
use perf4sight_replay::communication::CollectiveAlgorithm;
use perf4sight_replay::request::ReplayRequest;
use perf4sight_step::workload::Optimizer as UpdateRule;
use perf4sight_verb::config::Conflicts::WithAllBut;
use perf4sight_verb::config::DefaultValue::{Literal, Unset};
use perf4sight_verb::config::{
    Setting, SettingTable as Settings, SettingValues, flag, integer, memory, number, path, word,
};
use perf4sight_verb::{Context, CountedNoun, Divisible, Outline, PlannedFiles, Section, Spec, Summary, Verb, VerbSpec};
use std::path::PathBuf;

/// The section `[optimize]`.
pub static SPEC: Spec = Spec {
    table: Settings { section: "optimize", about: ABOUT, groups: &[SETTINGS, half_precision::SETTINGS] },
    subject: CountedNoun { one: "change", several: "changes" },
    parse: |values| Ok(Box::new(OptimizeVerb::parse(values)?)),
};

/// `perf4sight optimize`.
pub static VERB: VerbSpec = VerbSpec {
    table: Settings { section: "optimize", about: ABOUT, groups: &[SETTINGS, half_precision::SETTINGS] },
    after_help: AFTER_HELP,
    parse: |values| Ok(Box::new(OptimizeVerb::parse(values)?)),
};

const ABOUT: &str =
    "finds what to change in distributed training, from the traces of its ranks, or the fastest of some plans";

const AFTER_HELP: &str = "\
Examples:
  perf4sight optimize traces/
  perf4sight optimize traces/ --pass tensor_fusion --plain-step-ms 310
  perf4sight optimize --plans candidates.csv --model model.json --memory-budget 40GiB";

const SETTINGS: &[Setting] = &[
    path("traces")
        .many_values()
        .or_default("{record.out}")
        .or_on_command_line(Literal("[]"))
        .positional("PATH")
        .help("Traces of one job, one of each rank, or a folder of them. Not with --plans."),
    word("pass", passes).many_values().or_default("[]").help("What to search for; by default everything."),
    number("plain_step_ms", 1e-6)
        .value("MS")
        .help("Milliseconds of a step without the profiler, the mean of many; what recording adds is then taken out."),
    word("optimizer", optimizers).or_default("mcmc").help(
        "How operator fusion is searched: dp along the critical path, mcmc by random moves after that, mcts by a tree of moves.",
    ),
    integer("moves", 1, i64::MAX).or_default("20000").help("Number of moves that the search evaluates."),
    integer("seed", 0, i64::MAX).or_default("0").help("Seed of the search: the same traces and seed give the same files."),
    integer("searches", 1, 10_000).or_default("1").help(
        "Number of searches with successive seeds, run in parallel, with --slurm on several machines; the best result is used.",
    ),
    flag("simulate").help("Assume that fused operations, except the last, take 0.8 of their time, as in dPRO."),
    path("xla_candidate_path")
        .with_flag("candidates")
        .alias("xla-candidate-path")
        .value("FILE")
        .help("Names of the operations that may be fused, one a line; by default all that compilers fuse."),
    path("clusters").value("FILE").help("A cluster_mapping.txt, which assigns operations to groups: gradients that one group computes are reduced together (from_opfs2tsfs)."),
    word("algorithm", CollectiveAlgorithm::names).or_default("ring").help("How collective operations are done."),
    path("nccl_tests")
        .value("FILE")
        .help("The output of all_reduce_perf of nccl-tests, whose costs of communication replace fitted ones."),
    path("cost_model").value("MODEL.json").help("A model of operations of several GPUs; cost-model train fits one."),
    path("plans").value("FILE").conflicts(WithAllBut(OF_PLANS)).help("The plans to choose from, as cost-model reads them."),
    path("model")
        .or_default("{cost_model.out}")
        .or_on_command_line(Unset)
        .value("MODEL.json")
        .help("The model that predicts the steps of plans; cost-model train fits one."),
    path("network").value("FILE.onnx").help("The network that the ranks train; its memory is simulated."),
    integer("batch", 1, i64::MAX).requires("network").help("Samples of a rank's step, for --network."),
    word("update", || UpdateRule::ALL.map(UpdateRule::name).to_vec())
        .or_default("adamw")
        .requires("network")
        .help("How a step changes the weights, for --network."),
    memory("memory_budget", "GiB").value("SIZE").help("Memory of a GPU that a step may take, such as 40GiB."),
    path("out").value("PATH").help(
        "Where to write: of traces a folder for the report and the strategy (optimize), of plans a CSV of all plans, the best first.",
    ),
    flag("overwrite").help("Replace a CSV that perf4sight did not write."),
];

/// What goes with plans; variables of the environment set some of it for all that runs.
const OF_PLANS: &[&str] =
    &["model", "memory_budget", "out", "overwrite", "amp_operations", "amp_operations_file", "amp_force"];

fn passes() -> Vec<&'static str> {
    PASSES.iter().map(|pass| pass.name()).collect()
}

fn optimizers() -> Vec<&'static str> {
    SearchMethod::ALL.map(SearchMethod::name).to_vec()
}

/// The request.
#[derive(Debug)]
enum OptimizeVerb {
    Plans(ChoosePlan),
    Traces(Box<OptimizeTraces>),
}

impl OptimizeVerb {
    fn parse(values: &SettingValues<'_>) -> Result<Self> {
        match values.get::<Option<PathBuf>>("plans")? {
            Some(plans) => Ok(OptimizeVerb::Plans(plan(values, plans)?)),
            None => Ok(OptimizeVerb::Traces(Box::new(strategy(values)?))),
        }
    }
}

fn plan(values: &SettingValues<'_>, plans: PathBuf) -> Result<ChoosePlan> {
    let model = values.get::<Option<PathBuf>>("model")?;
    let model = model.ok_or_else(|| {
        values
            .error("plans", "there is no model that predicts the steps of plans")
            .help(format!("add {}; cost-model train fits one", values.spelling("model")))
    })?;
    Ok(ChoosePlan {
        plans,
        model,
        memory_budget: values.get("memory_budget")?,
        out: values.get("out")?,
        overwrite: values.get("overwrite")?,
    })
}

fn strategy(values: &SettingValues<'_>) -> Result<OptimizeTraces> {
    let traces: Vec<PathBuf> = values.get("traces")?;
    if traces.is_empty() {
        return Err(Error::usage("neither traces nor plans are given")
            .expected("a folder of traces (traces), or plans and their model (plans, model)"));
    }
    if values.writes("model") {
        return Err(values
            .error("model", "it predicts the steps of plans, and there are none")
            .expected(values.written_as("plans", "FILE")));
    }
    let request = ReplayRequest::parse(values, Vec::new())?;
    let out = values.get::<Option<PathBuf>>("out")?.unwrap_or_else(|| PathBuf::from("optimize"));
    let first = SearchOptions {
        optimizer: values.parse_word("optimizer", SearchMethod::parse)?,
        seed: values.get("seed")?,
        moves: values.get("moves")?,
    };
    Ok(OptimizeTraces {
        traces,
        passes: values.get("pass")?,
        wanted: PassSettings {
            searches: SearchSettings { first, count: values.get("searches")?, folder: out.join(SEARCHES) },
            simulate: values.get("simulate")?,
            candidates: values.get("xla_candidate_path")?,
            clusters: values.get("clusters")?,
            autocast: half_precision::autocast(values)?,
            memory_budget: values.get("memory_budget")?,
            network: network(values)?,
        },
        request,
        out,
    })
}

/// The step of a network file that is simulated.
fn network(values: &SettingValues<'_>) -> Result<Option<SimulatedStep>> {
    let Some(network) = values.get::<Option<PathBuf>>("network")? else { return Ok(None) };
    let batch = values.get::<Option<u64>>("batch")?.ok_or_else(|| {
        values
            .error("network", "how many samples a step has is not given")
            .help(format!("add {}, the samples of a rank's step", values.spelling("batch")))
    })?;
    Ok(Some(SimulatedStep { network, batch, optimizer: values.parse_word("update", UpdateRule::parse)? }))
}

impl Verb for OptimizeVerb {
    fn run(&self, context: &mut Context) -> Result<Summary> {
        match self {
            OptimizeVerb::Plans(plans) => plans.run(context),
            OptimizeVerb::Traces(strategy) => strategy.run(context),
        }
    }
}

impl Section for OptimizeVerb {
    fn outline(&self, _: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        match self {
            OptimizeVerb::Plans(plans) => Ok(plans.outline()),
            OptimizeVerb::Traces(strategy) => strategy.outline(),
        }
    }

    fn divisible(&self) -> Option<&dyn Divisible> {
        match self {
            OptimizeVerb::Plans(_) => None,
            OptimizeVerb::Traces(strategy) => strategy.searches_something().then_some(&**strategy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_verb::config::{ConfigDocument, ConfigEntry, Value, ValueOrigin};

    fn parsed(arguments: &[(&str, &str)]) -> Result<OptimizeVerb> {
        let table = Settings { section: "optimize", about: ABOUT, groups: &[SETTINGS, half_precision::SETTINGS] };
        let entry = |(key, word): &(&str, &str)| {
            let setting = table.setting(key).unwrap();
            let value = setting.read(word).unwrap();
            let value = match value {
                Value::List(_) => value,
                one if setting.many => Value::List(vec![one]),
                one => one,
            };
            ConfigEntry { key: (*key).to_owned(), value, origin: ValueOrigin::Argument(setting.spelling()) }
        };
        let document = ConfigDocument::of_arguments("optimize", arguments.iter().map(entry).collect());
        OptimizeVerb::parse(&SettingValues::of_arguments(&document, &table)?)
    }

    #[test]
    fn traces_or_plans_are_optimized() {
        let Ok(OptimizeVerb::Traces(strategy)) =
            parsed(&[("traces", "traces"), ("pass", "tensor_fusion,amp"), ("memory_budget", "16GiB")])
        else {
            panic!("traces give no strategy")
        };
        assert_eq!(strategy.passes, ["tensor_fusion", "amp"]);
        assert_eq!(
            (strategy.out, strategy.wanted.searches.first.optimizer),
            (PathBuf::from("optimize"), SearchMethod::Mcmc)
        );
        let plans = parsed(&[("plans", "plans.csv"), ("model", "model.json")]);
        assert!(matches!(plans, Ok(OptimizeVerb::Plans(_))));
    }

    #[test]
    fn neither_both_and_plans_without_a_model_are_refused() {
        let message = |arguments: &[(&str, &str)]| parsed(arguments).err().unwrap().to_string();
        assert!(message(&[]).contains("neither traces nor plans"));
        assert!(message(&[("plans", "plans.csv"), ("traces", "traces")]).contains("contradicts"));
        assert!(message(&[("plans", "plans.csv")]).contains("no model"));
    }
}
