//! Limits CPUs without privileges: it stops all processes of a job once they have used their share of a period, and
//! continues them in the next.

use super::Resource;
use super::backend::{Backend, BackendGrip, BackendInfo, BackendRequest, JobHold};
use super::family::ProcessFamily;
use super::orphans::OrphanProcesses;
use super::usage::ResourceUsage;
use nix::sys::signal::Signal;
use perf4sight_machine::RunWatch;
use perf4sight_machine::guard::GuardedProcess;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

static DUTY_CYCLE: BackendInfo = BackendInfo {
    name: "affinity and duty cycle",
    resources: &[Resource::Cpus],
    grip: BackendGrip::Watches,
    page_cache_only: false,
};

/// The length of the kernel's own quota period.
const PERIOD: Duration = Duration::from_millis(100);
/// The shortest time between two polls: /proc counts CPU time in hundredths of a second.
const SHORTEST: Duration = Duration::from_millis(10);
/// The largest surplus or deficit of CPU time that is carried into the next period, in periods.
const CARRIED_OVER: f64 = 2.0;

/// CPU affinity and a duty cycle, which need no privileges. It also counts usage for jobs that no other back-end
/// counts.
#[derive(Debug)]
pub(super) struct DutyCycle;

impl Backend for DutyCycle {
    fn info(&self) -> &'static BackendInfo {
        &DUTY_CYCLE
    }

    fn check(&mut self, _: Resource, _: &RunWatch<'_>) -> Result<(), String> {
        Ok(())
    }

    fn set_limits(&self, request: &BackendRequest<'_>) -> io::Result<Option<Box<dyn JobHold>>> {
        let cpus = request.limits.cpus;
        if cpus.is_none() && request.held.iter().any(|hold| hold.counts_cpu()) {
            return Ok(None);
        }
        // No other back-end tracks the processes of the job.
        let orphans = request.held.is_empty().then(OrphanProcesses::adopt).transpose()?;
        Ok(Some(Box::new(ThrottledJob { cpus, orphans, throttler: None })))
    }
}

/// A tracked job, with its CPU limit if it has one.
struct ThrottledJob {
    cpus: Option<f64>,
    orphans: Option<OrphanProcesses>,
    throttler: Option<CpuThrottler>,
}

impl JobHold for ThrottledJob {
    fn started(&mut self, job: &GuardedProcess) {
        self.throttler = Some(CpuThrottler::start(job.child.id() as i32, job.guard(), self.cpus));
    }

    fn pauses(&self) -> bool {
        self.cpus.is_some()
    }

    fn counts_cpu(&self) -> bool {
        true
    }

    /// The usage until now; the job continues without a limit.
    fn usage(&mut self) -> ResourceUsage {
        self.throttler.take().and_then(CpuThrottler::finish).unwrap_or_default()
    }
}

impl Drop for ThrottledJob {
    fn drop(&mut self) {
        drop(self.throttler.take());
        self.orphans.iter().for_each(|orphans| orphans.end());
    }
}

/// Tracks a job on a thread of its own.
#[derive(Debug)]
struct CpuThrottler {
    over: Arc<AtomicBool>,
    watching: Option<JoinHandle<ResourceUsage>>,
}

impl CpuThrottler {
    /// Tracks a process and its descendants; with a number of CPUs, limits them to it.
    fn start(first: i32, guard: i32, cpus: Option<f64>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let watching = thread::spawn(move || {
            let mut periods =
                DutyPeriods { family: ProcessFamily::new(first, guard), over: is_over, stopped: Duration::ZERO, cpus };
            periods.all();
            ResourceUsage {
                out_of_memory_kills: None,
                peak: Some(periods.family.peak()),
                cpu_seconds: Some(periods.family.cpu_seconds()),
                throttled_seconds: cpus.map(|_| periods.stopped.as_secs_f64()),
                bytes_read: Some(periods.family.bytes_read()),
                rise: periods.family.rise(),
                counts_shared: periods.family.counts_shared(),
            }
        });
        CpuThrottler { over, watching: Some(watching) }
    }

    fn finish(mut self) -> Option<ResourceUsage> {
        self.over.store(true, Ordering::Relaxed);
        self.watching.take().and_then(|watching| watching.join().ok())
    }
}

impl Drop for CpuThrottler {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(watching) = self.watching.take() {
            let _ = watching.join();
        }
    }
}

struct DutyPeriods {
    family: ProcessFamily,
    over: Arc<AtomicBool>,
    stopped: Duration,
    cpus: Option<f64>,
}

impl DutyPeriods {
    /// Runs periods until it is stopped. CPU time above the share of one period is subtracted from the next.
    fn all(&mut self) {
        let mut balance = 0.0;
        while !self.over.load(Ordering::Relaxed) {
            let begun = Instant::now();
            self.family.look();
            match self.cpus {
                None => thread::sleep(PERIOD),
                Some(cpus) => {
                    let before = self.family.cpu_seconds();
                    let share = cpus * PERIOD.as_secs_f64();
                    self.run_for(balance + share, begun + PERIOD);
                    self.wait_until(begun + PERIOD);
                    self.family.glance();
                    let allowed = cpus * begun.elapsed().as_secs_f64();
                    // Unused CPU time is not saved for later, as with quotas.
                    let had = self.family.cpu_seconds() - before;
                    balance = (balance + allowed - had).clamp(-CARRIED_OVER * share, 0.1 * share);
                }
            }
        }
        self.family.look();
        self.family.signal(Signal::SIGCONT);
    }

    /// Lets the job run until it has used so many seconds of CPU time, or the period ends.
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
            // The job cannot use up the rest faster than on all its CPUs.
            let soonest = Duration::from_secs_f64(left / self.cpus.unwrap_or(1.0).ceil());
            thread::sleep(soonest.max(SHORTEST).min(end - now));
            self.family.glance();
        }
    }

    /// Stops the job for the rest of a period.
    fn wait_until(&mut self, end: Instant) {
        let begun = Instant::now();
        if begun >= end {
            return;
        }
        self.stop();
        thread::sleep(end.saturating_duration_since(Instant::now()));
        self.stopped += begun.elapsed();
    }

    /// Stops every process, including those that start meanwhile.
    fn stop(&mut self) {
        loop {
            let before = self.family.len();
            self.family.signal(Signal::SIGSTOP);
            self.family.look();
            if self.family.len() <= before {
                // Processes may have been replaced by new ones.
                self.family.signal(Signal::SIGSTOP);
                return;
            }
        }
    }
}
