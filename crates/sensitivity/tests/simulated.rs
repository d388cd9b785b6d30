//! What a search measures, keeps, repeats and concludes, with jobs that are simulated: nobody waits.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

use perf4sight_base::error::Error;
use perf4sight_base::units::Bytes;
use perf4sight_limit::Resource;
use perf4sight_report::{Console, ConsoleSettings, OutputMode};
use perf4sight_sensitivity::verb::{Sensitivity, ShowVerb, SimulatedFate, SimulatedJob};
use perf4sight_verb::{Context, Summary, Verb};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// A folder with what comes of measuring in it.
struct Scene {
    folder: TempDir,
    asked: Sensitivity,
}

/// What a run said.
struct Said {
    summary: Summary,
    warnings: String,
}

impl Scene {
    /// Both ends of a curve of up to one CPU.
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let asked = Sensitivity {
            command: vec!["sh".to_owned(), "job.sh".to_owned()],
            out: folder.path().join("sensitivity"),
            cpu: Some(1.0),
            cpu_step: Some(0.5),
            warm_up: 2,
            point_time: Duration::from_secs(60),
            ..Sensitivity::default()
        };
        Scene { folder, asked }
    }

    fn with(self, change: impl Fn(&mut Sensitivity)) -> Self {
        let Scene { folder, mut asked } = self;
        change(&mut asked);
        Scene { folder, asked }
    }

    fn measure(&self, job: &SimulatedJob) -> Result<Said, Error> {
        let mut context = context();
        let summary = self.asked.simulate(job, &mut context)?;
        Ok(Said { summary, warnings: context.warnings().join("\n") })
    }

    fn fails(&self, job: &SimulatedJob) -> (u8, String) {
        let error = self.measure(job).err().unwrap();
        (error.kind().exit_code(), error.to_string())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.asked.out.join(name)
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.path(name)).unwrap()).unwrap()
    }

    fn keep(&self, name: &str, value: &Value) {
        fs::create_dir_all(&self.asked.out).unwrap();
        fs::write(self.path(name), value.to_string()).unwrap();
    }
}

fn context() -> Context {
    let clock = || SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let settings = ConsoleSettings { mode: OutputMode::Quiet, colour: false, bars: false, width: None };
    let console = Console::writing_to(settings, io::sink(), io::sink());
    Context::new(console, clock, Arc::new(AtomicBool::new(false)), PathBuf::new(), String::new())
}

/// Fifty iterations a second, whatever the CPUs, a quarter of which it waits for data.
fn waiting() -> SimulatedJob {
    SimulatedJob { cpus: 1.0, rate: |_| 50.0, wait: 0.005, ..SimulatedJob::default() }
}

#[test]
fn a_clock_before_1970_is_no_reason_to_fail() {
    let mut context = context();
    context.clock = || SystemTime::UNIX_EPOCH - Duration::from_secs(86_400);
    let scene = Scene::new();
    scene.asked.simulate(&waiting(), &mut context).unwrap();
    assert_eq!(scene.json("profile.json")["provenance"]["date"], "1970-01-01T00:00:00Z");
}

fn runs(points: &Value, cpus: f64) -> usize {
    let of = points["points"].as_array().unwrap().iter().find(|point| point["cpus"] == cpus);
    of.unwrap()["runs"].as_array().unwrap().len()
}

#[test]
fn a_job_that_waits_needs_the_fewest_cpus_and_points_are_never_measured_twice() {
    let scene = Scene::new();
    let first = scene.measure(&waiting()).unwrap();
    assert!(first.summary.answer.contains("#SBATCH --cpus-per-task=1"), "{}", first.summary.answer);
    assert!(first.summary.headline.starts_with("2 points measured, 0 found in "), "{}", first.summary.headline);
    let profile = scene.json("profile.json");
    for measured in profile["points"].as_array().unwrap().iter().map(|point| &point["runs"][0]["measured"]) {
        assert!((measured["rate"]["per_second"].as_f64().unwrap() - 50.0).abs() < 1e-6, "{measured}");
        assert!((measured["waiting"].as_f64().unwrap() - 0.25).abs() < 1e-6, "{measured}");
    }
    assert_eq!((&profile["request"]["cpus"], &profile["knees"][0]["verified"]), (&json!(0.5), &json!(true)));
    let rates = scene.json("published.json");
    assert!(rates.as_array().unwrap().len() == 3 && rates[0]["1"].as_f64() == Some(0.02), "{rates}");
    let again = scene.measure(&SimulatedJob { fate: |_, _| panic!("measured again"), ..waiting() }).unwrap();
    assert!(again.summary.headline.starts_with("0 points measured, 2 found in "), "{}", again.summary.headline);
    for otherwise in [
        |asked: &mut Sensitivity| asked.command.push("-x".to_owned()),
        |asked: &mut Sensitivity| asked.storage_bandwidth = Some(Bytes(10_000_000)),
        |asked: &mut Sensitivity| asked.num_gpus = Some(2),
    ] {
        let mut asked = scene.asked.clone();
        otherwise(&mut asked);
        let error = asked.simulate(&waiting(), &mut context()).err().unwrap();
        assert!(error.kind().exit_code() == 2 && error.to_string().contains("those of another job"), "{error}");
    }
}

