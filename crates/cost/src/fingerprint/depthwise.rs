//! Which depthwise convolutions oneDNN has kernels for; the others use its code for any convolution, channel by
//! channel.

use crate::features::physical::{AccessPattern, FilterGeometry, Kernel, KernelPass};
use perf4sight_platform::DepthwiseReads;

/// Results in a row that oneDNN's depthwise kernels compute at a time (`ur_w` in jit_uni_dw_conv_kernel_utils.cpp).
const UNROLLED: usize = 6;

/// Whether a kernel belongs to a depthwise convolution for which the library has no kernel.
pub(super) fn is_general(kernel: &Kernel, depthwise: DepthwiseReads) -> bool {
    let filter = kernel.filter.filter(|_| kernel.access == AccessPattern::Windowed);
    filter.is_some_and(|filter| !has_code(kernel.pass, &filter, depthwise))
}

/// Whether oneDNN has a depthwise kernel for it (jit_uni_dw_conv_kernel_utils.cpp). Forward requires that the padding
/// is no wider than the results computed at a time; the gradient of the weights requires kernels at most 3 wide and
/// an image that contains the kernel.
fn has_code(pass: KernelPass, filter: &FilterGeometry, depthwise: DepthwiseReads) -> bool {
    let DepthwiseReads::Cached { widest } = depthwise else { return true };
    match pass {
        KernelPass::Forward => filter.padding[1] <= filter.positions[1].min(UNROLLED),
        KernelPass::WeightGradient => {
            let [stride, padding] = [filter.stride[0], filter.padding[0]];
            let least = filter.kernel[0] + (stride - padding % stride) % stride;
            filter.kernel[1] <= widest && filter.image[0] >= least
        }
        KernelPass::InputGradient | KernelPass::Loss | KernelPass::Fork | KernelPass::Update => true,
    }
}
