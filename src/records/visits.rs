//! What visits to one step, apart in time, say together.

/// What a step took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    /// Milliseconds.
    pub milliseconds: f64,
    /// Half of the range of the visits that agree best, relative to that.
    pub spread: f64,
}

/// The middle of the visits that agree best, more than half of all; of an even number the quicker one, for what else runs on a
/// machine only ever makes it slower. None of no visits.
///
/// ```
/// use perf4sight::records::agreement;
/// // One in three was slow.
/// assert_eq!(agreement(&[250.0, 355.0, 252.0]).unwrap().milliseconds, 250.0);
/// // Of two nobody knows, but by how much they disagree.
/// assert_eq!(agreement(&[300.0, 250.0]).unwrap().spread, 0.1);
/// ```
pub fn agreement(visits: &[f64]) -> Option<Agreement> {
    let mut sorted = visits.to_vec();
    sorted.sort_by(f64::total_cmp);
    let most = visits.len() / 2 + 1;
    let range = |visits: &[f64]| visits[visits.len() - 1] - visits[0];
    let close = match sorted.len() {
        0 => return None,
        1 => &sorted[..],
        _ => sorted.windows(most).min_by(|a, b| range(a).total_cmp(&range(b)))?,
    };
    let milliseconds = close[(close.len() - 1) / 2];
    Some(Agreement { milliseconds, spread: range(close) / 2.0 / milliseconds })
}
