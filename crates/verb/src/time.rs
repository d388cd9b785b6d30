//! Times as people write them.

use perf4sight_base::error::{Error, Result};
use std::time::Duration;

/// A time such as `90s` or `10min`; a number alone is seconds.
///
/// # Errors
/// Whatever else, and no time at all.
pub fn time(text: &str) -> Result<Duration> {
    let seconds = text.trim().parse::<f64>().ok().map(Duration::try_from_secs_f64);
    let time = match seconds {
        Some(seconds) => seconds.ok(),
        None => humantime::parse_duration(text.trim()).ok(),
    };
    time.filter(|time| !time.is_zero()).ok_or_else(|| {
        Error::usage(format!("\"{text}\" is no time")).expected("such as 90s or 10min; a number alone is seconds")
    })
}
