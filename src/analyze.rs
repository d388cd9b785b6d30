//! `perf4sight analyze`: the call of the published toolkit, which becomes one of the verbs.

use perf4sight_replay::verb::analyze;
use perf4sight_verb::VerbSpec;
use perf4sight_verb::config::{Table, Values};

/// `perf4sight analyze`.
pub static VERB: VerbSpec = VerbSpec {
    table: Table {
        section: "analyze",
        about: "takes the arguments of dPRO's analyze.py: replay, collect or statistic of a folder of traces",
        groups: &[analyze::SETTINGS, analyze::ACCEPTED],
    },
    after_help:
        "Examples:
  perf4sight analyze --option replay --platform TENSORFLOW --comm_backend NCCL --nccl_algo RING --pretty --path traces/
  perf4sight analyze --option collect --path traces/ --workspace results/

Results get the published names, in --workspace or else in --path: synthetic.json, bps_trace_final.json, statistic.txt.",
    parse,
};

fn parse(values: &Values<'_>) -> perf4sight_base::error::Result<Box<dyn perf4sight_verb::Verb>> {
    match values.get::<String>("option")?.as_str() {
        "optimize" => Err(values
            .error("option", "optimize is a verb of its own")
            .help("perf4sight optimize --help lists its arguments")),
        _ => analyze::parse(values),
    }
}
