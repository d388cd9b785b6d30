//! Combines repeated measurements of one step that were taken at different times.

/// The time of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeAgreement {
    /// The time that is saved.
    pub milliseconds: f64,
    /// Half of the difference to the next longer time, relative to the shortest.
    pub spread: f64,
}

/// The shortest of all medians, because other programs only ever make a step slower, and how closely the next one
/// confirms it. Slow phases may last, so two times can agree and both be slow. None if there are no medians.
///
/// ```
/// use perf4sight_cost::records::agreement;
/// // One in three was slow.
/// assert_eq!(agreement(&[250.0, 355.0, 252.0]).unwrap().milliseconds, 250.0);
/// // Two were: that the third was quicker is confirmed by nobody.
/// assert_eq!(agreement(&[300.0, 250.0, 300.0]).unwrap().spread, 0.1);
/// ```
pub fn agreement(medians: &[f64]) -> Option<TimeAgreement> {
    let mut sorted = medians.to_vec();
    sorted.sort_by(f64::total_cmp);
    let milliseconds = *sorted.first()?;
    let next = sorted.get(1).unwrap_or(&milliseconds);
    Some(TimeAgreement { milliseconds, spread: (next - milliseconds) / 2.0 / milliseconds })
}
