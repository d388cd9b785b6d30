//! Fingerprints as files: one JSON per stage and quantity.

use super::Fingerprint;
use crate::checksum::checksum;
use crate::error::{Error, Result};
use crate::whole_file;
use crate::workload::{Quantity, Stage};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Version of the file's layout; raised whenever an older program could misread it.
pub(super) const FORMAT: u32 = 3;

/// What to do about a file that cannot be used.
const REMEDY: &str = "fit it again: [fingerprint] with overwrite = True";

/// Everything that differs between equal fits.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Provenance {
    /// When it was fitted, in RFC 3339.
    pub date: String,
    /// Seconds the fit took.
    pub seconds: f64,
}

/// Name of the file that holds a fingerprint, as published but for its ending.
///
/// ```
/// use perf4sight::fingerprint::file_name;
/// use perf4sight::workload::{Quantity, Stage};
/// assert_eq!(file_name(Stage::Training, Quantity::Memory), "training_stage_mem_used.json");
/// ```
pub fn file_name(stage: Stage, quantity: Quantity) -> String {
    let column = match quantity {
        Quantity::Latency => "latency",
        Quantity::Memory => "mem_used",
    };
    format!("{stage}_stage_{column}.json")
}

/// The part of a file that every version has.
#[derive(Deserialize)]
struct Head {
    format: u32,
}

impl Fingerprint {
    /// Where it lies in `folder`.
    pub fn file(&self, folder: &Path) -> PathBuf {
        folder.join(file_name(self.subject.stage, self.subject.quantity))
    }

    /// Writes it into `folder` and returns the file; a crash leaves the old file or the new one, never half of it.
    ///
    /// # Errors
    /// When the folder or file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        let file = self.file(folder);
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::from);
        let text = text.map_err(|cause| Error::io(&file, "write the fingerprint", &cause))?;
        whole_file::save(&file, sealed(&text) + "\n")?;
        Ok(file)
    }

    /// The fingerprint of a stage and quantity that `folder` holds, if it holds one.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged, was edited, has another format, or was fitted on other features, for another stage or
    /// for another quantity.
    pub fn load(folder: &Path, stage: Stage, quantity: Quantity) -> Result<Option<Self>> {
        let file = folder.join(file_name(stage, quantity));
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(Error::io(&file, "read the fingerprint", &cause)),
        };
        let (content, is_intact) = unsealed(&text);
        let fingerprint = parse(&content).and_then(|fingerprint| fingerprint.check(stage, quantity));
        let edited = || Error::input("this fingerprint was edited: it does not fit its checksum");
        let fingerprint = fingerprint.and_then(|fingerprint| if is_intact { Ok(fingerprint) } else { Err(edited()) });
        fingerprint.map(Some).map_err(|error| error.file(&file).help(REMEDY))
    }

    fn check(self, stage: Stage, quantity: Quantity) -> Result<Self> {
        let subject = &self.subject;
        if (subject.stage, subject.quantity) != (stage, quantity) {
            let problem = format!("this fingerprint speaks of {} {}", subject.stage, subject.quantity);
            return Err(Error::input(problem).expected(format!("one of {stage} {quantity}, as the file's name says")));
        }
        self.fitted.check(stage, quantity)?;
        Ok(self)
    }
}

/// Where the part begins that differs between equal fits, and that the checksum leaves out.
const PROVENANCE: &str = ",\n  \"provenance\": {";

/// What stands before and behind the checksum.
const SEAL: [&str; 2] = [",\n  \"checksum\": \"", "\""];

/// The text of a fingerprint with a checksum of all but its provenance: a number changed by hand would else be believed.
fn sealed(text: &str) -> String {
    let (content, provenance) = text.rsplit_once(PROVENANCE).unwrap_or((text, ""));
    let [before, behind] = SEAL;
    format!("{content}{before}{}{behind}{PROVENANCE}{provenance}", checksum(content.bytes()))
}

/// The text without its checksum, and whether that fits.
fn unsealed(text: &str) -> (String, bool) {
    let [before, behind] = SEAL;
    let parts = text.rsplit_once(before).and_then(|(content, rest)| Some((content, rest.split_once(behind)?)));
    match parts {
        Some((content, (sum, provenance))) => (format!("{content}{provenance}"), checksum(content.bytes()) == sum),
        None => (text.to_owned(), false),
    }
}

fn parse(text: &str) -> Result<Fingerprint> {
    let damaged =
        |cause: serde_json::Error| Error::input(format!("this fingerprint is damaged: {cause}")).line(cause.line());
    let head: Head = serde_json::from_str(text).map_err(damaged)?;
    if head.format != FORMAT {
        return Err(Error::input(format!("this fingerprint has format version {}", head.format))
            .expected(format!("format version {FORMAT}")));
    }
    serde_json::from_str(text).map_err(damaged)
}
