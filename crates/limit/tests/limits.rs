//! Limits on real processes: by control groups where this user may make some, and without privileges. What cannot run here says so.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::{Pid, geteuid};
use perf4sight_base::units::Bytes;
use perf4sight_limit::ConfinedMachine;
use perf4sight_limit::{BackendGrip, EndedJob, JobEnd, JobVerdict, LimitedJob, Limiter, LimiterSettings, Resource};
use perf4sight_machine::ResourceLimits;
use perf4sight_machine::{Machine, RunWatch, WorkerInvocation};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Set in processes that tests start from this program.
const PART: &str = "PERF4SIGHT_TEST_PART";
/// Two processes that never rest.
const BUSY: &str = "while :; do :; done & while :; do :; done";
/// The id of nobody.
const NOBODY: &str = "65534";

fn open(data: Option<&Path>) -> Limiter {
    let around = LimiterSettings { data, ..LimiterSettings::default() };
    Limiter::open(around, &RunWatch::quiet(&AtomicBool::new(false))).unwrap().unwrap()
}

fn shell(limiter: &Limiter, lines: &str, limits: ResourceLimits, time: Option<u64>) -> EndedJob {
    let words = ["/bin/sh", "-c", lines].map(str::to_owned);
    let job = LimitedJob { words: &words, limits, timeout: time.map(Duration::from_secs), ..LimitedJob::default() };
    limiter.run(&job, &RunWatch::quiet(&AtomicBool::new(false)), &mut |_| false).unwrap().unwrap()
}

fn cpus(cpus: f64) -> ResourceLimits {
    ResourceLimits { cpus: Some(cpus), ..ResourceLimits::default() }
}

/// Whether control groups hold a resource; says so where they do not.
fn grouped(limiter: &Limiter, resource: Resource) -> bool {
    let grouped = limiter.survey().by(resource).is_some_and(|by| by.grip == BackendGrip::Joins);
    if !grouped {
        println!("not run: it needs control groups that this user may make. {}", limiter.survey());
    }
    grouped
}

/// The name of the back-end that holds the limit of a resource.
fn by(limiter: &Limiter, resource: Resource) -> &'static str {
    limiter.survey().by(resource).map_or("nothing", |by| by.name)
}

/// Runs a test as a user without privileges, in another process where we have some; whether it is to be run here.
fn unprivileged(test: &str) -> bool {
    if !geteuid().is_root() {
        return true;
    }
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("tests");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".to_owned()];
    let mut command = Command::new("setpriv");
    let done = command.args(user).arg(&program).args(["--exact", test, "--nocapture"]).current_dir("/tmp").status();
    match done {
        Ok(status) => assert!(status.success(), "as an ordinary user"),
        Err(cause) => println!("not run: an ordinary user is made by setpriv (util-linux): {cause}"),
    }
    false
}

/// This program once more, for one of its tests; that finds a folder in the variable of parts.
fn part(test: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(PART, folder);
    command
}

fn runs(process: &str) -> bool {
    fs::read_to_string(format!("/proc/{}/stat", process.trim())).is_ok_and(|stat| !stat.contains(") Z "))
}

fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        match ready() {
            Some(ready) => return ready,
            None => assert!(begun.elapsed() < Duration::from_secs(20), "{what} never came"),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Runs busy processes under a limit and holds what they had against it. Other programs can only make it less: then that is said.
fn keeps_its_share(limiter: &Limiter, limit: f64, tolerance: f64) {
    let ended = shell(limiter, BUSY, cpus(limit), Some(4));
    let share = ended.cpu_seconds.unwrap() / ended.wall.as_secs_f64();
    println!("{limit} CPUs: {share:.3}, held back for {:?} s, {}", ended.throttled_seconds, ended.verdict());
    assert!(share < limit * (1.0 + tolerance), "{ended:?}");
    assert_eq!(ended.end, JobEnd::TimeUp);
    if ended.pressure.others.is_none_or(|others| others > 0.05) {
        return println!("whether it got all of it was not tested: other programs run, {:?}", ended.pressure);
    }
    assert!(share > limit * (1.0 - tolerance), "{ended:?}");
    assert!(ended.throttled_seconds.unwrap() > 0.5, "{ended:?}");
    assert_eq!(ended.verdict(), JobVerdict::Sound);
}

#[test]
fn a_quota_gives_its_share_and_tells_what_it_held_back() {
    let limiter = open(None);
    if !grouped(&limiter, Resource::Cpus) {
        return;
    }
    [0.25, 0.5, 0.75].into_iter().for_each(|limit| keeps_its_share(&limiter, limit, 0.05));
}

#[test]
fn a_duty_cycle_gives_its_share_without_privileges() {
    if !unprivileged("a_duty_cycle_gives_its_share_without_privileges") {
        return;
    }
    let limiter = open(None);
    assert_eq!(by(&limiter, Resource::Cpus), "affinity and duty cycle", "{}", limiter.survey());
    [0.25, 0.5, 0.75].into_iter().for_each(|limit| keeps_its_share(&limiter, limit, 0.1));
}

#[test]
fn compute_libraries_are_told_as_many_threads_as_there_are_cpus() {
    let limiter = open(None);
    let words = ["/bin/sh", "-c", "echo $OMP_NUM_THREADS $MKL_NUM_THREADS $OPENBLAS_NUM_THREADS; nproc --ignore=0"];
    let words = words.map(str::to_owned);
    let job = LimitedJob { words: &words, limits: cpus(0.5), ..LimitedJob::default() };
    let mut lines = Vec::new();
    let mut keep = |seen: &perf4sight_limit::JobOutput| {
        lines.extend(seen.lines.iter().map(|line| line.text.clone()));
        false
    };
    limiter.run(&job, &RunWatch::quiet(&AtomicBool::new(false)), &mut keep).unwrap();
    // GNU's nproc counts the CPUs of its affinity, and believes OMP_NUM_THREADS: both say one.
    assert_eq!(lines, ["1 1 1", "1"]);
}

#[test]
fn too_much_memory_is_out_of_memory_and_no_crash() {
    let limiter = open(None);
    if !grouped(&limiter, Resource::Memory) {
        return;
    }
    let limits = ResourceLimits { memory: Some(Bytes(64 << 20)), ..ResourceLimits::default() };
    // Without an end of a line tail keeps all of it.
    let ended = shell(&limiter, "head -c 300M /dev/zero | tail -n 1 > /dev/null", limits, None);
    println!("{ended:?}");
    let JobEnd::Exited(status) = ended.end else { panic!("{ended:?}") };
    assert_eq!((status.code(), ended.verdict()), (Some(137), JobVerdict::OutOfMemory));
    assert!(ended.peak_memory.unwrap() <= Bytes(64 << 20));
    let fits = shell(&limiter, "head -c 16M /dev/zero | tail -n 1 > /dev/null", limits, None);
    assert!(!fits.ran_out_of_memory && fits.end == JobEnd::Exited(ExitStatus::default()), "{fits:?}");
}

/// A file of so many megabytes next to the program, where there is a disc.
fn data(folder: &Path, megabytes: usize) -> PathBuf {
    let file = folder.join("data");
    fs::write(&file, vec![7; megabytes * 1_000_000]).unwrap();
    File::open(&file).unwrap().sync_all().unwrap();
    file
}

/// A folder that stays when the machine is started anew, and so is on a disc.
fn on_disc() -> TempDir {
    TempDir::new_in("/var/tmp").unwrap()
}

#[test]
fn storage_is_read_as_fast_as_it_may_be() {
    let folder = on_disc();
    let file = data(folder.path(), 400);
    let limiter = open(Some(&file));
    if !grouped(&limiter, Resource::Storage) {
        return;
    }
    let limits = ResourceLimits { storage: Some(Bytes(100_000_000)), ..ResourceLimits::default() };
    let lines = format!("dd if={} of=/dev/null bs=1M", file.display());
    let free = shell(&limiter, &lines, ResourceLimits { storage: Some(Bytes(100_000_000_000)), ..limits }, None);
    if free.wall > Duration::from_secs(2) {
        return println!("not run: the disc itself reads less than 200 MB/s now");
    }
    let rate = || {
        let ended = shell(&limiter, &lines, limits, None);
        let rate = ended.bytes_read.unwrap().0 as f64 / ended.wall.as_secs_f64();
        println!("100 MB/s: {:.1} MB/s, without a limit {:?}, {ended:?}", rate / 1e6, free.wall);
        assert!(rate < 1.03e8, "{ended:?}");
        rate
    };
    // Other programs that read or compute meanwhile can only make it slower.
    assert!((0..3).any(|_| rate() > 0.97e8), "three times slower than it may read");
}

/// Bytes of a record: whole pages, for a page that two records share would be read for each.
const RECORD: usize = 25 * 4096;

/// Reads records of a file in an order that changes with every epoch, and prints what came from storage after the first one.
#[test]
fn reader_part() {
    let Some(folder) = std::env::var_os(PART) else { return };
    let file = File::open(Path::new(&folder).join("data")).unwrap();
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_RANDOM).unwrap();
    let records = file.metadata().unwrap().len() / RECORD as u64;
    let from_storage = || {
        let counts = fs::read_to_string("/proc/self/io").unwrap();
        counts.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse::<f64>().ok()).unwrap()
    };
    // Nobody drops this file on purpose: the machine evicts what it needs.
    let other = Path::new(&folder).join("other");
    fs::write(&other, vec![7; OTHER]).unwrap();
    File::open(&other).unwrap().sync_all().unwrap();
    let (mut buffer, mut before) = (vec![0; RECORD], 0.0);
    for epoch in 0..4u64 {
        before = if epoch == 1 { from_storage() } else { before };
        for turn in 0..records {
            // A step that shares no factor with the number of records visits each once.
            let record = (turn * (2 * epoch + 7) * 11 + epoch * 331) % records;
            file.read_exact_at(&mut buffer, record * RECORD as u64).unwrap();
            thread::sleep(Duration::from_millis(2));
        }
    }
    let asked = 3.0 * (records * RECORD as u64) as f64;
    println!("hits {:.4}", 1.0 - (from_storage() - before) / asked);
    let before = from_storage();
    fs::read(&other).unwrap();
    println!("lost {:.4}", (from_storage() - before) / OTHER as f64);
}

