//! Numbers of things as people say them.

/// How many of what, by the word for one of them, to which more add an *s*.
///
/// ```
/// use perf4sight_breakdown::counted;
/// assert_eq!((counted(1, "thread"), counted(4, "thread")), ("1 thread".to_owned(), "4 threads".to_owned()));
/// ```
pub fn counted(count: impl TryInto<u64>, one: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    }
}
