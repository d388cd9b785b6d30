//! Reads the output of `nvprof -o`: a table for each kind of CUPTI activity, of one process.

use super::database::{SqliteDatabase, TextTable, Value};
use super::process::{ProcessTraces, SqliteEvent, TrackPlace};
use super::{copy_name, range};
use crate::category::EventCategory;
use perf4sight_base::error::Result;
use std::borrow::Cow;
use std::collections::HashMap;

const KERNELS: [&str; 2] = ["CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "CUPTI_ACTIVITY_KIND_KERNEL"];
const COPIES: [&str; 2] = ["CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMCPY2"];
const SETS: &str = "CUPTI_ACTIVITY_KIND_MEMSET";

/// Runtime calls that are common in training, by their numbers in CUPTI's `cupti_runtime_cbid.h`; other calls are named
/// by number.
const CALLS: [(i64, &str); 32] = [
    (10, "cudaGetLastError"),
    (11, "cudaPeekAtLastError"),
    (13, "cudaLaunch"),
    (16, "cudaSetDevice"),
    (17, "cudaGetDevice"),
    (20, "cudaMalloc"),
    (22, "cudaFree"),
    (25, "cudaMallocHost"),
    (26, "cudaFreeHost"),
    (27, "cudaHostAlloc"),
    (31, "cudaMemcpy"),
    (41, "cudaMemcpyAsync"),
    (49, "cudaMemset"),
    (51, "cudaMemsetAsync"),
    (126, "cudaThreadSynchronize"),
    (129, "cudaStreamCreate"),
    (131, "cudaStreamSynchronize"),
    (132, "cudaStreamQuery"),
    (134, "cudaEventCreateWithFlags"),
    (135, "cudaEventRecord"),
    (136, "cudaEventDestroy"),
    (137, "cudaEventSynchronize"),
    (138, "cudaEventQuery"),
    (147, "cudaStreamWaitEvent"),
    (161, "cudaMemcpyPeerAsync"),
    (165, "cudaDeviceSynchronize"),
    (200, "cudaDeviceGetAttribute"),
    (211, "cudaLaunchKernel"),
    (214, "cudaLaunchKernel"),
    (239, "cudaStreamSynchronize"),
    (269, "cudaLaunchCooperativeKernel"),
    (311, "cudaGraphLaunch"),
];

/// The key of the only process: nvprof files are read as traces of one process.
const PROCESS: i64 = 0;

/// Flags of a marker (`CUpti_ActivityFlag`): an instant, the beginning of a range, and its end.
const MOMENT: i64 = 1;
const BEGINS: i64 = 2;
const ENDS: i64 = 4;

/// Reads an nvprof file; returns whether the file is one.
pub(super) fn read(database: &SqliteDatabase, processes: &mut ProcessTraces) -> Result<bool> {
    if !database.has("StringTable")? {
        return Ok(false);
    }
    let texts = database.texts("StringTable", "_id_")?;
    processes.warn(
        "files of nvprof are read as other programs read them, and none that it wrote has been tried: look whether times are those that nvprof shows"
            .to_owned(),
    );
    calls(database, processes, "CUPTI_ACTIVITY_KIND_RUNTIME", "runtime")?;
    calls(database, processes, "CUPTI_ACTIVITY_KIND_DRIVER", "driver")?;
    markers(database, processes, &texts)?;
    let names = kernels(database, &texts)?;
    let kernel = |name: &Value| name.number().and_then(|id| names.get(&id)).map_or("", String::as_str);
    for table in KERNELS {
        on_device(database, processes, table, "name", (EventCategory::Kernel, &kernel))?;
    }
    for table in COPIES {
        on_device(database, processes, table, "copyKind", (EventCategory::Copy, &|kind| copy_name(kind.number())))?;
    }
    on_device(database, processes, SETS, "value", (EventCategory::Set, &|_| "Memset"))?;
    Ok(true)
}

fn kernels(database: &SqliteDatabase, texts: &TextTable) -> Result<HashMap<i64, String>> {
    let mut names = HashMap::new();
    for table in KERNELS {
        database.rows(table, ["name"], |[name]| {
            if let Some(id) = name.number() {
                names.entry(id).or_insert_with(|| demangled(texts.get(id)).into_owned());
            }
        })?;
    }
    Ok(names)
}

fn demangled(name: &str) -> Cow<'_, str> {
    let symbol = cpp_demangle::Symbol::new(name).ok();
    symbol.and_then(|symbol| symbol.demangle().ok()).map_or(Cow::Borrowed(name), Cow::Owned)
}

