//! A deadline for waiting.

use std::time::{Duration, Instant};

/// A point in time; none where it is beyond the range of the clock.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// So much time from now.
    pub fn after(time: Duration) -> Self {
        Deadline(Instant::now().checked_add(time))
    }

    /// Whether no time is left.
    pub fn is_over(&self) -> bool {
        self.0.is_some_and(|until| Instant::now() >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_far_away_is_never_over_and_now_is() {
        assert!(Deadline::after(Duration::ZERO).is_over());
        assert!(!Deadline::after(Duration::from_secs(60)).is_over());
        assert!(!Deadline::after(Duration::MAX).is_over());
    }
}
