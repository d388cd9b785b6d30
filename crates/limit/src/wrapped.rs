//! Commands that run a command under limits: systemd-run and docker, with the limits in their own words.

use super::Job;
use super::device::Disc;
use super::limiter::Surroundings;
use perf4sight_machine::Limits;
use perf4sight_machine::affinity;
use std::path::Path;

/// Keeps a scope alive, whose counters go with it, beyond the end of what it becomes. It is nobody's child, so that a job may wait for
/// all of its own.
const KEEP: &str = r#"(sleep 2147483647 < /dev/null > /dev/null 2>&1 &) ; exec "$@""#;

/// Which of the two systemds makes a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manager {
    User,
    System,
}

impl Manager {
    /// As an option of systemd-run and systemctl.
    pub fn option(self) -> &'static str {
        match self {
            Manager::User => "--user",
            Manager::System => "--system",
        }
    }
}

/// What to put before a command, so that systemd runs it in a scope of this name (systemd.resource-control(5)).
pub(super) fn scope(manager: Manager, name: &str, limits: &Limits, disc: Option<&Disc>) -> Vec<String> {
    let mut words = ["systemd-run", manager.option(), "--scope", "--quiet", "--collect"].map(str::to_owned).to_vec();
    words.push(format!("--unit={name}"));
    let cpus = limits.cpus.map(|cpus| vec![format!("CPUQuota={}%", (cpus * 100.0).round().max(1.0))]);
    let memory = limits.memory.map(|memory| vec![format!("MemoryMax={}", memory.0), "MemorySwapMax=0".to_owned()]);
    let storage = limits.storage.zip(disc);
    let storage =
        storage.map(|(bandwidth, disc)| vec![format!("IOReadBandwidthMax={} {}", disc.path().display(), bandwidth.0)]);
    words.extend(
        [cpus, memory, storage].into_iter().flatten().flatten().map(|property| format!("--property={property}")),
    );
    words.extend(["--", "/bin/sh", "-c", KEEP, "keep"].map(str::to_owned));
    words
}

/// The command that ends everything in a scope.
pub(super) fn end_scope(manager: Manager, name: &str) -> Vec<String> {
    let scope = format!("{name}.scope");
    ["systemctl", manager.option(), "kill", "--signal=KILL", &scope].map(str::to_owned).to_vec()
}

/// What to put before a command, so that docker runs it in a container of this name (docker-container-run(1)). The folder it runs in
/// and its data are mounted where they are, or the data where it was asked for.
pub(super) fn container(
    name: &str,
    around: &Surroundings<'_>,
    job: &Job<'_>,
    cpus: &[usize],
    disc: Option<&Disc>,
) -> Vec<String> {
    let mut words = ["docker", "run", "--init", "--ipc=host", "--network=host"].map(str::to_owned).to_vec();
    words.push(format!("--name={name}"));
    if let Some(share) = job.limits.cpus {
        let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
        words.extend([format!("--cpuset-cpus={}", cpus.join(",")), format!("--cpus={share}")]);
    }
    if let Some(memory) = job.limits.memory {
        // What swap there is counts beside memory, so that the same number leaves none.
        words.extend([format!("--memory={}", memory.0), format!("--memory-swap={}", memory.0)]);
    }
    if let (Some(bandwidth), Some(disc)) = (job.limits.storage, disc) {
        words.push(format!("--device-read-bps={}:{}", disc.path().display(), bandwidth.0));
    }
    if Path::new("/dev/nvidiactl").exists() {
        words.push("--gpus=all".to_owned());
    }
    if let Some(data) = around.data {
        words.push(format!("--volume={}:{}", data.display(), around.mount.unwrap_or(data).display()));
    }
    if let Some(folder) = job.folder {
        words.extend([format!("--volume={0}:{0}", folder.display()), format!("--workdir={}", folder.display())]);
    }
    let threads = affinity::threads(job.limits.cpus, job.processes);
    let own = job.environment.iter().map(|(name, value)| format!("--env={name}={}", value.to_string_lossy()));
    words.extend(own.chain(threads.map(|(name, value)| format!("--env={name}={value}"))));
    words.extend(around.image.map(str::to_owned));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_base::units::Bytes;
    use std::ffi::OsString;

    const LIMITS: Limits = Limits { cpus: Some(1.5), memory: Some(Bytes(2 << 30)), storage: Some(Bytes(100_000_000)) };

    fn disc() -> Disc {
        Disc { numbers: (259, 0), name: "nvme0n1".to_owned() }
    }

    #[test]
    fn docker_is_told_all_limits_in_its_words() {
        let environment = [("SEED".to_owned(), OsString::from("7"))];
        let job = Job {
            limits: LIMITS,
            environment: &environment,
            folder: Some(Path::new("/home/me/job")),
            ..Job::default()
        };
        let around =
            Surroundings { data: Some(Path::new("/data")), image: Some("pytorch:2"), mount: Some(Path::new("/mnt")) };
        let words = container("perf4sight.1", &around, &job, &[0, 1], Some(&disc()));
        let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "--gpus=all").collect();
        // The options of the published profiler, and what docker's manual calls the rest.
        assert_eq!(
            words,
            [
                "docker",
                "run",
                "--init",
                "--ipc=host",
                "--network=host",
                "--name=perf4sight.1",
                "--cpuset-cpus=0,1",
                "--cpus=1.5",
                "--memory=2147483648",
                "--memory-swap=2147483648",
                "--device-read-bps=/dev/nvme0n1:100000000",
                "--volume=/data:/mnt",
                "--volume=/home/me/job:/home/me/job",
                "--workdir=/home/me/job",
                "--env=SEED=7",
                "--env=OMP_NUM_THREADS=2",
                "--env=MKL_NUM_THREADS=2",
                "--env=OPENBLAS_NUM_THREADS=2",
                "pytorch:2"
            ]
        );
    }

    #[test]
    fn systemd_is_told_all_limits_in_its_words() {
        let words = scope(Manager::User, "perf4sight.1", &LIMITS, Some(&disc()));
        assert_eq!(
            words[..10],
            [
                "systemd-run",
                "--user",
                "--scope",
                "--quiet",
                "--collect",
                "--unit=perf4sight.1",
                "--property=CPUQuota=150%",
                "--property=MemoryMax=2147483648",
                "--property=MemorySwapMax=0",
                "--property=IOReadBandwidthMax=/dev/nvme0n1 100000000"
            ]
        );
        let without = scope(Manager::System, "perf4sight.2", &Limits::default(), None);
        assert_eq!(without[6..9], ["--", "/bin/sh", "-c"]);
    }
}
