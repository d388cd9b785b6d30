//! What repeated measurements of one step, apart in time, say together.

/// What a step took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    /// Milliseconds.
    pub milliseconds: f64,
    /// Half of what the next one took longer, relative to that.
    pub spread: f64,
}

/// The quickest of all medians, for what else runs on a machine only ever makes a step slower, and how closely another confirms it: slow
/// phases may last, so that two can agree and both be slow. None of no medians.
///
/// ```
/// use perf4sight_cost::records::agreement;
/// // One in three was slow.
/// assert_eq!(agreement(&[250.0, 355.0, 252.0]).unwrap().milliseconds, 250.0);
/// // Two were: that the third was quicker is confirmed by nobody.
/// assert_eq!(agreement(&[300.0, 250.0, 300.0]).unwrap().spread, 0.1);
/// ```
pub fn agreement(medians: &[f64]) -> Option<Agreement> {
    let mut sorted = medians.to_vec();
    sorted.sort_by(f64::total_cmp);
    let milliseconds = *sorted.first()?;
    let next = sorted.get(1).unwrap_or(&milliseconds);
    Some(Agreement { milliseconds, spread: (next - milliseconds) / 2.0 / milliseconds })
}
