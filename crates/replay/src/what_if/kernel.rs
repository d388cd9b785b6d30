//! What the names around a kernel, and its own, say of it.

use crate::graph::{NodeId, TaskGraph};
use perf4sight_operations::{OperationClass, class_of};

/// The type that a kernel computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelBits {
    /// fp8, or fewer bits.
    Eight,
    /// fp16 or bf16.
    Half,
    /// fp32.
    Single,
    /// fp64.
    Double,
}

impl KernelBits {
    /// In words, to follow an operation.
    pub(super) fn to_text(self) -> &'static str {
        match self {
            KernelBits::Eight => " in 8 bits",
            KernelBits::Half => " in half precision",
            KernelBits::Single => " in single precision",
            KernelBits::Double => " in double precision",
        }
    }
}

/// Letters in names of kernels, by what they compute with. Products of eight bits name the type of their result, too, and those of half precision that
/// of their sums, so that the fewest bits count.
const LETTERS: [(KernelBits, &[&str]); 4] = [
    (KernelBits::Eight, &["e4m3", "e5m2", "fp8", "Float8", "nvjet_q"]),
    (
        KernelBits::Half,
        &[
            "bf16",
            "f16",
            "fp16",
            "half",
            "BFloat16",
            "nvjet_h",
            "nvjet_t",
            "_h884gemm",
            "_h1688gemm",
            "_h16816gemm",
            "_BBS_",
            "_HHS_",
        ],
    ),
    (KernelBits::Single, &["f32f32", "sgemm", "tf32", "float"]),
    (KernelBits::Double, &["dgemm", "f64f64", "double"]),
];

/// What a kernel computes with, if its name says it.
pub(super) fn bits_in_name(name: &str) -> Option<KernelBits> {
    LETTERS.iter().find(|(_, letters)| letters.iter().any(|part| name.contains(part))).map(|(bits, _)| *bits)
}

/// Letters in names of kernels that multiply in single precision without tensor cores: those of cuBLAS (`ampere_sgemm`, `cutlass_80_simt_sgemm`,
/// `sm80_xmma_gemm_f32f32_f32f32_..._ffma`) and of cuDNN.
const WITHOUT_TENSOR_CORES: [&str; 3] = ["sgemm", "_ffma_", "scudnn"];

/// Whether a kernel multiplies in single precision without tensor cores.
pub(super) fn is_without_tensor_cores(name: &str) -> bool {
    WITHOUT_TENSOR_CORES.iter().any(|part| name.contains(part))
}

/// The class of the innermost operation of a known one that a kernel runs for.
pub fn class_of_kernel(graph: &TaskGraph, id: NodeId) -> Option<OperationClass> {
    graph.calls().path(graph.node(id).call).find_map(class_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that CUDA's libraries and PyTorch give to kernels.
    #[test]
    fn names_of_kernels_say_what_they_compute_with() {
        for (name, bits) in [
            ("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x128", Some(KernelBits::Eight)),
            ("nvjet_qqtst_128x256_128x4_1x2_h_bz_coopA_NTT", Some(KernelBits::Eight)),
            ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_nn", Some(KernelBits::Half)),
            ("ampere_sgemm_128x64_nn", Some(KernelBits::Single)),
            ("volta_dgemm_64x64_nn", Some(KernelBits::Double)),
            (
                "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>",
                Some(KernelBits::Single),
            ),
            ("ncclKernel", None),
        ] {
            assert_eq!(bits_in_name(name), bits, "{name}");
        }
    }

    /// Names in traces of an H100 and an A100, with TF32 and without.
    #[test]
    fn names_of_kernels_say_whether_they_use_tensor_cores() {
        for name in [
            "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute",
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>",
            "ampere_sgemm_128x64_nn",
        ] {
            assert!(is_without_tensor_cores(name), "{name}");
        }
        for name in [
            "sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment",
            "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x256_32x3_nt_align1>",
            "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_nn",
        ] {
            assert!(!is_without_tensor_cores(name), "{name}");
        }
    }
}
