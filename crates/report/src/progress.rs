//! Progress of a task: the current piece of work, the share done, and the time left.

use super::console::{Sink, locked};
use super::printable::one_line;
use indicatif::{HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Without a terminal, one line for each tenth of the work: enough to follow the progress, too few to fill a log.
const LINES: u64 = 10;

/// Without a terminal, the longest time without a line.
const SILENCE: Duration = Duration::from_secs(30);

/// The interval at which a bar is redrawn, so that its clock advances during a long piece of work. Drawing a line takes
/// microseconds, too little to affect the measurements.
const TICK: Duration = Duration::from_secs(1);

/// Counts finished work; its output disappears on drop.
pub struct Progress {
    bar: ProgressBar,
    log: Option<ProgressLog>,
    pace: SharedPace,
}

/// The pace, which the style of a bar reads as well.
type SharedPace = Arc<Mutex<ProgressPace>>;

/// What the time left goes by.
#[derive(Debug, Clone, Copy)]
struct ProgressPace {
    /// The maximum duration of the task.
    most: Duration,
    /// The time from which on pieces are alike, and the pieces that were done by then; none before the first of them.
    since: Option<(Duration, u64)>,
}

struct ProgressLog {
    what: String,
    sink: Sink,
    /// No line is written before this time.
    patience: Duration,
    /// Milliseconds until the last line.
    written: AtomicU64,
}

impl Progress {
    /// A counter without output.
    pub fn silent(total: u64) -> Self {
        Progress { bar: hidden(total), log: None, pace: ProgressPace::shared() }
    }

    /// A bar, next to other bars of the terminal.
    pub(super) fn bar(total: u64, what: &str, bars: &MultiProgress) -> Self {
        let pace = ProgressPace::shared();
        let bar = bars.add(ProgressBar::new(total)).with_style(style(pace.clone())).with_prefix(what.to_string());
        bar.tick();
        bar.enable_steady_tick(TICK);
        Progress { bar, log: None, pace }
    }

    /// An occasional line in a log.
    pub(super) fn lines(total: u64, what: &str, sink: Sink, patience: Duration) -> Self {
        let log = ProgressLog { what: what.to_string(), sink, patience, written: AtomicU64::new(0) };
        Progress { bar: hidden(total), log: Some(log), pace: ProgressPace::shared() }
    }

    /// Sets the maximum duration of the task, after which it ends even if unfinished; the time left never exceeds it.
    #[must_use]
    pub fn with_limit(self, most: Duration) -> Self {
        self.set_pace(|pace| pace.most = most);
        self
    }

    /// The first pieces do not say how long the others take: no time left is told before [`Progress::pace`].
    #[must_use]
    pub fn unpaced(self) -> Self {
        self.set_pace(|pace| pace.since = None);
        self
    }

    /// From here on, at the first call, pieces are alike: the time left goes by those that are done from now on.
    pub fn pace(&self) {
        let here = (self.bar.elapsed(), self.bar.position());
        self.set_pace(|pace| pace.since = pace.since.or(Some(here)));
    }

    fn set_pace(&self, change: impl FnOnce(&mut ProgressPace)) {
        change(&mut self.pace.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Sets the name of the current piece of work.
    pub fn set_item(&self, item: impl Into<String>) {
        self.bar.set_message(one_line(&item.into()));
    }

    /// Sets the number of pieces left, which may be more or fewer than expected before.
    pub fn expect(&self, left: u64) {
        self.bar.set_length(self.bar.position() + left);
    }

    /// Adds finished pieces, or none while a long one goes on; unexpected pieces increase the total.
    pub fn advance(&self, pieces: u64) {
        let before = self.bar.position();
        let reported = self.tenths(before);
        self.bar.set_length(self.total().max(before + pieces));
        self.bar.inc(pieces);
        if let Some(log) = &self.log
            && self.bar.elapsed() >= log.patience
            && (reported < self.tenths(before + pieces) || self.is_silent(log))
        {
            self.write(log, before + pieces);
        }
    }

    fn is_silent(&self, log: &ProgressLog) -> bool {
        self.bar.elapsed() >= SILENCE + Duration::from_millis(log.written.load(Ordering::Relaxed))
    }

    fn tenths(&self, done: u64) -> u64 {
        done * LINES / self.total().max(1)
    }

    fn total(&self) -> u64 {
        self.bar.length().unwrap_or(0)
    }

    fn write(&self, log: &ProgressLog, done: u64) {
        log.written.store(self.bar.elapsed().as_millis() as u64, Ordering::Relaxed);
        let left = match self.total().saturating_sub(done) {
            0 => ", done".to_string(),
            _ => ProgressPace::snapshot(&self.pace)
                .time_left(self.bar.elapsed(), [done, self.total()])
                .map_or(String::new(), |left| format!(", {} left", HumanDuration(left))),
        };
        let took = HumanDuration(self.bar.elapsed());
        let item = Some(self.bar.message()).filter(|item| !item.is_empty()).map(|item| format!(" ({item})"));
        let line = format!("{}: {done}/{}{} after {took:#}{left}\n", log.what, self.total(), item.unwrap_or_default());
        // A log that cannot be written must not end the work it reports on; results are checked by Console::finish.
        let _ = locked(&log.sink).write_all(line.as_bytes());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The style of a bar; the time left is shown once a piece that tells it is finished.
fn style(pace: SharedPace) -> ProgressStyle {
    let key = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        if let Some(left) =
            ProgressPace::snapshot(&pace).time_left(state.elapsed(), [state.pos(), state.len().unwrap_or(0)])
        {
            // A bar that cannot be drawn is no reason to stop.
            let _ = write!(out, "{:#} left", HumanDuration(left));
        }
    };
    ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} {elapsed} {left}  {wide_msg}")
        .expect("the template is well-formed")
        .with_key("left", key)
        .progress_chars("━╸─")
}

impl ProgressPace {
    /// All pieces are alike.
    fn shared() -> SharedPace {
        Arc::new(Mutex::new(ProgressPace { most: Duration::MAX, since: Some((Duration::ZERO, 0)) }))
    }

    fn snapshot(shared: &SharedPace) -> Self {
        *shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time left, limited by the maximum duration: the rest takes as long as the pieces that are done; none where nothing tells yet.
    /// (indicatif's own estimate goes by the latest pieces, and tells weeks where many end at once.)
    fn time_left(self, elapsed: Duration, [done, total]: [u64; 2]) -> Option<Duration> {
        let (begun, before) = self.since?;
        let known = done.checked_sub(before).filter(|known| *known > 0)?;
        let rest = total.saturating_sub(done) as f64 / known as f64;
        let took = elapsed.saturating_sub(begun).as_secs_f64();
        let expected = Duration::try_from_secs_f64(took * rest).unwrap_or(Duration::MAX);
        Some(expected.min(self.most.saturating_sub(elapsed)))
    }
}

fn hidden(total: u64) -> ProgressBar {
    ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden())
}

#[cfg(test)]
mod tests;