fn calls(database: &SqliteDatabase, processes: &mut ProcessTraces, table: &str, of: &str) -> Result<()> {
    let columns = ["start", "end", "processId", "threadId", "correlationId", "cbid"];
    database.rows(table, columns, |[start, end, number, thread, correlation, call]| {
        let call = call.number().unwrap_or(0);
        let known = CALLS.iter().find(|(known, _)| of == "runtime" && *known == call);
        let name = known.map_or_else(|| Cow::Owned(format!("{of} call {call}")), |(_, name)| Cow::Borrowed(*name));
        let times = [start.number(), end.number()];
        let correlation = correlation.number().unwrap_or(0);
        let happening = SqliteEvent { category: EventCategory::Runtime, name: &name, times, correlation };
        processes.add(
            PROCESS,
            number.number().unwrap_or(0),
            TrackPlace::Thread(thread.number().unwrap_or(0)),
            &happening,
        );
    })
}

/// Reads ranges: two rows with the same number, of which the first has the name.
fn markers(database: &SqliteDatabase, processes: &mut ProcessTraces, texts: &TextTable) -> Result<()> {
    let mut open: HashMap<i64, (Option<i64>, i64, [i64; 2])> = HashMap::new();
    let columns = ["flags", "timestamp", "id", "objectId", "name"];
    let mut add = |name: i64, times, [number, thread]: [i64; 2]| {
        let (category, name) = range(texts.get(name));
        processes.add(
            PROCESS,
            number,
            TrackPlace::Thread(thread),
            &SqliteEvent { category, name, times, correlation: 0 },
        );
    };
    database.rows("CUPTI_ACTIVITY_KIND_MARKER", columns, |[flags, time, id, object, name]| {
        let (flags, id) = (flags.number().unwrap_or(0), id.number().unwrap_or(0));
        let name = name.number().unwrap_or(0);
        if flags & BEGINS != 0 {
            open.insert(id, (time.number(), name, thread(&object)));
        } else if flags & ENDS != 0 {
            if let Some((begin, name, thread)) = open.remove(&id) {
                add(name, [begin, time.number()], thread);
            }
        } else if flags & MOMENT != 0 {
            add(name, [time.number(), None], thread(&object));
        }
    })
}

/// The process and the thread of a marker: two little-endian numbers of 32 bits (`CUpti_ActivityObjectKindId`).
fn thread(object: &Value) -> [i64; 2] {
    let Value::Bytes(bytes) = object else { return [0; 2] };
    let number = |at: usize| {
        let number = bytes.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        number.map_or(0, |number| i64::from(u32::from_le_bytes(number)))
    };
    [number(0), number(4)]
}

fn on_device<'t>(
    database: &SqliteDatabase,
    processes: &mut ProcessTraces,
    table: &str,
    named_by: &str,
    (category, name): (EventCategory, &dyn Fn(&Value) -> &'t str),
) -> Result<()> {
    let columns = ["start", "end", "deviceId", "streamId", "correlationId", named_by];
    database.rows(table, columns, |[start, end, device, stream, correlation, by]| {
        let place = TrackPlace::Stream(device.number().unwrap_or(0), stream.number().unwrap_or(0));
        let times = [start.number(), end.number()];
        let correlation = correlation.number().unwrap_or(0);
        processes.add(PROCESS, 0, place, &SqliteEvent { category, name: name(&by), times, correlation });
    })
}
