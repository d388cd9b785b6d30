//! The provenance of a profile's rows: a JSON file next to them, which also decides whether more rows may be appended.

use perf4sight_base::atomic_write;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_base::units::{count_text, grouped_digits};
use perf4sight_machine::{Conditions, MachineProperties, differences};
use perf4sight_network::Network;
use perf4sight_step::workload::{Quantity, Stage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::path::Path;

/// The name of the file, next to the folders `latency` and `memory`.
pub const PROVENANCE_FILE: &str = "provenance.json";

/// The conditions under which the rows of one profile were measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileProvenance {
    /// The facts that all rows share, by name: device, processor, memory, threads, software versions.
    pub setting: MachineProperties,
    /// The runs that added rows, oldest first.
    pub runs: Vec<ProfileRun>,
}

/// One run that added rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfileRun {
    /// When it began, in RFC 3339.
    pub date: String,
    /// Seconds that its configurations took.
    pub seconds: f64,
    /// Seconds of them that the device spent in steps; the rest is start-up and bookkeeping. Zero if not counted.
    #[serde(default)]
    pub measuring: f64,
    /// Additional seconds that its configurations waited: for other measurements on the machine, or for a lost
    /// connection to a board.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waiting: f64,
    /// The number of rows it added.
    pub rows: usize,
    /// The estimated errors of fits on the rows so far, if the plan uses such estimates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learned: Vec<ErrorEstimate>,
    /// The agreement of the repetitions of its rows, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visits: Option<Repeatability>,
    /// The networks whose rows it added, by the stems of their files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub networks: BTreeMap<String, NetworkSize>,
    /// The value of the key `seed`.
    pub seed: u64,
    /// Clocks and temperatures at the start of its first measurement and the end of its last one, if the device
    /// reports them.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    pub conditions: Conditions,
    /// The text of the configuration file.
    pub config: String,
}

/// What tells a network from another one in a file of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkSize {
    /// Elements of its weights.
    pub parameters: u64,
    /// Multiply-accumulates of forward for one sample.
    pub macs: u64,
}

impl From<&Network> for NetworkSize {
    fn from(network: &Network) -> Self {
        NetworkSize { parameters: network.parameters(), macs: network.macs() }
    }
}

impl Display for NetworkSize {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        write!(f, "{} and {} MACs", count_text(self.parameters, "parameter"), grouped_digits(self.macs))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// The agreement of repeated measurements of the same step: how precisely the machine could be measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Repeatability {
    /// Rows measured twice or more, including those of earlier runs.
    pub rows: usize,
    /// Rows measured once, because the time was up.
    pub single: usize,
    /// Rows measured more than twice, because their times disagreed or did not fit the other rows.
    pub more: usize,
    /// Rows whose time is marked as doubtful.
    pub marked: usize,
    /// Median of the rows' spreads: half of the difference between the shortest time and the next one, relative to the
    /// shortest.
    pub median: f64,
    /// The spread that nine rows out of ten do not exceed.
    pub most: f64,
}

/// The estimated error of a fit on the rows measured so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ErrorEstimate {
    /// Configurations measured so far.
    pub measured: usize,
    /// How long its measurements took.
    pub seconds: f64,
    /// Training or inference.
    pub stage: Stage,
    /// Latency or memory.
    pub quantity: Quantity,
    /// Mean absolute percentage error on the rows that were left out of the fit.
    pub error: f64,
}

impl ProfileProvenance {
    /// The provenance of the profile in `log_dir`, if it has one.
    ///
    /// # Errors
    /// A file that cannot be read or is not what [`ProfileProvenance::save`] writes.
    pub fn load(log_dir: &Path) -> Result<Option<Self>> {
        let file = log_dir.join(PROVENANCE_FILE);
        let Some(text) = input_file::text_if_there(&file, "read the provenance")? else { return Ok(None) };
        serde_json::from_str(&text).map(Some).map_err(|cause| {
            Error::input(format!("the provenance cannot be understood: {cause}"))
                .file(&file)
                .line(cause.line())
                .help("restore the file, or profile into a new log_dir")
        })
    }

    /// Writes it next to the rows; after a crash either the old or the new file is there, never half of one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, log_dir: &Path) -> Result<()> {
        let file = log_dir.join(PROVENANCE_FILE);
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::from);
        let text = text.map_err(|cause| Error::io(&file, "write the provenance", &cause))?;
        atomic_write::save(&file, text + "\n")
    }

    /// Refuses to append to rows that were measured under another setting.
    ///
    /// # Errors
    /// When `now` differs: the differences, and how to start a new profile.
    pub fn check_continues(&self, now: &MachineProperties, log_dir: &Path) -> Result<()> {
        let differences = differences(&self.setting, now);
        if differences.is_empty() {
            return Ok(());
        }
        Err(Error::input(format!("the rows here were measured under another setting: {}", differences.join("; ")))
            .file(log_dir.join(PROVENANCE_FILE))
            .help(format!("start again with another device_name or log_dir, or move {} away", log_dir.display())))
    }

    /// Refuses rows of another network than the one that is in the file of its name now.
    ///
    /// # Errors
    /// When the rows of `stem` in `log_dir` were measured with a network of another size.
    pub fn check_network(&self, stem: &str, now: NetworkSize, log_dir: &Path) -> Result<()> {
        let measured = self.runs.iter().rev().find_map(|run| run.networks.get(stem));
        match measured.filter(|measured| **measured != now) {
            None => Ok(()),
            Some(measured) => Err(Error::input(format!(
                "the rows of {stem} here were measured with a network of {measured}, and {stem}.onnx has {now} now"
            ))
            .file(log_dir.join(PROVENANCE_FILE))
            .help(format!(
                "bring the file back (the same seed prunes the same), or delete the rows of {stem}; another log_dir keeps both"
            ))),
        }
    }
}
