//! Reads the output of `nsys export --type sqlite`, according to the reference of its tables
//! (<https://docs.nvidia.com/nsight-systems/2021.5/nsys-exporter/exported_data.html>) and the tables of nsys 2022.4
//! (`--lazy=false`, schema 3.0). Newer versions add columns and leave out empty tables.

use super::database::{SqliteDatabase, TextTable, Value};
use super::process::{ProcessTraces, SqliteEvent, TrackPlace};
use super::{copy_name, range, without_version};
use crate::category::EventCategory;
use perf4sight_base::error::Result;
use std::collections::BTreeSet;

const RUNTIME: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";
/// CUDA graphs recorded as a whole; their kernels are then in no table (`--cuda-graph-trace=graph`, the default of
/// newer versions).
const GRAPHS: &str = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
const ON_DEVICE: [(&str, EventCategory); 4] = [
    ("CUPTI_ACTIVITY_KIND_KERNEL", EventCategory::Kernel),
    (GRAPHS, EventCategory::Kernel),
    ("CUPTI_ACTIVITY_KIND_MEMCPY", EventCategory::Copy),
    ("CUPTI_ACTIVITY_KIND_MEMSET", EventCategory::Set),
];
const RANGES: &str = "NVTX_EVENTS";
/// The tables with the export's own version, in newer and in older versions.
const ABOUT: [&str; 2] = ["META_DATA_EXPORT", "EXPORT_META_DATA"];
/// The newest supported schema: that of nsys 2022.4.
const SCHEMA: u32 = 3;
/// Tables that are not read, and their contents.
const PASSED_OVER: [(&str, &str); 6] = [
    ("CUDNN_EVENTS", "calls of cuDNN"),
    ("CUBLAS_EVENTS", "calls of cuBLAS"),
    ("SCHED_EVENTS", "when threads had a processor"),
    ("OSRT_API", "calls of the operating system, in which threads may wait"),
    ("COMPOSITE_EVENTS", "samples of threads"),
    ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "synchronisation of CUDA"),
];
/// Values of `ENUM_NSYS_EVENT_TYPE` for ranges of threads and of processes, of the program itself and of merged ones,
/// and for marks.
const RANGE_TYPES: [i64; 5] = [34, 59, 60, 70, 71];

/// Reads an nsys export; returns whether the file is one.
pub(super) fn read(database: &SqliteDatabase, processes: &mut ProcessTraces) -> Result<bool> {
    if !database.has("StringIds")? {
        return Ok(false);
    }
    let mut export = NsysExport {
        database,
        texts: database.texts("StringIds", "id")?,
        processes,
        callers: BTreeSet::new(),
        whose: Vec::new(),
    };
    export.header()?;
    export.calls(RUNTIME, EventCategory::Runtime)?;
    export.calls("PROFILER_OVERHEAD", EventCategory::Overhead)?;
    export.ranges()?;
    for (table, category) in ON_DEVICE {
        export.on_device(table, category)?;
    }
    export.threads()?;
    export.passed_over()?;
    export.guessed()?;
    Ok(true)
}

/// A file and the data read so far.
struct NsysExport<'a> {
    database: &'a SqliteDatabase,
    texts: TextTable,
    processes: &'a mut ProcessTraces,
    /// Processes that call the runtime.
    callers: BTreeSet<i64>,
    /// Tables with rows that do not identify their process.
    whose: Vec<&'static str>,
}

