//! The rules a device's file chooses from; their sizes and switches are the file's, their arithmetic is `memory`'s.

use serde::{Deserialize, Deserializer, Serialize};

/// How requests for memory are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Allocator {
    /// Every request goes directly to the system (c10/core/CPUAllocator.cpp).
    Direct,
    /// PyTorch's caching allocator.
    Caching(CachingSizes),
}

/// The constants of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp), in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CachingSizes {
    /// Requests round up to a multiple of this (`kMinBlockSize`).
    pub round: u64,
    /// The largest request the small pool serves (`kSmallSize`).
    pub small: u64,
    /// Size of a segment of the small pool (`kSmallBuffer`).
    pub small_segment: u64,
    /// Requests from here on get a segment of their own size (`kMinLargeAlloc`).
    pub large: u64,
    /// Size of a segment for smaller requests to the large pool (`kLargeBuffer`).
    pub medium_segment: u64,
    /// Segments of their own size round up to a multiple of this (`kRoundLarge`).
    pub large_round: u64,
}

/// The tensors that a version of PyTorch keeps, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameworkRules {
    /// Where gradients that meet at a fork are summed.
    pub fork: GradientSum,
    /// The tensor that an in-place ReLU6 keeps for backward.
    pub relu6: SavedRectifier,
    /// The tensor that dropout keeps for backward.
    pub dropout: DropoutMask,
    /// Whether batch-norm's backward holds two gradients of its input at once.
    pub batch_norm_copies: bool,
    /// Whether every batch-norm counts its batches in a tensor of its own.
    pub batch_norm_counts: bool,
    /// Whether the step holds the network's result to its end, and not only until the loss is known.
    pub holds_result: bool,
    /// How optimizers go through the weights; not written where they do it as they always did.
    #[serde(default, skip_serializing_if = "UpdateOrder::is_one_by_one")]
    pub updates: UpdateOrder,
    /// What products of matrices keep; not written where that is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub products: Option<CublasMemory>,
}

/// What each thread keeps for cuBLAS from its first product of matrices on, in bytes; forward and backward are two threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CublasMemory {
    /// The workspace, of the caching allocator (aten/src/ATen/cuda/CublasHandlePool.cpp).
    pub workspace: u64,
    /// What the library's handle takes of the device beside the allocator; 0 where nobody measured it.
    pub handle: u64,
}

/// How optimizers go through the weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpdateOrder {
    /// One weight after the other: libtorch, and PyTorch on processors.
    #[default]
    OneByOne,
    /// All of them at once, with the workspace of all: PyTorch on accelerators, from 2.0 (`foreach` in
    /// torch/optim/optimizer.py).
    AtOnce,
}

impl UpdateOrder {
    fn is_one_by_one(&self) -> bool {
        *self == UpdateOrder::OneByOne
    }
}

/// Where gradients that meet at a fork are summed (torch/csrc/autograd/input_buffer.cpp).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GradientSum {
    /// In a third tensor: PyTorch up to 1.7.
    NewTensor,
    /// In the first of them, when it has no other holder: from 1.8.
    InPlace,
}

/// The tensor that an in-place ReLU6 keeps for backward (tools/autograd/derivatives.yaml, `hardtanh_`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SavedRectifier {
    /// Its result, which is its input overwritten: nothing new.
    Result,
    /// A copy of its input, made before it is overwritten.
    InputCopy,
}

/// The tensor that dropout keeps for backward (aten/src/ATen/native/Dropout.cpp).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropoutMask {
    /// One byte an element: the fused kernel of accelerators.
    Bytes,
    /// The scaled noise, one float an element.
    Floats,
}

/// The three computations of a convolution in a training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConvolutionPass {
    /// The result.
    Forward,
    /// The gradient of its input.
    InputGradient,
    /// The gradient of its filters.
    WeightGradient,
}

/// The workspace of a convolution library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum ConvolutionWorkspace {
    /// cuDNN's non-fused Winograd for dense 3x3 convolutions of stride 1: tiles of input, result and filters, transformed.
    Winograd {
        /// Outputs along each side of a tile; F(4x4, 3x3) has 4.
        output_tile: u64,
        /// Where the library chooses it.
        passes: Vec<ConvolutionPass>,
    },
    /// cuDNN's kernels for tensor cores, which work channels-last: input, filters and result of dense convolutions are converted, and the
    /// result back.
    ChannelsLast {
        /// Channels are filled up to a multiple of this: 16 bytes are read at a time.
        channels: u64,
    },
    /// oneDNN's blocked layouts: input, filters and result are copied into blocks of channels, and the result back.
    BlockedCopies {
        /// Channels in a block: the floats in one vector of the processor.
        channels: u64,
        /// How many threads compute: most of them have buffers of their own.
        #[serde(default = "two_threads", alias = "one_thread", deserialize_with = "threads")]
        threads: u64,
    },
}

/// What is assumed where nobody says how many threads compute.
pub(super) const TWO_THREADS: u64 = 2;

fn two_threads() -> u64 {
    TWO_THREADS
}

/// A number of threads; earlier fingerprints hold whether it was one.
fn threads<'a, D: Deserializer<'a>>(from: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum StoredOneThread {
        IsOne(bool),
        Threads(u64),
    }
    Ok(match StoredOneThread::deserialize(from)? {
        StoredOneThread::IsOne(is_one) => {
            if is_one {
                1
            } else {
                TWO_THREADS
            }
        }
        StoredOneThread::Threads(threads) => threads.max(1),
    })
}

/// The properties of a convolution that decide which library computes it, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvolutionQuery {
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// Whether it moves by one pixel and leaves none out.
    pub moves_by_one: bool,
    /// Blocks of channels that do not see each other.
    pub groups: usize,
    /// Channels of the input.
    pub channels: usize,
    /// Elements of one input image.
    pub elements: u64,
}

