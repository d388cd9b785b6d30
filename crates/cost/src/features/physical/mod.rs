//! The kernels of a step: the products and traffic of each, as functions of the batch size.
//!
//! This structure is the same on every device: which matrix products a convolution is (forward, gradient of the
//! input, gradient of the weights), how many bytes an element-wise operation touches. The fingerprint gives the time
//! that a device takes for them. Every operation gets its kernels; one that this crate does not support counts as
//! element-wise, or as its products if their number is known.
//!
//! ```
//! use perf4sight_cost::features::physical::{KernelPass, kernels};
//! use perf4sight_network::zoo::{Dataset, build};
//! use perf4sight_step::workload::{Stage, Step};
//! let squeezenet = build("squeezenet", Dataset::Imagenet)?;
//! let step = kernels(&squeezenet, Step::published(Stage::Training));
//! let flops = |pass| -> f64 {
//!     let products = step.iter().filter(|kernel| kernel.pass == pass).filter_map(|kernel| kernel.product);
//!     products.map(|product| product.flops(1.0)).sum()
//! };
//! // Two operations per multiply-accumulate; the gradient of the weights takes as many as the forward pass.
//! assert_eq!(flops(KernelPass::Forward), 2.0 * squeezenet.macs() as f64);
//! assert_eq!(flops(KernelPass::WeightGradient), flops(KernelPass::Forward));
//! # Ok::<(), perf4sight_base::error::Error>(())
//! ```

mod casts;
mod convolution;
mod kernel;
mod layer;
mod movement;
mod product;
mod step;
mod unknown;
mod update;

pub use kernel::{AccessPattern, BatchQuantity, FilterGeometry, Kernel, KernelClass, KernelPass, MatrixProduct};
pub use step::{kernels, kernels_once, runs_again};
