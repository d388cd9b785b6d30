//! What the key `device` may say, and which of it can run here.

use perf4sight_base::error::{Error, Result, suggestion};

/// A kind of device: the key `device`, where `device_name` is what its owner calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// libtorch on this machine's processor.
    Cpu,
    /// A computed device.
    Simulated,
    /// A device that answers from a profile.
    Recorded,
    /// A GPU: its name, and whose facts its memory follows.
    Gpu(&'static str, &'static str),
}

/// Every known device.
const KNOWN: [DeviceKind; 8] = [
    DeviceKind::Cpu,
    DeviceKind::Simulated,
    DeviceKind::Recorded,
    // The facts called tx2 are those of the published rows; workers/torch_worker.py needs a newer PyTorch and reads other peaks.
    DeviceKind::Gpu("tx2", "jetson"),
    DeviceKind::Gpu("jetson", "jetson"),
    DeviceKind::Gpu("orin", "orin"),
    DeviceKind::Gpu("2080ti", "cuda"),
    DeviceKind::Gpu("cuda", "cuda"),
];

impl DeviceKind {
    /// The device of that name.
    ///
    /// # Errors
    /// An unknown name, with the nearest known one.
    pub fn parse(word: &str) -> Result<Self> {
        KNOWN.into_iter().find(|device| device.name() == word).ok_or_else(|| {
            let names = KNOWN.map(DeviceKind::name);
            Error::config(format!("unknown device \"{word}\""))
                .expected(names.join(", "))
                .help(format!("{}; device_name takes any name", suggestion(word, names)))
        })
    }

    /// The word in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Simulated => "simulated",
            DeviceKind::Recorded => "recorded",
            DeviceKind::Gpu(name, _) => name,
        }
    }

    /// What a worker runs networks on, as [`Request::place`](super::protocol::Request::place) names it.
    pub fn place(self, gpu: u32) -> String {
        match self {
            DeviceKind::Gpu(..) => format!("cuda:{gpu}"),
            DeviceKind::Cpu | DeviceKind::Simulated | DeviceKind::Recorded => self.name().to_owned(),
        }
    }

    /// The name of the facts that hold for it; none: the processor's this program runs on.
    pub fn platform(self) -> Option<&'static str> {
        match self {
            DeviceKind::Gpu(_, platform) => Some(platform),
            DeviceKind::Cpu | DeviceKind::Simulated | DeviceKind::Recorded => None,
        }
    }

    /// Whether it runs networks, so that operations can be timed one by one; the others know whole steps.
    pub fn runs(self) -> bool {
        match self {
            DeviceKind::Cpu | DeviceKind::Gpu(..) => true,
            DeviceKind::Simulated | DeviceKind::Recorded => false,
        }
    }

    /// Whether it is a GPU.
    pub fn is_gpu(self) -> bool {
        matches!(self, DeviceKind::Gpu(..))
    }

    /// Refuses a device that perf4sight's own worker cannot run networks on, whatever is installed.
    ///
    /// # Errors
    /// Why it cannot, and what can be done with it all the same.
    pub fn check_runnable(self) -> Result<()> {
        let name = self.name();
        if !matches!(self, DeviceKind::Gpu("tx2", _)) {
            return Ok(());
        }
        let why = "there is no PyTorch newer than 1.10 for it, and its own worker is newer";
        Err(Error::device(format!("{name} cannot be profiled by this program alone: {why}"))
        .expected("worker = a program that runs networks on it, or device = cpu, simulated or recorded")
        .help(format!(
            "on the device set worker = python3 workers/torch_worker.py; elsewhere set run_profiling = False (create_config and \
             fingerprints of {name} profiles work)"
        )))
    }
}
