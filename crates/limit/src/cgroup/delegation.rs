//! What groups of version 2 need before there can be limits below them: controllers that are passed on, which the kernel does for no
//! group that holds processes itself.

use super::group::{new_name, remove};
use super::hierarchy::words;
use nix::errno::Errno;
use std::fs;
use std::path::{Path, PathBuf};

/// A group below our own that we went into, to pass controllers on; we go back when it is dropped.
#[derive(Debug)]
pub(super) struct SteppedDown {
    own: PathBuf,
    below: PathBuf,
}

/// Passes a controller on to groups below our own. Where we are in the way, and only we, we step down.
pub(super) fn pass_on(own: &Path, controller: &str, down: &mut Option<SteppedDown>) -> Result<(), String> {
    let switch = own.join("cgroup.subtree_control");
    if words(&switch).iter().any(|name| name == controller) {
        return Ok(());
    }
    let pass = || fs::write(&switch, format!("+{controller}"));
    let refused = |cause: &std::io::Error| {
        format!("the controller `{controller}` cannot be passed on from {}: {cause}", own.display())
    };
    match pass() {
        Err(cause) if cause.raw_os_error() == Some(Errno::EBUSY as i32) && down.is_none() => {
            *down = Some(SteppedDown::from(own)?);
            pass().map_err(|cause| refused(&cause))
        }
        result => result.map_err(|cause| refused(&cause)),
    }
}

impl SteppedDown {
    fn from(own: &Path) -> Result<Self, String> {
        let others =
            words(&own.join("cgroup.procs")).into_iter().filter(|process| *process != std::process::id().to_string());
        let others: Vec<String> = others.take(3).collect();
        if !others.is_empty() {
            return Err(format!(
                "our group {} holds other processes too ({}): start perf4sight in a group of its own, with `systemd-run --user --scope --property=Delegate=yes`",
                own.display(),
                others.join(", ")
            ));
        }
        let below = own.join(new_name());
        let moved = fs::create_dir(&below).and_then(|()| fs::write(below.join("cgroup.procs"), "0"));
        moved.map_err(|cause| format!("we cannot step down from {}: {cause}", own.display()))?;
        Ok(SteppedDown { own: own.to_owned(), below })
    }
}

impl Drop for SteppedDown {
    fn drop(&mut self) {
        let switch = self.own.join("cgroup.subtree_control");
        let back: String = words(&switch).iter().map(|controller| format!("-{controller} ")).collect();
        // Where it does not work, an empty group stays, which the next run takes away.
        let moved = fs::write(&switch, back.trim()).and_then(|()| fs::write(self.own.join("cgroup.procs"), "0"));
        if moved.is_ok() {
            let _ = remove(&self.below);
        }
    }
}