/// Bytes of a file that the page cache holds by itself.
const OTHER: usize = 64 << 20;

#[test]
fn the_residency_governor_gives_its_share_of_hits_without_privileges() {
    if !unprivileged("the_residency_governor_gives_its_share_of_hits_without_privileges") {
        return;
    }
    let folder = on_disc();
    // 997 records, a prime, so that every step visits each once.
    let file = folder.path().join("data");
    fs::write(&file, vec![7; 997 * RECORD]).unwrap();
    let limiter = open(Some(&file));
    assert_eq!(by(&limiter, Resource::Memory), "residency governor", "{}", limiter.survey());
    for share in [0.25, 0.5, 0.75] {
        let limits =
            ResourceLimits { memory: Some(Bytes((share * (997 * RECORD) as f64) as u64)), ..ResourceLimits::default() };
        let hits = || {
            let [hits, lost] = hits_and_lost(&limiter, limits, folder.path());
            println!("a share of {share}: hits {hits:.4}, while {lost:.4} of another file went");
            assert!(hits < share + 0.02, "{hits} of {share}");
            hits
        };
        // The kernel takes pages of files for whatever else wants memory meanwhile, 2 MiB at a time: hits are fewer then.
        assert!((0..3).any(|_| hits() > share - 0.02), "three times too few hits for {share}");
    }
}

