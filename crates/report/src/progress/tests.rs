//! Tests of the time left.

use super::*;

const TEN: Duration = Duration::from_secs(10);
const THIRTY: Duration = Duration::from_secs(30);
const SIXTY: Duration = Duration::from_secs(60);

#[test]
fn no_more_time_is_left_than_there_is() {
    let left =
        |elapsed, pieces, most| ProgressPace { most, since: Some((Duration::ZERO, 0)) }.time_left(elapsed, pieces);
    // 2 of 6 pieces took 30 s: 60 s for the other four.
    assert_eq!(left(THIRTY, [2, 6], Duration::MAX), Some(SIXTY));
    assert_eq!(left(THIRTY, [2, 6], SIXTY), Some(THIRTY));
    assert_eq!(left(SIXTY, [2, 6], THIRTY), Some(Duration::ZERO));
    assert_eq!(left(TEN, [6, 6], Duration::MAX), Some(Duration::ZERO));
    assert_eq!(left(TEN, [0, 6], Duration::MAX), None);
}

/// Two pieces of preparation that take 30 s each, and 20,000 moves of 1 ms: 1 s of them tells 19 s, not a week.
#[test]
fn pieces_of_another_kind_tell_nothing_of_the_time_left() {
    let progress = Progress::silent(20_002).unpaced();
    let left = |elapsed, done| ProgressPace::snapshot(&progress.pace).time_left(elapsed, [done, 20_002]);
    progress.advance(2);
    assert_eq!(left(SIXTY, 2), None);
    progress.pace();
    assert_eq!(left(SIXTY, 2), None);
    progress.advance(1_000);
    let (begun, before) = ProgressPace::snapshot(&progress.pace).since.unwrap();
    assert_eq!((before, left(begun + Duration::from_secs(1), 1_002)), (2, Some(Duration::from_secs(19))));
    // Those that follow count from the same time on.
    progress.pace();
    assert_eq!(ProgressPace::snapshot(&progress.pace).since, Some((begun, before)));
}
