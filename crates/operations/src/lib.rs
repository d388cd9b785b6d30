//! What single operations take on GPUs: rows from traces of several GPUs, and a model of each class of operations, physical
//! as far as FLOPs, bytes and launches explain the times, with trees for the rest.
//!
//! ```no_run
//! use perf4sight_operations::{OperationModel, read_folder};
//!
//! let read = read_folder("traces-by-gpu".as_ref())?;
//! let model = OperationModel::fit(read.rows)?;
//! let ratio = model.device("H100")?;
//! let measured: Vec<_> = model.measured().collect();
//! println!("{ratio:?}, measured: {measured:?}");
//! # Ok::<(), perf4sight_base::error::Error>(())
//! ```
#![warn(missing_docs)]

mod class;
mod element;
mod file;
mod gpus;
pub mod minimize;
mod model;
mod read;
mod row;
mod work;

pub use class::{OperationClass, class_of};
pub use element::ElementType;
pub use file::{FORMAT, load, save};
pub use gpus::{DataSheet, sheet, sheets};
pub use model::{
    FitProgress, KnownGpu, LeftOutGroup, LeftOutGroups, OperationModel, PredictedOperation, TimeEstimate, TimeScaling,
};
pub use read::{MeasuredOperations, files_read, read_folder, read_table};
pub use row::{OperationRow, rows_to_csv};
pub use work::{OperationWork, TensorShape, work};