/// A folder holds points of up to 1 CPU, and half of one is asked for: what happened at 1 CPU, out of memory or disturbed every time, is no part of
/// the answer, and is not run again.
#[test]
fn points_of_more_cpus_than_are_asked_for_are_neither_run_again_nor_reported() {
    let scene = Scene::new();
    scene.measure(&waiting()).unwrap();
    let measured = scene.json("points.json");
    let kept = |cpus: &[f64], outcome: Value| {
        let mut kept = measured.clone();
        let points = kept["points"].as_array_mut().unwrap();
        points.retain(|point| cpus.contains(&point["cpus"].as_f64().unwrap()));
        for run in points.iter_mut().filter(|point| point["cpus"] == 1.0).map(|point| &mut point["runs"][0]) {
            run["outcome"] = outcome.clone();
            if outcome["what"] == "out_of_memory" {
                run["measured"] = Value::Null;
            }
        }
        kept
    };
    let half = scene.with(|asked| asked.cpu = Some(0.5));
    half.keep("points.json", &kept(&[1.0], json!({"what": "out_of_memory"})));
    let said = half.measure(&waiting()).unwrap();
    assert!(said.summary.headline.starts_with("1 point measured"), "{}", said.summary.headline);
    half.keep("points.json", &kept(&[0.5, 1.0], json!({"what": "disturbed", "how": "others"})));
    let dry = Sensitivity { dry_run: true, ..half.asked.clone() };
    let plan = dry.simulate(&waiting(), &mut context()).unwrap().answer;
    assert!(plan.contains("\n1 point of it is in "), "{plan}");
    half.measure(&waiting()).unwrap();
    assert_eq!(runs(&half.json("points.json"), 1.0), 1);
    let profile = half.json("profile.json");
    assert_eq!((&profile["request"]["cpus"], &profile["knees"][0]["cpus"]), (&json!(0.5), &json!(0.5)));
}

#[test]
fn jobs_without_a_rate_are_distinguished() {
    let of = |fate: fn(f64, usize) -> SimulatedFate| Scene::new().fails(&SimulatedJob { fate, ..waiting() });
    let says = |(code, said): (u8, String), words: &[&str]| {
        assert!(code == 5 && words.iter().all(|word| said.contains(word)), "{said}");
    };
    says(of(|_, _| SimulatedFate::Exits(0, "so far")), &["it ended by itself", "no iteration was reported", "so far"]);
    says(of(|_, _| SimulatedFate::Silent), &["its time was up", "PERF4SIGHT_STEPS"]);
    says(of(|_, _| SimulatedFate::Exits(3, "out of reach")), &["exit code 3", "out of reach"]);
    let slow = SimulatedJob { rate: |_| 0.05, ..waiting() };
    says(
        Scene::new().fails(&slow),
        &["3 iterations were reported, 1 of them after the warm-up: a rate takes 9 or more in 2.00 s", "--point-time"],
    );
}

#[test]
fn a_point_that_crashed_shows_what_its_job_wrote_last() {
    let fate = |cpus: f64, _| if cpus < 1.0 { SimulatedFate::Exits(3, "out of reach") } else { SimulatedFate::Sound };
    let said = Scene::new().measure(&SimulatedJob { fate, ..waiting() }).unwrap().warnings;
    assert!(said.contains("with 0.5 CPUs: failed: it ended with exit code 3"), "{said}");
    assert!(said.contains("its last lines:\n    out of reach"), "{said}");
}

