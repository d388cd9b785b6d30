//! When lines of a job's iterations came, to find times that are not seconds.

use perf4sight_base::units::Milliseconds;

/// Between two lines, this many times as much time may pass as they report, and the reverse: a job that collects lines
/// before it writes them does not do so evenly.
const EVEN: f64 = 1.5;
/// No line reports more time than passed since the job began, apart from corrections of its clock, as a share of it.
const CLOCK: f64 = 1.05;
/// So many seconds more are no difference.
const SLACK: f64 = 1.0;

/// The last line of those that came at once.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Arrival {
    /// Seconds since the job began.
    after: f64,
    /// Its time, as reported.
    time: f64,
}

/// The lines of one rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Arrivals {
    /// The time of the first line.
    begun: f64,
    first: Arrival,
    /// What came before the last: that is often written when a job ends, long after it happened.
    before: Option<Arrival>,
    last: Arrival,
}

/// Times that are not seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Misfit {
    /// Seconds between lines, as reported.
    reported: f64,
    passed: f64,
}

impl Arrivals {
    /// Lines from one time to another one that came after so many seconds.
    pub fn new(begun: f64, time: f64, after: f64) -> Self {
        let first = Arrival { after, time };
        Arrivals { begun, first, before: None, last: first }
    }

    /// The time of the last line.
    pub fn time(&self) -> f64 {
        self.last.time
    }

    /// Adds lines up to this time.
    pub fn add(&mut self, time: f64, after: f64) {
        if after > self.last.after {
            self.before = Some(self.last);
        }
        self.last = Arrival { after, time };
    }

    /// Whether the times are not seconds.
    pub fn misfit(&self) -> Option<Misfit> {
        let whole = Misfit { reported: self.last.time - self.begun, passed: self.last.after };
        let middle = self
            .before
            .map(|before| Misfit { reported: before.time - self.first.time, passed: before.after - self.first.after });
        let is_uneven = |it: &Misfit| it.reported > EVEN * it.passed + SLACK || it.passed > EVEN * it.reported + SLACK;
        let is_too_long = whole.reported > CLOCK * whole.passed + SLACK;
        is_too_long.then_some(whole).or(middle.filter(is_uneven))
    }
}

impl Misfit {
    pub fn to_text(self) -> String {
        let [reported, passed] = [self.reported, self.passed].map(|seconds| Milliseconds(1000.0 * seconds));
        format!(
            "its lines report {reported} of iterations, and {passed} passed while they came: their time is not in seconds, or not that of a clock that always goes on"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty lines a second for so many seconds in times `unit` seconds long, read when `written` says.
    fn misfit(seconds: f64, unit: f64, written: impl Fn(f64) -> f64) -> Option<Misfit> {
        let times = (1..=(20.0 * seconds) as u32).map(|line| f64::from(line) / 20.0);
        let mut arrivals: Option<Arrivals> = None;
        for at in times {
            let (time, after) = (1e9 + at / unit, 0.5 + written(at));
            match &mut arrivals {
                Some(arrivals) => arrivals.add(time, after),
                None => arrivals = Some(Arrivals::new(time, time, after)),
            }
        }
        arrivals.unwrap().misfit()
    }

    #[test]
    fn times_that_are_not_seconds_are_found() {
        let at_once = |at: f64| at;
        assert_eq!(misfit(10.0, 1.0, at_once), None);
        let milliseconds = misfit(1.0, 1e-3, at_once).unwrap();
        assert!(
            milliseconds.to_text().starts_with("its lines report 15 min 50 s of iterations, and 1.50 s passed"),
            "{}",
            milliseconds.to_text()
        );
        for unit in [1e-3, 0.25, 4.0, 60.0] {
            assert!(misfit(10.0, unit, at_once).is_some(), "{unit}");
        }
    }

    /// Lines that are written every two seconds; all at the end; and most at once, the last after ten seconds of
    /// something else.
    #[test]
    fn lines_that_are_written_late_are_no_reason() {
        assert_eq!(misfit(10.0, 1.0, |at| 2.0 * (at / 2.0).ceil()), None);
        assert_eq!(misfit(10.0, 1.0, |_| 40.0), None);
        assert_eq!(misfit(10.0, 1.0, |at| if at < 8.0 { (at * 2.0).ceil() / 2.0 } else { 20.0 }), None);
    }
}
