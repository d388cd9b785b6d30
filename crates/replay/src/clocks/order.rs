//! Order statistics: medians, and intervals for them that assume no distribution.

/// The median of values; zero of none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    let (middle, odd) = (values.len() / 2, values.len() % 2 == 1);
    if values.is_empty() {
        return 0.0;
    }
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = below.iter().copied().fold(f64::MIN, f64::max);
    if odd { upper } else { f64::midpoint(lower, upper) }
}

/// The 95 % interval of the median: between the values `k`th from either end, where `k` is the largest number with
/// `P(X < k) <= 2.5 %` for the number `X` of values below the true median, which is binomial with one half (David and
/// Nagaraja, Order Statistics, 7.1). Of five and fewer values it is their whole range, which holds less than 95 %.
pub(super) fn interval(values: &[f64]) -> Option<[f64; 2]> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let k = ranks_outside(sorted.len()).min(sorted.len().saturating_sub(1) / 2);
    Some([*sorted.get(k)?, *sorted.get(sorted.len() - 1 - k)?])
}

/// The number of values left out on either side.
fn ranks_outside(count: usize) -> usize {
    // Beyond, the normal approximation is exact to a rank; the terms of the sum would underflow.
    if count > 500 {
        let count = count as f64;
        return ((count - 1.96 * count.sqrt()) / 2.0).floor().max(0.0) as usize;
    }
    let (mut term, mut sum, mut k) = (0.5f64.powi(count as i32), 0.0, 0);
    while k < count && sum + term <= 0.025 {
        sum += term;
        term *= (count - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    k.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the table of David and Nagaraja: with 10 values the 2nd to the 9th hold the median with 97.9 %, with 20 the
    /// 6th to the 15th with 95.9 %, with 100 the 40th to the 61st with 96.5 %.
    #[test]
    fn intervals_of_medians_are_those_of_the_table() {
        let interval = |count: u32| interval(&(1..=count).map(f64::from).collect::<Vec<_>>());
        assert_eq!(interval(10), Some([2.0, 9.0]));
        assert_eq!(interval(20), Some([6.0, 15.0]));
        assert_eq!(interval(100), Some([40.0, 61.0]));
        assert_eq!(interval(1), Some([1.0, 1.0]));
        assert_eq!(interval(0), None);
        assert_eq!([median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0]), median(&[])], [2.0, 2.5, 0.0]);
    }
}
