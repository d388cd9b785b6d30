//! Measures the read bandwidth of storage, bypassing the page cache: several threads, several files, no privileges.

use super::files;
use crate::RunWatch;
use nix::errno::Errno;
use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};
use perf4sight_base::error::{Error, Result};
use perf4sight_base::units::Bytes;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Concurrent reads: disc arrays and flash need several to reach their bandwidth.
const QUEUE: usize = 4;
const PIECE: usize = 1 << 20;
/// The alignment of direct reads: a page, at least the block size of any disc.
const ALIGNMENT: usize = 4096;
const LONGEST: Duration = Duration::from_secs(5);
/// The polling interval of progress: short enough that little is read in between.
const TELL: Duration = Duration::from_millis(20);
/// The most files to read; they hold enough data.
const FILES: usize = 1000;
const LEAST: u64 = 16 << 20;

/// A measured read bandwidth.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadBandwidth {
    /// From storage, with several reads at a time.
    pub bytes_per_second: f64,
    /// How much was read for that.
    pub read: Bytes,
    /// Whether the reads were direct I/O. Otherwise the data was dropped from the page cache first, and a lower cache
    /// may have served it.
    pub direct: bool,
    /// Bytes read after some times, for the progress of the measurement.
    pub progress: Vec<(Duration, Bytes)>,
}

/// Measures the read bandwidth of the storage of this data. None after Ctrl-C.
///
/// # Errors
/// Data that is missing, cannot be read or is too little for a measurement.
pub fn storage_bandwidth(data: &Path, watch: &RunWatch<'_>) -> Result<Option<ReadBandwidth>> {
    let files = files(data).map_err(|cause| Error::io(data, "look at the data", &cause))?;
    let files: Vec<PathBuf> = files.filter(|(_, length)| *length > 0).map(|(path, _)| path).take(FILES).collect();
    let measured = [true, false].into_iter().find_map(|direct| match read(&files, direct, watch) {
        // File systems in memory and some network file systems do not support direct I/O.
        Err(cause) if direct && cause.raw_os_error() == Some(Errno::EINVAL as i32) => None,
        result => Some(result),
    });
    let measured = measured.unwrap_or(Err(io::ErrorKind::Unsupported.into()));
    let measured = measured.map_err(|cause| Error::io(data, "read the data", &cause))?;
    match measured {
        _ if watch.cancelled() => Ok(None),
        measured if measured.read.0 < LEAST => {
            Err(Error::input("there is too little data to measure the bandwidth of its storage")
                .file(data)
                .expected(format!("at least {} in files", Bytes(LEAST).in_full()))
                .help("give the bandwidth (storage_bandwidth)"))
        }
        measured => Ok(Some(measured)),
    }
}

