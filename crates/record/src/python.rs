//! What Python loads before a user's script: inside the program, and in a folder for as long as a command runs.

use perf4sight_base::atomic_write;
use perf4sight_base::error::Result;
use perf4sight_base::temporary_folder::TemporaryFolder;
use std::path::{Path, PathBuf};

/// Its files. What lies in `last` is found where no such module is installed: the package perf4sight holds its `Profiler` too.
const FILES: [(&str, &str); 15] = [
    ("sitecustomize.py", include_str!("../recorder/sitecustomize.py")),
    ("last/perf4sight.py", include_str!("../recorder/perf4sight.py")),
    ("perf4sight_recorder/__init__.py", include_str!("../recorder/perf4sight_recorder/__init__.py")),
    ("perf4sight_recorder/account.py", include_str!("../recorder/perf4sight_recorder/account.py")),
    ("perf4sight_recorder/calls.py", include_str!("../recorder/perf4sight_recorder/calls.py")),
    ("perf4sight_recorder/hooks.py", include_str!("../recorder/perf4sight_recorder/hooks.py")),
    ("perf4sight_recorder/late.py", include_str!("../recorder/perf4sight_recorder/late.py")),
    ("perf4sight_recorder/marks.py", include_str!("../recorder/perf4sight_recorder/marks.py")),
    ("perf4sight_recorder/operators.py", include_str!("../recorder/perf4sight_recorder/operators.py")),
    ("perf4sight_recorder/pace.py", include_str!("../recorder/perf4sight_recorder/pace.py")),
    ("perf4sight_recorder/profiler.py", include_str!("../recorder/perf4sight_recorder/profiler.py")),
    ("perf4sight_recorder/ranges.py", include_str!("../recorder/perf4sight_recorder/ranges.py")),
    ("perf4sight_recorder/recorder.py", include_str!("../recorder/perf4sight_recorder/recorder.py")),
    ("perf4sight_recorder/recording.py", include_str!("../recorder/perf4sight_recorder/recording.py")),
    ("perf4sight_recorder/trace.py", include_str!("../recorder/perf4sight_recorder/trace.py")),
];

/// Bytes that are kept for the last words of processes where the disk gets full (`ROOM` in `account.py`).
const ROOM: usize = 64 << 10;

/// Its files, and what processes tell while they run; all of it goes when this is dropped.
pub struct Python {
    folder: TemporaryFolder,
}

impl Python {
    /// Writes the files into a new folder in `parent`.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(parent: &Path) -> Result<Self> {
        let folder = TemporaryFolder::new(parent)?;
        for (name, text) in FILES {
            atomic_write::save(&folder.path().join("python").join(name), text)?;
        }
        atomic_write::save(&folder.path().join("told").join("room"), " ".repeat(ROOM))?;
        Ok(Python { folder })
    }

    /// What Python looks for modules in.
    pub fn modules(&self) -> PathBuf {
        self.folder.path().join("python")
    }

    /// Where processes tell of their recordings.
    pub fn told(&self) -> PathBuf {
        self.folder.path().join("told")
    }
}
