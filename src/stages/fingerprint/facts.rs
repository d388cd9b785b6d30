//! Which facts hold for the device of a profile: named in the configuration, else told by the profile, else by the device's name.

use super::{FingerprintStage, Source, profiles};
use crate::error::{Error, Result};
use crate::records::Setting;
use crate::target::Target;
use std::path::Path;

impl FingerprintStage {
    /// Refuses a device that is unknown or badly described, before hours of measurements.
    pub(super) fn check_target(&self) -> Result<()> {
        self.target.as_deref().map_or(Ok(()), |word| named_or_read(word).map(drop))
    }

    /// The facts of the device that was profiled.
    pub(super) fn target(&self, source: &Source) -> Result<Target> {
        if let Some(named) = &self.target {
            return named_or_read(named);
        }
        let profiles = profiles(source.fit.iter())?;
        let told = profiles.iter().find_map(|profile| told(&profile.setting));
        Target::named(told.unwrap_or(&self.device)).map_err(|_| {
            let known: Vec<&str> = Target::names().collect();
            Error::config(format!("nothing says what kind of device {} is", self.device))
                .expected(format!("target = one of {}, or a file that describes a device", known.join(", ")))
                .help("set target in [fingerprint]; a graphics card with its own memory is cuda")
        })
    }
}

/// A known device, or a file that describes one.
fn named_or_read(word: &str) -> Result<Target> {
    match word.ends_with(".json") || word.contains('/') {
        true => Target::read(Path::new(word)),
        false => Target::named(word),
    }
}

/// The known device whose facts a profile's setting implies: libtorch lays tensors out for the widest vectors a processor has.
fn told(setting: &Setting) -> Option<&'static str> {
    let fact = |name: &str| setting.get(name).map(String::as_str);
    if let Some(known) = fact("target").and_then(|told| Target::names().find(|name| *name == told)) {
        return Some(known);
    }
    match (fact("device")?, fact("instruction_set")) {
        ("cpu", Some("avx512f")) => Some("cpu"),
        ("cpu" | "simulated", _) => Some("cpu_avx2"),
        ("cuda", _) => Some("cuda"),
        _ => None,
    }
}
