//! The settings of `[breakdown]` and `perf4sight breakdown`.

use perf4sight_verb::config::DefaultValue::Required;
use perf4sight_verb::config::{SettingTable, path, text};

pub(super) const TABLE: SettingTable = SettingTable {
    section: "breakdown",
    about: "shows where the iterations of a recorded training script spend their time, and what changed between two recordings",
    groups: &[&[
        path("traces").many_values().or_default("{record.out}").or_on_command_line(Required).positional("PATH")
            .help("Traces of one run, one for each rank, or a folder with them."),
        path("out").or_default("breakdown").value("DIR")
            .help("Folder for report.html, breakdown.json, breakdown.csv, stacks.folded and the plots. An earlier breakdown in it is replaced."),
        text("iteration").value("NAME")
            .help("Name of the events that are iterations: a range, a function or an operator. By default the steps of PyTorch's profiler, otherwise the steps of an optimizer, otherwise the events that repeat."),
        path("compare").several_words().value("PATH")
            .help("Traces of another run, or a folder with them, to show what changed between the two. Each of the two may be several folders, each with one recording of the run."),
    ]],
};

pub(super) const AFTER_HELP: &str = "\
Examples:
  perf4sight breakdown recording/
  perf4sight breakdown rank*.json.gz --out by-rank
  perf4sight breakdown trace.json --iteration train_step
  perf4sight breakdown before/ --compare after/
  perf4sight breakdown before1/ before2/ --compare after1/ after2/

Without --iteration, iterations are the steps of PyTorch's profiler, otherwise those of an optimizer, otherwise the events that repeat.
The folder of --out holds report.html, breakdown.json, breakdown.csv, stacks.folded and the plots; an earlier breakdown in it is replaced.";
