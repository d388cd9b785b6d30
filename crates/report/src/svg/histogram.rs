//! How often values occur, stacked by series.

use super::super::chart::{Axis, Histogram};
use super::canvas::{Canvas, Ink};
use super::frame::Frame;
use super::ruler::Ruler;
use std::collections::BTreeMap;

const SIZE: (u32, u32) = (480, 290);

/// The chart as SVG.
pub fn draw(plot: &Histogram, description: &str) -> String {
    let counts: Vec<BTreeMap<i64, u64>> = plot.series.iter().map(|series| count(plot, &series.data)).collect();
    let mut stacked: BTreeMap<i64, u64> = BTreeMap::new();
    for (bin, count) in counts.iter().flatten() {
        *stacked.entry(*bin).or_default() += count;
    }
    Canvas::drawing(SIZE, description, |canvas| {
        let edges = stacked.keys().flat_map(|bin| [*bin as f64 - 0.5, *bin as f64 + 0.5]).map(|edge| edge * plot.bin);
        let heights = Ruler::from_zero(&Axis::linear("rows"), stacked.values().map(|count| *count as f64));
        let frame = Frame::new(canvas, Ruler::around(&plot.x, edges), heights);
        let mut bottoms: BTreeMap<i64, u64> = BTreeMap::new();
        for (i, counts) in counts.iter().enumerate() {
            for (bin, count) in counts {
                let bottom = bottoms.entry(*bin).or_default();
                let tip = format!("{}: {count} rows at {}", plot.series[i].name, *bin as f64 * plot.bin);
                draw_bin(
                    canvas,
                    &frame,
                    Bin { centre: *bin as f64, width: plot.bin, from: *bottom, count: *count },
                    (Ink::of(plot.series[i].colour, i), &tip),
                );
                *bottom += count;
            }
        }
    })
}

/// One stretch of one column.
struct Bin {
    centre: f64,
    width: f64,
    from: u64,
    count: u64,
}

fn draw_bin(canvas: &Canvas, frame: &Frame, bin: Bin, (ink, tip): (Ink, &str)) {
    let (left, bottom) = frame.at_position((bin.centre - 0.5) * bin.width, bin.from as f64);
    let (right, top) = frame.at_position((bin.centre + 0.5) * bin.width, (bin.from + bin.count) as f64);
    canvas.rect([(left + 1, top), (right - 1, bottom)], ink, 0.9, tip);
}

fn count(plot: &Histogram, values: &[f64]) -> BTreeMap<i64, u64> {
    let mut counts = BTreeMap::new();
    for value in values.iter().filter(|value| value.is_finite()) {
        let bin = (value.clamp(-plot.limit, plot.limit) / plot.bin).round() as i64;
        *counts.entry(bin).or_default() += 1;
    }
    counts
}
