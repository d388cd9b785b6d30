//! Steps in traces that have none: ranges as PyTorch's profiler marks them.

use perf4sight_traces::intervals::Interval;
use perf4sight_traces::{EventCategory, NewEvent, TraceBuilder};

/// Marks steps on a thread. One that lasts until after the next one begins ends there.
pub(super) fn mark(builder: &mut TraceBuilder, track: [&str; 2], steps: &[Interval]) {
    for (number, (begin, end)) in steps.iter().enumerate() {
        let next = steps.get(number + 1).map_or(i64::MAX, |next| next.0);
        let name = format!("ProfilerStep#{number}");
        let time = (*begin, next.min(*end));
        builder.add(NewEvent { name: &name, category: EventCategory::Annotation, track, time, collective: None });
    }
}
