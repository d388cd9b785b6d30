//! Tests of the time left.

use super::*;

#[test]
fn no_more_time_is_left_than_there_is() {
    let [ten, thirty, sixty] = [10, 30, 60].map(Duration::from_secs);
    // 2 of 6 pieces took 30 s: 60 s for the other four.
    assert_eq!(left(thirty, [2, 6], Duration::MAX), sixty);
    assert_eq!(left(thirty, [2, 6], sixty), thirty);
    assert_eq!(left(sixty, [2, 6], thirty), Duration::ZERO);
    assert_eq!(left(ten, [6, 6], Duration::MAX), Duration::ZERO);
}
