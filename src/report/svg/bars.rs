//! Lying bars grouped by category, so that long names stay readable.

use super::super::chart::Bars;
use super::super::table::significant;
use super::canvas::{Anchor, Canvas, Ink, UNITS};
use super::frame::Frame;
use super::ruler::Ruler;

const WIDTH: u32 = 540;
/// Height of one bar and of the gap between two groups, in pixels.
const BAR: u32 = 16;
const GAP: u32 = 12;
/// Height of the axis below the bars, in pixels.
const AXIS: u32 = 52;
/// Room for the number behind the longest bar, as a share of its length.
const HEADROOM: f64 = 1.1;

/// The chart as SVG.
pub fn draw(plot: &Bars, description: &str) -> String {
    let height = AXIS + plot.categories.len() as u32 * (plot.series.len() as u32 * BAR + GAP);
    Canvas::drawing((WIDTH, height), description, |canvas| {
        let lengths = plot.series.iter().flat_map(|series| &series.data).flatten().map(|length| length * HEADROOM);
        let lengths = lengths.chain(plot.reference);
        let frame = Frame::new(canvas, Ruler::from_zero(&plot.value, lengths), Ruler::of_names(&plot.categories));
        for (i, series) in plot.series.iter().enumerate() {
            for (category, length) in series.data.iter().enumerate() {
                let slot = Slot { category, series: i, of: plot.series.len() };
                if let Some(length) = length.filter(|length| length.is_finite()) {
                    draw_bar(canvas, &frame, slot, length);
                }
            }
        }
        if let Some(reference) = plot.reference {
            let ends = [frame.y.low, frame.y.high].map(|end| frame.at_position(reference, end));
            canvas.path(ends.into(), Ink::Muted, 3);
        }
    })
}

/// Which bar of which group.
struct Slot {
    category: usize,
    series: usize,
    of: usize,
}

fn draw_bar(canvas: &Canvas, frame: &Frame, slot: Slot, length: f64) {
    let middle = frame.y.high - 0.5 - slot.category as f64;
    let (left, centre) = frame.at_position(0.0, middle);
    let (right, _) = frame.at_position(length, middle);
    let bar = BAR as i32 * UNITS;
    let top = centre + bar * slot.series as i32 - bar * slot.of as i32 / 2;
    canvas.rect([(left, top + 1), (right, top + bar - 1)], Ink::Series(slot.series), 0.9, "");
    canvas.text(&significant(length), (right + 5 * UNITS, top + bar / 2), Anchor::Left, Ink::Text);
}
