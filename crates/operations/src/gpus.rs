//! What data sheets promise of GPUs, as data.

use serde::Deserialize;
use std::sync::LazyLock;

/// The rates of a data sheet.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DataSheet {
    /// The name of the GPU.
    pub name: String,
    /// TFLOP/s of products in single precision.
    pub single_tflops: f64,
    /// TFLOP/s of products in single precision on tensor cores, which round to 10 bits behind the point; 0 where there are none.
    pub tf32_tflops: f64,
    /// TFLOP/s of products in half precision.
    pub half_tflops: f64,
    /// GB/s of memory.
    pub memory_gbs: f64,
    /// Letters behind the name that make no other GPU of it.
    suffix: String,
}

/// FLOPs a microsecond of a TFLOP/s.
const TERA: f64 = 1e6;

static SHEETS: LazyLock<Vec<DataSheet>> = LazyLock::new(read);

/// The table of this program; a test reads every row.
fn read() -> Vec<DataSheet> {
    let table = include_bytes!("data/gpus.csv").as_slice();
    csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(table).deserialize().flatten().collect()
}

/// All known GPUs.
pub fn sheets() -> &'static [DataSheet] {
    &SHEETS
}

/// Words behind the name of a GPU that make another one of it: `RTX 3090 Ti`, `RTX 4090 Laptop GPU`, `H200 NVL`.
const OTHERS: [&str; 9] = ["ti", "super", "d", "laptop", "mobile", "max", "ada", "nvl", "cnx"];
/// Words in names of parts of a GPU: slices (MIG), and virtual GPUs.
const PARTS: [&str; 3] = ["mig", "grid", "vgpu"];

/// Whether a name is that of a part of a GPU, as `A100-SXM4-40GB MIG 3g.20gb`, which has the rates of none.
pub(crate) fn is_part(name: &str) -> bool {
    let slice = |word: &str| matches!(word.as_bytes(), [b'1'..=b'7', b'g' | b'G']);
    name_words(name).any(|word| slice(word) || PARTS.iter().any(|part| word.eq_ignore_ascii_case(part)))
}

/// Whether a word behind the name of a GPU makes another one of it, or a virtual one as in `A40-12Q`.
fn is_other(word: &str) -> bool {
    let profile = word.strip_suffix(['A', 'C', 'Q', 'a', 'c', 'q']);
    let is_virtual = profile.is_some_and(|size| !size.is_empty() && size.bytes().all(|letter| letter.is_ascii_digit()));
    is_virtual || OTHERS.iter().any(|other| word.eq_ignore_ascii_case(other))
}

/// Its runs of letters and digits.
fn name_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

/// The GPU that a name contains as a word, such as that of a folder or `NVIDIA H100 80GB HBM3`: `L40` is no L4, `GB200` no B200, and a part of a GPU none.
pub fn sheet(name: &str) -> Option<&'static DataSheet> {
    if is_part(name) {
        return None;
    }
    let is_inner = |letter: char| letter.is_ascii_alphanumeric();
    let begins = name.char_indices().filter(|(place, letter)| is_inner(*letter) && !name[..*place].ends_with(is_inner));
    let begins: Vec<&str> = begins.map(|(place, _)| &name[place..]).collect();
    let is_named = |sheet: &&DataSheet| begins.iter().any(|text| sheet.names(text));
    SHEETS.iter().filter(is_named).max_by_key(|sheet| sheet.name.len())
}

impl DataSheet {
    /// Whether a text begins with the name, whatever is between its letters, and does not go on with what makes another GPU of it.
    fn names(&self, text: &str) -> bool {
        let mut letters = text.chars();
        let mut next = || letters.find(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase());
        let begins = normalised_name(&self.name).chars().all(|letter| next() == Some(letter));
        let rest = letters.as_str();
        let more = rest.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default();
        let is_whole = more.is_empty() || more.eq_ignore_ascii_case(&self.suffix);
        begins && is_whole && !name_words(&rest[more.len()..]).next().is_some_and(is_other)
    }

    /// The most FLOPs a microsecond of products: in single precision those of TF32, half of those in half precision; a GPU without units for half precision
    /// computes it in single.
    pub(crate) fn most_flops(&self, half: bool) -> f64 {
        TERA * match half {
            true => self.half_tflops.max(self.single_tflops),
            false => self.single_tflops.max(self.half_tflops / 2.0),
        }
    }

    /// Whether it is another GPU than that of a data sheet, and no model of it: an `H100 PCIe` may be called `H100`.
    pub(crate) fn contradicts(&self, other: &DataSheet) -> bool {
        !normalised_name(&self.name).starts_with(&normalised_name(&other.name))
    }
}

/// Letters and digits alone, in lower case.
pub(crate) fn normalised_name(name: &str) -> String {
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
            "NVIDIA H20",
            "NVIDIA GeForce RTX 3090 Ti",
            "NVIDIA GeForce RTX 4090 Laptop GPU",
            "NVIDIA H200 NVL",
        ] {
            assert_eq!(sheet(other), None, "{other}");
        }
    }

    /// Names that the driver gives to slices and virtual GPUs (NVIDIA's user guides of MIG and vGPU).
    #[test]
    fn a_part_of_a_gpu_is_not_the_gpu() {
        for part in [
            "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
            "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
            "GRID A100-10C",
            "NVIDIA A40-12Q",
        ] {
            assert_eq!(sheet(part), None, "{part}");
        }
        assert!(sheet("a100_llama-7b").is_some() && sheet("A100-SXM4-40GB").is_some());
    }
}
