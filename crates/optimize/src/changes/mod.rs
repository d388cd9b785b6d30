//! Edits of a step that a strategy makes, beyond those that can be written as a what-if of `replay`.

mod autocast;
mod buckets;
mod fused_groups;
mod fused_update;
mod half_gradients;
mod left_out;
mod no_sync;
mod prefetch;
mod recompute;

pub use autocast::{AutocastLists, HalfPrecision};
pub use buckets::GradientBuckets;
pub use fused_groups::{FusedGroup, FusedGroups};
pub use fused_update::FusedUpdate;
pub use half_gradients::{HalfGradients, has_kernels};
pub use no_sync::{NoSync, NoSyncUntilLast, alike_passes};
pub use prefetch::{KeepGathered, Prefetch};
pub use recompute::{Recompute, recomputes};
