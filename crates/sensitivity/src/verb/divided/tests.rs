//! Tests of `divided`: rounds with a simulated job, whose points are put into folders as tasks write them.

use super::super::simulated::SimulatedJob;
use super::*;
use perf4sight_limit::{BackendInfo, Resource};
use perf4sight_report::{Console, ConsoleSettings, OutputMode};
use std::fs;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;
use tempfile::TempDir;

fn context() -> Context {
    let settings = ConsoleSettings { mode: OutputMode::Quiet, colour: false, bars: false, width: None };
    let console = Console::writing_to(settings, std::io::sink(), std::io::sink());
    Context::new(console, || SystemTime::UNIX_EPOCH, Arc::new(AtomicBool::new(false)), PathBuf::new(), String::new())
}

fn settings(folder: &TempDir, out: &str) -> Sensitivity {
    Sensitivity {
        command: vec!["true".to_owned()],
        out: folder.path().join(out),
        warm_up: 2,
        point_time: Duration::from_secs(60),
        ..Sensitivity::default()
    }
}

/// What the simulated job's machine is seen as, with the names of real limiters.
fn surroundings_of(asked: &Sensitivity, job: &SimulatedJob) -> JobSurroundings {
    let limiter: &'static BackendInfo = serde_json::from_str("\"control group v2\"").unwrap();
    let mut around = job.surroundings(asked);
    around.survey.resources.iter_mut().for_each(|held| held.by = held.by.map(|_| limiter));
    around
}

/// What a task leaves of these items.
fn task(asked: &Sensitivity, items: &[String], number: usize, job: &SimulatedJob) -> PathBuf {
    let own = Sensitivity { out: asked.out.join(format!("task-{number}")), ..asked.clone() };
    fs::create_dir_all(&own.out).unwrap();
    let (mut context, around) = (context(), surroundings_of(&own, job));
    fs::write(own.out.join(FILE), json(&around)).unwrap();
    let runner = job.runner(&own, &around, Arc::clone(&context.cancel));
    let mut campaign = own.campaign(&around, &runner).unwrap();
    let progress = campaign.progress(1, &context);
    for name in items {
        let wanted = WantedPoint::parse(name, &campaign, around.most).unwrap();
        let point = campaign.measure(wanted.configuration, wanted.goal, &progress).unwrap().unwrap();
        campaign.keep(point, &progress).unwrap();
    }
    context.warn("");
    own.out.clone()
}

fn names(asked: &Sensitivity) -> Vec<String> {
    asked.items(&PlannedFiles::default(), &mut context()).unwrap().into_iter().map(|item| item.name).collect()
}

/// All rounds, a point a task; how many there were.
fn measure(asked: &Sensitivity, job: &SimulatedJob) -> usize {
    let mut rounds = 0;
    loop {
        let items = names(asked);
        if items.is_empty() {
            return rounds;
        }
        let folder = |(at, item): (usize, &String)| task(asked, std::slice::from_ref(item), 100 * rounds + at, job);
        let folders: Vec<PathBuf> = items.iter().enumerate().map(folder).collect();
        // As the waiting program and the last job do, at once or one after the other.
        asked.merge(&folders[..1], &mut context()).unwrap();
        asked.merge(&folders, &mut context()).unwrap();
        asked.merge(&folders, &mut context()).unwrap();
        rounds += 1;
        assert!(rounds < 20);
    }
}

fn profile(asked: &Sensitivity) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(asked.out.join("profile.json")).unwrap()).unwrap()
}

/// A job that 5 of 24 CPUs satisfy, which reads 100 MB an epoch from slow storage.
fn job() -> SimulatedJob {
    SimulatedJob {
        cpus: 24.0,
        rate: |cpus| 2.0 * cpus.min(5.0),
        data: (100_000_000, 1000),
        storage: 1e7,
        ..SimulatedJob::default()
    }
}

