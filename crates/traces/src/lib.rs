//! Reads traces of training: files of PyTorch's profiler, Nsight Systems or nvprof become compact events with integer
//! nanoseconds.
//!
//! ```no_run
//! let trace = perf4sight_traces::read("trace.json.gz".as_ref())?;
//! let longest = trace.events.iter().max_by_key(|event| event.duration);
//! println!("{:?}", longest.map(|event| trace.names.get(event.name)));
//! # Ok::<(), perf4sight_base::error::Error>(())
//! ```

mod builder;
mod category;
mod collective;
mod cycles;
mod damage;
mod innermost;
mod intern;
pub mod intervals;
mod kineto;
mod loader;
mod nanoseconds;
mod own;
mod precision;
mod rank_list;
mod ranks;
mod raw;
mod room;
mod scan;
pub mod shortened;
mod sqlite;
mod trace;
mod window;

pub use builder::{NewEvent, TraceBuilder};
pub use category::EventCategory;
pub use collective::{CollectiveArguments, names_exchange};
pub use damage::{DamageKind, TraceDamage};
pub use innermost::Innermost;
pub use intern::{NameId, NameTable};
pub use loader::LOADER_WITH_WORKERS;
pub use own::{TIMELINE, is_own, is_own_timeline};
pub use rank_list::rank_list;
pub use ranks::{BREAKDOWN, RECORDING, RankTrace, check, read, read_ranks, read_recordings, recording_of};
pub use trace::{EventPhase, PrecisionCounts, StreamWait, Trace, TraceEvent, TraceHeader, Track, TrackId};
