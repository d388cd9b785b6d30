//! Bandwidths of links by the size of messages.

use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// The least bandwidth that a polynomial may give, in bytes a second: outside what it was fitted on it may fall below 0.
const LEAST: f64 = 1e7;
/// Megabytes of the smallest message that it is evaluated for.
const SMALLEST_MB: f64 = 0.1;

/// Coefficients of a polynomial in the binary logarithm of megabytes, the highest power first, in GB/s; and the largest
/// bandwidth in bytes a second.
type BandwidthCurve = (Vec<f64>, f64);

/// Bandwidths between nodes, by the kind of their GPUs and the number of GPUs that send at once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeLinks {
    inter: BTreeMap<String, BTreeMap<u64, BandwidthCurve>>,
}

impl NodeLinks {
    /// Reads `network_coefficients.json`, as Sailor writes it: `inter`, then kind of GPU, number of GPUs, `[[..], max]`.
    ///
    /// # Errors
    /// A file that cannot be read, or holds no bandwidths.
    pub fn read(file: &Path) -> Result<Self> {
        let text = input_file::text(file, "read the bandwidths of links")?;
        let wrong = |problem: String| {
            Error::input(problem)
                .file(file)
                .expected("\"inter\": kind of GPU, number of GPUs, [[coefficients], largest]")
        };
        let links: NodeLinks =
            serde_json::from_str(&text).map_err(|cause| wrong(format!("these are no bandwidths: {cause}")))?;
        let all = links.inter.values().flat_map(BTreeMap::values);
        match all.clone().any(|(_, largest)| !(largest.is_finite() && *largest > 0.0)) || all.count() == 0 {
            true => Err(wrong("a bandwidth is not a positive number, or there are none".to_owned())),
            false => Ok(links),
        }
    }

    /// Seconds of a message of one GPU to another node.
    ///
    /// # Errors
    /// GPUs whose link was not measured.
    pub fn seconds(&self, gpu: &str, bytes: f64) -> Result<f64> {
        let links = self.inter.get(gpu).and_then(|links| links.values().next());
        let (coefficients, largest) = links.ok_or_else(|| {
            Error::input(format!("there is no bandwidth between nodes of {gpu}"))
                .one_of(gpu, self.inter.keys().map(String::as_str))
        })?;
        let size = (bytes / 1e6).max(SMALLEST_MB).log2();
        let bandwidth = 1e9 * coefficients.iter().fold(0.0, |sum, coefficient| sum * size + coefficient);
        Ok(bytes / bandwidth.clamp(LEAST.min(*largest), *largest))
    }
}
