//! Docker as a back-end: the job runs in a container of an image, and docker enforces all limits
//! (docker-container-run(1)).

use super::backend::{Backend, BackendGrip, BackendInfo, BackendRequest, JobHold};
use super::cgroup::new_name;
use super::disc::LimitedDisc;
use super::owner::ResourceOwner;
use super::probe::output_of;
use super::usage::ResourceUsage;
use super::{LimitedJob, LimiterSettings, Resource};
use perf4sight_machine::{RunWatch, affinity};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

static DOCKER: BackendInfo =
    BackendInfo { name: "docker", resources: &Resource::ALL, grip: BackendGrip::Wraps, page_cache_only: false };

/// The image and the settings of its containers.
#[derive(Debug)]
pub(super) struct DockerBackend {
    image: String,
    data: Option<PathBuf>,
    /// Mount point of the data in the container; none for its path on the host.
    mount: Option<PathBuf>,
    disc: Option<LimitedDisc>,
    /// Whether the daemon runs; checked once.
    runs: Option<Result<(), String>>,
}

impl DockerBackend {
    pub fn new(around: &LimiterSettings<'_>, disc: Option<&LimitedDisc>) -> Self {
        let own = |path: Option<&Path>| path.map(Path::to_owned);
        DockerBackend {
            image: around.image.unwrap_or_default().to_owned(),
            data: own(around.data),
            mount: own(around.mount),
            disc: disc.cloned(),
            runs: None,
        }
    }
}

impl Backend for DockerBackend {
    fn info(&self) -> &'static BackendInfo {
        &DOCKER
    }

    fn check(&mut self, _: Resource, watch: &RunWatch<'_>) -> Result<(), String> {
        let ask = || docker(&["version", "--format", "{{.Server.Version}}"], watch).map(drop);
        self.runs.get_or_insert_with(ask).clone()
    }

    fn sweep(&self, watch: &RunWatch<'_>) {
        let names = docker(&["ps", "--all", "--format", "{{.Names}}"], watch).unwrap_or_default();
        for name in names.lines().filter(|name| ResourceOwner::parse_name(name).is_some_and(|owner| owner.is_dead())) {
            // Another process may be removing it too.
            let _ = output_of(&remove(name), watch);
        }
    }

    fn set_limits(&self, request: &BackendRequest<'_>) -> io::Result<Option<Box<dyn JobHold>>> {
        let name = new_name();
        let prefix = container(self, &name, request.job, request.cpus);
        Ok(Some(Box::new(DockerContainer { name, prefix })))
    }
}

struct DockerContainer {
    name: String,
    prefix: Vec<String>,
}

impl JobHold for DockerContainer {
    fn prefix(&self) -> Vec<String> {
        self.prefix.clone()
    }

    fn cleanup(&self) -> Vec<String> {
        remove(&self.name)
    }

    fn counts_cpu(&self) -> bool {
        true
    }

    fn usage(&mut self) -> ResourceUsage {
        let words = ["inspect", "--format", "{{.State.OOMKilled}}", &self.name];
        let killed = docker(&words, &RunWatch::quiet(&AtomicBool::new(false))).ok();
        ResourceUsage {
            out_of_memory_kills: killed.map(|killed| u64::from(killed.trim() == "true")),
            ..ResourceUsage::default()
        }
    }
}

impl Drop for DockerContainer {
    fn drop(&mut self) {
        // Where it is already gone, there is nothing to end.
        let _ = output_of(&self.cleanup(), &RunWatch::quiet(&AtomicBool::new(false)));
    }
}

fn docker(words: &[&str], watch: &RunWatch<'_>) -> Result<String, String> {
    let words: Vec<String> = ["docker"].iter().chain(words).map(|word| (*word).to_owned()).collect();
    output_of(&words, watch)
}

fn remove(name: &str) -> Vec<String> {
    ["docker", "rm", "--force", name].map(str::to_owned).to_vec()
}

/// The words to put before a command, so that docker runs it in a container of this name (docker-container-run(1)). Its
/// working folder and its data are mounted at their own paths, or the data at the requested mount point.
fn container(docker: &DockerBackend, name: &str, job: &LimitedJob<'_>, cpus: &[usize]) -> Vec<String> {
    let mut words = ["docker", "run", "--init", "--ipc=host", "--network=host"].map(str::to_owned).to_vec();
    words.push(format!("--name={name}"));
    if let Some(share) = job.limits.cpus {
        let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
        words.extend([format!("--cpuset-cpus={}", cpus.join(",")), format!("--cpus={share}")]);
    }
    if let Some(memory) = job.limits.memory {
        // The swap limit includes memory: the same number allows no swap.
        words.extend([format!("--memory={}", memory.0), format!("--memory-swap={}", memory.0)]);
    }
    if let (Some(bandwidth), Some(disc)) = (job.limits.storage, &docker.disc) {
        words.push(format!("--device-read-bps={}:{}", disc.path().display(), bandwidth.0));
    }
    if Path::new("/dev/nvidiactl").exists() {
        words.push("--gpus=all".to_owned());
    }
    if let Some(data) = &docker.data {
        words.push(format!("--volume={}:{}", data.display(), docker.mount.as_ref().unwrap_or(data).display()));
    }
    if let Some(folder) = job.folder {
        words.extend([format!("--volume={0}:{0}", folder.display()), format!("--workdir={}", folder.display())]);
    }
    let threads = affinity::threads(job.limits.cpus, job.processes);
    let own = job.environment.iter().map(|(name, value)| format!("--env={name}={}", value.to_string_lossy()));
    words.extend(own.chain(threads.map(|(name, value)| format!("--env={name}={value}"))));
    words.push(docker.image.clone());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf4sight_base::units::Bytes;
    use perf4sight_machine::ResourceLimits;
    use std::ffi::OsString;

    #[test]
    fn docker_is_given_all_limits_as_options() {
        let environment = [("SEED".to_owned(), OsString::from("7"))];
        let job = LimitedJob {
            limits: ResourceLimits { cpus: Some(1.5), memory: Some(Bytes(2 << 30)), storage: Some(Bytes(100_000_000)) },
            environment: &environment,
            folder: Some(Path::new("/home/me/job")),
            ..LimitedJob::default()
        };
        let around = LimiterSettings {
            data: Some(Path::new("/data")),
            image: Some("pytorch:2"),
            mount: Some(Path::new("/mnt")),
        };
        let disc = LimitedDisc { numbers: (259, 0), name: "nvme0n1".to_owned() };
        let words = container(&DockerBackend::new(&around, Some(&disc)), "perf4sight.1", &job, &[0, 1]);
        let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "--gpus=all").collect();
        // The options of the published profiler; the others are from docker's manual.
        let expected = "docker run --init --ipc=host --network=host --name=perf4sight.1 --cpuset-cpus=0,1 --cpus=1.5 \
            --memory=2147483648 --memory-swap=2147483648 --device-read-bps=/dev/nvme0n1:100000000 --volume=/data:/mnt \
            --volume=/home/me/job:/home/me/job --workdir=/home/me/job --env=SEED=7 --env=OMP_NUM_THREADS=2 \
            --env=MKL_NUM_THREADS=2 --env=OPENBLAS_NUM_THREADS=2 pytorch:2";
        assert_eq!(words.join(" "), expected);
    }
}