/// More bytes than any allocator allocates at a time: a tebibyte.
const MOST_BYTES: u64 = 1 << 40;
/// Minimal filtering with larger tiles loses all its digits (A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks",
/// 2016, section 4.1).
const LARGEST_TILE: u64 = 16;
/// Floats in the widest vectors there are (SVE, 2048 bits), and to spare.
const WIDEST_BLOCK: u64 = 1024;

/// Convolutions that PyTorch computes itself, image by image, as products of its linear algebra library
/// (`use_mkldnn` in aten/src/ATen/native/Convolution.cpp; aten/src/ATen/native/ConvolutionMM2d.cpp).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NativeConvolutions {
    /// The largest number of elements of a single image, where the kernel is at most 3 high or wide.
    pub single_image: u64,
    /// 1x1 kernels that move by one pixel, in smaller batches than this: 16 on one thread, 0 on more.
    pub pointwise_below: u64,
}

impl NativeConvolutions {
    /// The convolutions that PyTorch computes itself on so many threads: a single one leaves it small batches of 1x1 kernels.
    pub fn for_threads(threads: u64) -> Self {
        NativeConvolutions { single_image: 20480, pointwise_below: if threads == 1 { 16 } else { 0 } }
    }

    /// The smallest batch at which the library computes a convolution.
    pub fn library_from(&self, asked: &ConvolutionQuery) -> u64 {
        let single = if asked.elements <= self.single_image { 2 } else { 1 };
        match (asked.groups, asked.kernel) {
            (1, [1, 1]) if asked.moves_by_one => self.pointwise_below.max(single),
            (1, [height, width]) if height <= 3 || width <= 3 => single,
            _ => 1,
        }
    }
}

impl Allocator {
    pub(super) fn is_valid(&self) -> bool {
        match *self {
            Allocator::Direct => true,
            Allocator::Caching(CachingSizes { round, small, small_segment, large, medium_segment, large_round }) => {
                let sizes = [round, small, small_segment, large, medium_segment, large_round];
                sizes.iter().all(|size| (1..=MOST_BYTES).contains(size))
                    && small_segment >= small
                    && medium_segment >= large
                    && large >= small
                    && [small, small_segment, large, medium_segment, large_round]
                        .iter()
                        .all(|size| size.is_multiple_of(round))
            }
        }
    }
}

impl ConvolutionWorkspace {
    /// The side of the output tile where cuDNN computes a pass of a convolution by minimal filtering: dense 3x3 kernels that move by one
    /// pixel, but over an image of three colours, whose channels are too few for it to pay (none of its workspace is ever seen there).
    pub fn winograd(&self, asked: &ConvolutionQuery, pass: ConvolutionPass) -> Option<u64> {
        let ConvolutionWorkspace::Winograd { output_tile, passes } = self else { return None };
        let pays = asked.kernel == [3; 2] && asked.moves_by_one && asked.groups == 1 && asked.channels > 3;
        (pays && passes.contains(&pass)).then_some(*output_tile)
    }

    pub(super) fn is_valid(&self) -> bool {
        match self {
            ConvolutionWorkspace::Winograd { output_tile, .. } => (1..=LARGEST_TILE).contains(output_tile),
            ConvolutionWorkspace::ChannelsLast { channels } | ConvolutionWorkspace::BlockedCopies { channels, .. } => {
                (1..=WIDEST_BLOCK).contains(channels)
            }
        }
    }
}

/// Which readings of the counters make one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CounterReadings {
    /// The published profiler's: peaks are reset, **then** the cache is emptied before a warm-up and three more steps, so that
    /// what one step left reserved counts in the next; the mean of five readings, the first taken when the warm-up's backward ended.
    Published,
    /// The highest peak of all steps.
    Highest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pytorch_keeps_the_convolutions_that_it_says_it_keeps() {
        // `torch._C._select_conv_backend` of PyTorch 2.11: the first batch size for which it returns Mkldnn.
        let [one, more] = [1, 2].map(NativeConvolutions::for_threads);
        let [small, large] = [64 * 4 * 4, 64 * 32 * 32];
        let asked = |kernel: usize, moves_by_one, groups, elements| ConvolutionQuery {
            kernel: [kernel; 2],
            moves_by_one,
            groups,
            channels: 64,
            elements,
        };
        let from =
            |kept: NativeConvolutions, kernel, unit, elements| kept.library_from(&asked(kernel, unit, 1, elements));
        assert_eq!([from(one, 1, true, small), from(one, 1, true, large)], [16, 16]);
        assert_eq!([from(more, 1, true, small), from(more, 1, true, large)], [2, 1]);
        for kept in [one, more] {
            assert_eq!([from(kept, 1, false, small), from(kept, 1, false, large)], [2, 1]);
            assert_eq!(
                [from(kept, 3, true, small), from(kept, 3, false, small), from(kept, 3, true, large)],
                [2, 2, 1]
            );
            assert_eq!([from(kept, 5, true, small), kept.library_from(&asked(3, true, 64, small))], [1, 1]);
        }
    }

    #[test]
    fn fingerprints_that_hold_whether_one_thread_computes_are_read() {
        let read = |text: &str| serde_json::from_str::<ConvolutionWorkspace>(text).unwrap();
        let cases = [(r#","one_thread":true"#, 1), (r#","one_thread":false"#, 2), ("", 2), (r#","threads":8"#, 8)];
        for (stored, threads) in cases {
            let found = read(&format!(r#"{{"kind":"blocked_copies","channels":16{stored}}}"#));
            assert_eq!(found, ConvolutionWorkspace::BlockedCopies { channels: 16, threads });
            assert_eq!(read(&serde_json::to_string(&found).unwrap()), found);
        }
    }
}
