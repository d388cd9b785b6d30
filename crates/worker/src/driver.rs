//! The NVIDIA driver (`libcuda.so.1`): which GPUs there are, in the order that libtorch counts them.
//!
//! It is queried before libtorch's CUDA half is loaded, which is a gigabyte and reports only that an error occurred.
#![allow(unsafe_code)] // calls of NVIDIA's driver interface

use libloading::Library;
use perf4sight_base::error::{Error, Result};
use perf4sight_step::protocol::GpuInfo;
use std::ffi::{CStr, c_char, c_int, c_uint};

/// The driver's library. It comes with the kernel module, never with PyTorch.
const NAME: &str = "libcuda.so.1";

/// `CUdevice_attribute` of a GPU that shares main memory (cuda.h).
const INTEGRATED: c_int = 18;
/// That of its compute capability's major version.
const CAPABILITY: c_int = 75;
/// Longest name or bus address requested.
const TEXT: usize = 256;

/// Meanings and remedies of the `CUresult` codes of machines that are not set up (cuda.h).
const REMEDIES: [(c_int, &str); 4] = [
    (
        100,
        "check that there is an NVIDIA GPU and that CUDA_VISIBLE_DEVICES does not hide it; in a container, hand it in (--gpus all)",
    ),
    (803, "the kernel module and libcuda.so.1 are of different versions: reboot, or install the same version of both"),
    (804, "this GPU needs the driver of its own release instead of NVIDIA's forward compatibility package"),
    (
        999,
        "look for messages of the NVIDIA module in the kernel's log (dmesg); loading it again or a reboot often helps",
    ),
];

pub(super) struct Driver {
    library: Library,
}

impl Driver {
    /// The driver, ready for questions.
    ///
    /// # Errors
    /// There is no driver, or it cannot use any GPU: its own message, with the remedy.
    pub fn open() -> Result<Self> {
        // SAFETY: NVIDIA's driver is made to be loaded at run time; loading runs only its own code.
        let library = unsafe { Library::new(NAME) }.map_err(|cause| {
            Error::device(format!("there is no NVIDIA driver here: {cause}"))
                .expected(NAME)
                .help("install the NVIDIA driver; in a container, hand the GPU in (--gpus all, capabilities compute and utility)")
        })?;
        let driver = Driver { library };
        driver.call("cuInit", |function: extern "C" fn(c_uint) -> c_int| function(0))?;
        Ok(driver)
    }

    /// The highest CUDA version that it can run, as (major, minor).
    ///
    /// # Errors
    /// In the driver's words.
    pub fn cuda(&self) -> Result<(i64, i64)> {
        let mut version: c_int = 0;
        self.call("cuDriverGetVersion", |function: extern "C" fn(&mut c_int) -> c_int| function(&mut version))?;
        Ok((i64::from(version / 1000), i64::from(version % 1000 / 10)))
    }

    /// All GPUs that this process may use.
    ///
    /// # Errors
    /// In the driver's words.
    pub fn gpus(&self) -> Result<Vec<GpuInfo>> {
        let mut count = 0;
        self.call("cuDeviceGetCount", |function: extern "C" fn(&mut c_int) -> c_int| function(&mut count))?;
        (0..count).map(|index| self.gpu(index)).collect()
    }

    fn gpu(&self, index: c_int) -> Result<GpuInfo> {
        let (mut device, mut memory, mut integrated, mut capability) = (0, 0usize, 0, 0);
        type Get = extern "C" fn(&mut c_int, c_int) -> c_int;
        self.call("cuDeviceGet", |function: Get| function(&mut device, index))?;
        type Memory = extern "C" fn(&mut usize, c_int) -> c_int;
        self.call("cuDeviceTotalMem_v2", |function: Memory| function(&mut memory, device))?;
        type Attribute = extern "C" fn(&mut c_int, c_int, c_int) -> c_int;
        self.call("cuDeviceGetAttribute", |function: Attribute| function(&mut integrated, INTEGRATED, device))?;
        self.call("cuDeviceGetAttribute", |function: Attribute| function(&mut capability, CAPABILITY, device))?;
        Ok(GpuInfo {
            name: self.text("cuDeviceGetName", device)?,
            memory: memory as u64,
            unified: integrated != 0,
            bus: self.text("cuDeviceGetPCIBusId", device)?,
            capability: u64::try_from(capability).unwrap_or_default(),
            others: Vec::new(),
        })
    }

    /// Calls a function that writes a text about a device into a buffer.
    fn text(&self, name: &str, device: c_int) -> Result<String> {
        let mut buffer = [0u8; TEXT];
        type Write = extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
        self.call(name, |function: Write| function(buffer.as_mut_ptr().cast(), TEXT as c_int, device))?;
        Ok(CStr::from_bytes_until_nul(&buffer).unwrap_or_default().to_string_lossy().into_owned())
    }

    /// Calls the driver's function `name`, which is of type `F`.
    fn call<F: Copy>(&self, name: &str, call: impl FnOnce(F) -> c_int) -> Result<()> {
        // SAFETY: every caller gives the function's type in cuda.h; references are passed for pointers that must not be
        // null.
        let function = unsafe { self.library.get::<F>(name.as_bytes()) };
        let function = function.map_err(|cause| Error::device(format!("the NVIDIA driver is too old: {cause}")))?;
        match call(*function) {
            0 => Ok(()),
            code => Err(self.refused(name, code)),
        }
    }

    fn refused(&self, name: &str, code: c_int) -> Error {
        let error = Error::device(format!("the NVIDIA driver refuses ({name}): {}", self.error_text(code)));
        match REMEDIES.iter().find(|(known, _)| *known == code) {
            Some((_, remedy)) => error.help(*remedy),
            None => error.help("run nvidia-smi: it must list the GPU before anything can be measured on it"),
        }
    }

    /// The driver's own name of a failure.
    fn error_text(&self, code: c_int) -> String {
        let mut words: *const c_char = std::ptr::null();
        type Name = extern "C" fn(c_int, &mut *const c_char) -> c_int;
        // SAFETY: as in `call`; the driver answers with a string of static lifetime, or leaves null.
        unsafe {
            if let Ok(function) = self.library.get::<Name>(b"cuGetErrorName") {
                function(code, &mut words);
            }
            match words.is_null() {
                true => format!("error {code}"),
                false => format!("{} ({code})", CStr::from_ptr(words).to_string_lossy()),
            }
        }
    }
}
