//! Delegates controllers to groups below our own, which version 2 requires for limits. The kernel does not allow that
//! for a group that has processes itself.

use super::group::{new_name, remove};
use super::hierarchy::file_words;
use nix::errno::Errno;
use std::fs;
use std::path::{Path, PathBuf};

/// A group below our own that this process moved into, to delegate controllers; it moves back on drop.
#[derive(Debug)]
pub(super) struct DelegatedGroup {
    own: PathBuf,
    below: PathBuf,
}

/// Delegates a controller to groups below our own. If this process is the only one in the group, it moves down first.
pub(super) fn pass_on(own: &Path, controller: &str, down: &mut Option<DelegatedGroup>) -> Result<(), String> {
    let switch = own.join("cgroup.subtree_control");
    if file_words(&switch).iter().any(|name| name == controller) {
        return Ok(());
    }
    let pass = || fs::write(&switch, format!("+{controller}"));
    let refused = |cause: &std::io::Error| {
        format!("the controller `{controller}` cannot be passed on from {}: {cause}", own.display())
    };
    match pass() {
        Err(cause) if cause.raw_os_error() == Some(Errno::EBUSY as i32) && down.is_none() => {
            *down = Some(DelegatedGroup::from(own)?);
            pass().map_err(|cause| refused(&cause))
        }
        result => result.map_err(|cause| refused(&cause)),
    }
}

impl DelegatedGroup {
    fn from(own: &Path) -> Result<Self, String> {
        let others = file_words(&own.join("cgroup.procs"))
            .into_iter()
            .filter(|process| *process != std::process::id().to_string());
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
        Ok(DelegatedGroup { own: own.to_owned(), below })
    }
}

impl Drop for DelegatedGroup {
    fn drop(&mut self) {
        let switch = self.own.join("cgroup.subtree_control");
        let back: String = file_words(&switch).iter().map(|controller| format!("-{controller} ")).collect();
        // If that fails, an empty group remains, and the next run removes it.
        let moved = fs::write(&switch, back.trim()).and_then(|()| fs::write(self.own.join("cgroup.procs"), "0"));
        if moved.is_ok() {
            let _ = remove(&self.below);
        }
    }
}
