//! Strategies of recorded jobs: what is written and proposed, and bad input.

use super::*;
use crate::changes::AutocastLists;
use crate::search::{SearchMethod, SearchOptions, SearchSettings};
use crate::simulated_memory::SimulatedStep;
use perf4sight_base::units::Bytes;
use perf4sight_report::{Console, ConsoleSettings, OutputMode};
use perf4sight_step::workload::Optimizer as UpdateRule;
use perf4sight_verb::{Divisible, PlannedFiles, WorkPart};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

fn context() -> Context {
    let settings = ConsoleSettings { mode: OutputMode::Quiet, colour: false, bars: false, width: None };
    let console = Console::writing_to(settings, std::io::sink(), std::io::sink());
    Context::new(console, || SystemTime::UNIX_EPOCH, Arc::new(AtomicBool::new(false)), PathBuf::new(), String::new())
}

fn strategy(recorded: &str, out: &Path) -> OptimizeTraces {
    let first = SearchOptions { optimizer: SearchMethod::Mcmc, seed: 3, moves: 300 };
    OptimizeTraces {
        traces: vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ranks").join(recorded)],
        passes: Vec::new(),
        wanted: PassSettings {
            searches: SearchSettings { first, count: 1, folder: out.join(SEARCHES) },
            simulate: false,
            candidates: None,
            clusters: None,
            autocast: AutocastLists::default(),
            memory_budget: None,
            network: None,
        },
        request: ReplayRequest::default(),
        out: out.to_owned(),
    }
}

/// A configuration is verified, paths included, before its first section starts.
#[test]
fn every_file_that_is_read_is_known_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut asked = strategy("two", &folder.path().join("out"));
    let [clusters, candidates, table, model] = ["clusters", "candidates", "table", "model"].map(PathBuf::from);
    (asked.wanted.clusters, asked.wanted.candidates) = (Some(clusters), Some(candidates));
    asked.request = ReplayRequest { nccl_tests: Some(table), cost_model: Some(model), ..ReplayRequest::default() };
    let keys: Vec<&str> = asked.outline().unwrap().reads.iter().map(|read| read.key).collect();
    assert_eq!(keys, ["traces", "xla_candidate_path", "clusters", "nccl_tests", "cost_model"]);
}

/// The steps of this MLP of two gloo ranks on a link of 1 Gb/s were measured at six sizes, in milliseconds: 1: 860.2, 4: 862.9,
/// 8: 866.0, 16: 876.4, 25: 921.4, 60: 920.2. Up to 16 nothing loses more than 2 %.
#[test]
fn the_proposed_cap_loses_at_most_two_percent_of_the_best_measured() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let summary = strategy("two", &out).run(&mut context()).unwrap();
    let proposals = summary.json["proposals"].as_array().unwrap().clone();
    let changes: Vec<&str> = proposals.iter().filter_map(|row| row["change"].as_str()).collect();
    let cap = changes.iter().find_map(|change| change.split("bucket_cap_mb=").nth(1)).unwrap();
    let cap: u32 = cap.trim_end_matches(')').parse().unwrap();
    assert!((1..=16).contains(&cap), "{changes:?}");
    for (file, part) in [
        ("spec/tensor_fusion_grp_mapping.json", "{\"mapping\":[\"0+1"),
        ("spec/tensor_partition_spec.txt", "BytePSPushPull.0_1"),
        ("best_strategy.txt", "[\"++\",\"0\",\"1\"]"),
        ("search_trajectory.txt", "0: 0,0,0"),
        ("report.html", "What to change"),
    ] {
        let text = fs::read_to_string(out.join(file)).unwrap();
        assert!(text.contains(part), "{file}: {text}");
    }
    let mapping: Value =
        serde_json::from_str(&fs::read_to_string(out.join("spec/tensor_fusion_grp_mapping.json")).unwrap()).unwrap();
    let groups = mapping["mapping"].as_array().unwrap().iter().filter_map(Value::as_str);
    let gradients: Vec<u32> = groups.flat_map(|group| group.split('+')).map(|one| one.parse().unwrap()).collect();
    let both = summary.json.to_string();
    assert!(both.contains("both together: groups") || both.contains("fused together are no faster"), "{both}");
    // Twelve layers of weights and biases, and the last one of ten outputs.
    assert_eq!(gradients, (0..26).collect::<Vec<u32>>());
}

