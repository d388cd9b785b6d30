//! The memory timeline of a simulated step, for people and for programs: a chart by component, and the live tensors at
//! the peak.

use perf4sight_base::units::{Bytes, Percent};
use perf4sight_memory::{MemoryTimeline, StepPhase, TensorRole, TimelineEntry};
use perf4sight_report::{Axis, Block, Chart, Plot, Reference, Series, StackedArea, Table, TableBuilder};
use serde_json::{Value, json};

const LARGEST: usize = 10;

/// The chart, the operation at the peak, and the largest tensors there; `what` names the step, `limit` is the memory
/// limit.
pub(super) fn blocks(timeline: &MemoryTimeline, what: &str, limit: Option<Bytes>) -> Vec<Block> {
    vec![
        Block::Chart(chart(timeline, what, limit)),
        Block::Text(at_peak(timeline)),
        Block::Table(largest_tensors_table(timeline)),
    ]
}

/// The limit is drawn only up to this multiple of the allocator's reserved memory.
const HEADROOM: u64 = 4;

/// Memory by component over the operations of a step.
pub(super) fn chart(timeline: &MemoryTimeline, what: &str, limit: Option<Bytes>) -> Chart {
    let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
    let of = |role: TensorRole| timeline.entries.iter().map(move |entry| gib(entry.bytes[role as usize]));
    let series = TensorRole::ALL.map(|role| Series::new(role.name(), of(role)));
    let reserved = Reference::Level(
        gib(timeline.alive.reserved.0),
        format!("the allocator holds {} at most", timeline.alive.reserved),
    );
    // A limit far above would flatten the chart.
    let limit = limit.filter(|limit| limit.0 <= timeline.alive.reserved.0.saturating_mul(HEADROOM));
    let limit = limit.map(|limit| Reference::Level(gib(limit.0), format!("limit {}", limit.in_full())));
    let plot = StackedArea {
        x: Axis::linear("operations of the step, in the order in which they run"),
        y: Axis::linear("memory (GiB)"),
        places: (0..=timeline.entries.len()).map(|place| place as f64).collect(),
        series: series.into_iter().filter(|series| series.data.iter().any(|height| *height > 0.0)).collect(),
        references: phases(timeline).into_iter().chain([reserved]).chain(limit).collect(),
    };
    let caption = format!(
        "Memory in use in {}: each operation forward, then backward, then the update of the weights; the maximum of each. \
         The highest place is the peak, {}.",
        peak_step_text(timeline),
        peak(timeline).total(),
    );
    Chart::new(format!("Simulated memory of {what}"), caption, Plot::StackedArea(plot))
}

/// The beginnings of backward and update, and the peak.
fn phases(timeline: &MemoryTimeline) -> Vec<Reference> {
    let first = |phase: StepPhase| {
        let at = timeline.entries.iter().position(|entry| entry.phase == phase)?;
        Some(Reference::Upright(at as f64, phase.name().to_owned()))
    };
    let peak = Reference::Upright(timeline.peak as f64 + 0.5, "peak".to_owned());
    [StepPhase::Backward, StepPhase::Update].into_iter().filter_map(first).chain([peak]).collect()
}

fn peak(timeline: &MemoryTimeline) -> &TimelineEntry {
    &timeline.entries[timeline.peak]
}

fn peak_step_text(timeline: &MemoryTimeline) -> &'static str {
    if timeline.is_first { "the first step, which makes the optimizer's state" } else { "every step after the first" }
}

/// "The peak of 2.1 GiB is in every step after the first, while the gradients of layer1.0.conv2 are computed.", and
/// the memory that the allocator reserves beyond it.
pub(super) fn at_peak(timeline: &MemoryTimeline) -> String {
    let TimelineEntry { phase, layer, .. } = peak(timeline);
    let doing = match phase {
        StepPhase::Forward => format!("while {layer} runs"),
        StepPhase::Loss => "while the loss is computed".to_owned(),
        StepPhase::Backward => format!("while the gradients of {layer} are computed"),
        StepPhase::Update => format!("while the weights of {layer} are changed"),
    };
    let total = peak(timeline).total();
    let between = match timeline.alive.reserved.0.saturating_sub(total.0) {
        0 => String::new(),
        more => format!(
            " The allocator holds up to {} for it, {} of which belong to no tensor (fragmentation).",
            timeline.alive.reserved,
            Bytes(more)
        ),
    };
    format!("The peak of {total} is in {}, {doing}.{between}", peak_step_text(timeline))
}

/// The largest tensors that are alive at the peak.
pub(super) fn largest_tensors_table(timeline: &MemoryTimeline) -> Table {
    let whole = peak(timeline).total().0 as f64;
    TableBuilder::new("The largest tensors at the peak", timeline.alive.tensors.iter().take(LARGEST))
        .text("layer", "layer", |tensor| tensor.layer.clone())
        .text("component", "what of it", |tensor| tensor.role.name())
        .number("memory_bytes", "memory", |tensor| tensor.bytes)
        .number("share_percent", "share", |tensor| Percent(100.0 * tensor.bytes.0 as f64 / whole))
        .table()
}

pub(super) fn components(timeline: &MemoryTimeline) -> Table {
    let whole = peak(timeline).total().0 as f64;
    let parts = TensorRole::ALL.map(|role| (role, peak(timeline).bytes[role as usize])).into_iter();
    TableBuilder::new("What is in memory at the peak", parts.filter(|(_, bytes)| *bytes > 0))
        .text("component", "component", |(role, _)| role.name())
        .number("memory_bytes", "memory", |(_, bytes)| Bytes(*bytes))
        .number("share_percent", "share", |(_, bytes)| Percent(100.0 * *bytes as f64 / whole))
        .table()
}

pub(super) fn json(timeline: &MemoryTimeline) -> Value {
    let parts = |entry: &TimelineEntry| -> Value {
        TensorRole::ALL
            .iter()
            .map(|role| (role.name().replace(' ', "_"), Value::from(entry.bytes[*role as usize])))
            .collect()
    };
    let entries = timeline.entries.iter().map(|entry| {
        json!({ "phase": entry.phase.name(), "layer": entry.layer, "bytes": parts(entry), "total_bytes": entry.total().0 })
    });
    json!({
        "step": if timeline.is_first { "first" } else { "later" },
        "peak": timeline.peak,
        "peak_bytes": peak(timeline).total().0,
        "reserved_bytes": timeline.alive.reserved.0,
        "largest": largest_tensors_table(timeline).to_json(),
        "operations": entries.collect::<Value>(),
    })
}
