//! A moment until which something is waited for.

use std::time::{Duration, Instant};

/// A moment; none where it lies beyond what a clock can tell.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// So long from now.
    pub fn after(time: Duration) -> Self {
        Deadline(Instant::now().checked_add(time))
    }

    /// Whether it has passed.
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
