//! Tests of the time left.

use super::*;

#[test]
fn no_more_time_is_left_than_there_is() {
    let [ten, thirty, sixty] = [10, 30, 60].map(Duration::from_secs);
    assert_eq!(left(sixty, ten, Duration::MAX), sixty);
    assert_eq!(left(sixty, thirty, sixty), thirty);
    assert_eq!(left(sixty, sixty, thirty), Duration::ZERO);
}
