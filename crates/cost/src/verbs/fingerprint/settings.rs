//! The settings of `[fingerprint]`.

use crate::verbs::step::{
    ACCUMULATE, CHECKPOINT, FROZEN_NORMALISATION, LOSS, OPTIMIZER, PRECISION, TRAINABLE, ZERO_GRAD, stages,
};
use perf4sight_verb::config::{SettingTable, flag, integer, path, text, word};

pub(super) const TABLE: SettingTable = SettingTable {
    section: "fingerprint",
    about: "fits the performance model of a device to a profile and reports how far to trust it",
    groups: &[&[
        flag("evaluate").help("Only evaluate the stored fingerprints, and fit nothing."),
        flag("overwrite")
            .help("Fit again even if a fingerprint is stored; by default the stored one is used."),
        word("stage", stages).or_default("training")
            .help("Rows to fit: those of this stage, and those that name no stage."),
        OPTIMIZER.or_default("{profile.optimizer}")
            .help("Rows to fit: those of steps with this optimizer. The fingerprint can also predict other steps."),
        ZERO_GRAD.or_default("{profile.zero_grad}")
            .help("Rows to fit: those of steps with this value, keep or free; by default keep with sgd, and free with every other optimizer."),
        PRECISION.or_default("{profile.precision}")
            .help("Rows to fit: those of steps with this precision: fp32, amp_bf16, amp_fp16 or bf16."),
        TRAINABLE.or_default("{profile.trainable}").help("Rows to fit: those of steps with this value."),
        FROZEN_NORMALISATION.or_default("{profile.frozen_normalisation}")
            .help("Rows to fit: those of steps with this value."),
        ACCUMULATE.or_default("{profile.accumulate}")
            .help("Rows to fit: those of steps with this value."),
        CHECKPOINT.or_default("{profile.checkpoint}").help("Rows to fit: those of steps with this value."),
        LOSS.or_default("{profile.loss}").help("Rows to fit: those of steps with this value."),
        flag("memory_model").or_default("True").help("Fit and evaluate memory."),
        flag("latency_model").or_default("True").help("Fit and evaluate latency."),
        text("train_nets").many_values().required().help("Networks to fit on."),
        integer("train_logs", 0, 99).many_values().or_default("[0,30,50,70,90]").help("Levels to fit on, all repeats of each."),
        text("eval_nets").many_values().or_default("{train_nets}").help("Networks to evaluate on."),
        integer("eval_logs", 0, 99).many_values().or_default("[]")
            .help("Levels to evaluate on; by default all that are not in train_logs."),
        path("memory_logs").many_values().or_default("['{profile.log_dir}/memory']").help("Folders of the memory rows to fit on."),
        path("eval_memory_logs").many_values().or_default("[]")
            .help("Folders of the memory rows to evaluate on; by default memory_logs."),
        path("latency_logs").many_values().or_default("['{profile.log_dir}/latency']").help("Folders of the latency rows to fit on."),
        path("eval_latency_logs").many_values().or_default("[]")
            .help("Folders of the latency rows to evaluate on; by default latency_logs."),
        text("device_name").or_default("{profile.device_name}").help("Device of the fingerprint; it names a folder."),
        text("dataset").or_default("{profile.dataset}{-profile.input}{-profile.classes}")
            .help("Dataset of the networks; it names a folder."),
        path("model_storedir").or_default("fingerprinting/{device_name}/{dataset}")
            .help("Folder of the fingerprints and their report. The report of inference is in its subfolder inference."),
        path("pruned_models_storedir").or_default("{profile.local_model_loc}")
            .help("Folder of the network files. The network of a row is found by the name of its file without folder and ending."),
        text("target")
            .help("Kind of the device that was profiled: cpu, cpu_avx2, cuda, cuda_tf32 (a GPU from Ampere on with tf32 on), hopper, hopper_tf32 (an H100 or H200), tx2, jetson, orin, or a file that describes one. By default as recorded in the profile, otherwise device_name."),
        word("method", || vec!["hybrid", "perf4sight"]).or_default("hybrid")
            .help("How to fit. hybrid: simulated memory and physical latency, corrected by measurements; perf4sight: the method of the perf4sight paper, 300 extremely randomised trees on summed features."),
        integer("seed", 0, i64::MAX).or_default("0").help("Seed of the fit: the same rows and seed give the same fingerprint."),
    ]],
};
