//! Opens the device that a configuration specifies.

use super::Device;
use super::hardware::Hardware;
use super::kind::DeviceKind;
use super::program::{WorkerProgram, is_own, own_words};
use super::protocol::{StepRule, WorkerTask};
use super::recorded::RecordedDevice;
use super::shipping::{self, Destination};
use super::simulated::{SimulatedDevice, SimulatedPerformance};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use perf4sight_limit::ConfinedMachine;
use perf4sight_machine::ResourceLimits;
use perf4sight_machine::differences;
use perf4sight_machine::remote::{RemoteMachine, SshRoute};
use perf4sight_machine::{LocalMachine, Machine};
use perf4sight_step::workload::Stage;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The settings of a device in a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceOptions {
    /// The value of the key `device`.
    pub kind: DeviceKind,
    /// The file that describes a simulated device, or the profile of a recorded one.
    pub source: Option<PathBuf>,
    /// The command of a worker other than perf4sight's own, word by word; empty: perf4sight's own.
    pub worker: Vec<String>,
    /// The machines to measure on over ssh; empty: this machine.
    pub routes: Vec<SshRoute>,
    /// Which GPU runs networks, and how exactly.
    pub gpu: GpuOptions,
    /// Threads of the compute library; none: all hardware threads of the machine.
    pub threads: Option<usize>,
    /// Memory that measurements may take; none: the device's default.
    pub mem_limit: Option<Bytes>,
    /// The kernel's limits on what measurements use of this machine.
    pub limits: ResourceLimits,
    /// Time after which a worker counts as hung.
    pub timeout: Duration,
    /// Seed of weights, data and simulated noise.
    pub seed: u64,
}

/// The GPU settings of a configuration; other devices ignore them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GpuOptions {
    /// As in CUDA, from 0.
    pub index: u32,
    /// The path of the CUDA half of libtorch; none: the worker searches for it.
    pub libtorch_cuda: Option<PathBuf>,
    /// Whether products may be rounded to TF32.
    pub tf32: bool,
    /// Whether cuDNN benchmarks its algorithms and uses the fastest.
    pub cudnn_benchmark: bool,
}

/// Opens the device. `executable` is the path of this program; its own worker is in the same folder. A recorded device
/// holds the rows of the known `networks`.
///
/// # Errors
/// A device that cannot run here or with this build, or whose source cannot be read.
pub fn open(options: &DeviceOptions, executable: &Path, networks: &[&str]) -> Result<Box<dyn Device>> {
    options.check_runnable()?;
    match options.kind {
        DeviceKind::Simulated => Ok(Box::new(SimulatedDevice {
            abilities: options
                .source
                .as_deref()
                .map_or(Ok(SimulatedPerformance::default()), SimulatedPerformance::load)?,
            mem_limit: options.mem_limit,
            seed: options.seed,
        })),
        DeviceKind::Recorded => {
            let source = options.source.as_deref().ok_or_else(|| {
                Error::config("a recorded device needs the profile it answers from")
                    .expected("device_source = the folder that holds latency and memory")
            })?;
            // Published rows have no stage column; they are of training steps.
            Ok(Box::new(RecordedDevice::open(source, networks.iter().copied(), Stage::Training)?))
        }
        DeviceKind::Cpu | DeviceKind::Gpu(..) => {
            hardware(options, executable).map(|device| Box::new(device) as Box<dyn Device>)
        }
    }
}

/// The default time after which a worker counts as hung.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Opens the device on every given machine, or on this one; returns at least one device.
///
/// # Errors
/// As [`open`]; or machines that differ in their settings, because their rows would be mixed.
pub fn open_all(options: &DeviceOptions, executable: &Path, networks: &[&str]) -> Result<Vec<Box<dyn Device>>> {
    let alone = |route: &SshRoute| DeviceOptions { routes: vec![route.clone()], ..options.clone() };
    let each: Vec<DeviceOptions> = match options.routes.as_slice() {
        [] => vec![options.clone()],
        routes => routes.iter().map(alone).collect(),
    };
    let devices: Vec<Box<dyn Device>> =
        each.iter().map(|options| open(options, executable, networks)).collect::<Result<_>>()?;
    let first = devices[0].setting();
    for (device, route) in devices.iter().zip(&options.routes).skip(1) {
        let different = differences(&first, &device.setting());
        if !different.is_empty() {
            let problem = format!("{} is another kind of machine than {}", route.host, options.routes[0].host);
            return Err(Error::device(format!("{problem}: {}", different.join("; ")))
                .help("profile it apart, under another device_name"));
        }
    }
    Ok(devices)
}