#[test]
fn a_budget_ends_it_and_says_what_is_not_verified() {
    let budget = |micros: u64| Scene::new().with(|asked| asked.budget = Some(Duration::from_micros(micros)));
    let said = budget(1_000_000).measure(&waiting()).unwrap();
    assert!(said.warnings.contains("the time was up"), "{}", said.warnings);
    assert!(said.summary.headline.starts_with("1 point measured"), "{}", said.summary.headline);
    assert!(said.summary.answer.contains("not verified"), "{}", said.summary.answer);
    let scene = budget(0);
    let (code, said) = scene.fails(&waiting());
    assert!(code == 5 && said.contains("before any point was measured"), "{said}");
    assert!(!scene.asked.out.exists(), "nothing is left behind");
}

/// Runs have a minute, and the budget is spent before the first of them has one.
#[test]
fn a_budget_bounds_the_first_run_too() {
    let scene = Scene::new().with(|asked| asked.budget = Some(Duration::from_secs(5)));
    let (code, said) = scene.fails(&SimulatedJob { fate: |_, _| SimulatedFate::Silent, ..waiting() });
    assert!(code == 5 && said.contains("its time was up after 5s"), "{said}");
}

#[test]
fn a_first_point_that_ran_out_of_memory_is_kept_and_not_run_again() {
    let scene = Scene::new().with(|asked| asked.memory = Some(Bytes(50_000_000)));
    let (code, said) = scene.fails(&waiting());
    assert!(code == 5 && said.contains("ran out of memory"), "{said}");
    assert_eq!(scene.json("points.json")["points"][0]["runs"][0]["outcome"]["what"], "out_of_memory");
    let (_, said) = scene.fails(&SimulatedJob { fate: |_, _| panic!("run again"), ..waiting() });
    assert!(said.contains("ran out of memory") && said.contains("only with overwrite"), "{said}");
}

/// Ctrl-C in the second point, after the first was finished; then in the repeat of one that others disturbed.
#[test]
fn after_ctrl_c_what_was_finished_is_kept() {
    let scene = Scene::new();
    let fate = |cpus: f64, _| if cpus < 1.0 { SimulatedFate::Interrupted } else { SimulatedFate::Sound };
    let said = scene.measure(&SimulatedJob { fate, ..waiting() }).unwrap();
    assert!(said.summary.headline.contains("goes on from there"), "{}", said.summary.headline);
    let said = scene.measure(&waiting()).unwrap();
    assert!(said.summary.headline.starts_with("1 point measured, 1 found in "), "{}", said.summary.headline);
    let scene = Scene::new();
    let fate = |_, before: usize| if before == 0 { SimulatedFate::Disturbed(0.3) } else { SimulatedFate::Interrupted };
    let said = scene.measure(&SimulatedJob { fate, ..waiting() }).unwrap();
    assert!(said.summary.headline.contains("a run that others disturbed is kept"), "{}", said.summary.headline);
    assert_eq!(scene.json("points.json")["unfinished"][0]["runs"].as_array().unwrap().len(), 1);
}

/// Others take half of the time of its CPUs in every run: each point is tried three times, all that is known is that the job may be twice as
/// fast, and the request errs to the safe side.
#[test]
fn of_a_job_that_was_always_disturbed_the_safe_end_is_requested_and_each_point_is_due_once_more() {
    let scene = Scene::new();
    let disturbed = SimulatedJob { fate: |_, _| SimulatedFate::Disturbed(0.6), ..waiting() };
    let said = scene.measure(&disturbed).unwrap();
    assert!(said.warnings.contains("other programs ran in all 3 tries"), "{}", said.warnings);
    assert!(said.summary.answer.contains("the best rate is at least 50"), "{}", said.summary.answer);
    let profile = scene.json("profile.json");
    assert_eq!(profile["request"]["cpus"], 1.0);
    assert_eq!(profile["request"]["memory"], 133_554_432, "100 MB and 32 MiB, which is more than a quarter");
    let report = fs::read_to_string(scene.path("report.html")).unwrap();
    assert!(report.contains("not verified: 90 % of the best rate may take 0.5 to 1 CPUs"), "the card shows the doubt");
    assert_eq!(runs(&scene.json("points.json"), 1.0), 3);
    scene.measure(&disturbed).unwrap();
    assert_eq!(runs(&scene.json("points.json"), 1.0), 4);
    let sound = scene.measure(&waiting()).unwrap();
    assert!(sound.warnings.is_empty(), "{}", sound.warnings);
    assert_eq!(scene.json("profile.json")["request"]["cpus"], 0.5);
}

