//! What holds limits here, found by trying: each means in its order, with the reason why it does not work.

use super::delegation::{SteppedDown, pass_on};
use super::device::Disc;
use super::group::{Groups, new_name};
use super::hierarchy::{Hierarchy, Version, controller};
use super::limiter::Surroundings;
use super::survey::{Held, Refused};
use super::wrapped::{Manager, scope};
use super::{Axis, Means};
use perf4sight_base::units::Bytes;
use perf4sight_machine::Limits;
use perf4sight_machine::Watch;
use perf4sight_machine::process;
use perf4sight_machine::process::{Call, End};
use std::process::Command;
use std::time::Duration;

/// How long a try may take: a bus that does not answer is none.
const PATIENCE: Duration = Duration::from_secs(10);
/// Limits that are tried: nobody is held back by them.
const TRIED: Limits = Limits { cpus: Some(1.0), memory: Some(Bytes(1 << 30)), storage: Some(Bytes(1 << 40)) };

/// What is tried, and what was found.
pub(super) struct Attempts<'a> {
    pub around: &'a Surroundings<'a>,
    pub watch: &'a Watch<'a>,
    pub hierarchies: &'a [Hierarchy],
    /// The disc of the data, or why there is none.
    pub disc: Result<Disc, String>,
    pub down: Option<SteppedDown>,
    /// The controllers that each systemd gives to a scope, or why it makes none; asked once.
    scopes: [Option<Result<Vec<String>, String>>; 2],
    docker: Option<Result<(), String>>,
}

impl<'a> Attempts<'a> {
    pub fn new(
        around: &'a Surroundings<'a>,
        watch: &'a Watch<'a>,
        hierarchies: &'a [Hierarchy],
        disc: Result<Disc, String>,
    ) -> Self {
        Attempts { around, watch, hierarchies, disc, down: None, scopes: [None, None], docker: None }
    }

    /// How an axis can be limited: by the first means that works.
    pub fn axis(&mut self, axis: Axis) -> Held {
        let mut held = Held { axis, by: None, remark: None, refused: Vec::new() };
        if axis == Axis::Storage {
            match &self.disc {
                Ok(disc) => held.remark = Some(format!("of {}", disc.path().display())),
                Err(reason) => {
                    held.remark = Some(reason.clone());
                    return held;
                }
            }
        }
        for means in means(axis, self.around.image.is_some()) {
            match self.attempt(axis, *means) {
                Ok(()) => {
                    held.by = Some(*means);
                    break;
                }
                Err(reason) => held.refused.push(Refused { means: *means, reason }),
            }
        }
        held
    }

    fn attempt(&mut self, axis: Axis, means: Means) -> Result<(), String> {
        match means {
            Means::Docker => self.docker.get_or_insert_with(|| docker(self.watch)).clone(),
            Means::CgroupV2 => self.group(axis, Version::Two),
            Means::CgroupV1 => self.group(axis, Version::One),
            Means::SystemdUser => self.scope(axis, Manager::User),
            Means::SystemdSystem => self.scope(axis, Manager::System),
            Means::DutyCycle => Ok(()),
            Means::Residency if self.around.data.is_some() => Ok(()),
            Means::Residency => Err("it is not known which data is read: give its folder".to_owned()),
        }
    }

    /// Makes a group, limits it and has a process join it.
    fn group(&mut self, axis: Axis, version: Version) -> Result<(), String> {
        let wanted = controller(axis, version);
        let mut of_version = self.hierarchies.iter().filter(|hierarchy| hierarchy.version == version).peekable();
        of_version.peek().ok_or_else(|| "none are mounted here".to_owned())?;
        let missing = || format!("our group has no controller `{wanted}`");
        let hierarchy = of_version.find(|hierarchy| hierarchy.has(wanted)).ok_or_else(missing)?;
        if version == Version::Two {
            pass_on(&hierarchy.own, wanted, &mut self.down)?;
        }
        let numbers = self.disc.as_ref().ok().map(|disc| disc.numbers);
        let groups = Groups::in_one(hierarchy).map_err(|cause| cause.to_string())?;
        groups.limit(&only(axis), numbers).map_err(|cause| cause.to_string())?;
        let joined = groups.prefix().into_iter().chain(["true".to_owned()]).collect::<Vec<String>>();
        said(&joined, self.watch).map(drop)
    }

