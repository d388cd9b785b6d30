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
    /// Letters behind the name that make no other GPU of it.
    suffix: String,
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

/// The GPU that a name contains as a word, such as that of a folder or `NVIDIA H100 80GB HBM3`: `L40` is no L4, `GB200` no B200.
pub fn sheet(name: &str) -> Option<&'static Sheet> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric();
    let words = name.char_indices().filter(|(place, letter)| is_part(*letter) && !name[..*place].ends_with(is_part));
    let words: Vec<&str> = words.map(|(place, _)| &name[place..]).collect();
    let is_named = |sheet: &&Sheet| words.iter().any(|word| sheet.names(word));
    SHEETS.iter().filter(is_named).max_by_key(|sheet| sheet.name.len())
}

impl Sheet {
    /// Whether a text begins with the name, whatever is between its letters, and does not go on with others.
    fn names(&self, text: &str) -> bool {
        let mut letters = text.chars();
        let mut next = || letters.find(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase());
        let begins = bare(&self.name).chars().all(|letter| next() == Some(letter));
        let more = letters.as_str().split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default();
        begins && (more.is_empty() || more.eq_ignore_ascii_case(&self.suffix))
    }

    /// Whether it is another GPU than that of a data sheet, and no model of it: an `H100 PCIe` may be called `H100`.
    pub(crate) fn contradicts(&self, other: &Sheet) -> bool {
        !bare(&self.name).starts_with(&bare(&other.name))
    }
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
        assert_eq!(named("Titan-RTX"), Some("TitanRTX"));
        assert_eq!(named("AMD Instinct MI300X"), Some("MI300"));
        assert_eq!(named("epyc"), None);
        assert_eq!(named("NVIDIA H100 PCIe"), Some("H100 PCIe"));
        assert_eq!(named("NVIDIA A10G"), Some("A10G"));
    }

    #[test]
    fn a_gpu_whose_name_begins_or_ends_as_that_of_another_is_not_it() {
        for other in [
            "L40",
            "L400",
            "A4000",
            "NVIDIA RTX A4000",
            "A1000",
            "P1000",
            "T400",
            "H1000",
            "NVIDIA GB200",
            "H100x",
            "A100X",
        ] {
            assert_eq!(sheet(other), None, "{other}");
        }
    }
}
