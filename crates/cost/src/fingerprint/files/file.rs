//! A fingerprint as a JSON file.

use crate::fingerprint::{FORMAT, Fingerprint};
use perf4sight_base::atomic_write;
use perf4sight_base::checksum::checksum;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::input_file;
use perf4sight_step::workload::{Quantity, Stage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::error::Category;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What to do about a file that cannot be used.
const REMEDY: &str = "fit it again: [fingerprint] with overwrite = True";

/// What is expected in the place of another file.
const WRITERS: &str = "a file that [fingerprint] or calibrate --save wrote";

/// Name of the file of a fingerprint, as published but for its extension.
///
/// ```
/// use perf4sight_cost::fingerprint::file_name;
/// use perf4sight_step::workload::{Quantity, Stage};
/// assert_eq!(file_name(Stage::Training, Quantity::Memory), "training_stage_mem_used.json");
/// ```
pub fn file_name(stage: Stage, quantity: Quantity) -> String {
    let column = match quantity {
        Quantity::Latency => "latency",
        Quantity::Memory => "mem_used",
    };
    format!("{stage}_stage_{column}.json")
}

#[derive(Deserialize)]
struct FileHeader {
    format: u32,
    #[serde(default)]
    software: BTreeMap<String, String>,
}

impl FileHeader {
    fn check(&self) -> Result<()> {
        let format = self.format;
        let wrong = |age: &str| {
            let writer =
                self.software.get("perf4sight").map_or(String::new(), |version| format!(" (perf4sight {version})"));
            Error::input(format!("this fingerprint has format version {format}, {age} than this program's: another version wrote it{writer}"))
                .expected(format!("format version {FORMAT}"))
        };
        match format.cmp(&FORMAT) {
            Ordering::Equal => Ok(()),
            Ordering::Less => Err(wrong("older")),
            Ordering::Greater => Err(wrong("newer").help(format!("use the newer perf4sight, or {REMEDY}"))),
        }
    }
}

impl Fingerprint {
    /// Its path in `folder`.
    pub fn file(&self, folder: &Path) -> PathBuf {
        folder.join(file_name(self.subject.step.stage, self.subject.quantity))
    }

    /// Writes it into `folder` and returns the file. The write is atomic: after a crash the file is the old or the
    /// new one.
    ///
    /// # Errors
    /// When the folder or file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<PathBuf> {
        let file = self.file(folder);
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::from);
        let text = text.map_err(|cause| Error::io(&file, "write the fingerprint", &cause))?;
        atomic_write::save(&file, with_checksum(&text) + "\n")?;
        Ok(file)
    }

    /// The fingerprint of a stage and quantity in `folder`, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, was edited, has another format, or was fitted on other features, for
    /// another stage or for another quantity.
    pub fn load(folder: &Path, stage: Stage, quantity: Quantity) -> Result<Option<Self>> {
        let file = folder.join(file_name(stage, quantity));
        let Some(text) = input_file::text_if_there(&file, "read the fingerprint")? else { return Ok(None) };
        let fingerprint = parse(&text).and_then(|(fingerprint, seal)| {
            let fingerprint = fingerprint.check(stage, quantity)?;
            seal.map(|()| fingerprint)
        });
        fingerprint.map(Some).map_err(|error| {
            let remedy = error.remedy().is_none().then_some(REMEDY);
            remedy.into_iter().fold(error.file(&file), Error::help)
        })
    }

    fn check(self, stage: Stage, quantity: Quantity) -> Result<Self> {
        let subject = &self.subject;
        if (subject.step.stage, subject.quantity) != (stage, quantity) {
            let problem = format!("this fingerprint is of {} {}", subject.step, subject.quantity);
            return Err(Error::input(problem).expected(format!("one of {stage} {quantity}, as the file's name says")));
        }
        self.fitted.check(&self.subject)?;
        Ok(self)
    }
}

const PROVENANCE: &str = ",\n  \"provenance\": {";

const SEAL: [&str; 2] = [",\n  \"checksum\": \"", "\""];

/// The text of a fingerprint with a checksum of all but its provenance, to detect numbers changed by hand.
fn with_checksum(text: &str) -> String {
    let (content, provenance) = text.rsplit_once(PROVENANCE).unwrap_or((text, ""));
    let [before, behind] = SEAL;
    format!("{content}{before}{}{behind}{PROVENANCE}{provenance}", checksum(content.bytes()))
}

/// The text without its checksum if that matches, as it does unless another program wrote the file.
fn verify_checksum(text: &str) -> Option<String> {
    let [before, behind] = SEAL;
    let (content, rest) = text.rsplit_once(before)?;
    let (sum, provenance) = rest.split_once(behind)?;
    (checksum(content.bytes()) == sum).then(|| format!("{content}{provenance}"))
}

/// The fingerprint of a file that another program wrote, and whether its content still matches the checksum:
/// whitespace and the order of keys do not matter.
fn read_rewritten(text: &str) -> Result<(Fingerprint, Result<()>)> {
    let mut value: Value = serde_json::from_str(text).map_err(|cause| damaged_error(&cause))?;
    let sum = value.as_object_mut().and_then(|object| object.remove("checksum"));
    let fingerprint: Fingerprint = serde_json::from_value(value).map_err(|cause| damaged_error(&cause))?;
    let again = serde_json::to_string_pretty(&fingerprint).map_err(|cause| damaged_error(&cause))?;
    let content = again.rsplit_once(PROVENANCE).map_or(again.as_str(), |(content, _)| content);
    let seal = match sum.as_ref().and_then(Value::as_str) {
        Some(sum) if checksum(content.bytes()) == sum => Ok(()),
        Some(_) => Err(Error::input(
            "this fingerprint was edited, or re-written by a program that rounds numbers: its content does not fit its checksum",
        )
        .expected("the numbers as they were fitted; their layout may differ")),
        None => Err(Error::input("this fingerprint has no checksum: something else than perf4sight wrote it")
            .expected(WRITERS)),
    };
    Ok((fingerprint, seal))
}

fn damaged_error(cause: &serde_json::Error) -> Error {
    let error = Error::input(format!("this fingerprint is damaged: {cause}"));
    if cause.line() > 0 { error.line(cause.line()) } else { error }
}

fn no_fingerprint(cause: &serde_json::Error) -> Error {
    Error::input(format!("this is not a fingerprint: {cause}")).expected(WRITERS)
}

fn parse(text: &str) -> Result<(Fingerprint, Result<()>)> {
    let head: FileHeader = serde_json::from_str(text).map_err(|cause| match cause.classify() {
        Category::Data => no_fingerprint(&cause),
        Category::Syntax if cause.line() == 1 => no_fingerprint(&cause),
        Category::Syntax | Category::Eof | Category::Io => damaged_error(&cause),
    })?;
    head.check()?;
    match verify_checksum(text) {
        Some(content) => Ok((serde_json::from_str(&content).map_err(|cause| damaged_error(&cause))?, Ok(()))),
        None => read_rewritten(text),
    }
}