    /// Asks a systemd for a scope with a limit, and looks whether it got the controller for it.
    fn scope(&mut self, axis: Axis, manager: Manager) -> Result<(), String> {
        let which = match manager {
            Manager::User => 0,
            Manager::System => 1,
        };
        let watch = self.watch;
        let controllers = self.scopes[which].get_or_insert_with(|| scope_controllers(manager, watch)).as_ref();
        let wanted = controller(axis, Version::Two);
        match controllers {
            Ok(controllers) if controllers.iter().any(|name| name == wanted) => Ok(()),
            Ok(_) => Err(format!("its scopes are not given the controller `{wanted}`")),
            Err(reason) => Err(reason.clone()),
        }
    }
}

/// What may hold an axis, in the order of what works best.
fn means(axis: Axis, in_container: bool) -> &'static [Means] {
    use Means::{CgroupV1, CgroupV2, Docker, DutyCycle, Residency, SystemdSystem, SystemdUser};
    match axis {
        _ if in_container => &[Docker],
        Axis::Cpus => &[CgroupV2, CgroupV1, SystemdUser, SystemdSystem, DutyCycle],
        Axis::Memory => &[CgroupV2, CgroupV1, SystemdUser, SystemdSystem, Residency],
        Axis::Storage => &[CgroupV2, CgroupV1, SystemdUser, SystemdSystem],
    }
}

/// A limit that can be tried on one axis alone.
fn only(axis: Axis) -> Limits {
    let (cpus, memory, storage) = (TRIED.cpus, TRIED.memory, TRIED.storage);
    match axis {
        Axis::Cpus => Limits { cpus, ..Limits::default() },
        Axis::Memory => Limits { memory, ..Limits::default() },
        Axis::Storage => Limits { storage, ..Limits::default() },
    }
}

fn scope_controllers(manager: Manager, watch: &Watch<'_>) -> Result<Vec<String>, String> {
    let limits = Limits { storage: None, ..TRIED };
    let own = r#"cat "/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/cgroup.controllers""#;
    let shell = ["/bin/sh", "-c", own].map(str::to_owned);
    let words: Vec<String> = scope(manager, &new_name(), &limits, None).into_iter().chain(shell).collect();
    Ok(said(&words, watch)?.split_whitespace().map(str::to_owned).collect())
}

fn docker(watch: &Watch<'_>) -> Result<(), String> {
    let words = ["docker", "version", "--format", "{{.Server.Version}}"].map(str::to_owned);
    said(&words, watch).map(drop)
}

/// What a command says when it works; when it does not, its complaint.
pub(super) fn said(words: &[String], watch: &Watch<'_>) -> Result<String, String> {
    let mut command = Command::new(&words[0]);
    let output = process::run(command.args(&words[1..]), Call::line("", PATIENCE), watch);
    let output = output.map_err(|cause| format!("{} cannot be started: {cause}", words[0]))?;
    let output = output.ok_or_else(|| "it was cancelled".to_owned())?;
    let complaint = || {
        let lines: Vec<&str> = output.stderr.lines().filter(|line| !line.trim().is_empty()).collect();
        lines.join("; ")
    };
    match output.end {
        End::Exited(status) if status.success() => Ok(output.stdout),
        End::Exited(status) if output.stderr.trim().is_empty() => Err(format!("{} ended with {status}", words[0])),
        End::Exited(_) => Err(complaint()),
        End::TimedOut | End::Lost(_) => Err(format!("{} did not answer within {} s", words[0], PATIENCE.as_secs())),
    }
}
