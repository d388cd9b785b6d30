//! The flame graph of call stacks.

use super::colours::of_category;
use super::{TypicalIteration, milliseconds};
use crate::{StackFrame, TimeCategory};
use perf4sight_base::units::count_text;
use perf4sight_report::{Axis, Block, Chart, Flame, FlameCall, Plot, Series, Texture};
use perf4sight_traces::EventCategory;
use perf4sight_traces::shortened::briefest;

pub(super) fn blocks(typical: &TypicalIteration) -> Vec<Block> {
    let stacks = typical.stacks;
    if stacks.frames().iter().all(|frame| frame.parent.is_none()) {
        return vec![Block::Text(
            "No call in the trace is made by another one, so that there are no stacks.".to_owned(),
        )];
    }
    vec![Block::Chart(chart(typical))]
}

fn chart(typical: &TypicalIteration) -> Chart {
    let stacks = typical.stacks;
    let iterations = stacks.iterations.max(1) as f64;
    let time = |nanoseconds: i64| milliseconds(nanoseconds as f64 / iterations);
    let call = |(number, frame): (usize, &StackFrame)| FlameCall {
        number,
        under: frame.parent.map(|parent| parent as usize),
        name: briefest(stacks.name(frame)),
        own: time(frame.own),
        remark: call_count_text(frame.calls as f64 / iterations),
    };
    let of = |category: TimeCategory| {
        let own = stacks.frames().iter().enumerate().filter(|(_, frame)| frame.category == category);
        Series::new(category.name(), own.map(call)).coloured(of_category(category)).textured(Texture::Plain)
    };
    let series = TimeCategory::ALL.map(of).into_iter().filter(|series: &Series<FlameCall>| !series.data.is_empty());
    let plot =
        Flame { value: Axis::linear("time per iteration (ms)"), whole: time(stacks.window), series: series.collect() };
    let python = stacks.frames().iter().any(|frame| frame.kind == EventCategory::Python);
    let only =
        if python { "" } else { " Without Python in the trace there are operators and calls of the runtime alone." };
    let merged = match stacks.merged {
        0 => String::new(),
        merged => format!(" Events that are too deep, {}, count as their caller.", count_text(merged as u64, "event")),
    };
    let caption = format!(
        "A call is below its caller and as wide as its time, the longest on the left; calls that hardly do anything but make one other are drawn with that. The work of another thread while the main one waits is below the waiting call. The folded stacks next to this page are for other viewers.{only}{merged}"
    );
    Chart::new(format!("Stacks{}", typical.rank_suffix()), caption, Plot::Flame(plot))
}

/// The number of calls per iteration, with one decimal if it is small and not whole.
fn call_count_text(count: f64) -> String {
    match count {
        1.0 => "1 call an iteration".to_owned(),
        _ if count < 10.0 && count.fract() != 0.0 => format!("{count:.1} calls an iteration"),
        _ => format!("{count:.0} calls an iteration"),
    }
}
