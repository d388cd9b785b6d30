//! The parameters of a step, and what is believed of them before anything was measured.

/// Number of parameters.
pub(super) const COUNT: usize = 16;

/// Their logarithms, in the order of [`PRIORS`].
pub(super) type Logs = [f64; COUNT];

/// What is believed of a parameter: its logarithm is normal around that of `median`.
pub(super) struct Prior {
    /// Its name, with its unit.
    pub name: &'static str,
    pub median: f64,
    /// Standard deviation of its logarithm.
    pub spread: f64,
}

/// Where no table of all-reduces was measured, their times are known within this spread.
pub(super) const SPREAD_WITHOUT_TABLE: f64 = 1.0;

/// Medians are for one server of A100 or alike; the spreads admit devices several times faster or slower. What
/// chose them is in `docs/cost-model.md`.
pub(super) const PRIORS: [Prior; COUNT] = [
    // About 150 kernels of a layer forward and as many of autograd's backward, 10 and 8 µs each.
    prior("host_forward_ms", 1.7, 0.5),
    prior("host_backward_ms", 1.2, 0.5),
    // Hosts wait for each other before an all-reduce, the longer the more apart their ranks are: as a share of their own time,
    // where the latency of an all-reduce is twice that of two ranks.
    prior("host_late", 0.3, 0.7),
    // About half of an A100's 312 TFLOP/s in fp16.
    prior("product_tflops", 150.0, 0.3),
    // HBM2e of an A100 80 GB: 2 TB/s, of which element-wise kernels reach 60 %.
    prior("element_wise_gb_per_ms", 1.2, 0.4),
    prior("attention_gb_per_ms", 1.2, 0.5),
    // Some 300 kernels of a layer, each of 3 µs or more however little it computes.
    prior("kernels_ms", 1.0, 0.5),
    prior("tensor_all_reduce", 1.0, 0.3),
    // How sharply the longer of host and device decides.
    prior("sharpness", 6.0, 0.3),
    prior("head_host_ms", 1.5, 0.7),
    prior("head_gb_per_ms", 1.0, 0.6),
    // Adam in mixed precision reads and writes 20 bytes a weight or more.
    prior("update_bytes", 20.0, 0.7),
    prior("embedding_update_bytes", 20.0, 0.7),
    prior("constant_ms", 1.0, 1.0),
    prior("data_all_reduce", 1.0, 0.7),
    prior("stage_ms", 0.3, 1.0),
];

const fn prior(name: &'static str, median: f64, spread: f64) -> Prior {
    Prior { name, median, spread }
}

/// The place of a parameter whose prior depends on whether there is a table.
const TENSOR_ALL_REDUCE: usize = 7;

/// The medians' logarithms.
pub(super) fn medians() -> Logs {
    PRIORS.each_ref().map(|prior| prior.median.ln())
}

/// Standard deviations of the logarithms.
pub(super) fn spreads(has_table: bool) -> Logs {
    let mut spreads = PRIORS.each_ref().map(|prior| prior.spread);
    if !has_table {
        spreads[TENSOR_ALL_REDUCE] = SPREAD_WITHOUT_TABLE;
    }
    spreads
}

/// The parameters by name, in the units of [`PRIORS`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameters {
    pub host_forward: f64,
    pub host_backward: f64,
    pub host_late: f64,
    pub product: f64,
    pub element_wise: f64,
    pub attention: f64,
    pub kernels: f64,
    pub tensor_all_reduce: f64,
    pub sharpness: f64,
    pub head_host: f64,
    pub head: f64,
    pub update: f64,
    pub embedding_update: f64,
    pub constant: f64,
    pub data_all_reduce: f64,
    pub stage: f64,
}

impl From<&Logs> for Parameters {
    fn from(logs: &Logs) -> Self {
        let [
            host_forward,
            host_backward,
            host_late,
            product,
            element_wise,
            attention,
            kernels,
            tensor_all_reduce,
            sharpness,
            head_host,
            head,
            update,
            embedding_update,
            constant,
            data_all_reduce,
            stage,
        ] = logs.map(f64::exp);
        Parameters {
            host_forward,
            host_backward,
            host_late,
            product,
            element_wise,
            attention,
            kernels,
            tensor_all_reduce,
            sharpness,
            head_host,
            head,
            update,
            embedding_update,
            constant,
            data_all_reduce,
            stage,
        }
    }
}
