//! The facts of a device as data files: its memory, its allocator, tensors and workspaces of its libraries, its usual
//! batch sizes.
//!
//! A file is JSON with the fields of [`Platform`]; every field is required and unknown ones are refused; sizes are
//! bytes. With `like`, the name of a known device, a file holds only the fields in which the two differ. The known devices are
//! embedded ([`Platform::for_name`]), a user's own is read by [`Platform::read`].

#![warn(missing_docs)]

mod rules;
mod speed;

pub use rules::{
    Allocator, CachingSizes, ConvolutionPass, ConvolutionQuery, ConvolutionWorkspace, CounterReadings, CublasMemory,
    DropoutMask, FrameworkRules, GradientSum, NativeConvolutions, SavedRectifier, UpdateOrder,
};
pub use speed::{AssumedSpeed, DepthwiseReads, ParameterPrior, SpeedParameter};

use perf4sight_base::error::{Error, Result, nearest};
use perf4sight_base::input_file;
use perf4sight_step::workload::{AutocastDevice, LARGEST_BATCH, NumberFormat, Precision};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// The properties of a kind of device that are known before anything is measured on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// The word in configuration and folder names.
    pub name: String,
    /// Its name, for people.
    pub title: String,
    /// Whose memory tensors live in.
    pub memory: TensorMemory,
    /// Bytes of a board's memory that its system keeps from steps by default; not written for devices that share none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<u64>,
    /// Batch sizes worth measuring on it, ascending.
    pub batches: Vec<u64>,
    /// How requests for memory are served.
    pub allocator: Allocator,
    /// The tensors that its version of PyTorch keeps, and for how long.
    pub framework: FrameworkRules,
    /// The workspaces of its convolution library.
    pub workspaces: Vec<ConvolutionWorkspace>,
    /// Which readings of the counters make one number.
    pub readings: CounterReadings,
    /// How fast it is taken to be before anything is measured.
    pub speed: AssumedSpeed,
    /// Precisions that it does not support; not written where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<Precision>,
}

/// The memory tensors live in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TensorMemory {
    /// Main memory, shared with the program.
    Host,
    /// The accelerator's own.
    Dedicated,
    /// One memory that processor and accelerator share.
    Unified,
}

/// Of the names of GPUs of compute capability 9.0: H100, H200 and H20, H800, GH200.
const HOPPER: [&str; 3] = ["H100", "H20", "H800"];

/// Floats in a vector of 512 bits.
const WIDE: u64 = 16;

/// The embedded files, by name.
const KNOWN: [(&str, &str); 9] = [
    ("cpu", include_str!("data/cpu.json")),
    ("cpu_avx2", include_str!("data/cpu_avx2.json")),
    ("cuda", include_str!("data/cuda.json")),
    ("cuda_tf32", include_str!("data/cuda_tf32.json")),
    ("hopper", include_str!("data/hopper.json")),
    ("hopper_tf32", include_str!("data/hopper_tf32.json")),
    ("tx2", include_str!("data/tx2.json")),
    ("jetson", include_str!("data/jetson.json")),
    ("orin", include_str!("data/orin.json")),
];

/// How GPUs are called here, which people know by other names.
const GPUS: &str = "an NVIDIA GPU with memory of its own is cuda_tf32, an H100, H200 or GH200 hopper_tf32; cuda and hopper where a program turns TF32 off for convolutions, which PyTorch has on; of the boards tx2 is the TX2, orin every Orin, jetson all others, as Xavier and Nano";

