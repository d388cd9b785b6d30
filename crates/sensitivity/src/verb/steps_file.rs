//! A file of a job's steps, read in pieces while it grows. The content is untrusted: only regular files are read, and
//! only as much as a rate can use.

use super::arrivals::{Arrivals, Misfit};
use crate::{ReportedStep, ReportedSteps};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

/// Bytes to read between two checks of the clock.
const PIECE: u64 = 1 << 20;
/// The most bytes to read of a file: more than a million lines.
const MOST: u64 = 128 << 20;
/// The longest line of a step, in bytes.
const LONGEST: usize = 4 << 10;

pub(super) struct StepsFile {
    pub path: PathBuf,
    pub steps: ReportedSteps,
    /// Why the file is not read, or not completely.
    pub refused: Option<&'static str>,
    /// When the lines of each rank came.
    arrivals: BTreeMap<u32, Arrivals>,
    file: Option<File>,
    /// Whether no more of it is read.
    is_closed: bool,
    read: u64,
    /// An incomplete last line.
    begun: Vec<u8>,
}

impl StepsFile {
    /// A file that was not read yet; it may not exist.
    pub fn new(path: PathBuf) -> Self {
        StepsFile {
            path,
            steps: ReportedSteps::default(),
            refused: None,
            arrivals: BTreeMap::new(),
            file: None,
            is_closed: false,
            read: 0,
            begun: Vec::new(),
        }
    }

    /// Reads a piece, and returns whether there is no more for now; the job has run for `after`.
    pub fn read(&mut self, after: Duration) -> bool {
        if self.refused.is_none() && self.file.is_none() {
            self.open();
        }
        let is_read = self.refused.is_none() && !self.is_closed;
        let Some(file) = self.file.as_mut().filter(|_| is_read) else { return true };
        let mut piece = Vec::new();
        // A failed read is repeated at the next poll.
        let count = file.take(PIECE).read_to_end(&mut piece).unwrap_or(0);
        self.read += count as u64;
        self.begun.extend_from_slice(&piece);
        self.take_lines();
        self.note_arrivals(after.as_secs_f64());
        if self.read >= MOST || self.steps.is_full() {
            self.refused = Some("it is too long, and only its beginning was read");
        }
        count == 0 || self.refused.is_some()
    }

    /// Reads no more of it.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Opens it without blocking on a pipe.
    fn open(&mut self) {
        let Ok(file) = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(&self.path) else {
            return;
        };
        match file.metadata() {
            Ok(about) if about.is_file() => self.file = Some(file),
            Ok(_) | Err(_) => self.refused = Some("it is not a regular file, and was not read"),
        }
    }

    fn note_arrivals(&mut self, after: f64) {
        for (rank, steps) in &self.steps.ranks {
            let (Some(ReportedStep { time: begun, .. }), Some(ReportedStep { time, .. })) =
                (steps.first(), steps.last())
            else {
                continue;
            };
            let arrivals = self.arrivals.entry(*rank).or_insert_with(|| Arrivals::new(*begun, *time, after));
            if arrivals.time() < *time {
                arrivals.add(*time, after);
            }
        }
    }

    /// Times of any rank that are not seconds.
    pub fn misfit(&self) -> Option<Misfit> {
        self.arrivals.values().find_map(Arrivals::misfit)
    }

    fn take_lines(&mut self) {
        let Some(end) = self.begun.iter().rposition(|byte| *byte == b'\n') else {
            if self.begun.len() > LONGEST {
                // The rest of the line is invalid too.
                self.begun.clear();
                self.steps.rubbish += 1;
            }
            return;
        };
        let lines: Vec<u8> = self.begun.drain(..=end).collect();
        self.steps.add(&String::from_utf8_lossy(&lines));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Instant;
    use tempfile::TempDir;

    fn read_whole(path: PathBuf) -> StepsFile {
        let mut file = StepsFile::new(path);
        while !file.read(Duration::ZERO) {}
        file
    }

    /// The pipe has no writer, and the device never ends.
    #[test]
    fn pipes_and_devices_are_refused_at_once() {
        let folder = TempDir::new().unwrap();
        let (pipe, zero) = (folder.path().join("pipe"), folder.path().join("zero"));
        mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        symlink("/dev/zero", &zero).unwrap();
        let begun = Instant::now();
        for path in [pipe, zero] {
            assert_eq!(read_whole(path).refused, Some("it is not a regular file, and was not read"));
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
    }

    /// A sparse file of 600 GB without a line, which a job can create at once.
    #[test]
    fn a_file_without_end_is_read_in_pieces_and_not_to_its_end() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("steps");
        File::create(&path).unwrap().set_len(600_000_000_000).unwrap();
        let mut file = StepsFile::new(path);
        assert!(!file.read(Duration::ZERO) && file.read == PIECE && file.begun.len() <= LONGEST);
        while !file.read(Duration::ZERO) {}
        assert_eq!((file.read, file.refused.is_some()), (MOST, true));
    }

    #[test]
    fn a_line_counts_when_its_end_has_come() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("steps");
        let mut file = StepsFile::new(path.clone());
        assert!(file.read(Duration::ZERO) && file.refused.is_none(), "it is not there yet");
        fs::write(&path, "{\"step\": 1, \"time\": 1}\n{\"step\": 2, \"ti").unwrap();
        assert!(!file.read(Duration::ZERO));
        assert_eq!(file.steps.ranks[&0].len(), 1);
        fs::write(&path, "{\"step\": 1, \"time\": 1}\n{\"step\": 2, \"time\": 2}\n").unwrap();
        assert!(!file.read(Duration::ZERO) && file.read(Duration::ZERO));
        assert_eq!((file.steps.ranks[&0].len(), file.steps.rubbish), (2, 0));
    }
}
