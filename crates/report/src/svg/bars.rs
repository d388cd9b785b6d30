//! Lying bars grouped by category, so that long names stay readable.

use super::super::chart::Bars;
use super::super::table::significant;
use super::canvas::{Anchor, Canvas, Ink, UNITS, text_width};
use super::frame::Frame;
use super::ruler::Ruler;

const WIDTH: u32 = 480;
/// Height of one bar and of the gap between two groups, in pixels.
const BAR: u32 = 18;
const GAP: u32 = 12;
/// Height of the axis below the bars, in pixels.
const AXIS: u32 = 56;
/// Blanks between a bar's end and its number, in pixels.
const AWAY: i32 = 5;
/// What the sign of a bar that goes on takes of its end, in pixels.
const BREAK: i32 = 14;

/// The chart as SVG.
pub fn draw(plot: &Bars, description: &str) -> String {
    let height = AXIS + plot.categories.len() as u32 * (plot.series.len() as u32 * BAR + GAP);
    Canvas::drawing((WIDTH, height), description, |canvas| {
        let frame = Frame::new(canvas, lengths(plot), Ruler::of_names(&plot.categories));
        for (i, series) in plot.series.iter().enumerate() {
            for (category, length) in series.data.iter().enumerate() {
                let slot = Slot { category, series: i, of: plot.series.len(), ink: Ink::of(series.colour, i) };
                if let Some(length) = length.filter(|length| length.is_finite()) {
                    draw_bar(canvas, &frame, slot, length);
                }
            }
        }
        if let Some(reference) = plot.reference.filter(|reference| *reference <= frame.x.high) {
            let ends = [frame.y.low, frame.y.high].map(|end| frame.at_position(reference, end));
            canvas.path(ends.into(), Ink::Muted, 3);
        }
    })
}

fn lengths(plot: &Bars) -> Ruler {
    match plot.most {
        Some(most) => Ruler::up_to(&plot.value, most),
        None => {
            let all = plot.series.iter().flat_map(|series| &series.data).flatten().copied();
            Ruler::from_zero(&plot.value, all.chain(plot.reference))
        }
    }
}

/// Which bar of which group.
struct Slot {
    category: usize,
    series: usize,
    of: usize,
    ink: Ink,
}

fn draw_bar(canvas: &Canvas, frame: &Frame, slot: Slot, length: f64) {
    let middle = frame.y.high - 0.5 - slot.category as f64;
    let (left, centre) = frame.at_position(0.0, middle);
    let (right, _) = frame.at_position(length.min(frame.x.high), middle);
    let bar = BAR as i32 * UNITS;
    let top = centre + bar * slot.series as i32 - bar * slot.of as i32 / 2;
    canvas.rect([(left, top + 1), (right, top + bar - 1)], slot.ink, 1.0, "");
    let breaks = length > frame.x.high;
    if breaks {
        // Two strokes across it: the bar is longer than what is drawn.
        for at in [right - 8 * UNITS, right - 4 * UNITS] {
            canvas.path(vec![(at, top + bar), (at + 4 * UNITS, top)], Ink::Paper, 3);
        }
    }
    let number = significant(length);
    let (end, _) = canvas.whole()[1];
    let (at, anchor, ink) = match !breaks && right + (AWAY + text_width(&number)) * UNITS <= end {
        true => (right + AWAY * UNITS, Anchor::Left, Ink::Text),
        false => (right - if breaks { BREAK } else { AWAY } * UNITS, Anchor::Right, Ink::Paper),
    };
    canvas.text(&number, (at, top + bar / 2), anchor, ink);
}
