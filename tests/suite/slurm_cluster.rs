//! A cluster of Slurm on this machine's loopback: a controller and three nodes, `board1` to `board3`, under this user, with
//! neither installation nor systemd nor control groups. Packages: slurm-wlm and munge.

use crate::fixtures::{Outcome, Scene, within};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getuid};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What the tests start.
const PROGRAMS: [&str; 3] = ["/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged"];

/// `MaxArraySize`, small so that arrays have to be cut.
pub(crate) const ARRAY_SIZE: usize = 5;

const BOARDS: [&str; 3] = ["board1", "board2", "board3"];

/// A running cluster; it ends with this value.
pub(crate) struct Cluster {
    folder: PathBuf,
    controller: Child,
    others: Vec<Child>,
}

impl Cluster {
    /// Starts a cluster whose files are in the scene; none, said aloud, where Slurm is not installed.
    pub(crate) fn start(scene: &Scene) -> Option<Self> {
        if let Some(missing) = PROGRAMS.iter().find(|program| !Path::new(program).exists()) {
            eprintln!("skipped: this test needs {missing} (apt-get install slurm-wlm munge)");
            return None;
        }
        let folder = scene.folder().canonicalize().unwrap().join("cluster");
        ["state", "log", "spool/board1", "spool/board2", "spool/board3"]
            .iter()
            .for_each(|name| fs::create_dir_all(folder.join(name)).unwrap());
        fs::write(folder.join("slurm.conf"), configuration(&folder)).unwrap();
        let munged = start_munged(&folder);
        comes_about("munged's socket", || folder.join("munge.socket").exists());
        let controller = start("slurmctld", &folder, &["-D", "-i"]);
        let nodes = BOARDS.iter().map(|board| start("slurmd", &folder, &["-D", "-N", board]));
        let cluster = Cluster { others: nodes.chain([munged]).collect(), controller, folder };
        comes_about("three idle nodes", || {
            cluster.slurm("sinfo", &["-h", "-N", "-o", "%t"]).matches("idle").count() == 3
        });
        Some(cluster)
    }

    /// The program in the scene, which finds this cluster.
    pub(crate) fn command(&self, scene: &Scene, arguments: &str) -> Command {
        let mut command = scene.command();
        command.args(arguments.split_whitespace()).env("SLURM_CONF", self.folder.join("slurm.conf"));
        command
    }

    /// Runs the program in the scene.
    pub(crate) fn run(&self, scene: &Scene, arguments: &str) -> Outcome {
        Outcome::of(arguments, self.command(scene, arguments).output().unwrap())
    }

    /// Starts the program in the scene.
    pub(crate) fn spawn(&self, scene: &Scene, arguments: &str) -> Child {
        let mut command = self.command(scene, arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The output of a command of Slurm.
    pub(crate) fn slurm(&self, program: &str, arguments: &[&str]) -> String {
        let output = Command::new(program).args(arguments).env("SLURM_CONF", self.folder.join("slurm.conf")).output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    }

    /// The tasks of perf4sight's arrays in the queue that run.
    pub(crate) fn running(&self) -> usize {
        self.slurm("squeue", &["-h", "-r", "-t", "R", "-o", "%j"]).lines().count()
    }

    /// Whether nothing is in the queue.
    pub(crate) fn is_idle(&self) -> bool {
        self.slurm("squeue", &["-h"]).is_empty()
    }

    /// Ends the controller and starts it again.
    pub(crate) fn restart_controller(&mut self) {
        end(&mut self.controller);
        self.controller = start("slurmctld", &self.folder, &["-D"]);
    }

    /// Kills the process of a task of a run, at once.
    pub(crate) fn kill_task(run: &Path, task: usize) {
        let mark = format!("slurm-task\0{}\0{task}\0", run.display());
        comes_about("the process of a task", || process(&mark).is_some());
        process(&mark).into_iter().for_each(|id| kill(id, Signal::SIGKILL).unwrap());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.slurm("scancel", &["--signal=KILL", "--full", "--user", &getuid().to_string()]);
        self.slurm("scancel", &["--user", &getuid().to_string()]);
        end(&mut self.controller);
        self.others.iter_mut().for_each(end);
    }
}

/// The process whose command line holds this.
fn process(mark: &str) -> Option<Pid> {
    let folders = fs::read_dir("/proc").unwrap().flatten();
    let mut ids = folders.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let found = ids.find(|id| {
        let words = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        words.windows(mark.len()).any(|window| window == mark.as_bytes())
    });
    found.map(Pid::from_raw)
}

/// Waits until something of a cluster is so. Its tasks share the processors with the other tests.
#[track_caller]
pub(crate) fn comes_about(what: &str, done: impl Fn() -> bool) {
    within(Duration::from_secs(180), what, done);
}

/// A slurmd whose controller is gone does not end while it reports the end of a task.
fn end(child: &mut Child) {
    let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
    let deadline = Instant::now() + Duration::from_secs(10);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn start(program: &str, folder: &Path, arguments: &[&str]) -> Child {
    let log = || fs::File::create(folder.join(format!("log/{program}{}", arguments.join("")))).unwrap();
    let mut command = Command::new(format!("/usr/sbin/{program}"));
    command.args(arguments).arg("-f").arg(folder.join("slurm.conf")).env("SLURM_CONF", folder.join("slurm.conf"));
    command.stdin(Stdio::null()).stdout(log()).stderr(log()).spawn().unwrap()
}

fn start_munged(folder: &Path) -> Child {
    let key: Vec<u8> = (0..=255).collect();
    fs::write(folder.join("munge.key"), key).unwrap();
    let mode = Command::new("chmod").arg("400").arg(folder.join("munge.key")).status().unwrap();
    assert!(mode.success());
    let option = |name: &str, file: &str| format!("--{name}={}", folder.join(file).display());
    let mut command = Command::new("/usr/sbin/munged");
    command.args(["--foreground", "--force"]).args([
        option("key-file", "munge.key"),
        option("socket", "munge.socket"),
        option("pid-file", "munge.pid"),
        option("log-file", "log/munged"),
        option("seed-file", "munge.seed"),
    ]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Ports that were free a moment ago.
fn ports() -> Vec<u16> {
    let listeners: Vec<TcpListener> = (0..4).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

/// As in slurm.conf(5): no accounting, no process tracking that needs root, no delays before a job starts.
fn configuration(folder: &Path) -> String {
    let at = folder.display();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim().split('.').next().unwrap();
    let user = nix::unistd::User::from_uid(getuid()).unwrap().map_or_else(|| getuid().to_string(), |user| user.name);
    let ports = ports();
    let nodes: String = (BOARDS.iter().zip(&ports))
        .map(|(board, port)| {
            format!("NodeName={board} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 RealMemory=500\n")
        })
        .collect();
    format!(
        "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nSlurmUser={user}\nSlurmdUser={user}\n\
         AuthType=auth/munge\nAuthInfo=socket={at}/munge.socket\nCryptoType=crypto/munge\n\
         StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool/%n\nSlurmctldPidFile={at}/controller.pid\nSlurmdPidFile={at}/%n.pid\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n\
         AccountingStorageType=accounting_storage/none\nSwitchType=switch/none\nMpiDefault=none\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\nReturnToService=2\nKillWait=3\n\
         SchedulerParameters=batch_sched_delay=0,sched_interval=3,sched_min_interval=0\nMaxArraySize={ARRAY_SIZE}\nLicenses=orin:2\n\
         {nodes}PartitionName=orin Nodes=board[1-3] Default=YES MaxTime=600 State=UP\n",
        ports[3]
    )
}