/// The share of hits of a reader, and that of a file nobody drops on purpose and that was evicted all the same.
fn hits_and_lost(limiter: &Limiter, limits: ResourceLimits, folder: &Path) -> [f64; 2] {
    let program = std::env::current_exe().unwrap();
    let words = [program.to_str().unwrap(), "--exact", "reader_part", "--nocapture"];
    let (words, environment) = (words.map(str::to_owned), [(PART.to_owned(), folder.into())]);
    let job = LimitedJob { words: &words, environment: &environment, limits, ..LimitedJob::default() };
    let ended = limiter.run(&job, &RunWatch::quiet(&AtomicBool::new(false)), &mut |_| false).unwrap().unwrap();
    ["hits ", "lost "].map(|name| {
        let share = ended.last_lines.iter().find_map(|line| line.split_once(name)?.1.parse().ok());
        share.unwrap_or_else(|| panic!("{ended:?}"))
    })
}

/// Runs a job that starts a daemon, which leaves session, group, parents and environment, and works; whether it has ended with the job.
fn ends_a_daemon(limiter: &Limiter, limits: ResourceLimits) -> EndedJob {
    let folder = TempDir::new().unwrap();
    let daemon_file = folder.path().join("daemon");
    let lines = format!(
        "env -i setsid -f /bin/sh -c 'echo $$ > {0}; while :; do :; done'; while [ ! -s {0} ]; do sleep 0.02; done; sleep 2",
        daemon_file.display()
    );
    let ended = shell(limiter, &lines, limits, None);
    assert_eq!(ended.end, JobEnd::Exited(ExitStatus::default()), "{ended:?}");
    let daemon = fs::read_to_string(&daemon_file).unwrap();
    wait_for("the end of the daemon", || (!runs(&daemon)).then_some(()));
    ended
}

#[test]
fn a_daemon_without_a_trace_of_us_ends_with_the_job() {
    let limiter = open(None);
    if grouped(&limiter, Resource::Cpus) {
        ends_a_daemon(&limiter, ResourceLimits::default());
    }
}

/// It is held to the limits of the job too, and counts for it: half of a CPU, of the two seconds that it works.
#[test]
fn without_privileges_too_a_daemon_without_a_trace_of_us_ends_with_the_job() {
    if unprivileged("without_privileges_too_a_daemon_without_a_trace_of_us_ends_with_the_job") {
        let limiter = open(None);
        assert_eq!(by(&limiter, Resource::Cpus), "affinity and duty cycle", "{}", limiter.survey());
        let ended = ends_a_daemon(&limiter, cpus(0.5));
        let share = ended.cpu_seconds.unwrap() / ended.wall.as_secs_f64();
        println!("{share:.3} CPUs, {}", ended.verdict());
        assert!(share < 0.55, "{ended:?}");
        if ended.pressure.others.is_some_and(|others| others < 0.05) {
            assert!(share > 0.4, "{ended:?}");
        }
    }
}

/// A profiler that runs a job until it is killed.
#[test]
fn profiler_part() {
    let Some(folder) = std::env::var_os(PART).map(PathBuf::from) else { return };
    let lines = format!(
        "echo $$ > {0}/first; env -i setsid -f /bin/sh -c 'echo $$ > {0}/second; exec sleep 60'; sleep 60",
        folder.display()
    );
    shell(&open(None), &lines, cpus(0.5), None);
}

/// Groups of ours in all of the tree.
fn groups() -> Vec<PathBuf> {
    let (mut found, mut visit) = (Vec::new(), vec![PathBuf::from("/sys/fs/cgroup")]);
    while let Some(folder) = visit.pop() {
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            if entry.file_name().to_string_lossy().starts_with("perf4sight.") { &mut found } else { &mut visit }
                .push(entry.path());
        }
    }
    found
}

/// Kills a profiler in the midst of a job; the job's processes.
fn killed_profiler(folder: &Path, count: usize) -> (u32, Vec<String>) {
    let mut profiler: Child = part("profiler_part", folder).spawn().unwrap();
    let process =
        |name: &str| wait_for(name, || fs::read_to_string(folder.join(name)).ok().filter(|text| text.ends_with('\n')));
    let processes: Vec<String> = ["first", "second"].into_iter().take(count).map(process).collect();
    assert!(processes.iter().all(|process| runs(process)));
    profiler.kill().unwrap();
    profiler.wait().unwrap();
    (profiler.id(), processes)
}

