//! Detects changes of iteration times that other programs on the machine caused.

use crate::categories::category::TimeCategory;
use crate::categories::metrics::Metric;
use crate::comparison::{Comparison, Measure, Verdict};

/// The side of a comparison on which other programs used the machine more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusierSide {
    /// The first run.
    Before,
    /// The run that it is compared with.
    After,
}

/// A part explains a change if it is at least this share of it.
const EXPLAINS: f64 = 0.5;
impl Comparison {
    /// The side on which other programs took the processor from the script, which makes its times longer without more
    /// work. The wall-clock time changed, and neither the change of processor time, anywhere in its interval, nor that
    /// of known waiting explains half of it. None if processor time was not recorded, or if there is a GPU, which the
    /// script waits for. Waiting for a disk in a call that is not known to wait looks the same; without recorded Python
    /// calls, so does all waiting.
    pub fn busier(&self) -> Option<BusierSide> {
        let total = self.get(Measure::Metric(Metric::TotalTimeSec))?;
        let processor = self.get(Measure::Processor)?.interval?;
        let busier = match total.verdict() {
            Verdict::More => BusierSide::After,
            Verdict::Less => BusierSide::Before,
            Verdict::Noise => return None,
        };
        // The share of the change, positive for the same sign.
        let explained = |nanoseconds: f64| nanoseconds / (1e9 * total.change) >= EXPLAINS;
        let waits = self.get(Measure::Set { category: TimeCategory::Wait, gpu_busy: false });
        let waits_more = waits.is_some_and(|waits| explained(waits.change));
        let works_more = processor.into_iter().any(explained);
        (!works_more && !waits_more && !self.has_gpu()).then_some(busier)
    }
}