impl NsysExport<'_> {
    fn header(&mut self) -> Result<()> {
        let mut devices = Vec::new();
        self.database.rows("TARGET_INFO_GPU", ["id", "name"], |[id, name]| {
            if let Value::Text(name) = name {
                devices.push((id.number(), name));
            }
        })?;
        devices.sort();
        let header = self.processes.header();
        header.devices = devices.into_iter().map(|(_, name)| name).collect();
        self.database.rows("TARGET_INFO_SESSION_START_TIME", ["utcEpochNs"], |[base]| {
            header.base = base.number().unwrap_or(0);
        })
    }

    fn calls(&mut self, table: &str, category: EventCategory) -> Result<()> {
        let columns = ["start", "end", "globalTid", "correlationId", "nameId"];
        self.database.rows(table, columns, |[start, end, thread, correlation, name]| {
            let (process, thread) = ids(&thread);
            self.callers.insert(process);
            let (name, correlation) = (without_version(text(&name, &self.texts)), correlation.number().unwrap_or(0));
            let happening = SqliteEvent { category, name, times: [start.number(), end.number()], correlation };
            self.processes.add(process, process, TrackPlace::Thread(thread), &happening);
        })
    }

    /// Reads the script's NVTX ranges, and PyTorch's operators from `emit_nvtx`.
    fn ranges(&mut self) -> Result<()> {
        let columns = ["start", "end", "globalTid", "eventType", "text", "textId"];
        self.database.rows(RANGES, columns, |[start, end, thread, kind, name, name_id]| {
            if kind.number().is_some_and(|kind| !RANGE_TYPES.contains(&kind)) {
                return;
            }
            let name = if name == Value::Nothing { text(&name_id, &self.texts) } else { text(&name, &self.texts) };
            let (category, name) = range(name);
            let (process, thread) = ids(&thread);
            let happening = SqliteEvent { category, name, times: [start.number(), end.number()], correlation: 0 };
            self.processes.add(process, process, TrackPlace::Thread(thread), &happening);
        })
    }

    fn on_device(&mut self, table: &'static str, category: EventCategory) -> Result<()> {
        let columns = [
            "start",
            "end",
            "globalPid",
            "deviceId",
            "streamId",
            "correlationId",
            "demangledName",
            "shortName",
            "copyKind",
            "graphId",
        ];
        // Early versions do not store the process.
        let only = self.callers.first().copied().unwrap_or(0);
        let mut lost = 0u64;
        self.database.rows(
            table,
            columns,
            |[start, end, process, device, stream, correlation, name, short, copy, graph]| {
                let process = process.number().map(|process| process >> BITS & ID);
                lost += u64::from(process.is_none());
                let process = process.unwrap_or(only);
                let graph = graph.number().map(|graph| format!("CUDA graph {graph}"));
                let name = match (category, &name) {
                    (EventCategory::Copy, _) => copy_name(copy.number()),
                    (EventCategory::Set, _) => "Memset",
                    (_, Value::Nothing) => graph.as_deref().unwrap_or_else(|| text(&short, &self.texts)),
                    (_, name) => text(name, &self.texts),
                };
                let place = TrackPlace::Stream(device.number().unwrap_or(0), stream.number().unwrap_or(0));
                let (times, correlation) = ([start.number(), end.number()], correlation.number().unwrap_or(0));
                self.processes.add(process, process, place, &SqliteEvent { category, name, times, correlation });
            },
        )?;
        match lost {
            0 => Ok(()),
            _ if self.callers.len() <= 1 => {
                self.whose.push(table);
                Ok(())
            }
            lost => Err(self
                .database
                .wrong(format!(
                    "does not record to which of {} processes {lost} rows of {table} belong",
                    self.callers.len()
                ))
                .help("export it again with a newer nsys, which writes the column globalPid")),
        }
    }

    /// Warns about tables with times that are not read.
    fn passed_over(&mut self) -> Result<()> {
        let mut unread = Vec::new();
        for (table, holds) in PASSED_OVER {
            if self.database.has_rows(table)? {
                unread.push(format!("{holds} ({table})"));
            }
        }
        if !unread.is_empty() {
            self.processes.warn(format!("not read: {}", unread.join(", ")));
        }
        Ok(())
    }

    /// Warns about an uncertain export: missing columns, an unknown schema, or CUDA graphs recorded only as a whole.
    fn guessed(&mut self) -> Result<()> {
        let calls: &[&str] = &["start", "end", "globalTid", "correlationId", "nameId"];
        let ranges: &[&str] = &["start", "end", "globalTid", "eventType"];
        let on_device: &[&str] = &["start", "end", "deviceId", "streamId", "correlationId"];
        let needed =
            [(RUNTIME, calls), (RANGES, ranges)].into_iter().chain(ON_DEVICE.map(|(table, _)| (table, on_device)));
        let mut lacking = Vec::new();
        for (table, columns) in needed {
            lacking
                .extend(self.database.lacking(table, columns)?.into_iter().map(|column| format!("{table}.{column}")));
        }
        if !lacking.is_empty() {
            self.processes
                .warn(format!("this export has no columns {}: what they hold is unknown", lacking.join(", ")));
        }
        if !self.whose.is_empty() {
            self.processes.warn(format!(
                "rows without globalPid are taken to be of the one process that calls CUDA: in {}",
                self.whose.join(", ")
            ));
        }
        if self.database.has_rows(GRAPHS)? {
            self.processes.warn(
                "graphs of CUDA were recorded as wholes: the GPU counts as busy from the first to the last that is in one (nsys profile --cuda-graph-trace=node records its kernels)".to_owned(),
            );
        }
        for table in ABOUT {
            self.schema(table)?;
        }
        Ok(())
    }

    fn schema(&mut self, table: &str) -> Result<()> {
        let mut found = None;
        self.database.rows(table, ["name", "value"], |row| {
            if let [Value::Text(name), Value::Text(value)] = row
                && name == "EXPORT_SCHEMA_VERSION"
            {
                found = Some(value);
            }
        })?;
        let major = found.as_ref().and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        if let (Some(version), Some(major)) = (found, major)
            && major > SCHEMA
        {
            self.processes.warn(format!(
                "this export's tables are of schema {version}, and those that are known of {SCHEMA} and earlier: compare its times with those that nsys shows"
            ));
        }
        Ok(())
    }

    fn threads(&mut self) -> Result<()> {
        self.database.rows("ThreadNames", ["globalTid", "nameId"], |[thread, name]| {
            let (process, thread) = ids(&thread);
            self.processes.name(process, thread, text(&name, &self.texts));
        })
    }
}

/// The bits of a process and of a thread in a global id of nsys; the process is in the higher bits.
const BITS: u32 = 24;
const ID: i64 = (1 << BITS) - 1;

/// The process and the thread of a global id.
fn ids(global: &Value) -> (i64, i64) {
    let global = global.number().unwrap_or(0);
    (global >> BITS & ID, global & ID)
}

fn text<'a>(value: &'a Value, texts: &'a TextTable) -> &'a str {
    match value {
        Value::Text(text) => text,
        Value::Number(id) => texts.get(*id),
        Value::Nothing | Value::Bytes(_) => "",
    }
}