#[test]
fn nothing_runs_on_and_no_group_stays_when_the_profiler_is_killed() {
    if !grouped(&open(None), Resource::Cpus) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let (profiler, processes) = killed_profiler(folder.path(), 2);
    let own = format!(".{profiler}.");
    wait_for("the end of the job", || processes.iter().all(|process| !runs(process)).then_some(()));
    wait_for("the end of its groups", || {
        (!groups().iter().any(|group| group.to_string_lossy().contains(&own))).then_some(())
    });
}

#[test]
fn without_privileges_too_nothing_runs_on_when_the_profiler_is_killed() {
    if !unprivileged("without_privileges_too_nothing_runs_on_when_the_profiler_is_killed") {
        return;
    }
    let folder = TempDir::new().unwrap();
    // Of the daemon that shed its environment nobody but a control group or the profiler knows.
    let (_, processes) = killed_profiler(folder.path(), 1);
    wait_for("the end of the job", || processes.iter().all(|process| !runs(process)).then_some(()));
}

#[test]
fn what_a_dead_profiler_left_is_taken_away_by_the_next_run() {
    let limiter = open(None);
    if !grouped(&limiter, Resource::Memory) {
        return;
    }
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap();
    let Some(own) = membership.lines().find_map(|line| line.split_once(":memory:")) else {
        return println!("not run: it looks for the controller memory of version 1");
    };
    let space =
        fs::read_link("/proc/self/ns/pid").unwrap().to_string_lossy().replace(|c: char| !c.is_ascii_digit(), "");
    // Our number, at a time when it was not ours.
    let name = format!("perf4sight.{space}.{}.1.0", std::process::id());
    let left = Path::new("/sys/fs/cgroup/memory").join(own.1.trim_start_matches('/')).join(name);
    fs::create_dir(&left).unwrap();
    let mut stray = Command::new("sleep").arg("60").spawn().unwrap();
    fs::write(left.join("cgroup.procs"), stray.id().to_string()).unwrap();
    open(None);
    assert!(!left.exists());
    assert!(!stray.wait().unwrap().success(), "what ran in it was ended");
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let limiter = open(None);
    let words = ["/bin/sh", "-c", "echo $$; sleep 60"].map(str::to_owned);
    let job = LimitedJob { words: &words, limits: cpus(0.5), ..LimitedJob::default() };
    let (cancelled, mut process) = (AtomicBool::new(false), String::new());
    let mut keep = |seen: &perf4sight_limit::JobOutput| {
        seen.lines.iter().for_each(|line| process = line.text.clone());
        cancelled.store(!process.is_empty(), Ordering::Relaxed);
        false
    };
    assert_eq!(limiter.run(&job, &RunWatch::quiet(&cancelled), &mut keep).unwrap(), None);
    assert!(!runs(&process));
    let own = format!(".{}.", std::process::id());
    // Other tests of this program may be running jobs of theirs.
    drop(limiter);
    println!(
        "groups of this program: {:?}",
        groups().iter().filter(|group| group.to_string_lossy().contains(&own)).count()
    );
}

#[test]
fn what_a_job_said_last_is_told_when_it_crashed() {
    let ended = shell(&open(None), "echo begun; echo 'no such file: train.txt' >&2; exit 3", cpus(1.0), None);
    assert_eq!(ended.verdict(), JobVerdict::Crashed("it ended with exit code 3".to_owned()));
    assert!(ended.last_lines.iter().any(|line| line == "no such file: train.txt"), "{ended:?}");
}