impl Platform {
    /// The names that [`Platform::for_name`] accepts.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        KNOWN.iter().map(|(name, _)| *name)
    }

    /// The known device of that name.
    ///
    /// ```
    /// use perf4sight_platform::{TensorMemory, Platform};
    /// assert_eq!(Platform::for_name("tx2")?.memory, TensorMemory::Unified);
    /// # Ok::<(), perf4sight_base::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// An unknown name, with the nearest known one.
    pub fn for_name(name: &str) -> Result<Self> {
        Self::parse(Self::text(name)?)
    }

    /// The embedded file of that name.
    fn text(name: &str) -> Result<&'static str> {
        let found = KNOWN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
        found.ok_or_else(|| {
            let known = Self::names().collect::<Vec<_>>().join(", ");
            let error = Error::config(format!("nothing is known of a device called \"{name}\""))
                .expected(format!("one of {known}, or a file that describes another kind"))
                .help(GPUS);
            nearest(name, Self::names())
                .into_iter()
                .fold(error, |error, near| error.help(format!("did you mean \"{near}\"?")))
        })
    }

    /// A known device, or one that a file describes ([`Platform::is_file`]).
    ///
    /// # Errors
    /// As [`Platform::for_name`] and [`Platform::read`].
    pub fn named_or_read(word: &str) -> Result<Self> {
        if Self::is_file(word) { Self::read(Path::new(word)) } else { Self::for_name(word) }
    }

    /// Whether a word is a file instead of a known device: it ends in `.json` or names a folder.
    pub fn is_file(word: &str) -> bool {
        word.ends_with(".json") || word.contains('/')
    }

    /// A processor, with vectors of 512 bits or without: oneDNN chooses layouts for the widest vectors available.
    ///
    /// # Errors
    /// None: the embedded descriptions can be read.
    pub fn processor(wide_vectors: bool) -> Result<Self> {
        Self::for_name(if wide_vectors { "cpu" } else { "cpu_avx2" })
    }

    /// How many threads of a processor compute.
    #[must_use]
    pub fn threads(&self) -> Option<u64> {
        self.workspaces.iter().find_map(|workspace| match workspace {
            ConvolutionWorkspace::BlockedCopies { threads, .. } => Some(*threads),
            ConvolutionWorkspace::Winograd { .. } | ConvolutionWorkspace::ChannelsLast { .. } => None,
        })
    }

    /// The same on a number of threads, where that changes the workspaces of libraries; 0 is an unknown number.
    #[must_use]
    pub fn on_threads(mut self, number: u64) -> Self {
        for workspace in &mut self.workspaces {
            if let ConvolutionWorkspace::BlockedCopies { threads, .. } = workspace {
                *threads = if number == 0 { rules::TWO_THREADS } else { number };
            }
        }
        self
    }

    /// The same for a loop that keeps the network's results in a variable until its step ends, as `results = model(images)` does.
    #[must_use]
    pub fn holding_results(mut self) -> Self {
        self.framework.holds_result = true;
        self
    }

    /// The same for the software that runs networks, as a worker reports it: PyTorch from 2.0 on updates all weights on
    /// accelerators at once; earlier versions and libtorch update them one by one. Earlier versions keep no workspaces for products
    /// in the allocator. Where neither is named the kind of device stays as it is.
    #[must_use]
    pub fn run_by(mut self, software: &BTreeMap<String, String>) -> Self {
        let version: Option<u64> = software.get("torch").and_then(|version| version.split('.').next()?.parse().ok());
        let is_recent = version.is_some_and(|major| major >= 2);
        if version.is_some() || software.contains_key("libtorch") {
            let at_once = self.memory != TensorMemory::Host && is_recent;
            self.framework.updates = if at_once { UpdateOrder::AtOnce } else { UpdateOrder::OneByOne };
        }
        if version.is_some() && !is_recent {
            self.framework.products = None;
        }
        self
    }

    /// The name of the kind of a GPU with memory of its own, by the name that its driver gives it and whether convolutions may be computed
    /// as TF32.
    pub fn of_gpu(gpu: &str, tf32: bool) -> &'static str {
        match (HOPPER.iter().any(|name| gpu.contains(name)), tf32) {
            (false, false) => "cuda",
            (false, true) => "cuda_tf32",
            (true, false) => "hopper",
            (true, true) => "hopper_tf32",
        }
    }

    /// The convolutions that a processor's library does not compute; none on other devices.
    pub fn native_convolutions(&self) -> Option<NativeConvolutions> {
        self.workspaces.iter().find_map(|workspace| match workspace {
            ConvolutionWorkspace::BlockedCopies { threads, .. } => Some(NativeConvolutions::for_threads(*threads)),
            ConvolutionWorkspace::Winograd { .. } | ConvolutionWorkspace::ChannelsLast { .. } => None,
        })
    }

    /// Refuses precisions that it does not support, or for which its behaviour is unknown.
    ///
    /// # Errors
    /// Such a precision.
    pub fn check_precision(&self, precision: Precision) -> Result<()> {
        if self.computes_with(precision) {
            return Ok(());
        }
        let usable = Precision::ALL.into_iter().filter(|other| self.computes_with(*other));
        let usable: Vec<&str> = usable.map(Precision::name).collect();
        let Platform { name, title, .. } = self;
        Err(Error::input(format!(
            "what a step with precision = {} takes on {name} ({title}) is not known",
            precision.name()
        ))
        .expected(usable.join(", "))
        .help("ask for another precision, or for a device that computes with it"))
    }

    /// Processors have convolutions in bfloat16 where they have vectors of 512 bits (`mkldnn_bf16_device_check` of
    /// aten/src/ATen/native/mkldnn/Utils.h), and in half precision next to none.
    fn computes_with(&self, precision: Precision) -> bool {
        let wide = self.workspaces.iter().all(|workspace| match workspace {
            ConvolutionWorkspace::BlockedCopies { channels, .. } => *channels >= WIDE,
            ConvolutionWorkspace::Winograd { .. } | ConvolutionWorkspace::ChannelsLast { .. } => true,
        });
        let known = match (precision.autocast().unwrap_or(precision.held_format()), self.memory) {
            (NumberFormat::Fp32, _)
            | (NumberFormat::Fp16 | NumberFormat::Bf16, TensorMemory::Dedicated | TensorMemory::Unified) => true,
            (NumberFormat::Bf16, TensorMemory::Host) => wide,
            (NumberFormat::Fp16, TensorMemory::Host) => false,
        };
        known && !self.lacks.contains(&precision)
    }

    /// Whose lists of functions autocast uses there.
    pub fn lists(&self) -> AutocastDevice {
        match self.memory {
            TensorMemory::Host => AutocastDevice::Processor,
            TensorMemory::Dedicated | TensorMemory::Unified => AutocastDevice::Accelerator,
        }
    }

    /// A device described in a file of the user's.
    ///
    /// # Errors
    /// A file that cannot be read, is no such JSON, or holds sizes no allocator has.
    pub fn read(path: &Path) -> Result<Self> {
        let text = input_file::text(path, "read the device")?;
        Self::parse(&text).map_err(|error| error.file(path))
    }

    fn parse(text: &str) -> Result<Self> {
        let platform: Platform = match serde_json::from_str(text).map_err(undescribed)? {
            Value::Object(fields) if fields.contains_key(LIKE) => {
                serde_json::from_value(Value::Object(with_known_fields(fields)?)).map_err(undescribed)?
            }
            // Once more from the text, for the line of a mistake.
            _ => serde_json::from_str(text).map_err(undescribed)?,
        };
        platform.check()?;
        Ok(platform)
    }

    /// Refuses sizes that would let a simulation divide by zero, overflow or never end.
    ///
    /// # Errors
    /// Which they are.
    pub fn check(&self) -> Result<()> {
        let refused = |what: &str| Err(Error::input(format!("device {}: {what}", self.name)));
        if !self.allocator.is_valid() {
            return refused(
                "its allocator has a size of 0 or beyond a tebibyte, or a segment smaller than its requests",
            );
        }
        if self.workspaces.iter().any(|workspace| !workspace.is_valid()) {
            return refused(
                "one of its workspaces has a tile of none or more than 16, or a block of none or more than 1024",
            );
        }
        if let Some(problem) = self.speed.problem(self.native_convolutions().is_some()) {
            return refused(&problem);
        }
        let ascend = self.batches.first().is_none_or(|&first| first > 0) && self.batches.is_sorted_by(|a, b| a < b);
        if !ascend || self.batches.last().is_some_and(|&last| last > LARGEST_BATCH) {
            return refused("its batch sizes are not ascending from 1 to a million at most");
        }
        Ok(())
    }
}