/// Five steps of a rank in microseconds: eight gradients of 1 MB, 1 ms apart, which take 20 ms to reduce together; then an update of 1 ms.
fn trace_of_one_bucket() -> String {
    let event = |name: &str, category: &str, thread: u32, [start, duration]: [u32; 2], sizes: &str| {
        format!(
            r#"{{"ph": "X", "name": "{name}", "cat": "{category}", "pid": 1, "tid": {thread}, "ts": {start}, "dur": {duration}, "args": {{"Input Dims": [[{sizes}]], "Input type": ["float"]}}}}"#
        )
    };
    let mut events = Vec::new();
    for step in 0..5 {
        let begin = 100_000 * step + 1_000;
        for layer in 0..8 {
            let end = begin + 1_000 * (layer + 1);
            events.push(event("MmBackward0", "cpu_op", 1, [end - 990, 900], "500, 500"));
            events.push(event("torch::autograd::AccumulateGrad", "cpu_op", 1, [end - 80, 10], "500, 500"));
        }
        events.push(event("c10d::allreduce_", "cpu_op", 1, [begin + 7_940, 30], "[2000000]"));
        events.push(event("gloo:all_reduce", "user_annotation", 2, [begin + 7_980, 20_000], "2000000"));
        let update = begin + 28_000;
        events.push(event("Optimizer.step#SGD.step", "user_annotation", 1, [update, 1_000], ""));
        events.push(event("aten::add_", "cpu_op", 1, [update + 5, 990], "500, 500"));
        events.push(event(
            &format!("ProfilerStep#{step}"),
            "user_annotation",
            1,
            [begin - 10, update + 1_010 - begin],
            "",
        ));
    }
    format!(r#"{{"traceEvents": [{}]}}"#, events.join(", "))
}

/// One all-reduce, which does not show what a message takes: whether several are shorter is not certain, for PyTorch or others. What is shown as a gain at least is the
/// loss that a longer latency would make of it.
#[test]
fn buckets_for_all_programs_say_what_they_rest_on() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..2 {
        fs::write(folder.path().join(format!("rank{rank}.json")), trace_of_one_bucket()).unwrap();
    }
    let mut buckets = strategy("two", &folder.path().join("out"));
    (buckets.traces, buckets.passes) = (vec![folder.path().to_owned()], vec!["tensor_fusion".to_owned()]);
    let summary = buckets.run(&mut context()).unwrap();
    let warnings: Vec<&str> = summary.json["warnings"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let rests = |change: &Value| {
        let number = change["number"].as_u64().unwrap().to_string();
        let names = |warning: &str| {
            let numbers = warning.split(':').next().unwrap_or_default().split([' ', ',']);
            warning.starts_with("change") && numbers.into_iter().any(|one| one == number)
        };
        warnings.iter().any(|one| names(one) && one.contains("how long a message takes"))
    };
    let all = ["proposals", "for_other_programs"].map(|list| summary.json[list].as_array().unwrap().clone());
    for program in ["DistributedDataParallel", "Horovod, BytePS"] {
        let change = all.iter().flatten().find(|one| one["change"].as_str().unwrap().starts_with(program)).unwrap();
        assert!(rests(change), "{}", summary.json);
    }
    let others = summary.json["for_other_programs"].as_array().unwrap();
    assert!(others.iter().all(|one| one["gain_low_percent"].as_f64().unwrap() < -1.0), "{}", summary.json);
}

/// Two made-up ranks of gloo whose all-reduces take a latency and a time a byte, one after the other: they wait for each for less than 10 ms, after
/// operations that take longer. What made them gives a step with a cap of 18 MiB that is 35.7 % shorter.
#[test]
fn short_waits_for_all_reduces_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut buckets = strategy("two", &folder.path().join("out"));
    buckets.traces = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/short_waits")];
    buckets.passes = vec!["tensor_fusion".to_owned()];
    let summary = buckets.run(&mut context()).unwrap();
    let proposals = summary.json["proposals"].as_array().unwrap();
    let gain = proposals.iter().filter_map(|row| row["gain_percent"].as_f64()).fold(0.0, f64::max);
    assert!((gain - 35.7).abs() < 1.5, "{}", summary.json);
}