/// What a job writes because it is ended says nothing of it: a script in Python shows where it stood then.
#[test]
fn what_a_job_says_when_it_is_interrupted_is_none_of_its_last_lines() {
    let lines = "trap 'echo KeyboardInterrupt >&2; exit 130' INT; echo its own; while :; do sleep 0.1; done";
    let ended = shell(&open(None), lines, ResourceLimits::default(), Some(1));
    assert_eq!((ended.end, ended.last_lines), (JobEnd::TimeUp, vec!["its own".to_owned()]));
}

/// A job that keeps 20 MB and reads 60 MB of files under a limit of 100 MB holds 80 MB, of which 20 are its own.
#[test]
fn memory_of_its_own_is_told_from_pages_of_files() {
    let folder = on_disc();
    let data = data(folder.path(), 60);
    let limiter = open(Some(&data));
    if !grouped(&limiter, Resource::Memory) {
        return;
    }
    let lines = format!(
        "kept=$(head -c 20000000 /dev/zero | tr '\\0' x); cat {0} {0}/* > /dev/null 2>&1; sleep 0.5",
        data.display()
    );
    let limits = ResourceLimits { memory: Some(Bytes(100_000_000)), ..ResourceLimits::default() };
    let ended = shell(&limiter, &lines, limits, Some(20));
    let (own, all) = (ended.own_memory.unwrap().0 as f64 / 1e6, ended.peak_memory.unwrap().0 as f64 / 1e6);
    println!("{own:.1} MB of its own, {all:.1} MB in all");
    assert!(all > 75.0 && own > 19.0 && own < 70.0 && all - own > 30.0, "{own} of {all}");
}

/// A job that holds 200 MB for less time than between two looks at it. It waits before, so that even on a busy machine there is a look
/// behind what was read: what filled and left memory between two looks is not distinguished.
#[test]
fn spike_part() {
    if std::env::var_os(PART).is_none() {
        return;
    }
    thread::sleep(Duration::from_millis(1330));
    drop(std::hint::black_box(vec![1_u8; 200_000_000]));
    thread::sleep(Duration::from_millis(500));
}

/// What a job that is this part holds at most.
fn spiked(limiter: &Limiter, read: &Path, limits: ResourceLimits) -> EndedJob {
    let program = std::env::current_exe().unwrap().display().to_string();
    let lines = format!("cat {} > /dev/null; exec {program} --exact spike_part --nocapture", read.display());
    let words = ["/bin/sh".to_owned(), "-c".to_owned(), lines];
    let environment = [(PART.to_owned(), ".".into())];
    let job = LimitedJob { words: &words, environment: &environment, limits, ..LimitedJob::default() };
    limiter.run(&job, &RunWatch::quiet(&AtomicBool::new(false)), &mut |_| false).unwrap().unwrap()
}

#[test]
fn memory_that_is_held_between_two_looks_counts() {
    let limiter = open(None);
    if grouped(&limiter, Resource::Memory) {
        let own =
            spiked(&limiter, Path::new("/dev/null"), ResourceLimits::default()).own_memory.unwrap().0 as f64 / 1e6;
        println!("{own:.1} MB of its own");
        assert!((200.0..230.0).contains(&own), "{own}");
    }
}

/// Pages of files fill 300 MB before: the most that the kernel counted for all says nothing then.
#[test]
fn at_a_limit_too_memory_that_is_held_between_two_looks_counts() {
    let folder = on_disc();
    let data = data(folder.path(), 400);
    let limiter = open(Some(&data));
    if grouped(&limiter, Resource::Memory) {
        let ended =
            spiked(&limiter, &data, ResourceLimits { memory: Some(Bytes(300_000_000)), ..ResourceLimits::default() });
        let own = ended.own_memory.unwrap().0 as f64 / 1e6;
        println!("{own:.1} MB of its own, {} in all", ended.peak_memory.unwrap());
        assert!((200.0..230.0).contains(&own), "{own}");
    }
}

