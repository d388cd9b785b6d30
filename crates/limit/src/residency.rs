//! A page cache of a given size without privileges: a fixed, scattered part of the data may stay, the rest is dropped
//! repeatedly.
//!
//! The part that stays does not depend on access, so the hit rate is its share: a cache that never evicts what it holds
//! ("MinIO" in Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021). Pages that a process
//! has mapped or that are not yet written back are not dropped.

use super::Resource;
use super::backend::{Backend, BackendGrip, BackendInfo, BackendRequest, JobHold};
use super::usage::ResourceUsage;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use perf4sight_machine::RunWatch;
use perf4sight_machine::data::files;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Limits the page cache, but not the job's own allocations.
static RESIDENCY: BackendInfo = BackendInfo {
    name: "residency governor",
    resources: &[Resource::Memory],
    grip: BackendGrip::Watches,
    page_cache_only: true,
};

/// The unit that stays or is dropped: the kernel's readahead size. A smaller file stays or is dropped as a whole.
const BLOCK: u64 = 128 << 10;
/// The most blocks of one file. Larger files have larger blocks, because a round would otherwise take too long.
const BLOCKS: u64 = 4096;
/// The time between rounds of dropping pages.
const ROUND: Duration = Duration::from_millis(100);
/// The longest time of dropping in a round: a tenth of a CPU.
const LONGEST: Duration = Duration::from_millis(10);
const OPEN: usize = 256;

#[derive(Debug)]
pub(super) struct PageResidency {
    data: Option<PathBuf>,
}

impl PageResidency {
    pub fn new(data: Option<&Path>) -> Self {
        PageResidency { data: data.map(Path::to_owned) }
    }
}

impl Backend for PageResidency {
    fn info(&self) -> &'static BackendInfo {
        &RESIDENCY
    }

    fn check(&mut self, _: Resource, _: &RunWatch<'_>) -> Result<(), String> {
        let unknown = || "it is not known which data is read: give its folder".to_owned();
        self.data.as_ref().map(drop).ok_or_else(unknown)
    }

    fn set_limits(&self, request: &BackendRequest<'_>) -> io::Result<Option<Box<dyn JobHold>>> {
        let Some((memory, data)) = request.limits.memory.zip(self.data.as_ref()) else { return Ok(None) };
        Ok(Some(Box::new(PageGovernor::start(data, memory.0)?)))
    }
}

/// Drops pages until it is dropped itself.
#[derive(Debug)]
struct PageGovernor {
    over: Arc<AtomicBool>,
    dropping: Option<JoinHandle<()>>,
}

impl PageGovernor {
    /// Lets so many bytes of the data stay in the page cache.
    fn start(data: &Path, room: u64) -> io::Result<Self> {
        let ranges = DroppedRanges::choose(data, room)?;
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let dropping = thread::spawn(move || ranges.drop_until(&is_over));
        Ok(PageGovernor { over, dropping: Some(dropping) })
    }
}

impl JobHold for PageGovernor {
    fn counts_cpu(&self) -> bool {
        false
    }

    fn usage(&mut self) -> ResourceUsage {
        ResourceUsage::default()
    }
}

impl Drop for PageGovernor {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(dropping) = self.dropping.take() {
            let _ = dropping.join();
        }
    }
}

/// Drops all of the data from the page cache, so that no earlier reads count as hits; returns the number of files
/// dropped.
pub(super) fn evict(data: &Path) -> io::Result<usize> {
    let mut evicted = 0;
    for (file, _) in files(data)? {
        // A file that we cannot read cannot be dropped, but the job cannot read it either.
        if let Ok(file) = File::open(file) {
            // Dirty pages are not dropped.
            let _ = file.sync_data();
            posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
            evicted += 1;
        }
    }
    Ok(evicted)
}

struct DroppedRanges {
    files: Vec<FileRanges>,
}

/// The parts of one file to drop: their offsets and lengths.
struct FileRanges {
    path: PathBuf,
    open: Option<File>,
    ranges: Vec<(i64, i64)>,
}

