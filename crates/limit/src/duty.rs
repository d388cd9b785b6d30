//! A limit on CPUs without privileges: all processes of a job are stopped whenever they have had their share, and go on in the next turn.

use super::family::Family;
use nix::sys::signal::Signal;
use perf4sight_base::units::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A turn: as long as the kernel's own period of quotas.
const TURN: Duration = Duration::from_millis(100);
/// The shortest time between two looks: /proc tells CPU time in hundredths of a second.
const SHORTEST: Duration = Duration::from_millis(10);
/// How much more than its share a job may have had or missed, in turns, and have it made up for.
const REMEMBERED: f64 = 2.0;

/// Watches a job that no control group counts, and holds it to its share of CPU time.
#[derive(Debug)]
pub(super) struct Warden {
    over: Arc<AtomicBool>,
    watching: Option<JoinHandle<Watched>>,
}

/// What was seen of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Watched {
    /// Seconds of CPU time, to some hundredths.
    pub cpu_seconds: f64,
    /// Seconds that it was stopped.
    pub stopped_seconds: f64,
    /// The most memory that its processes held together.
    pub peak: Bytes,
    /// What they read from storage.
    pub bytes_read: Bytes,
}

impl Warden {
    /// Watches a process and all that it starts; with a number of CPUs, gives it no more than these.
    pub fn start(first: i32, guard: i32, cpus: Option<f64>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let watching = thread::spawn(move || {
            let mut turns = Turns { family: Family::of(first, guard), over: told, stopped: Duration::ZERO, cpus };
            turns.all();
            Watched {
                cpu_seconds: turns.family.cpu_seconds(),
                stopped_seconds: turns.stopped.as_secs_f64(),
                peak: turns.family.peak(),
                bytes_read: turns.family.bytes_read(),
            }
        });
        Warden { over, watching: Some(watching) }
    }

    /// Lets the job go on, and tells what was seen.
    pub fn finish(mut self) -> Option<Watched> {
        self.over.store(true, Ordering::Relaxed);
        self.watching.take().and_then(|watching| watching.join().ok())
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(watching) = self.watching.take() {
            let _ = watching.join();
        }
    }
}

struct Turns {
    family: Family,
    over: Arc<AtomicBool>,
    stopped: Duration,
    cpus: Option<f64>,
}

impl Turns {
    /// Turn after turn until it is over. What a job had too much in one turn, it misses in the next.
    fn all(&mut self) {
        let mut balance = 0.0;
        while !self.over.load(Ordering::Relaxed) {
            let begun = Instant::now();
            self.family.look();
            match self.cpus {
                None => thread::sleep(TURN),
                Some(cpus) => {
                    let before = self.family.cpu_seconds();
                    let share = cpus * TURN.as_secs_f64();
                    self.run_for(balance + share, begun + TURN);
                    self.wait_until(begun + TURN);
                    self.family.glance();
                    let allowed = cpus * begun.elapsed().as_secs_f64();
                    // A job that did not want its share does not save it for later: quotas do not either.
                    let had = self.family.cpu_seconds() - before;
                    balance = (balance + allowed - had).clamp(-REMEMBERED * share, 0.1 * share);
                }
            }
        }
        self.family.look();
        self.family.signal(Signal::SIGCONT);
    }

    /// Lets the job run until it has had so many seconds of CPU time, or the turn ends.
    fn run_for(&mut self, seconds: f64, end: Instant) {
        let before = self.family.cpu_seconds();
        if seconds > 0.0 {
            self.family.signal(Signal::SIGCONT);
        }
        loop {
            let left = seconds - (self.family.cpu_seconds() - before);
            let now = Instant::now();
            if left <= 0.0 || now >= end || self.over.load(Ordering::Relaxed) {
                return;
            }
            // On all the CPUs that it has it can use them up in no less.
            let soonest = Duration::from_secs_f64(left / self.cpus.unwrap_or(1.0).ceil());
            thread::sleep(soonest.max(SHORTEST).min(end - now));
            self.family.glance();
        }
    }

    /// Stops the job for the rest of a turn.
    fn wait_until(&mut self, end: Instant) {
        let begun = Instant::now();
        if begun >= end {
            return;
        }
        self.stop();
        thread::sleep(end.saturating_duration_since(Instant::now()));
        self.stopped += begun.elapsed();
    }

    /// Stops every member, also those that are started meanwhile.
    fn stop(&mut self) {
        loop {
            let before = self.family.len();
            self.family.signal(Signal::SIGSTOP);
            self.family.look();
            if self.family.len() <= before {
                // Those that came in the place of others.
                self.family.signal(Signal::SIGSTOP);
                return;
            }
        }
    }
}
