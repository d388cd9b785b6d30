//! Stores measured points as soon as each is finished, so that none is measured twice.

use super::points::{MeasuredPoint, ResourceConfiguration, one_or_several};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::{atomic_write, input_file};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub(super) const FILE: &str = "points.json";
const FORMAT: u32 = 1;

/// All points of a job, in a file.
#[derive(Debug)]
pub(super) struct PointStore {
    file: PathBuf,
    job: String,
    /// In the order of measurement.
    pub points: Vec<MeasuredPoint>,
    /// Points whose runs were all disturbed so far, and which are to be run again.
    unfinished: Vec<MeasuredPoint>,
    /// Points in the file that were always disturbed, or failed: each is run once more.
    due: Vec<ResourceConfiguration>,
}

#[derive(Serialize, Deserialize)]
struct StoreContents {
    format: u32,
    /// The identity of the job: points of other jobs have another one.
    job: String,
    points: Vec<MeasuredPoint>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_several")]
    unfinished: Vec<MeasuredPoint>,
}

impl PointStore {
    /// Opens the points of a job in a folder; empty where there are none, or where they are to be discarded.
    ///
    /// # Errors
    /// A file that cannot be read, points of another job.
    pub fn open(folder: &Path, job: &str, overwrite: bool) -> Result<Self> {
        let file = folder.join(FILE);
        let store = |points: Vec<MeasuredPoint>, unfinished| {
            let is_due = |point: &&MeasuredPoint| point.is_doubtful() || point.has_failed();
            let due = points.iter().filter(is_due).map(|point| point.configuration).collect();
            PointStore { file: file.clone(), job: job.to_owned(), points, unfinished, due }
        };
        if overwrite || !file.exists() {
            return Ok(store(Vec::new(), Vec::new()));
        }
        let contents = contents(&file)?;
        // Older files have a blank at the end.
        let (stored, job) = (contents.job.trim_end(), job.trim_end());
        if (contents.format, stored) != (FORMAT, job) {
            return Err(Error::usage(format!(
                "the points here are those of another job, or measured otherwise: {stored}"
            ))
            .file(&file)
            .expected(job)
            .help("choose another folder (out), or throw these away (overwrite)"));
        }
        Ok(store(contents.points, contents.unfinished))
    }

    /// Stores a point, replacing earlier data of it.
    pub fn add(&mut self, point: MeasuredPoint) -> Result<()> {
        self.due.retain(|configuration| *configuration != point.configuration);
        self.unfinished.retain(|begun| begun.configuration != point.configuration);
        match self.points.iter_mut().find(|known| known.configuration == point.configuration) {
            Some(known) => *known = point,
            None => self.points.push(point),
        }
        self.save()
    }

    /// Stores the runs of a point that is to be run again.
    pub fn begin(&mut self, point: &MeasuredPoint) -> Result<()> {
        self.unfinished.retain(|begun| begun.configuration != point.configuration);
        self.unfinished.push(point.clone());
        self.save()
    }

    /// Takes points that were always disturbed, or failed, as they are.
    pub fn accept_all(&mut self) {
        self.due.clear();
    }

    /// Seconds that all runs took.
    pub fn seconds(&self) -> f64 {
        self.points.iter().chain(&self.unfinished).flat_map(|point| &point.runs).map(|run| run.seconds).sum()
    }

    /// Whether there are runs of an unfinished point.
    pub fn has_begun(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// The runs of a point that it goes on from: none of one that failed.
    pub fn unfinished_point(&self, configuration: ResourceConfiguration) -> MeasuredPoint {
        let kept = self.unfinished.iter().find(|point| point.configuration == configuration);
        let known = self.find(configuration).filter(|point| !point.has_failed());
        kept.or(known).cloned().unwrap_or(MeasuredPoint { configuration, runs: Vec::new() })
    }

    /// All configurations with data: of points, and of unfinished ones.
    pub fn configurations(&self) -> impl Iterator<Item = ResourceConfiguration> {
        self.points.iter().chain(&self.unfinished).map(|point| point.configuration)
    }

    /// Whether a point in the file was always disturbed, or failed, and was not run again since.
    pub fn is_due(&self, configuration: ResourceConfiguration) -> bool {
        self.due.contains(&configuration)
    }

    fn save(&self) -> Result<()> {
        let (job, points) = (self.job.clone(), self.points.clone());
        let contents = StoreContents { format: FORMAT, job, points, unfinished: self.unfinished.clone() };
        let text = serde_json::to_string_pretty(&contents).expect("numbers and text are JSON");
        atomic_write::save(&self.file, text + "\n")
    }

    pub fn find(&self, configuration: ResourceConfiguration) -> Option<&MeasuredPoint> {
        self.points.iter().find(|point| point.configuration == configuration)
    }
}

/// Whether a folder has points, of any job.
///
/// # Errors
/// A file that cannot be read, or is of another version.
pub(super) fn has_points(folder: &Path) -> Result<bool> {
    let file = folder.join(FILE);
    let known = file.exists().then(|| contents(&file)).transpose()?;
    Ok(known.is_some_and(|known| !known.points.is_empty() || !known.unfinished.is_empty()))
}

fn contents(file: &Path) -> Result<StoreContents> {
    let text = input_file::text(file, "read the points that were measured")?;
    serde_json::from_str(&text)
        .map_err(|cause| Error::input(format!("these are no points of this version: {cause}")).file(file))
}

#[cfg(test)]
mod tests;
