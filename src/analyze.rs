//! `perf4sight analyze`: the call of the published toolkit, which becomes one of the verbs.

use perf4sight_optimize::verb::half_precision;
use perf4sight_optimize::verb::strategy::published;
use perf4sight_replay::verb::analyze;
use perf4sight_verb::VerbSpec;
use perf4sight_verb::config::{SettingTable, SettingValues};

/// `perf4sight analyze`.
pub static VERB: VerbSpec = VerbSpec {
    table: SettingTable {
        section: "analyze",
        about: "takes the arguments of dPRO's analyze.py: replay, collect, statistic or optimize of a folder of traces",
        groups: &[
            analyze::SETTINGS,
            analyze::PUBLISHED,
            published::SETTINGS,
            half_precision::SETTINGS,
            analyze::ACCEPTED,
        ],
    },
    after_help:
        "Examples:
  perf4sight analyze --option replay --platform TENSORFLOW --comm_backend NCCL --nccl_algo RING --pretty --path traces/
  perf4sight analyze --option collect --path traces/ --workspace results/
  perf4sight analyze --option optimize --sub_option tensor_fusion,xla --path traces/ --workspace results/

Results get the published names, in --workspace or else in --path: synthetic.json, trail_dag.gml, critical_path.json, bps_trace_final.json, statistic.txt, .opt_ws/, .cost_model/.",
    parse,
};

fn parse(values: &SettingValues<'_>) -> perf4sight_base::error::Result<Box<dyn perf4sight_verb::Verb>> {
    match values.get::<String>("option")?.as_str() {
        "optimize" => published::parse(values),
        _ => analyze::parse(values),
    }
}