/// A profile that was measured, one part of which somebody changed: each time it is said which.
#[test]
fn whoever_changes_what_follows_from_points_is_told_what() {
    let scene = Scene::new().with(|asked| {
        asked.data = Some("data".into());
        asked.batch = Some(1);
    });
    scene.measure(&SimulatedJob { data: (2_000_000, 2), storage: 1e6, ..waiting() }).unwrap();
    let measured = scene.json("profile.json");
    let shown = |profile: &Value| {
        let file = scene.folder.path().join("profile.json");
        fs::write(&file, profile.to_string()).unwrap();
        let mut context = context();
        ShowVerb { profile: file }.run(&mut context).unwrap();
        context.warnings().join("\n")
    };
    assert!(!shown(&measured).contains("do not follow"));
    let change = |part: &str, change: &dyn Fn(&mut Value)| {
        let mut changed = measured.clone();
        change(&mut changed);
        let said = shown(&changed);
        assert!(said.contains(&format!("do not follow from its points ({part}")), "{part}: {said}");
    };
    change("own_memory", &|profile| profile["own_memory"] = 1.into());
    change("request", &|profile| profile["request"]["memory"] = 7.into());
    change("request", &|profile| profile["request"]["slurm"] = "#SBATCH --mem=1M".into());
    change("matrix", &|profile| profile["matrix"][3]["seconds"]["most"] = 1e9.into());
    change("matrix", &|profile| profile["matrix"][3]["bound"] = "cpu".into());
    change("matrix", &|profile| profile["matrix"][3]["storage_needed"]["least"] = 7.into());
    change("storage_matrix", &|profile| profile["storage_matrix"][0]["storage_bandwidth"] = 7.into());
    change("knees", &|profile| profile["knees"][0]["cpus"] = 0.75.into());
    change("knees", &|profile| profile["knees"][0]["between"] = json!([0.25, 4.0]));
    // A profile that was written before lines said what is not verified.
    let mut older = measured.clone();
    for lines in ["kubernetes", "slurm", "docker"] {
        let line = older["request"][lines].as_str().unwrap();
        let line = line.lines().filter(|line| !line.starts_with("# ")).collect::<Vec<_>>().join("\n");
        older["request"][lines] = line.into();
    }
    older["job"]["cpu_step"] = Value::Null;
    assert!(!shown(&older).contains("do not follow"));
}

/// 200 files of 600 KB, each computed with for 0.3 s. Where reading alone takes as long as computing, an epoch of a job that reads nothing ahead
/// takes twice as long as either; at half of that bandwidth three times as long as computing.
#[test]
fn storage_that_is_held_back_shows_that_a_job_reads_nothing_ahead() {
    let asked = |asked: &mut Sensitivity| {
        asked.cpu_step = Some(1.0);
        asked.data = Some("data".into());
        asked.batch = Some(1);
        asked.point_time = Duration::from_secs(300);
    };
    let job = SimulatedJob { cpus: 1.0, rate: |_| 1.0 / 0.3, data: (120_000_000, 200), ..SimulatedJob::default() };
    let scene = Scene::new().with(asked);
    scene.measure(&job).unwrap();
    let profile = scene.json("profile.json");
    let number = |held: &Value, name: &str| held[name].as_f64().unwrap();
    let throttled = profile["throttled"].as_array().unwrap();
    let slower: Vec<f64> =
        throttled.iter().map(|held| number(held, "seconds") / number(held, "side_by_side")).collect();
    assert!(slower.len() == 2 && (slower[0] - 2.0).abs() < 0.05 && (slower[1] - 1.5).abs() < 0.05, "{slower:?}");
    assert!(profile["model"]["overlap"]["in_turn"].as_f64().unwrap() > 0.95, "{}", profile["model"]);
    assert!(number(&throttled[0], "storage_bandwidth") / number(&throttled[1], "storage_bandwidth") > 1.99);
    let storage = fs::read_to_string(scene.path("storage.csv")).unwrap();
    assert!(storage.lines().count() == 67 && !profile["storage_matrix"][0].is_null());
    let report = fs::read_to_string(scene.path("report.html")).unwrap();
    assert!(report.contains("Epochs over storage and memory"));
    // Where nothing can limit storage, that is said.
    let limited = &[Resource::Cpus, Resource::Memory];
    let said = Scene::new().with(asked).measure(&SimulatedJob { limited, ..job }).unwrap().warnings;
    assert!(said.contains("storage cannot be limited here"), "{said}");
}

