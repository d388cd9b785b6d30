//! Buckets of PyTorch's `DistributedDataParallel`: which gradients are reduced together, and a step with other buckets.

mod rebucket;
mod rule;

pub use rebucket::{Bucket, buckets_behind_gradients, buckets_of_groups, gradient_sizes, with_buckets, with_limits};
pub use rule::{BucketLimits, assign, assign_passes};
