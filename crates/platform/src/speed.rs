//! Assumed speeds of a kind of device before anything is measured: the starting point of a latency fit, and its limits.

use perf4sight_network::Activation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The assumed speed of a device: data for the latency model, which defines the meaning of each number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssumedSpeed {
    /// Rows of a matrix product are computed in multiples of this: a warp's share, or the floats in a vector.
    pub quantum: f64,
    /// Side of the square of the result that one processing unit computes at a time.
    pub tile: f64,
    /// How far launches run ahead of the kernels they start, as the power of a norm: 1 adds the two times (every operation is waited
    /// for), a large one takes the longer (the device is never idle while anything is queued).
    pub overlap: f64,
    /// How depthwise convolutions read their windows.
    pub depthwise: DepthwiseReads,
    /// Bytes that the caches keep from one step to the next; none where the bandwidth is main memory's.
    pub cache: Option<f64>,
    /// The parameters, each with its prior.
    pub priors: BTreeMap<SpeedParameter, ParameterPrior>,
    /// Functions of single elements that take longer than the plainest, by name: how many times, forward and backward. None on devices
    /// that wait for memory whatever they compute.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<String, [f64; 2]>,
}

/// How depthwise convolutions read their windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", tag = "kind")]
pub enum DepthwiseReads {
    /// Every result reads its whole window again: a GPU thread keeps nothing for its neighbour.
    Reread,
    /// A window's neighbour finds it in the cache, so that every operand is moved once; but the gradient of kernels wider than this is
    /// computed by general code, which reads every window (oneDNN, `jit_uni_dw_conv_kernel_utils.cpp`: "kw > 3" is not implemented).
    Cached {
        /// The widest kernel with code of its own.
        widest: usize,
    },
}

/// A log-normal prior: the logarithm of the parameter is normal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 2]", into = "[f64; 2]")]
pub struct ParameterPrior {
    /// The median; above 0.
    pub typical: f64,
    /// Standard deviation of the logarithm; 0 keeps the parameter where it is.
    pub spread: f64,
}

perf4sight_base::words! {
    /// A number that describes a device in the latency model, in the order of the columns of a fit.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum SpeedParameter {
        /// Time of all kernels, relative to the rates below: scales a whole device at once.
        Pace = "pace",
        /// GFLOP/s of a large matrix product.
        Compute = "compute",
        /// GB/s of an element-wise operation, out of the caches where there are any.
        Bandwidth = "bandwidth",
        /// GB/s of main memory for data that the caches do not hold; the time for it is added. Processors only.
        Memory = "memory",
        /// Rows of a product at which half of the speed is lost.
        RowLoss = "row_loss",
        /// Length of the summed axis at which half of the speed is lost.
        InnerLoss = "inner_loss",
        /// Tiles in flight at which half of the speed is lost.
        TileLoss = "tile_loss",
        /// GFLOP/s of products that the convolution library does not compute. Processors only, like the next seven.
        Gemm = "gemm",
        /// Columns of such a product at which half of its speed is lost.
        ColumnLoss = "column_loss",
        /// Convolutions that the library can begin in a millisecond.
        Primitives = "primitives",
        /// GB/s at which it copies filters into its layout.
        Filters = "filters",
        /// The area of a kernel at which half of that speed is lost: filters are copied element by element, kernels row by row.
        FilterLoss = "filter_loss",
        /// Share of the speed that copies lose where channels fill no whole blocks.
        RaggedCopies = "ragged_copies",
        /// Thousands of images of one channel, filling no whole vectors, that a normalisation can begin in a millisecond.
        Planes = "planes",
        /// Groups of a convolution, of one image, that code for any convolution can begin in a millisecond.
        Blocks = "blocks",
        /// Share of the speed that dense convolutions lose at the smallest batches.
        SmallBatchLoss = "small_batch_loss",
        /// Time of a dense 3x3 forward pass, relative to a 1x1 product of the same size.
        Conv3x3 = "conv3x3",
        /// The same of larger kernels.
        ConvLarge = "conv_large",
        /// The same of grouped convolutions.
        Grouped = "grouped",
        /// The same of fully connected layers and products of activations.
        Linear = "linear",
        /// The same of gradients of inputs.
        InputGradient = "input_gradient",
        /// The same of gradients of weights.
        WeightGradient = "weight_gradient",
        /// Share of the speed that channels cost which are no multiple of the quantum.
        RaggedLoss = "ragged_loss",
        /// Traffic of a product's operands, relative to element-wise operations.
        Operands = "operands",
        /// GFLOP/s of minimal filtering (Winograd).
        Winograd = "winograd",
        /// Traffic of its transformed tiles, relative to element-wise operations.
        WinogradTraffic = "winograd_traffic",
        /// GB/s at which depthwise convolutions read their windows, or move their operands.
        Windows = "windows",
        /// GB/s at which the gradient of their weights reads windows.
        WindowGradient = "window_gradient",
        /// Traffic of strided and broadcast access, relative to element-wise operations.
        Strided = "strided",
        /// Traffic of normalisation, likewise.
        Normalisation = "normalisation",
        /// Traffic of activations, likewise.
        Activation = "activation",
        /// Traffic of a dropout's forward pass, likewise: some devices draw its random numbers one after the other.
        Dropout = "dropout",
        /// Traffic of pooling, likewise.
        Pooling = "pooling",
        /// Traffic of zero_grad and the optimizer, likewise.
        Update = "update",
        /// Milliseconds until the device can start the next kernel.
        Launch = "launch",
        /// The same of one weight tensor's zero_grad and update.
        UpdateLaunch = "update_launch",
        /// Milliseconds of every step apart from its kernels.
        Step = "step",
    }
}