/// Reads pieces of all files until the end or the time limit.
fn read(files: &[PathBuf], direct: bool, watch: &RunWatch<'_>) -> io::Result<ReadBandwidth> {
    let pieces = pieces(files)?;
    let (next, total, begun) = (AtomicU64::new(0), AtomicU64::new(0), Instant::now());
    let cancelled = watch.cancelled;
    // Returns the time when it finished, because the polling thread notices that later.
    let reader = || -> io::Result<Duration> {
        let mut buffer = vec![0; PIECE + ALIGNMENT];
        let start = buffer.as_ptr().align_offset(ALIGNMENT);
        let buffer = &mut buffer[start..start + PIECE];
        let mut open: Option<(usize, File)> = None;
        while begun.elapsed() < LONGEST && !cancelled.load(Ordering::Relaxed) {
            let Some(&(file, offset)) = pieces.get(next.fetch_add(1, Ordering::Relaxed) as usize) else { break };
            if open.as_ref().is_none_or(|(number, _)| *number != file) {
                open = Some((file, open_past_cache(&files[file], direct)?));
            }
            let count = open.as_ref().map_or(Ok(0), |(_, file)| file.read_at(buffer, offset))?;
            total.fetch_add(count as u64, Ordering::Relaxed);
        }
        Ok(begun.elapsed())
    };
    let mut progress = vec![(Duration::ZERO, Bytes(0))];
    let took = thread::scope(|scope| {
        let readers: Vec<_> = (0..QUEUE).map(|_| scope.spawn(reader)).collect();
        while readers.iter().any(|reader| !reader.is_finished()) {
            thread::sleep(TELL);
            progress.push((begun.elapsed(), Bytes(total.load(Ordering::Relaxed))));
        }
        let done =
            readers.into_iter().map(|reader| reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        done.collect::<io::Result<Vec<Duration>>>()
    })?;
    let (read, took) = (total.into_inner(), took.into_iter().max().unwrap_or_default());
    progress.retain(|(after, _)| *after < took);
    progress.push((took, Bytes(read)));
    Ok(ReadBandwidth { bytes_per_second: read as f64 / took.as_secs_f64(), read: Bytes(read), direct, progress })
}

/// The file index and the offset of all pieces.
fn pieces(files: &[PathBuf]) -> io::Result<Vec<(usize, u64)>> {
    let mut pieces = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let length = fs::metadata(file)?.len();
        pieces.extend((0..length).step_by(PIECE).map(|offset| (number, offset)));
    }
    Ok(pieces)
}

fn open_past_cache(file: &Path, direct: bool) -> io::Result<File> {
    if direct {
        return OpenOptions::new().read(true).custom_flags(OFlag::O_DIRECT.bits()).open(file);
    }
    let file = File::open(file)?;
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use tempfile::TempDir;

    fn measured(data: &Path) -> Result<Option<ReadBandwidth>> {
        storage_bandwidth(data, &RunWatch::quiet(&AtomicBool::new(false)))
    }

    #[test]
    fn every_byte_is_read_once_past_the_cache_where_the_file_system_can() {
        let data = TempDir::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        fs::create_dir(data.path().join("more")).unwrap();
        fs::write(data.path().join("one"), vec![1; 20 << 20]).unwrap();
        fs::write(data.path().join("more/two"), vec![1; 5_000_001]).unwrap();
        let bandwidth = measured(data.path()).unwrap().unwrap();
        assert_eq!(bandwidth.read, Bytes((20 << 20) + 5_000_001));
        assert_eq!(bandwidth.progress.last().map(|(_, read)| *read), Some(bandwidth.read));
        assert!(bandwidth.bytes_per_second > 1e6, "{bandwidth:?}");
    }

    #[test]
    fn memory_has_no_direct_reads_and_that_is_said() {
        let Ok(data) = TempDir::new_in("/dev/shm") else { return println!("not run: there is no /dev/shm") };
        fs::write(data.path().join("one"), vec![1; 17 << 20]).unwrap();
        let bandwidth = measured(data.path()).unwrap().unwrap();
        println!("direct reads in /dev/shm: {}", bandwidth.direct);
        assert_eq!(bandwidth.read, Bytes(17 << 20));
    }

    /// Reading 17 MiB from memory takes a few milliseconds, less than the polling interval.
    #[test]
    fn what_is_read_before_anybody_looks_took_no_longer_than_reading_it() {
        let Ok(data) = TempDir::new_in("/dev/shm") else { return println!("not run: there is no /dev/shm") };
        fs::write(data.path().join("one"), vec![1; 17 << 20]).unwrap();
        let took = || measured(data.path()).unwrap().unwrap().progress.last().map(|(after, _)| *after).unwrap();
        let least = (0..10).map(|_| took()).min().unwrap();
        assert!(least < TELL, "{least:?}");
    }

    #[test]
    fn too_little_data_tells_nothing() {
        let data = TempDir::new().unwrap();
        fs::write(data.path().join("one"), "little").unwrap();
        let error = measured(data.path()).unwrap_err().to_string();
        assert!(error.contains("too little data") && error.contains("16 MiB"), "{error}");
    }
}
