//! Rows of `profiling_csvs/`: variant names, records, reading and appending, and the provenance file next to the rows.
//!
//! The dialect is the published one: `|` between cells, the header first, `True`/`False`, and `None` or `-1` for
//! values that a failed measurement lacks. Cells are found by column name.

mod agreement;
mod append;
mod attempts;
mod cells;
mod columns;
mod contents;
mod dialect;
mod layer;
pub mod layers;
mod log;
mod provenance;
mod record;
mod variant;

pub use agreement::{TimeAgreement, agreement};
pub use append::{RowAppender, ensure_writable};
pub use attempts::{CONDITIONS_FILE, WorkerRun, absent, check_conditions, merge_attempts};
pub use dialect::check_cell;
pub use log::{DuplicateRows, RowLog, any_rows, files, list, log_file, read, row_file};
pub use provenance::{ErrorEstimate, NetworkSize, PROVENANCE_FILE, ProfileProvenance, ProfileRun, Repeatability};
pub use record::{MeasurementIdentity, MeasurementOutcome, MemoryColumns, RowReading, RowRecord};
pub use variant::{Variant, check_network_name};
