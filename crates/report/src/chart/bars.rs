//! Horizontal bars grouped by category, so that long names stay readable.

use super::{Axis, Draw, LegendEntry, SIGN_AREA, Series, legend};
use crate::drawing::{Axes, AxisExtent, Drawing, DrawnMark, FONT, PixelArea, TextAnchor, text_width};
use crate::table::significant;
use crate::theme::Ink;

/// Horizontal bars from zero, grouped by category.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// Names of the groups, from the top.
    pub categories: Vec<String>,
    /// The meaning of the lengths.
    pub value: Axis,
    /// One length per category and series; `None` draws nothing.
    pub series: Vec<Series<Option<f64>>>,
    /// A length to compare all bars with, drawn across them.
    pub reference: Option<f64>,
    /// The end of the axis; longer bars are broken there. `None` shows all of them.
    pub most: Option<f64>,
}

/// Height of one bar and of the gap between two groups, in pixels.
const BAR: f64 = 18.0;
const GAP: f64 = 12.0;
/// The gap between a bar's end and its number, in pixels.
const AWAY: f64 = 5.0;
/// The width of the break mark at the end of a bar, in pixels.
const BREAK: f64 = 14.0;

impl Draw for Bars {
    fn draw(&self, width: f64) -> Drawing {
        let group = self.series.len() as f64 * BAR + GAP;
        let drawing = Drawing::new(width, Axes::HEIGHT + self.categories.len() as f64 * group);
        let rows = AxisExtent::rows(self.categories.len());
        let axes = Axes::new(&drawing, self.lengths(), rows, &self.categories);
        let reference = self.reference.filter(|reference| *reference <= axes.x.high);
        let line = reference.map_or(f64::INFINITY, |reference| axes.at_position(reference, 0.0).0);
        for (row, name) in self.categories.iter().enumerate() {
            let top = axes.area.top + row as f64 * group;
            drawing.name(name, &axes, top + group / 2.0);
            for (i, series) in self.series.iter().enumerate() {
                if let Some(length) = series.data.get(row).copied().flatten().filter(|length| length.is_finite()) {
                    draw_bar(&drawing, &axes, (top + GAP / 2.0 + i as f64 * BAR, series.ink(i)), length, line);
                }
            }
        }
        drawing.add(DrawnMark::lines(vec![vec![(line, axes.area.top), (line, axes.area.bottom)]], Ink::MUTED, 1.5));
        drawing
    }

    fn legend(&self) -> Vec<LegendEntry> {
        // Bars of a group have the order of the legend: no texture is needed to distinguish them.
        legend(&self.series, |sign, i, one| sign.add(DrawnMark::rect(SIGN_AREA, one.ink(i))))
    }
}

impl Bars {
    fn lengths(&self) -> AxisExtent {
        match self.most {
            Some(most) => AxisExtent::up_to(&self.value, most),
            None => {
                let all = self.series.iter().flat_map(|series| &series.data).flatten().copied();
                AxisExtent::from_zero(&self.value, all.chain(self.reference))
            }
        }
    }
}

/// A bar followed by its number, or by the reference line and the number if they would overlap.
fn draw_bar(drawing: &Drawing, axes: &Axes, (top, ink): (f64, Ink), length: f64, line: f64) {
    let x = |position: f64| axes.at_position(position, 0.0).0;
    let bar = PixelArea::new((x(0.0), top + 0.5), (x(length.clamp(0.0, axes.x.high)), top + BAR - 0.5));
    drawing.add(DrawnMark::rect(bar, ink));
    let breaks = length > axes.x.high;
    if breaks {
        // Two strokes across the bar mark that it is longer than drawn.
        let stroke = |from_end: f64| vec![(bar.right - from_end, bar.bottom), (bar.right - from_end + 4.0, bar.top)];
        drawing.add(DrawnMark::lines(vec![stroke(8.0), stroke(4.0)], Ink::PAPER, 1.5));
    }
    let (number, middle) = (significant(length), top + BAR / 2.0);
    let (start, width) = (bar.right + AWAY, text_width(&number, FONT));
    let start = if (bar.right..start + width).contains(&line) { line + AWAY } else { start };
    drawing.add(match !breaks && start + width <= drawing.width {
        true => DrawnMark::text(number, (start, middle), TextAnchor::Start, Ink::TEXT),
        false => DrawnMark::text(
            number,
            (bar.right - if breaks { BREAK } else { AWAY }, middle),
            TextAnchor::End,
            Ink::PAPER,
        ),
    });
}
