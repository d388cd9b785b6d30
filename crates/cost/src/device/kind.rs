//! The values of the key `device`, and which of them can run on this machine.

use perf4sight_base::error::{Error, Result, suggestion};

/// A kind of device: the value of the key `device`. The key `device_name` holds the user's own name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// libtorch on this machine's processor.
    Cpu,
    /// A device whose times and memory are computed.
    Simulated,
    /// A device that answers from a profile.
    Recorded,
    /// A GPU: its name, and the name of the platform whose memory rules it follows.
    Gpu(&'static str, &'static str),
}

const KNOWN: [DeviceKind; 8] = [
    DeviceKind::Cpu,
    DeviceKind::Simulated,
    DeviceKind::Recorded,
    // The platform of tx2 is that of the published rows; workers/torch_worker.py needs a newer PyTorch, which gives
    // other peaks.
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
    /// An unknown name; the message suggests the most similar known one.
    pub fn parse(word: &str) -> Result<Self> {
        KNOWN.into_iter().find(|device| device.name() == word).ok_or_else(|| {
            let names = KNOWN.map(DeviceKind::name);
            Error::config(format!("unknown device \"{word}\""))
                .expected(names.join(", "))
                .help(format!("{}; device_name takes any name", suggestion(word, names)))
        })
    }

    /// The name in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Simulated => "simulated",
            DeviceKind::Recorded => "recorded",
            DeviceKind::Gpu(name, _) => name,
        }
    }

    /// The device on which a worker runs networks, as in [`WorkerRequest::place`](super::protocol::WorkerRequest::place).
    pub fn place(self, gpu: u32) -> String {
        match self {
            DeviceKind::Gpu(..) => format!("cuda:{gpu}"),
            DeviceKind::Cpu | DeviceKind::Simulated | DeviceKind::Recorded => self.name().to_owned(),
        }
    }

    /// The name of the platform of this device; none: the platform of this machine's processor.
    pub fn platform(self) -> Option<&'static str> {
        match self {
            DeviceKind::Gpu(_, platform) => Some(platform),
            DeviceKind::Cpu | DeviceKind::Simulated | DeviceKind::Recorded => None,
        }
    }

    /// Whether it runs networks, so that single operations can be timed; the other devices only give times of whole
    /// steps.
    pub fn runs(self) -> bool {
        match self {
            DeviceKind::Cpu | DeviceKind::Gpu(..) => true,
            DeviceKind::Simulated | DeviceKind::Recorded => false,
        }
    }

    /// Whether CUDA runs its networks.
    pub fn is_gpu(self) -> bool {
        matches!(self, DeviceKind::Gpu(..))
    }

    /// Refuses a device for which perf4sight's own worker does not exist.
    ///
    /// # Errors
    /// The reason, and what is possible instead.
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
