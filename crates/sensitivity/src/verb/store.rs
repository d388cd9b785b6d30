//! Points that were measured, kept as soon as each is finished: none is measured twice.

use super::points::{Configuration, Point, one_or_several};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::{atomic_write, input_file};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The file of points.
const FILE: &str = "points.json";
/// Its version.
const FORMAT: u32 = 1;

/// All points of a job, in a file.
#[derive(Debug)]
pub(super) struct Store {
    file: PathBuf,
    job: String,
    /// In the order in which they were measured.
    pub points: Vec<Point>,
    /// Points whose runs were all disturbed until now, and which are to be run again.
    unfinished: Vec<Point>,
    /// Points that were found here and were disturbed every time: each is run once more.
    due: Vec<Configuration>,
}

/// What the file holds.
#[derive(Serialize, Deserialize)]
struct Contents {
    format: u32,
    /// What points of another job do not have in common.
    job: String,
    points: Vec<Point>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "one_or_several")]
    unfinished: Vec<Point>,
}

impl Store {
    /// The points of a job in a folder; none where there are none, or where they are to be thrown away.
    ///
    /// # Errors
    /// A file that cannot be read, points of another job.
    pub fn open(folder: &Path, job: &str, overwrite: bool) -> Result<Self> {
        let file = folder.join(FILE);
        let store = |points: Vec<Point>, unfinished| {
            let due = points.iter().filter(|point| point.is_doubtful()).map(|point| point.configuration).collect();
            Store { file: file.clone(), job: job.to_owned(), points, unfinished, due }
        };
        if overwrite || !file.exists() {
            return Ok(store(Vec::new(), Vec::new()));
        }
        let text = input_file::text(&file, "read the points that were measured")?;
        let contents: Contents = serde_json::from_str(&text)
            .map_err(|cause| Error::input(format!("these are no points of this version: {cause}")).file(&file))?;
        if (contents.format, contents.job.as_str()) != (FORMAT, job) {
            return Err(Error::usage("the points here are those of another job, or measured otherwise")
                .file(&file)
                .expected(job)
                .help("choose another folder (out), or throw these away (overwrite)"));
        }
        Ok(store(contents.points, contents.unfinished))
    }

    /// Keeps a point, in the place of what was known of it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, point: Point) -> Result<()> {
        self.due.retain(|configuration| *configuration != point.configuration);
        self.unfinished.retain(|begun| begun.configuration != point.configuration);
        match self.points.iter_mut().find(|known| known.configuration == point.configuration) {
            Some(known) => *known = point,
            None => self.points.push(point),
        }
        self.save()
    }

    /// Keeps the runs of a point that is to be run again.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn begin(&mut self, point: &Point) -> Result<()> {
        self.unfinished.retain(|begun| begun.configuration != point.configuration);
        self.unfinished.push(point.clone());
        self.save()
    }

    /// Whether runs are kept of a point that is not finished.
    pub fn has_begun(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// A point with the runs that were kept of it.
    pub fn begun(&self, configuration: Configuration) -> Point {
        let kept = self.unfinished.iter().find(|point| point.configuration == configuration);
        kept.or(self.at(configuration)).cloned().unwrap_or(Point { configuration, runs: Vec::new() })
    }

    /// The places that anything is known of: of points, and of those that are not finished.
    pub fn configurations(&self) -> impl Iterator<Item = Configuration> {
        self.points.iter().chain(&self.unfinished).map(|point| point.configuration)
    }

    /// Whether a point was found here that was disturbed every time, and was not run again since.
    pub fn is_due(&self, configuration: Configuration) -> bool {
        self.due.contains(&configuration)
    }

    fn save(&self) -> Result<()> {
        let (job, points) = (self.job.clone(), self.points.clone());
        let contents = Contents { format: FORMAT, job, points, unfinished: self.unfinished.clone() };
        let text = serde_json::to_string_pretty(&contents).expect("numbers and text are JSON");
        atomic_write::save(&self.file, text + "\n")
    }

    /// The point of a configuration.
    pub fn at(&self, configuration: Configuration) -> Option<&Point> {
        self.points.iter().find(|point| point.configuration == configuration)
    }
}

#[cfg(test)]
mod tests;
