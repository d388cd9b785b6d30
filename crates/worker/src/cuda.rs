//! libtorch's CUDA half, loaded at run time: the right library, a driver that can serve it, GPUs.
//!
//! Loading works before the first call of libtorch and not after: whether there is CUDA is looked up once and remembered.
#![allow(unsafe_code)] // loading a library

use super::driver::Driver;
use super::gpu::look;
use super::library::CudaLibrary;
use libloading::os::unix::{Library as Loaded, RTLD_GLOBAL, RTLD_NOW};
use perf4sight_base::error::{Error, Result};
use perf4sight_machine::MachineProperties;
use perf4sight_step::protocol::GpuInfo;
use std::env;
use std::fmt::Display;
use std::path::Path;

/// libtorch's CUDA half, loaded, and the GPUs that it can use.
pub(super) struct Cuda {
    /// By their number.
    pub gpus: Vec<GpuInfo>,
    /// The software on which measurements on any of them depend.
    pub software: MachineProperties,
}

impl Cuda {
    /// Loads the CUDA half; `configured` is the path that the configuration names. Call before anything else of libtorch.
    ///
    /// # Errors
    /// Library, driver or GPU are missing or do not fit; with the remedy.
    pub fn load(configured: Option<&Path>) -> Result<Self> {
        forget_unrecorded();
        let library = CudaLibrary::find(configured)?;
        let driver = Driver::open()?;
        let gpus = driver.gpus()?;
        load(&library)?;
        let (count, runtime, cudnn) = look().map_err(|problem| unusable(&library, problem))?;
        let needed = (runtime / 1000, runtime % 1000 / 10);
        check(driver.cuda()?, needed, &library.version)?;
        if count < gpus.len() as i64 {
            return Err(unusable(&library, format!("it can use {count} of {} GPUs", gpus.len())));
        }
        let software = [("libtorch", library.version), ("cuda", version(needed)), ("cudnn", cudnn.to_string())];
        Ok(Cuda { gpus, software: software.map(|(name, fact)| (name.to_owned(), fact)).into() })
    }
}

fn version((major, minor): (i64, i64)) -> String {
    format!("{major}.{minor}")
}

/// Refuses a driver for an older CUDA. Since CUDA 11, a driver runs all minor versions of its major version.
fn check(driver: (i64, i64), needed: (i64, i64), libtorch: &str) -> Result<()> {
    if driver.0 >= needed.0 {
        return Ok(());
    }
    let (runs, needs) = (version(driver), version(needed));
    Err(Error::device(format!("the NVIDIA driver runs CUDA {runs}, and libtorch {libtorch} needs {needs}"))
        .expected(format!("a driver for CUDA {needs}"))
        .help(format!("update the NVIDIA driver, or install the build of the same PyTorch for CUDA {}", driver.0)))
}

fn unusable(library: &CudaLibrary, why: impl Display) -> Error {
    Error::device(format!("libtorch {} was loaded, but it cannot use the GPU: {why}", library.version))
        .file(&library.file)
        .help("python3 -c 'import torch; torch.cuda.init()' with the same PyTorch must work; if it does not, install it again")
}

/// Environment variables that would change the cost of a step on a GPU without being recorded in a row: the allocator's
/// rules, and arithmetic that the keys `tf32` and `cudnn_benchmark` decide.
const UNRECORDED: [&str; 5] = [
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
];

fn forget_unrecorded() {
    for variable in UNRECORDED {
        // SAFETY: nothing else in this process reads or writes the environment yet; the one other thread waits for Ctrl-C.
        unsafe { env::remove_var(variable) }
    }
}

/// Loads the library with its names visible to the CPU half, and keeps it for the life of the process.
fn load(library: &CudaLibrary) -> Result<()> {
    // A name without a folder would be looked for elsewhere.
    let file = std::path::absolute(&library.file).unwrap_or_else(|_| library.file.clone());
    // SAFETY: loading runs only libtorch's own registration; its version was checked, and it shares the libraries of
    // the CPU half.
    let loaded = unsafe { Loaded::open(Some(&file), RTLD_NOW | RTLD_GLOBAL) };
    let loaded = loaded.map_err(|cause| {
        Error::device(format!("libtorch {} cannot be loaded: {cause}", library.version))
            .file(&library.file)
            .expected("the CUDA half of libtorch and the NVIDIA libraries that it needs, as pip installs them")
            .help("install PyTorch again with all its dependencies: pip install --force-reinstall torch==2.11.0")
    })?;
    std::mem::forget(loaded);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_for_the_same_major_version_of_cuda_will_do() {
        check((13, 0), (13, 2), "2.11.0+cu132").unwrap();
        check((13, 0), (12, 6), "2.11.0+cu126").unwrap();
        let error = check((12, 4), (13, 0), "2.11.0+cu130").unwrap_err().to_string();
        assert!(error.starts_with("the NVIDIA driver runs CUDA 12.4, and libtorch 2.11.0+cu130 needs 13.0"), "{error}");
        assert!(error.contains("update the NVIDIA driver") && error.contains("for CUDA 12"), "{error}");
    }
}