#[test]
fn without_privileges_too_memory_that_is_held_between_two_looks_counts() {
    if unprivileged("without_privileges_too_memory_that_is_held_between_two_looks_counts") {
        let peak =
            spiked(&open(None), Path::new("/dev/null"), ResourceLimits::default()).peak_memory.unwrap().0 as f64 / 1e6;
        println!("{peak:.1} MB");
        assert!((200.0..230.0).contains(&peak), "{peak}");
    }
}

/// Programs that use the CPUs until this is dropped.
struct Others(Vec<Child>);

impl Others {
    fn start(count: usize, words: &[&str]) -> Self {
        Others((0..count).map(|_| Command::new(words[0]).args(&words[1..]).spawn().unwrap()).collect())
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for other in &mut self.0 {
            // What has ended by itself needs no end.
            let _ = other.kill();
            let _ = other.wait();
        }
    }
}

#[test]
fn other_programs_that_use_the_cpus_are_told() {
    let limiter = open(None);
    let others =
        Others::start(2 * thread::available_parallelism().unwrap().get(), &["sh", "-c", "while :; do :; done"]);
    let ended = shell(&limiter, "while :; do :; done", ResourceLimits::default(), Some(3));
    drop(others);
    assert!(matches!(ended.verdict(), JobVerdict::Disturbed(_)), "{ended:?}");
}

/// Under a quota of 0.8 CPUs a job has half of its only CPU while another wants it too, and its quota while that rests: the limit holds it
/// back then, but not all of the time.
#[test]
fn other_programs_that_use_the_cpu_of_a_quota_now_and_then_are_told() {
    let limiter = open(None);
    let ours = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let first = (0..CpuSet::count()).find(|cpu| ours.is_set(*cpu).unwrap()).unwrap().to_string();
    let turns = "while :; do timeout 0.4 sh -c 'while :; do :; done'; sleep 0.4; done";
    let others = Others::start(1, &["taskset", "-c", &first, "sh", "-c", turns]);
    // However little the other gets, it leaves less than this.
    let ended = shell(&limiter, "while :; do :; done", cpus(0.95), Some(4));
    drop(others);
    println!("{:?} CPU seconds, held back for {:?}: {}", ended.cpu_seconds, ended.throttled_seconds, ended.verdict());
    assert!(matches!(ended.verdict(), JobVerdict::Disturbed(_)), "{ended:?}");
}

#[test]
fn what_cannot_be_given_is_refused_in_words() {
    let limiter = open(None);
    let here = limiter.survey().cpus;
    let error = limiter.survey().check(&cpus(here + 1.0)).unwrap_err().to_string();
    assert!(error.contains(&format!("from 0.01 to the {here} that there are")), "{error}");
    assert!(limiter.survey().check(&cpus(0.0)).is_err() && limiter.survey().check(&cpus(f64::NAN)).is_err());
    let all = ResourceLimits { memory: Some(Bytes(1 << 50)), ..ResourceLimits::default() };
    assert!(limiter.survey().check(&all).unwrap_err().to_string().contains("of memory"));
    let storage = ResourceLimits { storage: Some(Bytes(1 << 20)), ..ResourceLimits::default() };
    let error = limiter.survey().check(&storage).unwrap_err().to_string();
    assert!(error.contains("storage: cannot be limited") && error.contains("give its folder"), "{error}");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let words = ["no-such-program".to_owned()];
    let job = LimitedJob { words: &words, limits: cpus(1.0), ..LimitedJob::default() };
    let error =
        open(None).run(&job, &RunWatch::quiet(&AtomicBool::new(false)), &mut |_| false).unwrap_err().to_string();
    assert!(error.contains("no-such-program: cannot start this command"), "{error}");
}

#[test]
fn a_docker_client_without_a_daemon_is_told_in_its_own_words() {
    let around = LimiterSettings { image: Some("debian"), ..LimiterSettings::default() };
    match Limiter::open(around, &RunWatch::quiet(&AtomicBool::new(false))) {
        Ok(_) => println!("not run: there is a daemon of docker here"),
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("docker cannot run the image") && error.contains("help: start docker"), "{error}");
        }
    }
}