#[test]
fn tasks_find_the_knee_and_the_epochs_that_one_machine_finds() {
    let folder = TempDir::new().unwrap();
    let (alone, tasks) = (settings(&folder, "alone"), settings(&folder, "tasks"));
    let [alone, tasks] = [alone, tasks].map(|asked| Sensitivity { batch: Some(10), ..asked });
    alone.simulate(&job(), &mut context()).unwrap();
    fs::create_dir_all(&tasks.out).unwrap();
    assert_eq!(names(&tasks), [FIRST]);
    let rounds = measure(&tasks, &job());
    let summary = Divisible::conclude(&tasks, &mut context()).unwrap();
    let (alone, divided) = (profile(&alone), profile(&tasks));
    for key in ["knees", "request", "own_memory"] {
        assert_eq!(divided[key], alone[key], "{key}");
    }
    assert_eq!(divided["model"]["overlap"], alone["model"]["overlap"]);
    assert_eq!(divided["model"]["cache"], alone["model"]["cache"]);
    assert!(!divided["throttled"].as_array().unwrap().is_empty(), "{divided}");
    assert_eq!(divided["provenance"]["complete"], true);
    let points = divided["points"].as_array().unwrap();
    let different = points.iter().map(|point| format!("{} {} {}", point["cpus"], point["memory"], point["storage"]));
    assert_eq!(different.collect::<std::collections::BTreeSet<_>>().len(), points.len());
    assert!(summary.headline.starts_with(&format!("{} points in ", points.len())), "{}", summary.headline);
    assert!(rounds <= 9 && points.len() > rounds, "{rounds} rounds, {} points", points.len());
}

/// One of the points of the second round is lost: the others stay, and it alone is missing.
#[test]
fn a_lost_task_costs_its_point() {
    let folder = TempDir::new().unwrap();
    let asked = Sensitivity { cpu: Some(8.0), cpu_step: Some(1.0), ..settings(&folder, "out") };
    let job = SimulatedJob { rate: |cpus| cpus.powf(0.6), cpus: 8.0, ..SimulatedJob::default() };
    fs::create_dir_all(&asked.out).unwrap();
    asked.merge(&[task(&asked, &[FIRST.to_owned()], 0, &job)], &mut context()).unwrap();
    let second = names(&asked);
    assert_eq!(second.len(), 3, "4, 2 and 1 CPU: {second:?}");
    let folders: Vec<PathBuf> = (0..2).map(|at| task(&asked, &second[at..=at], 1 + at, &job)).collect();
    asked.merge(&folders, &mut context()).unwrap();
    assert_eq!(names(&asked), [second[2].clone()]);
}

/// A budget that the first point spent leaves nothing to do.
#[test]
fn a_budget_ends_the_rounds() {
    let folder = TempDir::new().unwrap();
    let asked = Sensitivity { budget: Some(Duration::from_secs(1)), ..settings(&folder, "out") };
    fs::create_dir_all(&asked.out).unwrap();
    assert_eq!(measure(&asked, &job()), 1);
    Divisible::conclude(&asked, &mut context()).unwrap();
    assert_eq!(profile(&asked)["provenance"]["complete"], false);
}

#[test]
fn what_cannot_be_divided_or_compared_is_refused() {
    let folder = TempDir::new().unwrap();
    let refused = |asked: &Sensitivity| {
        asked.items(&PlannedFiles::default(), &mut context()).err().map(|error| error.to_string()).unwrap()
    };
    assert!(refused(&Sensitivity { overwrite: true, ..settings(&folder, "out") }).contains("submit everything again"));
    // Points that were measured here are of a machine that nobody wrote down.
    let here = settings(&folder, "here");
    here.simulate(&job(), &mut context()).unwrap();
    assert!(refused(&here).contains("measured without --slurm"));
    fs::create_dir_all(folder.path().join("out")).unwrap();
    fs::write(folder.path().join("out").join(FILE), "{}").unwrap();
    assert!(refused(&settings(&folder, "out")).contains("not written by this version"));
    let survey = job().surroundings(&here).survey;
    let weaker = SimulatedJob { limited: &[Resource::Cpus], ..job() }.surroundings(&here).survey;
    let [before, now] = [survey, weaker].map(|survey| kind(MachineProperties::new(), &survey));
    let error = check_kind(&before, &now).unwrap_err().to_string();
    assert!(error.contains("limiter of storage was simulation, is nothing"), "{error}");
}
