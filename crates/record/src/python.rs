//! The Python modules loaded before a user's script: embedded here, and written to a folder while a command runs.

use perf4sight_base::atomic_write;
use perf4sight_base::error::Result;
use perf4sight_base::temporary_folder::TemporaryFolder;
use std::path::{Path, PathBuf};

/// The files of the recorder. Modules in `last` are found only if no such module is installed: the package perf4sight
/// contains its `Profiler`, too.
const FILES: [(&str, &str); 16] = [
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
    ("perf4sight_recorder/rivals.py", include_str!("../recorder/perf4sight_recorder/rivals.py")),
    ("perf4sight_recorder/trace.py", include_str!("../recorder/perf4sight_recorder/trace.py")),
];

/// Bytes reserved for the last reports of processes when the disk gets full (`ROOM` in `account.py`).
const ROOM: usize = 64 << 10;

/// The recorder's files and the reports of the processes; the folder is removed on drop.
pub struct RecorderFolder {
    folder: TemporaryFolder,
}

impl RecorderFolder {
    /// Writes the files into a new folder in `parent`.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(parent: &Path) -> Result<Self> {
        let folder = TemporaryFolder::new(parent)?;
        for (name, text) in FILES {
            atomic_write::save(&folder.path().join("python").join(name), text)?;
        }
        atomic_write::save(&folder.path().join("reports").join("room"), " ".repeat(ROOM))?;
        Ok(RecorderFolder { folder })
    }

    /// The folder for `PYTHONPATH`.
    pub fn modules(&self) -> PathBuf {
        self.folder.path().join("python")
    }

    /// The folder that processes write their reports to.
    pub fn reports(&self) -> PathBuf {
        self.folder.path().join("reports")
    }
}