impl SpeedParameter {
    /// Parameters that only the rules of processors use: other devices need no prior for them.
    const OF_PROCESSORS: [SpeedParameter; 9] = [
        SpeedParameter::Memory,
        SpeedParameter::Gemm,
        SpeedParameter::ColumnLoss,
        SpeedParameter::Primitives,
        SpeedParameter::Filters,
        SpeedParameter::FilterLoss,
        SpeedParameter::RaggedCopies,
        SpeedParameter::Planes,
        SpeedParameter::Blocks,
    ];
}

/// Sizes and powers beyond this are no device's.
const MOST: f64 = 1e6;
/// More bytes than any cache has: a tebibyte.
const MOST_CACHE: f64 = 1_099_511_627_776.0;
/// From a kernel of a femtosecond to an exaflop, in the units of any parameter.
const TYPICAL: std::ops::RangeInclusive<f64> = 1e-12..=1e12;
/// Standard deviation of a logarithm beyond which a prior has no effect: a factor of e^20 either way.
const WIDEST: f64 = 20.0;

impl AssumedSpeed {
    /// The prior of a parameter; one that is not used here is fixed.
    pub fn prior(&self, parameter: SpeedParameter) -> ParameterPrior {
        self.priors.get(&parameter).copied().unwrap_or(ParameterPrior { typical: 1.0, spread: 0.0 })
    }

    /// The reason why a fit cannot start on a processor or another device, if there is one.
    pub fn problem(&self, processor: bool) -> Option<String> {
        if ![self.quantum, self.tile, self.overlap].iter().all(|number| (1.0..=MOST).contains(number)) {
            return Some(format!("its quantum, tile or overlap is not from 1 to {MOST}"));
        }
        if matches!(self.depthwise, DepthwiseReads::Cached { widest } if widest as f64 > MOST) {
            return Some(format!("its widest depthwise kernel is beyond {MOST}"));
        }
        if self.cache.map_or(processor, |cache| !(1.0..=MOST_CACHE).contains(&cache)) {
            return Some(format!("its cache is not from 1 to {MOST_CACHE} bytes"));
        }
        if !self.functions.values().flatten().all(|times| (1.0..=MOST).contains(times)) {
            return Some(format!("a function takes less time than the plainest, or more than {MOST} times as much"));
        }
        let is_unknown = |name: &&String| Activation::ALL.iter().all(|function| function.name() != name.as_str());
        if let Some(unknown) = self.functions.keys().find(is_unknown) {
            return Some(format!("it has times of {unknown:?}, which is no function of one element"));
        }
        let sound = |prior: &ParameterPrior| TYPICAL.contains(&prior.typical) && (0.0..=WIDEST).contains(&prior.spread);
        let dispensable = |parameter: &SpeedParameter| !processor && SpeedParameter::OF_PROCESSORS.contains(parameter);
        let bad = SpeedParameter::ALL
            .into_iter()
            .find(|parameter| !self.priors.get(parameter).map_or_else(|| dispensable(parameter), sound));
        bad.map(|parameter| format!("its speed has no usable prior for {parameter:?}"))
    }
}

impl From<[f64; 2]> for ParameterPrior {
    fn from([typical, spread]: [f64; 2]) -> Self {
        ParameterPrior { typical, spread }
    }
}

impl From<ParameterPrior> for [f64; 2] {
    fn from(prior: ParameterPrior) -> Self {
        [prior.typical, prior.spread]
    }
}
