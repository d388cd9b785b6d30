//! A step as the kernels it runs: what each multiplies and moves, as functions of the batch size.
//!
//! This is the structure that every device shares: which matrix products a convolution is (forward, gradient of the input,
//! gradient of the weights), how many bytes an element-wise operation touches. How long a device takes for them is the
//! fingerprint's. Every operation gets its kernels; one this crate does not know counts as element-wise, or as the
//! products that it is known to be.
//!
//! ```
//! use perf4sight_cost::features::physical::{Pass, kernels};
//! use perf4sight_network::zoo::{Dataset, build};
//! use perf4sight_step::workload::{Stage, Step};
//! let squeezenet = build("squeezenet", Dataset::Imagenet)?;
//! let step = kernels(&squeezenet, Step::published(Stage::Training));
//! let flops = |pass| -> f64 {
//!     let products = step.iter().filter(|kernel| kernel.pass == pass).filter_map(|kernel| kernel.product);
//!     products.map(|product| product.flops(1.0)).sum()
//! };
//! // Two operations per multiply-accumulate; the gradient of the weights takes as many as the forward pass.
//! assert_eq!(flops(Pass::Forward), 2.0 * squeezenet.macs() as f64);
//! assert_eq!(flops(Pass::WeightGradient), flops(Pass::Forward));
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

pub use kernel::{Access, Amount, Class, Filter, Kernel, Pass, Product};
pub use step::{kernels, kernels_once, runs_again};