/// The same seed writes the same bytes, and a folder of an earlier strategy is replaced.
#[test]
fn the_same_seed_writes_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let written = || {
        strategy("straggler", &out).run(&mut context()).unwrap();
        ["optimize.json", "best_strategy.txt", "search_trajectory.txt", "report.html"]
            .map(|name| fs::read(out.join(name)).unwrap())
    };
    assert!(written() == written());
}

/// Groups of an earlier strategy that are read stay in its folder; a search, which writes its own there, is refused.
#[test]
fn groups_that_are_read_are_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let run = |passes: &[&str], clusters: Option<PathBuf>| {
        let mut of = strategy("two", &out);
        (of.passes, of.wanted.clusters) = (passes.iter().map(|pass| (*pass).to_owned()).collect(), clusters);
        of.run(&mut context()).map(|_| ()).map_err(|error| error.to_string())
    };
    run(&["op_fusion"], None).unwrap();
    let groups = out.join("cluster_mapping.txt");
    fs::write(&groups, "aten::addmm.0 0\n").unwrap();
    let refused = run(&["op_fusion", "from_opfs2tsfs"], Some(groups.clone())).unwrap_err();
    assert!(refused.contains("would replace it"), "{refused}");
    run(&["from_opfs2tsfs"], Some(groups.clone())).unwrap();
    assert_eq!(fs::read_to_string(groups).unwrap(), "aten::addmm.0 0\n");
}

/// What the search of a pass takes is known before, from the operations of one rank and the searches; nothing else is refused.
#[test]
fn a_search_beyond_the_memory_is_refused_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let mut whole = strategy("two", folder.path());
    let start = whole.start().unwrap();
    let needed = |whole: &OptimizeTraces| PASSES.map(|pass| pass.memory(&start, &whole.wanted));
    let [tensor_fusion, .., op_fusion, _] = needed(&whole);
    assert!(op_fusion > tensor_fusion && op_fusion < 100_000_000, "{op_fusion}");
    assert!(tensor_fusion > start.recorded.typical.graph.bytes());
    assert!(pass_text(PASSES[3], &start, &whole.wanted).contains("op_fusion, in up to"));
    whole.wanted.searches.count = 100;
    assert!(needed(&whole)[3] > 10 * op_fusion);
    check_pass_memory(PASSES[3], op_fusion, op_fusion).unwrap();
    let error = check_pass_memory(PASSES[3], 9_000_000_000, 5_000_000_000).unwrap_err().to_string();
    assert!(error.contains("op_fusion takes 9000 MB") && error.contains("at most 5000 MB"), "{error}");
    // So many searches that no machine has the memory.
    whole.wanted.searches.count = u64::MAX;
    assert!(whole.start().unwrap_err().to_string().contains("of memory"));
}

