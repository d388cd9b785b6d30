//! What data sheets promise of GPUs, as data.

use serde::Deserialize;
use std::sync::LazyLock;

/// The rates of a data sheet.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Sheet {
    /// The name of the GPU.
    pub name: String,
    /// TFLOP/s of products in single precision.
    pub single_tflops: f64,
    /// TFLOP/s of products in half precision.
    pub half_tflops: f64,
    /// GB/s of memory.
    pub memory_gbs: f64,
}

static SHEETS: LazyLock<Vec<Sheet>> = LazyLock::new(read);

/// The table of this program; a test reads every row.
fn read() -> Vec<Sheet> {
    let table = include_bytes!("data/gpus.csv").as_slice();
    csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(table).deserialize().flatten().collect()
}

/// All known GPUs.
pub fn sheets() -> &'static [Sheet] {
    &SHEETS
}

/// The GPU that a name contains, such as that of a folder or `NVIDIA H100 80GB HBM3`. Of several the longest counts: `GH200`
/// contains `H200`.
pub fn sheet(name: &str) -> Option<&'static Sheet> {
    let name = bare(name);
    SHEETS.iter().filter(|sheet| name.contains(&bare(&sheet.name))).max_by_key(|sheet| sheet.name.len())
}

/// Letters and digits alone, in lower case.
pub(crate) fn bare(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_read() {
        let rows = include_str!("data/gpus.csv").lines().filter(|line| !line.starts_with('#')).count() - 1;
        assert_eq!(sheets().len(), rows);
    }

    #[test]
    fn gpus_are_known_by_the_names_of_drivers_and_folders() {
        let named = |name| sheet(name).map(|sheet| sheet.name.as_str());
        assert_eq!(named("NVIDIA H100 80GB HBM3"), Some("H100"));
        assert_eq!(named("NVIDIA GH200 480GB"), Some("GH200"));
        assert_eq!(named("Tesla V100-SXM2-32GB"), Some("V100"));
        assert_eq!(named("NVIDIA GeForce GTX 1080 Ti"), Some("1080Ti"));
        assert_eq!(named("20210125_a100_resnet50"), Some("A100"));
        assert_eq!(named("epyc"), None);
    }
}
