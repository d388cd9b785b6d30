//! The properties that a machine reports when the connection is opened.

use crate::MachineProperties;
use crate::description::MachineDescription;
use perf4sight_base::error::{Error, Result};
use std::fs;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostInfo {
    /// Its architecture as printed by `uname -m`.
    pub architecture: String,
    /// The folder there that stores uploaded files.
    pub store: String,
    /// Threads that run at the same time.
    pub threads: usize,
    /// Required tools that are missing there.
    pub absent: String,
    /// Properties that affect measurements there.
    pub facts: MachineProperties,
    /// Its files, copied here; a later answer replaces them.
    pub description: MachineDescription,
}

impl HostInfo {
    /// Parses the output of `host_info.sh`; copies of the machine's files are stored in `folder` and replace earlier
    /// ones.
    ///
    /// # Errors
    /// A truncated answer, a folder that cannot be written.
    pub fn read(answer: &str, folder: &Path) -> Result<Self> {
        let cut = || Error::device("the description of the machine cannot be read");
        let parts = parts(answer).ok_or_else(cut)?;
        let part = |name: &str| parts.iter().find(|(known, _)| *known == name).map(|(_, text)| text.trim().to_owned());
        let root = folder.join("root");
        copy(&parts, &root).map_err(|cause| Error::io(&root, "store the description of the machine", &cause))?;
        let architecture = part("architecture").ok_or_else(cut)?;
        let description = MachineDescription::copied(&root, &architecture);
        Ok(HostInfo {
            store: part("store").ok_or_else(cut)?,
            threads: part("threads").and_then(|threads| threads.parse().ok()).unwrap_or(1),
            absent: part("absent").unwrap_or_default(),
            facts: description.facts(),
            description,
            architecture,
        })
    }
}

/// Names and texts, up to the one named end.
fn parts(answer: &str) -> Option<Vec<(&str, &str)>> {
    let (mut parts, mut rest) = (Vec::new(), answer);
    loop {
        let (head, behind) = rest.split_once('\n')?;
        let (name, size) = head.rsplit_once(' ')?;
        let size = size.parse().ok()?;
        if name == "end" {
            return Some(parts);
        }
        parts.push((name, behind.get(..size)?));
        rest = behind.get(size..)?.strip_prefix('\n')?;
    }
}

fn copy(parts: &[(&str, &str)], root: &Path) -> std::io::Result<()> {
    if root.exists() {
        fs::remove_dir_all(root)?;
    }
    for (name, text) in parts {
        let Some(name) = name.strip_prefix('/').filter(|name| !name.contains("..")) else { continue };
        let file = root.join(name);
        fs::create_dir_all(file.parent().unwrap_or(root))?;
        fs::write(file, format!("{text}\n"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn a_tx2_is_described_by_copies_of_its_files() {
        let meminfo = "MemTotal:        8047644 kB\nMemFree:         1000000 kB\nMemAvailable:    5000000 kB";
        let model = "quill";
        let mode = "pmode:0000";
        let answer = format!(
            "architecture 7\naarch64\nstore 30\n/home/nvidia/.cache/perf4sight\nthreads 1\n6\nabsent 6\nflock \n\
             /proc/meminfo {}\n{meminfo}\n/proc/device-tree/model {}\n{model}\n/var/lib/nvpmodel/status {}\n{mode}\nend 0\n\n",
            meminfo.len(),
            model.len(),
            mode.len()
        );
        let folder = TempDir::new().unwrap();
        let info = HostInfo::read(&answer, folder.path()).unwrap();
        assert_eq!((info.threads, info.absent.as_str()), (6, "flock"));
        let facts = info.description.facts();
        let known = ["processor", "instruction_set", "memory", "power_mode"].map(|name| facts[name].as_str());
        // 8047644 / 1024 = 7859.03: the published TX2's capacity.
        assert_eq!(known, ["quill", "aarch64", "7859 MiB", "0"]);
        let cut = &answer[..answer.len() / 2];
        assert!(HostInfo::read(cut, folder.path()).is_err());
    }
}