#[test]
fn a_job_that_stops_itself_is_not_said_to_want_a_terminal_alone() {
    let ended = shell(&open(None), "kill -STOP $$", ResourceLimits::default(), Some(20));
    let verdict = ended.verdict().to_string();
    assert!(
        verdict.contains("it was stopped by a signal and did not go on: it stopped itself (SIGSTOP), or"),
        "{verdict}"
    );
}

/// A profiler with a terminal, whose job reads from it.
#[test]
fn terminal_part() {
    let Some(folder) = std::env::var_os(PART).map(PathBuf::from) else { return };
    let ended = shell(&open(None), "cat < /dev/tty", ResourceLimits::default(), Some(20));
    fs::write(folder.join("verdict"), ended.verdict().to_string()).unwrap();
}

#[test]
fn a_job_that_wants_a_terminal_is_reported_as_stopped() {
    let folder = TempDir::new().unwrap();
    let program = std::env::current_exe().unwrap();
    // script (util-linux) gives a command a terminal of its own.
    let within = format!("{} --exact terminal_part --nocapture", program.display());
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &within, "/dev/null"]).env(PART, folder.path());
    match command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn() {
        Ok(mut script) => assert!(script.wait().unwrap().success()),
        Err(cause) => return println!("not run: a terminal is made by script (util-linux): {cause}"),
    }
    let verdict = fs::read_to_string(folder.path().join("verdict")).unwrap();
    assert!(verdict.starts_with("crashed: it was stopped by a signal and did not go on"), "{verdict}");
}

#[test]
fn without_privileges_the_survey_says_why_there_is_nothing_better() {
    if !unprivileged("without_privileges_the_survey_says_why_there_is_nothing_better") {
        return println!("with privileges:\n{}", open(Some(Path::new("/var/tmp"))).survey());
    }
    let limiter = open(Some(Path::new("/var/tmp")));
    println!("without privileges:\n{}", limiter.survey());
    for resource in Resource::ALL {
        let limitable = limiter.survey().limitable(resource).unwrap();
        assert!(limitable.refused.iter().all(|refused| refused.reason.len() > 10), "{limitable}");
        let tried = limitable.refused.iter().map(|refused| refused.backend.name);
        assert!(tried.take(2).eq(["control group v2", "control group v1"]), "{limitable}");
    }
}

#[test]
fn a_part_of_a_machine_gives_no_more_memory_and_says_who_was_killed_for_it() {
    if !grouped(&open(None), Resource::Memory) {
        return;
    }
    let machine =
        ConfinedMachine::new(ResourceLimits { cpus: Some(0.5), memory: Some(Bytes(64 << 20)), storage: None }).unwrap();
    assert_eq!(machine.threads(), 1);
    let ended = |lines: &str| {
        let words = ["/bin/sh", "-c", lines].map(str::to_owned);
        let invocation = WorkerInvocation { words: &words, line: "", threads: 1, timeout: Duration::from_secs(20) };
        machine.run_alone(&invocation, &RunWatch::quiet(&AtomicBool::new(false))).unwrap().unwrap()
    };
    let fits = ended("cat /proc/self/cgroup; nproc");
    assert!(!fits.killed_for_memory && fits.stdout.ends_with("\n1\n"), "{fits:?}");
    assert!(fits.stdout.contains("perf4sight."), "it runs in a group of ours: {fits:?}");
    assert!(ended("head -c 300M /dev/zero | tail -n 1 > /dev/null").killed_for_memory);
}

#[test]
fn without_privileges_a_part_of_a_machine_is_whole_cpus() {
    if !unprivileged("without_privileges_a_part_of_a_machine_is_whole_cpus") {
        return;
    }
    assert_eq!(ConfinedMachine::new(cpus(1.0)).unwrap().threads(), 1);
    let error = ConfinedMachine::new(cpus(0.5)).unwrap_err().to_string();
    assert!(
        error.contains("no control group can hold a limit on CPUs") && error.contains("ask for whole CPUs"),
        "{error}"
    );
}
