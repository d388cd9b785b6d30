//! Determines the platform of a profile's device: from the configuration, else from the profile, else from the
//! device's name.

use super::{FingerprintSection, QuantitySource, profiles};
use crate::fingerprint::{LikelierPlatform, MeasuredRow, likelier_platform};
use crate::records::ProfileProvenance;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Percent;
use perf4sight_machine::MachineProperties;
use perf4sight_platform::Platform;
use perf4sight_step::workload::Step;
use perf4sight_verb::Context;

impl FingerprintSection {
    /// Refuses a device that is unknown or has an invalid description, before hours of measurements.
    pub(super) fn check_target(&self) -> Result<()> {
        self.platform.as_deref().map_or(Ok(()), |word| Platform::named_or_read(word).map(drop))
    }

    pub(super) fn platform(&self, source: &QuantitySource) -> Result<PlatformFacts> {
        if let Some(named) = &self.platform {
            return Platform::named_or_read(named).map(|platform| PlatformFacts { platform, assumed: false });
        }
        let profiles = profiles(source.fit.iter())?;
        if let Some(platform) = profiles.iter().find_map(|profile| profiled_platform(&profile.setting)) {
            let platform = Platform::for_name(platform)?.on_threads(threads(&profiles));
            let platform = profiles.iter().fold(platform, |platform, profile| platform.run_by(&profile.setting));
            return Ok(PlatformFacts { platform, assumed: false });
        }
        let platform = Platform::for_name(&self.device).map_err(|_| {
            let known: Vec<&str> = Platform::names().collect();
            Error::config(format!("the kind of device of {} is unknown", self.device))
                .expected(format!("target = one of {}, or a file that describes a device", known.join(", ")))
                .help("set target in [fingerprint]; a graphics card with its own memory is cuda")
        })?;
        Ok(PlatformFacts { platform, assumed: true })
    }
}

/// The platform of the device, and whether it is only assumed.
pub(super) struct PlatformFacts {
    pub platform: Platform,
    /// It is only derived from the device's name.
    pub assumed: bool,
}

impl PlatformFacts {
    /// Reports the assumption, and warns if another device's rules fit the rows clearly better.
    pub(super) fn report_assumption(&self, step: Step, rows: &[MeasuredRow], context: &mut Context) {
        if !self.assumed {
            return;
        }
        let Platform { name, title, .. } = &self.platform;
        let assumed =
            format!("the profile does not name the device that it was measured on: taken for {name} ({title})");
        let Some(LikelierPlatform { platform, error, assumed: off }) = likelier_platform(step, rows, &self.platform)
        else {
            return context.console.note(format!("{assumed}; set target in [fingerprint] if that is wrong"));
        };
        let [error, off] = [error, off].map(Percent);
        context.warn(format!(
            "{assumed}, but by its rules mem_alloc of the rows is off by {off} and by those of {platform} by {error}: set target = {platform} \
             in [fingerprint] if that is what it was"
        ));
    }
}

/// The number of threads that all of these profiles used; 0 if unknown or different.
fn threads(profiles: &[ProfileProvenance]) -> u64 {
    let each = || profiles.iter().map(|profile| profile.setting.get("threads").and_then(|count| count.parse().ok()));
    let first = each().next().flatten().unwrap_or(0);
    if each().all(|count| count == Some(first)) { first } else { 0 }
}

/// The known device that a profile's setting implies: libtorch chooses memory layouts for the widest vectors of the
/// processor.
fn profiled_platform(setting: &MachineProperties) -> Option<&'static str> {
    let fact = |name: &str| setting.get(name).map(String::as_str);
    // Which GPU it was and whether TF32 was allowed are reported next to the device, and determine workspaces.
    let of_gpu = || Platform::of_gpu(fact("gpu").unwrap_or_default(), fact("tf32") == Some("on"));
    if let Some(known) = fact("target").and_then(|target| Platform::names().find(|name| *name == target)) {
        return Some(if known == "cuda" { of_gpu() } else { known });
    }
    match (fact("device")?, fact("instruction_set")) {
        ("cpu", Some("avx512f")) => Some("cpu"),
        ("cpu" | "simulated", _) => Some("cpu_avx2"),
        ("cuda", _) => Some(of_gpu()),
        _ => None,
    }
}
