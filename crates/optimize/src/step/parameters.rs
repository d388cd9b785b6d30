//! The parameters of a step, and what is believed of them before anything was measured.

/// Where no table of all-reduces was measured, their times are known within this spread.
pub(super) const SPREAD_WITHOUT_TABLE: f64 = 1.0;

/// What is believed of a parameter: its logarithm is normal around that of `median`.
pub(super) struct StepPrior {
    /// Its name, with its unit.
    pub name: &'static str,
    pub median: f64,
    /// Standard deviation of its logarithm.
    pub spread: f64,
}

/// Declares each parameter once: its name, that with its unit, and what is believed of it.
macro_rules! parameters {
    ($($(#[$comment:meta])* $field:ident: $name:literal, $median:literal, $spread:literal;)+) => {
        /// The parameters by name, in the units of [`PRIORS`].
        #[derive(Debug, Clone, Copy)]
        pub(super) struct Parameters {
            $($(#[$comment])* pub $field: f64,)+
        }

        /// Number of parameters.
        pub(super) const COUNT: usize = [$($name),+].len();

        pub(super) const PRIORS: [StepPrior; COUNT] =
            [$(StepPrior { name: $name, median: $median, spread: $spread }),+];

        impl From<&LogParameters> for Parameters {
            fn from(logs: &LogParameters) -> Self {
                let [$($field),+] = logs.map(f64::exp);
                Parameters { $($field),+ }
            }
        }
    };
}

// Medians are for one server of A100 or alike; the spreads admit devices several times faster or slower. What chose them is in
// `docs/cost-model.md`.
parameters! {
    /// About 150 kernels of a layer forward and as many of autograd's backward, 10 and 8 µs each.
    host_forward: "host_forward_ms", 1.7, 0.5;
    host_backward: "host_backward_ms", 1.2, 0.5;
    /// Hosts wait for each other before an all-reduce, the longer the more apart their ranks are: as a share of their own time, where the
    /// latency of an all-reduce is twice that of two ranks.
    host_late: "host_late", 0.3, 0.7;
    /// About half of an A100's 312 TFLOP/s in fp16.
    product: "product_tflops", 150.0, 0.3;
    /// HBM2e of an A100 80 GB: 2 TB/s, of which element-wise kernels reach 60 %.
    element_wise: "element_wise_gb_per_ms", 1.2, 0.4;
    attention: "attention_gb_per_ms", 1.2, 0.5;
    /// Some 300 kernels of a layer, each of 3 µs or more however little it computes.
    kernels: "kernels_ms", 1.0, 0.5;
    tensor_all_reduce: "tensor_all_reduce", 1.0, 0.3;
    /// How sharply the longer of host and device decides.
    sharpness: "sharpness", 6.0, 0.3;
    head_host: "head_host_ms", 1.5, 0.7;
    head: "head_gb_per_ms", 1.0, 0.6;
    /// Adam in mixed precision reads and writes 20 bytes a weight or more.
    update: "update_bytes", 20.0, 0.7;
    embedding_update: "embedding_update_bytes", 20.0, 0.7;
    constant: "constant_ms", 1.0, 1.0;
    data_all_reduce: "data_all_reduce", 1.0, 0.7;
    stage: "stage_ms", 0.3, 1.0;
}

/// The logarithms of parameters, in the order of [`PRIORS`].
pub(super) type LogParameters = [f64; COUNT];

/// The medians' logarithms.
pub(super) fn medians() -> LogParameters {
    PRIORS.each_ref().map(|prior| prior.median.ln())
}

/// Standard deviations of the logarithms.
pub(super) fn spreads(has_table: bool) -> LogParameters {
    PRIORS.each_ref().map(|prior| match prior.name {
        "tensor_all_reduce" if !has_table => SPREAD_WITHOUT_TABLE,
        _ => prior.spread,
    })
}