impl DeviceOptions {
    /// A device of this kind with default settings.
    pub fn new(kind: DeviceKind) -> Self {
        DeviceOptions {
            kind,
            source: None,
            worker: Vec::new(),
            routes: Vec::new(),
            gpu: GpuOptions::default(),
            threads: None,
            mem_limit: None,
            limits: ResourceLimits::default(),
            timeout: TIMEOUT,
            seed: 0,
        }
    }

    /// The worker's command. If the device is a GPU, perf4sight's own worker also gets the option that makes it look
    /// for GPUs.
    fn for_gpus(&self, mut words: Vec<String>) -> Vec<String> {
        let cuda = match &self.gpu.libtorch_cuda {
            Some(path) => format!("--cuda={}", path.display()),
            None => "--cuda".to_owned(),
        };
        words.extend((self.kind.is_gpu() && is_own(&words)).then_some(cuda));
        words
    }

    /// Refuses a device that no worker here can run networks on.
    ///
    /// # Errors
    /// The reason, and a remedy.
    pub fn check_runnable(&self) -> Result<()> {
        let unneeded = |what: &str, key: &str| {
            Err(Error::config(format!("a {} device runs nothing, so it needs no {what}", self.kind.name()))
                .help(format!("leave {key} out, or set the device that networks run on")))
        };
        match self.kind {
            DeviceKind::Simulated | DeviceKind::Recorded if !self.worker.is_empty() => unneeded("worker", "worker"),
            DeviceKind::Simulated | DeviceKind::Recorded if !self.routes.is_empty() => unneeded("machine", "host"),
            DeviceKind::Cpu | DeviceKind::Gpu(..) if self.worker.is_empty() => self.kind.check_runnable(),
            DeviceKind::Cpu | DeviceKind::Gpu(..) | DeviceKind::Simulated | DeviceKind::Recorded => Ok(()),
        }
    }
}

/// Refuses more threads than the machine runs at the same time: they would wait for one another, and such times are no
/// property of the device.
fn threads(asked: Option<usize>, there_are: usize) -> Result<usize> {
    match asked.unwrap_or(there_are) {
        many if many > there_are => {
            Err(Error::config(format!("threads = {many}, but this machine runs {there_are} at the same time"))
                .expected(format!("a number of threads from 1 to {there_are}"))
                .help("leave threads out to use all of them"))
        }
        threads => Ok(threads),
    }
}

fn hardware(options: &DeviceOptions, executable: &Path) -> Result<Hardware> {
    let (machine, worker) = match options.routes.first() {
        None => here(options, executable)?,
        Some(route) => open_remote(route, options, executable)?,
    };
    worker.check_task(WorkerTask::STEP)?;
    worker.check_place(&options.kind.place(options.gpu.index))?;
    let device = Hardware {
        kind: options.kind,
        gpu: options.gpu.clone(),
        worker,
        threads: threads(options.threads, machine.threads())?,
        machine,
        mem_limit: options.mem_limit,
        timeout: options.timeout,
        seed: options.seed,
        steps: StepRule::default(),
    };
    device.check_alone()?;
    Ok(device)
}

fn here(options: &DeviceOptions, executable: &Path) -> Result<(Arc<dyn Machine>, WorkerProgram)> {
    let words = match options.worker.as_slice() {
        [] => options.for_gpus(own_words(executable)?),
        words => words.to_vec(),
    };
    let machine: Arc<dyn Machine> = match options.limits == ResourceLimits::default() {
        true => Arc::new(LocalMachine),
        false => Arc::new(ConfinedMachine::new(options.limits)?),
    };
    let program = WorkerProgram::query(&*machine, words, options.timeout)?;
    Ok((machine, program))
}

/// A machine over ssh and its worker.
fn open_remote(
    route: &SshRoute,
    options: &DeviceOptions,
    executable: &Path,
) -> Result<(Arc<dyn Machine>, WorkerProgram)> {
    if options.limits != ResourceLimits::default() {
        return Err(Error::config(format!("limits of the kernel are held on this machine, not on {}", route.host))
            .help("leave cpus and kernel_mem_limit out, or start perf4sight there"));
    }
    let machine = RemoteMachine::connect(route)?;
    let (architecture, store) = (machine.architecture(), machine.store());
    let there = Destination { host: machine.host(), architecture: &architecture, store: &store };
    // The command may be perf4sight's own worker, whether it was copied there or was already installed.
    let words = options.for_gpus(machine.deliver(shipping::worker(&options.worker, executable, &there)?)?);
    let worker = WorkerProgram::query(&machine, words, options.timeout)?;
    Ok((Arc::new(machine), worker))
}
