//! The settings of `[replay]` and `perf4sight replay`.

use super::traces::TRACES;
use crate::communication::CollectiveAlgorithm;
use perf4sight_record::settings as record;
use perf4sight_verb::config::DefaultValue::Unset;
use perf4sight_verb::config::{Setting, SettingTable, flag, number, path, text, word};

pub(super) const TABLE: SettingTable = SettingTable {
    section: "replay",
    about: "shows from the traces of all ranks who waits for whom in distributed training, and which communication is exposed",
    groups: &[
        &[
            TRACES.or_on_command_line(Unset).one_of("traces or --record"),
            path("out").or_default("replay").value("DIR").help(
                "Folder for report.html, replay.json, replay.csv, operations.csv and timeline.json.gz. Earlier results in it are replaced.",
            ),
            flag("as_all_ranks").or_default("False").help("One rank's trace stands for all ranks; waiting is then unknown."),
            text("what_if").many_values().value("CHANGE")
                .help("What to change: 'bandwidth x 0.5', 'ranks = 64', 'bucket_cap_mb = 8' and others (replay --help lists them, docs/replay.md with what they assume). Join the changes of one what-if with semicolons."),
            word("algorithm", CollectiveAlgorithm::names).or_default("ring")
                .help("How collective operations are done."),
            number("plain_step_ms", 1e-6).value("MS")
                .help("Milliseconds of a step without the profiler, the mean of many; what recording adds is then taken out. What perf4sight record timed is known without it."),
            path("nccl_tests").value("FILE")
                .help("The output of all_reduce_perf of nccl-tests, whose costs of communication replace fitted ones in what-ifs."),
            path("cost_model").value("MODEL.json")
                .help("A model of operations, for the what-if 'gpu = H100'; cost-model train fits one."),
            flag("record").on_command_line().requires("command").one_of("traces or --record")
                .help("Record every rank of the command behind two dashes first, as perf4sight record does."),
            of_recording(path("recording").or_default("recording").value("DIR"))
                .help("Folder for the traces and times that --record makes."),
        ],
        &RECORDING,
    ],
};

/// The settings of `perf4sight record` that hold for `--record`.
const RECORDING: [Setting; 6] = [
    of_recording(record::HOW[0]),
    of_recording(record::HOW[1]),
    of_recording(record::HOW[2]),
    of_recording(record::HOW[3]),
    of_recording(record::HOW[4]),
    of_recording(record::COMMAND),
];

const fn of_recording(setting: Setting) -> Setting {
    setting.on_command_line().requires("record")
}

pub(super) const AFTER_HELP: &str = "\
Examples:
  perf4sight replay traces/
  perf4sight replay rank*.json.gz --out by-rank
  perf4sight replay rank0.json.gz --as-all-ranks
  perf4sight replay --record -- torchrun --nproc-per-node 2 train.py
  perf4sight replay traces/ --what-if 'bandwidth x 0.5' --what-if 'bandwidth x 0.5; bucket_cap_mb = 8'
  perf4sight replay traces/ --what-if 'gpu = H100' --cost-model model.json

Changes of --what-if; factors are from 0.000001 to 1000000. What each assumes: docs/replay.md.
  bandwidth x 0.5                    links carry half as many bytes a second
  latency x 2                        messages take twice as long to arrive
  communication x 0.5                all exchanges between ranks take half as long
  ranks = 64                         more ranks that do what the recorded ones do
  ranks = 64 by tree                 the same with another algorithm of all-reduce: ring, tree
  ranks = 64 on 8 nodes              all-reduce within nodes, then between them
  ranks = 64 on 8 nodes of 900 Gb/s  the same, where the links within a node are known
  rank 3 as the others               a rank without what makes it different
  bucket_cap_mb = 8                  other buckets of DistributedDataParallel; default for PyTorch's
  operations 'gelu*' x 0.5           operations, and all inside them, take half as long
  remove operations 'gelu*'          they are gone
  add 2 ms after operations 'gelu*'  more work behind each of them: s, ms, us, ns
  gpu x 1.5                          kernels are faster by this factor
  cpu x 1.5                          operations on threads are faster by this factor
  gpu = H100                         another GPU, by a model of operations (--cost-model)
  precision = bf16                   half the bytes, from fp32: bf16, fp16; tf32: products on tensor cores

Steps are those of PyTorch's profiler, else those of an optimizer. timeline.json.gz holds one step of all ranks on one
clock; Perfetto and chrome://tracing open it.";