/// Each seed on a machine of its own: the files of one machine; where results come together, nothing is searched.
#[test]
fn divided_searches_give_the_files_of_one_machine() {
    let folder = tempfile::tempdir().unwrap();
    let of = |out: &str| {
        let mut whole = strategy("two", &folder.path().join(out));
        (whole.passes, whole.wanted.searches.count) = (vec!["op_fusion".to_owned()], 2);
        whole
    };
    let [one, divided] = [of("one"), of("divided")];
    one.run(&mut context()).unwrap();
    let names = || {
        divided
            .items(&PlannedFiles::default(), &mut context())
            .unwrap()
            .into_iter()
            .map(|item| item.name)
            .collect::<Vec<_>>()
    };
    assert!(names().iter().zip([3, 4]).all(|(name, seed)| name.starts_with(&format!("mcmc seed {seed} of "))));
    let summary = divided.conclude(&mut context()).unwrap();
    assert!(summary.json["warnings"].to_string().contains("interrupted after 0 moves"), "{}", summary.json);
    assert_eq!(names().len(), 2);
    for name in names() {
        let own = folder.path().join(&name);
        let part = WorkPart { items: &[name], folder: &own, run: &own, share: 0.5 };
        divided.run_part(&part, &mut context()).unwrap();
        divided.merge(std::slice::from_ref(&own), &mut context()).unwrap();
    }
    assert_eq!(names().len(), 0);
    divided.conclude(&mut context()).unwrap();
    for file in ["optimize.json", "search_trajectory.txt", "searches/mcmc-seed-4.json"] {
        let [one, other] = [&one, &divided].map(|strategy| fs::read_to_string(strategy.out.join(file)).unwrap());
        assert_eq!(one, other, "{file}");
    }
    let part = WorkPart { items: &["mcmc-seed-9".to_owned()], folder: folder.path(), run: folder.path(), share: 1.0 };
    let error = divided.run_part(&part, &mut context()).unwrap_err().to_string();
    assert!(error.contains("both need the same folder"), "{error}");
}

#[test]
fn bad_input_is_refused_and_nothing_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let fails = |strategy: OptimizeTraces| strategy.run(&mut context()).unwrap_err().to_string();
    let unknown = OptimizeTraces { passes: vec!["tensor_fusoin".to_owned()], ..strategy("two", &out) };
    assert!(fails(unknown).contains("did you mean \"tensor_fusion\""));
    let candidates = folder.path().join("candidates.txt");
    fs::write(&candidates, "aten::addmm\naten::adddmm\n").unwrap();
    let mut named = strategy("two", &out);
    named.wanted.candidates = Some(candidates);
    let message = fails(named);
    assert!(message.contains("candidates.txt:2: no operation \"aten::adddmm\""), "{message}");
    let clusters = folder.path().join("cluster_mapping.txt");
    for (text, expected) in [
        ("BERT/dense/MatMul 0\n", "may be of another network"),
        ("aten::addmm.0 0\naten::addmm.6 0\n", "of group 0 are no neighbours"),
        ("\n", "names no group"),
        ("aten::addmm.0 0\naten::addmm.0 1\n", "cluster_mapping.txt:2: the operation aten::addmm.0 is in two groups"),
    ] {
        fs::write(&clusters, text).unwrap();
        let mut grouped = strategy("two", &out);
        grouped.wanted.clusters = Some(clusters.clone());
        let message = fails(grouped);
        assert!(message.contains(expected), "{message}");
    }
    let mut lower = strategy("two", &out);
    lower.wanted.autocast.also = vec!["aten::relu".to_owned(), "aten::nope".to_owned()];
    assert!(fails(lower).contains("no operation \"aten::nope\""));
    // The typical step takes 0.9 s.
    for plain in [310_000, 31_000_000_000] {
        let mut plainly = strategy("two", &out);
        plainly.request.plain = Some(plain);
        let message = fails(plainly);
        assert!(message.contains("the recorded step takes") && message.contains("milliseconds"), "{message}");
    }
    // It was trained by SGD with momentum (examples/ranks/train.py).
    let mut tight = strategy("two", &out);
    tight.wanted.memory_budget = Some(Bytes(1 << 20));
    assert!(fails(tight).contains("weights and gradients and the states of SGD alone take"));
    // Nothing was created before all of that was known.
    assert!(!out.exists());
    fs::create_dir(&out).unwrap();
    fs::write(out.join("best_strategy.txt"), "mine").unwrap();
    fails(strategy("two", &out));
    assert_eq!(fs::read_to_string(out.join("best_strategy.txt")).unwrap(), "mine");
    assert!(!out.join("optimize.json").exists());
}

