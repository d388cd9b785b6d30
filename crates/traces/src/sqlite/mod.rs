//! Traces in SQLite files of Nsight Systems and nvprof, with the same events as other traces; one per process.

mod database;
mod nsys;
mod nvprof;
mod process;

use crate::category::EventCategory;
use crate::trace::Trace;
use database::SqliteDatabase;
use perf4sight_base::error::Result;
use process::ProcessTraces;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The first bytes of every SQLite file (<https://www.sqlite.org/fileformat.html>, 1.3).
const BEGINNING: &[u8; 16] = b"SQLite format 3\0";

/// Whether a file is a SQLite file; false if it cannot be read.
pub(crate) fn is_sqlite(file: &Path) -> bool {
    let mut beginning = [0; BEGINNING.len()];
    let read = file.is_file().then(|| File::open(file).and_then(|mut file| file.read_exact(&mut beginning)));
    matches!(read, Some(Ok(()))) && &beginning == BEGINNING
}

/// Reads the traces of such a file: one for each process that used an accelerator, or if none did, for each process
/// with events.
///
/// # Errors
/// A file that is damaged, or that has no trace.
pub(crate) fn read(file: &Path) -> Result<Vec<Trace>> {
    let database = SqliteDatabase::open(file)?;
    let mut processes = ProcessTraces::new(file);
    let known = nsys::read(&database, &mut processes)? || nvprof::read(&database, &mut processes)?;
    match processes.finish() {
        traces if known && !traces.is_empty() => Ok(traces),
        _ => Err(database.wrong("is not a trace: it has no events of CUDA and no ranges").expected(
            "what nsys export --type sqlite or nvprof -o writes, with tables such as CUPTI_ACTIVITY_KIND_KERNEL or NVTX_EVENTS",
        )),
    }
}

/// The name of a copy in PyTorch's profiler, by its number in `CUpti_ActivityMemcpyKind`.
fn copy_name(kind: Option<i64>) -> &'static str {
    match kind {
        Some(1) => "Memcpy HtoD",
        Some(2) => "Memcpy DtoH",
        Some(8) => "Memcpy DtoD",
        Some(9) => "Memcpy HtoH",
        Some(10) => "Memcpy PtoP",
        _ => "Memcpy",
    }
}

/// `cudaLaunchKernel` of `cudaLaunchKernel_v7000`.
fn without_version(name: &str) -> &str {
    let version =
        |(name, version): &(&str, &str)| !name.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    let name = name.rsplit_once("_v").filter(version).map_or(name, |(name, _)| name);
    name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name)
}

/// The category and name of a range: PyTorch's `emit_nvtx` makes ranges of its operators, with arguments after the
/// name.
fn range(name: &str) -> (EventCategory, &str) {
    let fields = [", seq = ", ", op_id = ", ", sizes = "].iter().filter_map(|part| name.find(part)).min();
    match fields {
        Some(end) => (EventCategory::Operator, &name[..end]),
        None if name.starts_with("aten::") => (EventCategory::Operator, name),
        None => (EventCategory::Annotation, name),
    }
}
