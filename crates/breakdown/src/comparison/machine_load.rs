//! Iterations that take another time though the processor has as much to do with them: other programs had it meanwhile.

use crate::categories::category::TimeCategory;
use crate::categories::metrics::Metric;
use crate::comparison::{Comparison, Measure, Verdict};

/// On which side of a comparison other programs used the machine more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusierSide {
    /// In the run that is first.
    Before,
    /// In the one that it is compared with.
    After,
}

/// A part explains a change where it is so much of it.
const EXPLAINS: f64 = 0.5;
impl Comparison {
    /// On which side other programs took the processor from the script, so that its times are longer there with nothing more to do: the
    /// time on the wall changed, and neither the processor's, with all that it is unsure by, nor known waiting explains half of that. None
    /// where nothing tells, and of a script with a GPU, which it waits for. What waits for a disk in a call that nobody knows to looks alike, and
    /// where calls of Python are not recorded, so does all waiting.
    pub fn busier(&self) -> Option<BusierSide> {
        let total = self.get(Measure::Metric(Metric::TotalTimeSec))?;
        let processor = self.get(Measure::Processor)?.interval?;
        let busier = match total.verdict() {
            Verdict::More => BusierSide::After,
            Verdict::Less => BusierSide::Before,
            Verdict::Noise => return None,
        };
        // Of a change as large as one, with the same sign.
        let explained = |nanoseconds: f64| nanoseconds / (1e9 * total.change) >= EXPLAINS;
        let waits = self.get(Measure::Set { category: TimeCategory::Wait, gpu_busy: false });
        let waits_more = waits.is_some_and(|waits| explained(waits.change));
        let works_more = processor.into_iter().any(explained);
        (!works_more && !waits_more && !self.has_gpu()).then_some(busier)
    }
}
