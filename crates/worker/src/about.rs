//! The abilities of this worker, as it reports them on request.

use super::cuda::Cuda;
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::gpu;
use perf4sight_step::protocol::{GpuInfo, PROTOCOL, WorkerAbout, WorkerTask};
use perf4sight_step::workload::{NumberFormat, Precision, Setting};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// The libtorch that networks are run with; torch-sys builds against no other.
pub(super) const LIBTORCH: &str = "2.11.0";

/// Writes one line about this worker. With `cuda` it looks for GPUs too, which loads the CUDA half of libtorch, from that path where
/// there is one.
///
/// # Errors
/// When the line cannot be written.
pub(super) fn report(mut output: impl Write, cuda: Option<Option<&Path>>) -> Result<()> {
    let mut about = WorkerAbout {
        protocol: PROTOCOL,
        software: [("libtorch".to_owned(), LIBTORCH.to_owned())].into(),
        places: BTreeMap::from([("cpu".to_owned(), BTreeMap::new())]),
        tasks: vec![WorkerTask::STEP.to_owned()],
        settings: Setting::ALL.map(|setting| setting.key().to_owned()).into(),
        precisions: BTreeMap::from([("cpu".to_owned(), precision_names(Precision::ALL))]),
        layers: true,
        gpus: BTreeMap::new(),
        no_gpu: None,
    };
    if let Some(libtorch_cuda) = cuda {
        add_gpus(&mut about, libtorch_cuda);
    }
    let about = serde_json::to_string(&about).map_err(std::io::Error::from);
    let written = about.and_then(|about| writeln!(output, "{about}"));
    written.map_err(|cause| Error::io("standard output", "report what the worker is", &cause))
}

/// Adds the GPUs that networks can run on here, or why they can on none.
fn add_gpus(about: &mut WorkerAbout, libtorch_cuda: Option<&Path>) {
    match Cuda::load(libtorch_cuda) {
        Err(problem) => about.no_gpu = Some(problem.to_string()),
        Ok(Cuda { gpus, software }) => {
            for (index, mut gpu) in gpus.into_iter().enumerate() {
                gpu.others = gpu::processes(&gpu.bus);
                let driver = gpu::driver(&gpu.bus).map(|version| ("driver".to_owned(), version));
                let own = [("gpu", gpu.name.clone()), ("gpu_memory", format!("{} MiB", gpu.memory >> 20))];
                let own = own.map(|(name, fact)| (name.to_owned(), fact));
                let facts = software.clone().into_iter().chain(driver).chain(own).collect();
                about.places.insert(format!("cuda:{index}"), facts);
                about.precisions.insert(format!("cuda:{index}"), precisions(&gpu));
                about.gpus.insert(format!("cuda:{index}"), gpu);
            }
        }
    }
}

/// The precisions of a GPU.
fn precisions(gpu: &GpuInfo) -> Vec<String> {
    let computes = |format: NumberFormat| gpu.capability >= least_capability(format);
    let has = |precision: &Precision| computes(precision.held_format()) && precision.autocast().is_none_or(computes);
    precision_names(Precision::ALL.into_iter().filter(has))
}

/// The major version of the compute capability from which on GPUs compute in a format; before, libtorch would emulate it.
fn least_capability(format: NumberFormat) -> u64 {
    match format {
        NumberFormat::Fp32 | NumberFormat::Fp16 => 0,
        NumberFormat::Bf16 => 8,
    }
}

fn precision_names(precisions: impl IntoIterator<Item = Precision>) -> Vec<String> {
    precisions.into_iter().map(|precision| precision.name().to_owned()).collect()
}