/// The field that names the device from which a file gives only the differences.
const LIKE: &str = "like";

fn undescribed(cause: serde_json::Error) -> Error {
    let fields = "the fields that the known devices' files have";
    let error = Error::input(format!("no description of a device: {cause}")).expected(fields);
    if cause.line() > 0 { error.line(cause.line()) } else { error }
}

/// All fields of a device that is described by its differences from a known one.
fn with_known_fields(mut differences: Map<String, Value>) -> Result<Map<String, Value>> {
    let Some(like) = differences.remove(LIKE) else { return Ok(differences) };
    let name = like.as_str().unwrap_or_default();
    let known: Map<String, Value> = serde_json::from_str(Platform::text(name)?).map_err(undescribed)?;
    let mut fields = with_known_fields(known)?;
    overlay(&mut fields, differences);
    Ok(fields)
}

fn overlay(fields: &mut Map<String, Value>, differences: Map<String, Value>) {
    for (name, value) in differences {
        match (fields.get_mut(&name), value) {
            (Some(Value::Object(own)), Value::Object(more)) => overlay(own, more),
            (_, value) => {
                fields.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_device_reads_and_carries_its_name() {
        for name in Platform::names() {
            assert_eq!(Platform::for_name(name).unwrap().name, name);
        }
        assert!(Platform::for_name("tx3").unwrap_err().to_string().contains("did you mean \"tx2\"?"));
    }

    #[test]
    fn a_device_like_another_differs_in_what_its_file_says() {
        let mine = r#"{ "like": "hopper", "name": "mine", "speed": { "priors": { "launch": [0.5, 0.1] } } }"#;
        let [mine, hopper] = [Platform::parse(mine), Platform::for_name("hopper")].map(Result::unwrap);
        let spread = |platform: &Platform| serde_json::to_value(&platform.speed).unwrap()["priors"].clone();
        assert_eq!((mine.framework, &mine.workspaces), (hopper.framework, &hopper.workspaces));
        assert_eq!(spread(&mine)["launch"], serde_json::json!([0.5, 0.1]));
        assert_eq!(spread(&mine)["compute"], spread(&hopper)["compute"]);
        let refused = |text: &str| Platform::parse(text).unwrap_err().to_string();
        assert!(refused(r#"{ "like": "hoper" }"#).contains("did you mean \"hopper\"?"));
        assert!(refused(r#"{ "like": "cuda", "nmae": "mine" }"#).contains("unknown field `nmae`"));
        assert!(refused(r#"{ "like": 7 }"#).contains("nothing is known of a device called"));
    }

    #[test]
    fn what_is_missing_unknown_or_absurd_is_refused() {
        let good = Platform::text("tx2").unwrap();
        let refused = |from: &str, to: &str| Platform::parse(&good.replace(from, to)).unwrap_err().to_string();
        assert!(refused("\"memory\": \"unified\",", "").contains("missing field `memory`"));
        assert!(refused("\"unified\"", "\"shared\"").contains("unknown variant `shared`"));
        assert!(refused("\"round\": 512", "\"round\": 0").contains("allocator"));
        assert!(refused("\"output_tile\": 4", "\"output_tile\": 0").contains("workspaces"));
        assert!(refused("[2, 4,", "[0, 4,").contains("batch sizes"));
        // Sizes that would overflow or never end.
        assert!(refused("\"output_tile\": 4", "\"output_tile\": 9223372036854775808").contains("workspaces"));
        assert!(refused("\"round\": 512", "\"round\": 18446744073709551615").contains("allocator"));
        assert!(refused("\"overlap\": 3", "\"overlap\": 1e300").contains("overlap"));
        assert!(refused("[2, 4,", "[2, 2,").contains("batch sizes"));
        let processor = Platform::text("cpu").unwrap().replace("\"mish\"", "\"mihs\"");
        assert!(Platform::parse(&processor).unwrap_err().to_string().contains("\"mihs\", which is no function"));
        assert!(refused("\"step\": [1, ", "\"step\": [1e300, ").contains("speed"));
    }
}
