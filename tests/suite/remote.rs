//! Boards over ssh, against a real sshd on this machine's loopback. Package: openssh-server; without it these tests say that they
//! were skipped.

use crate::fixtures::{Outcome, Scene};
use crate::workers::{MEASURED, TX2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use perf4sight_cost::records::ProfileProvenance;
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_onnx as onnx;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const SSHD: &str = "/usr/sbin/sshd";

/// An ssh server of its own keys, whose users' home is a folder of the scene: `board`.
pub(crate) struct Sshd {
    folder: PathBuf,
    port: u16,
    server: Child,
}

impl Sshd {
    /// Starts a server; none, said aloud, where there is no sshd.
    pub(crate) fn start(scene: &Scene) -> Option<Self> {
        Self::start_with(scene, "board", "")
    }

    /// The same under a name, with more lines in its configuration.
    pub(crate) fn start_with(scene: &Scene, name: &str, more: &str) -> Option<Self> {
        if !Path::new(SSHD).exists() {
            eprintln!("skipped: this test needs {SSHD} (apt-get install openssh-server)");
            return None;
        }
        let folder = scene.folder().canonicalize().unwrap().join(name);
        fs::create_dir_all(folder.join("home")).unwrap();
        // Root's sshd refuses to start without it.
        let _ = fs::create_dir_all("/run/sshd");
        ["host_key", "user_key"].iter().for_each(|key| new_key(&folder.join(key)));
        fs::copy(folder.join("user_key.pub"), folder.join("authorized_keys")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let at = folder.display();
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {at}/host_key\nAuthorizedKeysFile {at}/authorized_keys\nPidFile none\n\
             StrictModes no\nUsePAM no\nSetEnv HOME={at}/home {more}\n"
        );
        fs::write(folder.join("sshd_config"), config).unwrap();
        let server = serve(&folder, port);
        let sshd = Sshd { folder, port, server };
        sshd.know(&sshd.read("host_key.pub"));
        sshd.write_client_config(name);
        Some(sshd)
    }

    /// Lets the client know this key for the server's.
    fn know(&self, key: &str) {
        fs::write(self.folder.join("known_hosts"), format!("[127.0.0.1]:{} {key}", self.port)).unwrap();
    }

    /// `ssh_config` in the scene knows the board by its name, among others.
    fn write_client_config(&self, name: &str) {
        let file = self.folder.parent().unwrap().join("ssh_config");
        let others = fs::read_to_string(&file).unwrap_or_default();
        let (at, port) = (self.folder.display(), self.port);
        let own = format!(
            "Host {name}\nHostName 127.0.0.1\nPort {port}\nIdentityFile {at}/user_key\nIdentitiesOnly yes\n\
             UserKnownHostsFile {at}/known_hosts\nGlobalKnownHostsFile /dev/null\nStrictHostKeyChecking no\nBatchMode no\n"
        );
        fs::write(file, others + &own).unwrap();
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder.join(file)).unwrap()
    }

    fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// Everything on the board stops at once.
    fn power_off(&mut self) {
        let server = self.server.id();
        let mut all = descendants(server);
        all.push(server);
        for id in all {
            let _ = kill(Pid::from_raw(id as i32), Signal::SIGKILL);
        }
        self.server.wait().unwrap();
    }

    fn power_on(&mut self) {
        self.server = serve(&self.folder, self.port);
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.power_off();
    }
}

fn new_key(file: &Path) {
    let _ = fs::remove_file(file);
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file).status();
    assert!(made.unwrap().success());
}

fn serve(folder: &Path, port: u16) -> Child {
    let log = fs::File::create(folder.join("log")).unwrap();
    let server =
        Command::new(SSHD).args(["-D", "-e", "-f"]).arg(folder.join("sshd_config")).stderr(log).spawn().unwrap();
    wait_until("sshd listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    server
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(20), "waited in vain until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The processes that a process started, and those that they started.
fn descendants(of: u32) -> Vec<u32> {
    let stats = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let parent: u32 = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        Some((entry.file_name().to_str()?.parse::<u32>().ok()?, parent))
    });
    let processes: Vec<(u32, u32)> = stats.collect();
    let mut found = vec![of];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(processes.iter().filter(|process| process.1 == parent).map(|process| process.0));
        at += 1;
    }
    found.split_off(1)
}