impl DroppedRanges {
    fn choose(data: &Path, room: u64) -> io::Result<Self> {
        // Sorted by name, so that the same parts stay each time.
        let mut found: Vec<(PathBuf, u64)> = files(data)?.collect();
        let share = room as f64 / found.iter().map(|(_, length)| length).sum::<u64>().max(1) as f64;
        found.sort();
        let mut blocks = 0;
        let files = found.into_iter().enumerate().map(|(number, (path, length))| {
            let open = if number < OPEN { File::open(&path).ok() } else { None };
            FileRanges { path, open, ranges: to_drop(&mut blocks, length, share) }
        });
        Ok(DroppedRanges { files: files.filter(|file| !file.ranges.is_empty()).collect() })
    }

    /// Drops round after round; a round without enough time is continued by the next.
    fn drop_until(&self, over: &AtomicBool) {
        let mut files = self.files.iter().cycle();
        while !over.load(Ordering::Relaxed) {
            let begun = Instant::now();
            for FileRanges { path, open, ranges } in files.by_ref().take(self.files.len()) {
                // A file that no longer exists has no pages to drop.
                let _ = match open {
                    Some(file) => drop_pages(file, ranges),
                    None => File::open(path).and_then(|file| drop_pages(&file, ranges)),
                };
                if begun.elapsed() >= LONGEST {
                    break;
                }
            }
            thread::sleep(ROUND);
        }
    }
}

fn drop_pages(file: &File, ranges: &[(i64, i64)]) -> io::Result<()> {
    for (begin, length) in ranges {
        posix_fadvise(file, *begin, *length, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    }
    Ok(())
}

/// The blocks of a file to drop, adjacent ones merged. `blocks` counts the blocks of all files.
fn to_drop(blocks: &mut u64, length: u64, share: f64) -> Vec<(i64, i64)> {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    let size = length.div_ceil(BLOCKS).next_multiple_of(BLOCK).max(BLOCK);
    let first = *blocks;
    *blocks += length.div_ceil(size);
    for block in (first..*blocks).filter(|block| fixed_fraction(*block) >= share) {
        let begin = ((block - first) * size) as i64;
        match ranges.last_mut() {
            Some((last, long)) if *last + *long == begin => *long += size as i64,
            _ => ranges.push((begin, size as i64)),
        }
    }
    ranges
}

/// A number from 0 to 1 that a block always has: the fractional part of a multiple of the golden ratio. Even of a few
/// consecutive blocks, nearly the share `x` is below any number `x`, and no period of the data coincides with it
/// (Knuth, The Art of Computer Programming 3, 6.4).
fn fixed_fraction(block: u64) -> f64 {
    (block.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(length: u64, share: f64) -> f64 {
        let gone: i64 = to_drop(&mut 3, length, share).iter().map(|(_, length)| length).sum();
        1.0 - gone as f64 / length.next_multiple_of(BLOCK) as f64
    }

    #[test]
    fn what_stays_is_the_share_and_what_goes_is_in_few_ranges() {
        for share in [0.0, 0.1, 0.25, 0.5, 0.75, 1.0] {
            // 50 blocks of 128 KiB match the share within one and a half blocks, 762 within half a percent.
            let [little, much] = [50 * BLOCK, 99_700_000].map(|length| kept(length, share));
            assert!((little - share).abs() <= 0.03 && (much - share).abs() < 0.005, "{little} and {much} of {share}");
        }
        assert_eq!(to_drop(&mut 0, 600_000_000, 0.0).len(), 1);
        assert!(to_drop(&mut 0, 0, 0.0).is_empty());
    }

    #[test]
    fn small_files_stay_by_their_share_too() {
        let mut blocks = 0;
        let stay = (0..200).filter(|_| to_drop(&mut blocks, 20_000, 0.25).is_empty()).count();
        assert!((49..=51).contains(&stay), "{stay} of 200 files");
    }
}