/// Three nodes that wait for each other: node 1 is the slowest.
fn three() -> SimulatedJob {
    let at = |rate: fn(f64) -> f64| SimulatedJob { rate, ..waiting() };
    SimulatedJob { other_nodes: vec![at(|_| 25.0), at(|_| 40.0)], ..waiting() }
}

#[test]
fn the_slowest_of_several_nodes_counts() {
    let scene = Scene::new();
    scene.measure(&three()).unwrap();
    let profile = scene.json("profile.json");
    assert_eq!(profile["hosts"].as_array().unwrap().len(), 3);
    let run = &profile["points"][0]["runs"][0];
    assert_eq!(run["node"], "node 1");
    let rate = |run: &Value| run["measured"]["rate"]["per_second"].as_f64().unwrap().round();
    let each: Vec<f64> = run["nodes"].as_array().unwrap().iter().map(rate).collect();
    assert_eq!((rate(run), each), (25.0, vec![50.0, 25.0, 40.0]));
    let again = scene.measure(&three()).unwrap();
    assert!(again.summary.headline.starts_with("0 points measured, 2 found"), "{}", again.summary.headline);
}

#[test]
fn a_job_that_fails_on_one_of_several_nodes_fails_there() {
    let mut job = three();
    job.other_nodes[0].fate = |_, _| SimulatedFate::Exits(3, "the disc is full");
    let (code, error) = Scene::new().fails(&job);
    assert!(code == 5 && error.contains("exit code 3 on node 1") && error.contains("the disc is full"), "{error}");
    assert!(!error.contains("on node 0"), "{error}");
}

#[test]
fn memory_that_runs_out_on_one_of_several_nodes_runs_out_there() {
    let mut job = three();
    job.other_nodes[0].own_memory = Bytes(200_000_000);
    let scene = Scene::new().with(|asked| asked.memory = Some(Bytes(150_000_000)));
    let (code, error) = scene.fails(&job);
    assert!(code == 5 && error.contains("the job ran out of memory on node 1"), "{error}");
}

/// 40 MB more in each second: what it held when its rate was known says nothing of what it takes.
#[test]
fn memory_that_grows_to_the_end_of_a_run_is_no_limit() {
    let scene = Scene::new();
    let said = scene.measure(&SimulatedJob { leak: 40e6, ..waiting() }).unwrap();
    assert!(said.warnings.contains("how much memory the job takes is not known, but more than"), "{}", said.warnings);
    assert!(
        said.summary.answer.contains(", without a limit on memory, for it still rose, by"),
        "{}",
        said.summary.answer
    );
    assert!(!said.summary.answer.contains("--mem"), "{}", said.summary.answer);
    assert_eq!(scene.json("profile.json")["request"]["memory"], Value::Null);
}

/// Others disturb every run, and three runs of the first point take longer than the budget: the other point is measured too.
#[test]
fn a_disturbed_point_does_not_take_the_whole_budget() {
    let scene = Scene::new().with(|asked| asked.budget = Some(Duration::from_secs(20)));
    let job = SimulatedJob { rate: |_| 2.0, wait: 0.0, fate: |_, _| SimulatedFate::Disturbed(0.6), ..waiting() };
    scene.measure(&job).unwrap();
    let points = scene.json("points.json");
    assert_eq!(points["points"].as_array().unwrap().len(), 2, "{points}");
}

/// A job that crashes with half a CPU the first time: the same command finds that point, and measures it again.
#[test]
fn a_point_that_crashed_is_measured_again() {
    let scene = Scene::new();
    let fate = |cpus: f64, _| if cpus < 1.0 { SimulatedFate::Exits(1, "out of reach") } else { SimulatedFate::Sound };
    let said = scene.measure(&SimulatedJob { fate, ..waiting() }).unwrap();
    assert!(said.warnings.contains("the same command measures once more with 0.5 CPUs"), "{}", said.warnings);
    let said = scene.measure(&waiting()).unwrap();
    assert!(said.summary.headline.starts_with("1 point measured, 2 found in "), "{}", said.summary.headline);
    assert!(said.warnings.is_empty() && scene.json("profile.json")["request"]["cpus"] == 0.5, "{}", said.warnings);
}