/// A profile of squeezenet on the board by a worker in a line of shell; `measure` is what it does for a request.
fn scene(measure: &str, more: &str) -> Scene {
    let about = TX2.replace(r#""cuda:0""#, r#""cuda:1""#);
    let worker = format!(
        "case \"$*\" in *--about*) echo '{about}';; *) read request; echo \"$request\" >> \"$HOME/heard\"; {measure}; echo '{MEASURED}';; esac"
    );
    let config = format!(
        "[profile]\ndevice = cpu\nhost = board\nssh_config = ssh_config\nworker = sh worker.sh\ndataset = imagenet\n\
         local_model_loc = nets\nnetwork = ['squeezenet']\nbs = [1, 2, 3, 4]\nreconnect = 20\n{more}\n"
    );
    let network = onnx::to_bytes(&zoo::build("squeezenet", Dataset::Imagenet).unwrap());
    Scene::new().file("worker.sh", worker).file("config.ini", config).file("nets/squeezenet_0.onnx", network)
}

/// Every step is timed in two visits, each a request to a worker of its own (docs/measuring.md).
const VISITS: usize = 2;

const ROWS: &str = "profiling_csvs/cpu/imagenet/latency/squeezenet_0-gt.csv";

fn rows(scene: &Scene) -> usize {
    fs::read_to_string(scene.path(ROWS)).map_or(0, |text| text.lines().count().saturating_sub(1))
}

/// The program in the background.
fn start(scene: &Scene) -> Child {
    let mut command = scene.command();
    command.args(["--config-file", "config.ini"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn end(child: Child) -> Outcome {
    Outcome::of("in the background", child.wait_with_output().unwrap())
}

#[test]
fn a_board_gives_the_rows_that_this_machine_gives() {
    let scene = scene(":", "mem_limit = 1000");
    let Some(sshd) = Sshd::start(&scene) else { return };
    scene.run("--config-file config.ini").succeeds().prints("squeezenet");
    let heard = fs::read_to_string(sshd.home().join("heard")).unwrap();
    assert_eq!(heard.lines().count(), VISITS * 4);
    let store = sshd.home().canonicalize().unwrap().join(".cache/perf4sight");
    assert!(heard.lines().all(|line| line.contains(&format!("\"network\":\"{}/", store.display()))), "{heard}");
    let config = scene.read("config.ini").replace("host = board\n", "log_dir = here\n");
    let scene = scene.file("config.ini", config);
    scene.run("--config-file config.ini").succeeds();
    for quantity in ["latency", "memory"] {
        let file = format!("{quantity}/squeezenet_0-gt.csv");
        let [there, here] =
            ["profiling_csvs/cpu/imagenet", "here"].map(|folder| scene.read(&format!("{folder}/{file}")));
        assert_eq!(there, here);
    }
    let [there, here] = ["profiling_csvs/cpu/imagenet", "here"]
        .map(|folder| ProfileProvenance::load(&scene.path(folder)).unwrap().unwrap().setting);
    assert_eq!(there, here, "the board is this machine");
    assert_eq!(fs::read_dir(store).unwrap().count(), 2, "one network, one worker");
}

#[test]
fn a_board_that_is_started_anew_measures_the_interrupted_configuration_again() {
    let scene = scene(
        "[ -e \"$HOME/second\" ] || case $request in *'\"batch\":2'*) touch \"$HOME/reached\"; sleep 60;; esac",
        "",
    );
    let Some(mut sshd) = Sshd::start(&scene) else { return };
    let run = start(&scene);
    wait_until("the second configuration runs", || sshd.home().join("reached").exists());
    sshd.power_off();
    fs::write(sshd.home().join("second"), "").unwrap();
    // As where the store is on a disk in memory.
    fs::remove_dir_all(sshd.home().join(".cache")).unwrap();
    sshd.power_on();
    end(run).succeeds().says("the connection to board was lost");
    let rows = scene.read(ROWS);
    assert_eq!((rows.matches("measured").count(), rows.lines().count()), (4, 5), "{rows}");
    let heard = fs::read_to_string(sshd.home().join("heard")).unwrap();
    assert_eq!(heard.lines().count(), VISITS * 4 + 1, "all visits, and that which was interrupted");
}

#[test]
fn a_board_that_stays_away_ends_the_sweep_and_the_same_command_goes_on() {
    let scene = scene("sleep 0.3", "");
    let config = scene.read("config.ini").replace("reconnect = 20", "reconnect = 1");
    let scene = scene.file("config.ini", config);
    let Some(mut sshd) = Sshd::start(&scene) else { return };
    let run = start(&scene);
    wait_until("there are rows", || rows(&scene) >= 2);
    sshd.power_off();
    end(run).fails(5).says("could not be restored within 1s").says("the same command goes on from there");
    let kept = rows(&scene);
    assert!((2..4).contains(&kept), "{kept} rows");
    sshd.power_on();
    scene.run("--config-file config.ini").succeeds();
    let rows = scene.read(ROWS);
    assert_eq!((rows.matches("measured").count(), rows.lines().count()), (4, 5), "{rows}");
}

#[test]
fn ways_to_a_board_that_are_closed_are_told_with_a_remedy() {
    let scene = scene(":", "");
    let Some(mut sshd) = Sshd::start(&scene) else { return };
    let check = || scene.run("--config-file config.ini --check");
    check().succeeds().prints("4 runs");
    assert!(!sshd.home().join("heard").exists());

    // Although the user's configuration says StrictHostKeyChecking no.
    fs::write(sshd.folder.join("known_hosts"), "").unwrap();
    check().fails(5).says("its host key is not known here").says("ssh board once, compare the key");
    sshd.know(&sshd.read("user_key.pub"));
    check().fails(5).says("its host key has changed").says("ssh-keygen -R \"board\"");
    sshd.know(&sshd.read("host_key.pub"));
    fs::write(sshd.folder.join("authorized_keys"), "").unwrap();
    check().fails(5).says("does not let you in without asking").says("ssh-copy-id");
    sshd.power_off();
    check().fails(5).says("board cannot be reached: ").says("Connection refused").says("ssh board must work");
    sshd.power_on();
    let nowhere = "--config-file config.ini --check --set profile.host=me@board.invalid";
    scene.run(nowhere).fails(5).says("me@board.invalid cannot be reached").says("Could not resolve");
    for host in ["-oProxyCommand=touch${IFS}pwned", "a;touch${IFS}pwned"] {
        scene
            .run(&format!("--config-file config.ini --check --set profile.host={host}"))
            .fails(3)
            .says("not an address of a machine");
    }
    assert!(!scene.path("pwned").exists());
}

/// With a terminal, ssh would ask for a password there.
#[test]
fn nothing_is_ever_asked() {
    let scene = scene(":", "");
    let Some(sshd) = Sshd::start(&scene) else { return };
    fs::write(sshd.folder.join("authorized_keys"), "").unwrap();
    let program = format!("{} --config-file config.ini --check", env!("CARGO_BIN_EXE_perf4sight"));
    let mut asked = Command::new("script");
    asked.args(["-qec", &program, "/dev/null"]).current_dir(scene.folder()).stdin(Stdio::null());
    let Ok(output) = asked.output() else { return eprintln!("skipped: this test needs script (bsdutils)") };
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("does not let you in") && !shown.to_lowercase().contains("password:"), "{shown}");
}

#[test]
fn what_a_board_lacks_is_told_by_a_check() {
    let scene = scene(":", "");
    let Some(sshd) = Sshd::start(&scene) else { return };
    let check = |worker: &str| scene.run(&format!("--config-file config.ini --check --set profile.worker={worker}"));
    check("python9").fails(5).says("the worker `python9` on board does not report its features").says("python9");
    let scene = scene.file("worker.sh", format!("echo '{}'", TX2.replace("\"protocol\":2", "\"protocol\":1")));
    scene.run("--config-file config.ini --check").fails(5).says("protocol 1 instead of 2").says("on board");
    let scene = scene.file("worker.sh", "echo ModuleNotFoundError: No module named torch >&2; exit 1");
    scene.run("--config-file config.ini --check").fails(5).says("No module named torch");
    drop(sshd);

    let tools = scene.path("tools");
    fs::create_dir(&tools).unwrap();
    for tool in ["sh", "uname", "nproc", "tr", "wc"] {
        std::os::unix::fs::symlink(Path::new("/usr/bin").join(tool), tools.join(tool)).unwrap();
    }
    let Some(_sshd) = Sshd::start_with(&scene, "bare", &format!("PATH={}", tools.display())) else { return };
    let check = scene.run("--config-file config.ini --check --set profile.host=bare");
    check.fails(5).says("bare lacks flock timeout").says("util-linux");
}

#[test]
fn a_full_disk_on_the_board_is_told() {
    let scene = scene(":", "");
    let Some(mut sshd) = Sshd::start(&scene) else { return };
    sshd.power_off();
    // A disk of one page, seen by this server alone; the worker fits on it and the network does not.
    let script = format!(
        "mount -t tmpfs -o size=8k none {}/home && exec {SSHD} -D -e -f {}/sshd_config",
        sshd.folder.display(),
        sshd.folder.display()
    );
    let server = Command::new("unshare").args(["-m", "sh", "-c", &script]).stderr(Stdio::null()).spawn();
    let Ok(server) = server else { return eprintln!("skipped: this test needs unshare") };
    sshd.server = server;
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", sshd.port)).is_err() {
        if sshd.server.try_wait().unwrap().is_some() || began.elapsed() > Duration::from_secs(10) {
            return eprintln!("skipped: this test needs the right to mount");
        }
        thread::sleep(Duration::from_millis(10));
    }
    let run = scene.run("--config-file config.ini").fails(5).says("board cannot keep nets/squeezenet_0.onnx: ");
    run.says("No space left on device").says("make room on the machine");
    assert_eq!(rows(&scene), 0);
}

#[test]
fn workers_on_a_board_fail_like_workers_here() {
    let measure = "case $request in *'\"batch\":2,'*) exit 3;; esac";
    let scene = scene(measure, "profile_variables = ['latency']");
    let Some(_sshd) = Sshd::start(&scene) else { return };
    scene.run("--config-file config.ini").succeeds().says("exit code 3");
    let rows = scene.read(ROWS);
    assert_eq!(rows.matches("crashed").count(), 1, "{rows}");
    let script = scene.read("worker.sh").replace("exit 3", "sleep 600");
    let scene = scene.file("worker.sh", script);
    fs::remove_dir_all(scene.path("profiling_csvs")).unwrap();
    let began = Instant::now();
    scene.run("--config-file config.ini --set profile.timeout=1").succeeds().says("still running after 1.00 s");
    assert!(began.elapsed() < Duration::from_secs(300), "nobody waits for what sleeps");
    assert_eq!(scene.read(ROWS).matches("timed_out").count(), 1);
}

#[test]
fn no_shell_on_the_board_sees_the_words_of_a_worker() {
    let scene = scene(":", "");
    let script = scene.read("worker.sh");
    let scene = scene.file("my 'worker'.sh", script);
    let Some(sshd) = Sshd::start(&scene) else { return };
    let mut command = scene.command();
    let words = r#"profile.worker=['sh', "my 'worker'.sh", '$(touch pwned)', "'; touch pwned; '", '`touch pwned`']"#;
    let output = command.args(["--config-file", "config.ini", "--set", words]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pwned = |folder: &Path| folder.join("pwned").exists();
    assert!(!pwned(&sshd.home()) && !pwned(scene.folder()) && !pwned(Path::new(&std::env::var("HOME").unwrap())));
}

const SEVERAL: &str = "--config-file config.ini --set profile.host=None --set profile.hosts=['board','second']";

/// Two variants, so that there is something to share out.
fn two_variants(scene: Scene) -> Scene {
    let network = fs::read(scene.path("nets/squeezenet_0.onnx")).unwrap();
    scene.file("nets/squeezenet_50.onnx", network)
}

fn all_rows(scene: &Scene) -> String {
    [ROWS, &ROWS.replace("_0-", "_50-")].map(|file| scene.read(file)).concat()
}

#[test]
fn boards_of_one_kind_share_a_sweep() {
    let scene = two_variants(scene("sleep 0.2", "mem_limit = 1000"));
    let (Some(first), Some(second)) = (Sshd::start(&scene), Sshd::start_with(&scene, "second", "")) else { return };
    scene.run(SEVERAL).succeeds();
    let heard = [&first, &second].map(|sshd| fs::read_to_string(sshd.home().join("heard")).unwrap().lines().count());
    assert_eq!((heard[0] + heard[1], all_rows(&scene).matches("measured").count()), (VISITS * 8, 8));
    assert!(heard.iter().all(|count| *count >= 2), "{heard:?}");
}

#[test]
fn a_board_that_stays_away_leaves_its_work_to_the_others() {
    let measure = "case $HOME in *second/home) touch \"$HOME/reached\"; sleep 60;; *) sleep 0.1;; esac";
    let scene = two_variants(scene(measure, "mem_limit = 1000"));
    let Some(_first) = Sshd::start(&scene) else { return };
    let Some(mut second) = Sshd::start_with(&scene, "second", "") else { return };
    let mut command = scene.command();
    command.args(SEVERAL.split_whitespace()).args(["--set", "profile.reconnect=1"]);
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the second board measures", || second.home().join("reached").exists());
    second.power_off();
    end(run).succeeds().says("is left to the other devices").says("second was lost");
    let rows = all_rows(&scene);
    assert_eq!(rows.matches("measured").count(), 8, "{rows}");
}

#[test]
fn boards_of_different_kinds_are_refused() {
    let scene = two_variants(scene(":", "")).file("tools/uname", "#!/bin/sh\necho riscv64\n");
    assert!(Command::new("chmod").arg("+x").arg(scene.path("tools/uname")).status().unwrap().success());
    let Some(_first) = Sshd::start(&scene) else { return };
    let path = format!("PATH={}:/usr/bin:/bin", scene.path("tools").display());
    let Some(_second) = Sshd::start_with(&scene, "second", &path) else { return };
    let run = scene.run(SEVERAL).fails(5).says("second is another kind of machine than board: ");
    run.says("is riscv64").says("another device_name");
    scene.run(&SEVERAL.replace("None", "board")).fails(3).says("host and hosts at once");
}

/// The same sweep here and there by a worker that takes 0.8 s: perf4sight's own takes 0.3 s to start and times half a second of steps.
#[test]
#[ignore = "measures time; run with: cargo test --test suite remote -- --ignored --nocapture"]
fn a_sweep_over_the_loopback_takes_at_most_a_tenth_longer() {
    let scene = scene("sleep 0.8", "");
    let Some(_sshd) = Sshd::start(&scene) else { return };
    let sweep = "--config-file config.ini --set profile.bs=[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]";
    let seconds = |folder: &str, more: &str| {
        let began = Instant::now();
        scene.run(&format!("{sweep} --set profile.log_dir={folder} {more}")).succeeds();
        began.elapsed().as_secs_f64()
    };
    let (here, there) = (seconds("here", "--set profile.host=None"), seconds("there", ""));
    println!("20 configurations: {here:.2} s here, {there:.2} s there, {:.1} % more", 100.0 * (there / here - 1.0));
    assert!(there < 1.1 * here, "{there} s there, {here} s here");
}
