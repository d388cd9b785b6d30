//! The devices that may be named in a configuration, and which of them can run here.

use crate::error::{Error, Result, suggestion};

/// A device by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceName {
    /// libtorch on this machine's processor.
    Cpu,
    /// A computed device.
    Simulated,
    /// A device that answers from a profile.
    Recorded,
    /// A device that is known but cannot be run from here; its name, and why.
    Remote(&'static str, &'static str),
}

/// Every known device.
const KNOWN: [DeviceName; 7] = [
    DeviceName::Cpu,
    DeviceName::Simulated,
    DeviceName::Recorded,
    DeviceName::Remote("tx2", "a Jetson TX2 stops at PyTorch 1.10, which this program's libtorch cannot link against"),
    DeviceName::Remote("2080ti", "measuring on CUDA is not built yet"),
    DeviceName::Remote("cuda", "measuring on CUDA is not built yet"),
    DeviceName::Remote("jetson", "measuring on Jetson boards is not built yet"),
];

impl DeviceName {
    /// The device of that name.
    ///
    /// # Errors
    /// An unknown name, with the nearest known one.
    pub fn parse(word: &str) -> Result<Self> {
        KNOWN.into_iter().find(|device| device.name() == word).ok_or_else(|| {
            let names = KNOWN.map(DeviceName::name);
            Error::config(format!("unknown device \"{word}\""))
                .expected(names.join(", "))
                .help(format!("{}; device_name takes any name", suggestion(word, names)))
        })
    }

    /// The word in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            DeviceName::Cpu => "cpu",
            DeviceName::Simulated => "simulated",
            DeviceName::Recorded => "recorded",
            DeviceName::Remote(name, _) => name,
        }
    }

    /// Refuses a device that cannot run here.
    ///
    /// # Errors
    /// Why it cannot, and what can be done with it all the same.
    pub fn check_runnable(self) -> Result<()> {
        let DeviceName::Remote(name, why) = self else { return Ok(()) };
        Err(Error::device(format!("{name} cannot be profiled from here: {why}"))
            .expected("device = cpu, simulated or recorded for run_profiling = True")
            .help(format!(
                "set run_profiling = False (create_config and fingerprints of {name} profiles work), or profile with device = cpu"
            )))
    }
}