/// Two ranks, one of a network whose gradients are of another size: nothing of one matches anything of the other.
#[test]
fn ranks_of_different_jobs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut mixed = strategy("two", &folder.path().join("out"));
    let [own, other] = ["rank0.json.gz", "rank1.json.gz"].map(|name| mixed.traces[0].join(name));
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs::File::open(other).unwrap()).read_to_string(&mut text).unwrap();
    let other = folder.path().join("rank1.json");
    fs::write(&other, text.replace("[[2099200]]", "[[77]]").replace("[[2109450]]", "[[78]]")).unwrap();
    mixed.traces = vec![own, other];
    let message = mixed.run(&mut context()).unwrap_err().to_string();
    assert!(message.contains("traces of one job"), "{message}");
}

/// ResNet-18 has 11.7 million parameters, whatever this MLP has is not within 5 % of it.
#[test]
fn another_network_gets_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = strategy("two", &folder.path().join("out"));
    other.passes = vec!["memory".to_owned()];
    let network = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/imagenet/resnet18.onnx");
    other.wanted.network = Some(SimulatedStep { network, batch: 1, optimizer: UpdateRule::Adam });
    let told = match other.run(&mut context()) {
        Ok(summary) => summary.json["warnings"].to_string(),
        Err(error) => error.to_string(),
    };
    assert!(told.contains("another network"), "{told}");
}

/// What takes longer is proposed only to save memory.
#[test]
fn recomputation_is_proposed_where_memory_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let proposals = |passes: &[&str], budget: Option<Bytes>| {
        let mut asked = strategy("two", &folder.path().join("out"));
        asked.passes = passes.iter().map(|pass| (*pass).to_owned()).collect();
        asked.wanted.searches.first.moves = 1;
        asked.wanted.memory_budget = budget;
        asked.run(&mut context()).unwrap().json["proposals"].to_string()
    };
    assert!(!proposals(&[], None).contains("checkpoint"));
    assert!(proposals(&["memory"], None).contains("checkpoint"));
    assert!(proposals(&[], Some(Bytes(1 << 40))).contains("checkpoint"));
}

#[test]
fn without_memory_events_a_budget_is_answered_by_what_to_record() {
    let folder = tempfile::tempdir().unwrap();
    let mut limited = strategy("two", &folder.path().join("out"));
    limited.passes = vec!["memory".to_owned()];
    limited.wanted.memory_budget = Some(Bytes(1 << 30));
    let summary = limited.run(&mut context()).unwrap();
    assert!(summary.json["warnings"].to_string().contains("profile_memory=True"));
}

/// Two of the four ranks: while these wait for the others, nothing helps.
#[test]
fn intervals_of_a_job_with_ranks_without_a_trace_hold_the_step_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut partial = strategy("straggler", &folder.path().join("out"));
    partial.passes = vec!["amp".to_owned()];
    let least = |strategy: &OptimizeTraces| {
        let summary = strategy.run(&mut context()).unwrap();
        let rows = summary.json["proposals"].as_array().unwrap().clone();
        let least: Vec<f64> = rows.iter().filter_map(|row| row["gain_low_percent"].as_f64()).collect();
        (least, summary.json["warnings"].to_string(), summary.answer)
    };
    let (whole, _, answer) = least(&partial);
    // `examples/ranks/train.py --sleep-rank 1` sleeps 200 ms of 320 on rank 1: without that a step takes 120.
    let without = answer.strip_prefix("Rank 1 makes the others wait: without that a step takes ").unwrap();
    let without: f64 = without.split(' ').next().unwrap().parse().unwrap();
    assert!((without - 120.0).abs() < 6.0, "{answer}");
    // 200 of 320 are 62.5 %.
    let less = answer.split(" ms, ").nth(1).unwrap().split(' ').next().unwrap().parse::<f64>().unwrap();
    assert!((less - 62.5).abs() < 2.0 && answer.contains("; perf4sight replay says what it does longer"), "{answer}");
    assert!(whole.iter().any(|least| *least > 0.0), "{whole:?}");
    partial.traces = ["rank0.json.gz", "rank1.json.gz"].map(|name| partial.traces[0].join(name)).to_vec();
    let (held, warnings, _) = least(&partial);
    assert!(!held.is_empty() && held.iter().all(|least| *least <= 0.0), "{held:?}");
    assert!(warnings.contains("2 of 4 ranks have a trace"), "{warnings}");
}

/// `examples/ranks/train.py --sleep-rank 1` sleeps 200 ms of 320 on rank 1 before forward. If it does so for each batch, three of four
/// batches save at most what is not the sleep: 3 x 120 / (4 x 320), 28.1 %; once for four batches, one of four takes 320 ms and the others at most 120: (320 + 3 x 120) / 4 = 170, 46.9 % less.
#[test]
fn accumulation_holds_that_what_is_around_passes_happens_once_an_update() {
    let folder = tempfile::tempdir().unwrap();
    let mut asked = strategy("straggler", &folder.path().join("out"));
    asked.passes = vec!["memory".to_owned()];
    let summary = asked.run(&mut context()).unwrap();
    let proposals = summary.json["proposals"].as_array().unwrap();
    let of_four = |row: &&Value| row["change"].as_str().unwrap().contains("gradients of 4 batches");
    let row = proposals.iter().find(of_four).unwrap();
    let gain = |key: &str| row[key].as_f64().unwrap();
    assert!(gain("gain_high_percent") > 46.9 && gain("gain_percent") < 28.1, "{row}");
    let warnings = summary.json["warnings"].to_string();
    assert!(
        warnings.contains("if all of that but loading batches happens once an update, a batch takes"),
        "{warnings}"
    );
}

/// Builds of PyTorch without CUDA take the hook of fp16 alone.
#[test]
fn processors_get_the_hook_that_they_can_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut asked = strategy("two", &folder.path().join("out"));
    asked.passes = vec!["amp".to_owned()];
    let summary = asked.run(&mut context()).unwrap();
    let said = summary.json.to_string();
    assert!(said.contains("fp16_compress_hook") && !said.contains("bf16_compress_hook"), "{said}");
}

/// Halves what is sent unless it was done before: one of several that exclude each other.
#[derive(Debug)]
struct ExclusiveChange {
    divisor: u64,
}

impl StepChange for ExclusiveChange {
    fn apply(&self, scenario: &mut perf4sight_replay::what_if::Scenario) -> Result<()> {
        let step = &mut scenario.step;
        if std::mem::take(&mut step.ranks[0].gradients).is_empty() {
            return Err(Error::input("an exclusive change was made before"));
        }
        for transfer in &step.transfers {
            let time = step.graph.node(transfer.node).duration;
            step.graph.set_duration(transfer.node, time / self.divisor);
        }
        Ok(())
    }
}

/// Of two that exclude each other the one that brings more is made, with what goes with it.
#[test]
fn of_changes_that_exclude_each_other_the_better_is_made_with_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let start = strategy("two", &folder.path().join("out")).start().unwrap();
    let propose = |words: &str, edit: Arc<dyn StepChange>| {
        ChangeProposal::new("", words, edit, LearningEffect::Same, &start).unwrap()
    };
    let faster: Arc<dyn StepChange> = Arc::from(perf4sight_replay::what_if::parse("cpu x 1.5").unwrap());
    let better = propose("better", Arc::new(ExclusiveChange { divisor: 4 }));
    let other = propose("other", Arc::new(ExclusiveChange { divisor: 2 }));
    let alone = combine_proposals(&start, &[better.clone(), other.clone()]);
    assert!(alone.is_none(), "{alone:?}");
    let all = combine_proposals(&start, &[better.clone(), other, propose("cpu", faster)]).unwrap();
    assert_eq!(all.change, "better; cpu");
    assert!(all.gain()[0] > better.gain()[0]);
}
