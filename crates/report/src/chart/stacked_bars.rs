//! Parts of a whole per category, as horizontal bars: of different lengths, or all of the same.

use super::{Axis, Draw, LegendEntry, Series, filled_legend};
use crate::drawing::{Axes, AxisExtent, Drawing, DrawnMark, FONT, PixelArea, TextAnchor, text_width};
use crate::table::significant;
use crate::theme::Ink;

/// Horizontal bars made of parts, in groups.
#[derive(Debug, Clone, PartialEq)]
pub struct StackedBars {
    /// From the top, each under its name.
    pub groups: Vec<BarGroup>,
    /// The meaning of the lengths.
    pub value: Axis,
    /// One length per series and bar, over all groups; lengths that are not above zero are not drawn.
    pub series: Vec<Series<f64>>,
    /// The meaning of a whole bar's length.
    pub whole: BarLength,
    /// The meanings of colours and textures if they are independent; empty if every series has its own legend entry.
    pub keys: Vec<Series<f64>>,
    /// The lower and upper limit of each bar's sum, drawn as a whisker below it; empty if unknown.
    pub intervals: Vec<Option<(f64, f64)>>,
}

/// Bars under one name, such as the operations of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BarGroup {
    /// Printed above the bars; may be empty.
    pub name: String,
    /// Names of its bars, from the top.
    pub bars: Vec<String>,
}

/// The meaning of a whole bar's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarLength {
    /// Bars are as long as their parts together.
    Sum,
    /// Always 100 %: its parts are shares.
    Share,
}

/// Height of a bar, of a group's name, and between two bars, in pixels.
const BAR: f64 = 22.0;
const NAME: f64 = 24.0;
const GAP: f64 = 8.0;

/// The ratio of the axis to the longest bar, which leaves room for the number after the bar.
const ROOM: f64 = 1.1;

impl Draw for StackedBars {
    fn draw(&self, width: f64) -> Drawing {
        let heads = self.groups.iter().filter(|group| !group.name.is_empty()).count() as f64 * NAME;
        let names: Vec<String> = self.groups.iter().flat_map(|group| group.bars.clone()).collect();
        let drawing = Drawing::new(width, Axes::HEIGHT + heads + names.len() as f64 * (BAR + GAP));
        let axes = Axes::new(&drawing, self.lengths(names.len()), AxisExtent::rows(0), &names);
        let (mut top, mut bar) = (axes.area.top + GAP / 2.0, 0);
        for group in &self.groups {
            if !group.name.is_empty() {
                drawing.add(DrawnMark::text(&group.name, (0.0, top + NAME / 2.0), TextAnchor::Start, Ink::TEXT));
                top += NAME;
            }
            for name in &group.bars {
                drawing.name(name, &axes, top + BAR / 2.0);
                self.draw_bar(&drawing, &axes, (bar, top, name));
                (top, bar) = (top + BAR + GAP, bar + 1);
            }
        }
        drawing
    }

    fn legend(&self) -> Vec<LegendEntry> {
        filled_legend(if self.keys.is_empty() { &self.series } else { &self.keys })
    }
}

impl StackedBars {
    fn sum(&self, bar: usize) -> f64 {
        self.series.iter().map(|series| series.length(bar)).sum()
    }

    fn lengths(&self, bars: usize) -> AxisExtent {
        match self.whole {
            BarLength::Share => AxisExtent::up_to(&self.value, 100.0),
            BarLength::Sum => {
                let highest = self.intervals.iter().flatten().map(|(_, high)| *high);
                AxisExtent::from_zero(&self.value, (0..bars).map(|bar| ROOM * self.sum(bar)).chain(highest))
            }
        }
    }

    fn draw_bar(&self, drawing: &Drawing, axes: &Axes, (bar, top, name): (usize, f64, &str)) {
        let sum = self.sum(bar);
        let factor = match self.whole {
            BarLength::Sum => 1.0,
            BarLength::Share => 100.0 / sum,
        };
        let x = |length: f64| axes.at_position(length * factor, 0.0).0;
        let mut from = 0.0;
        for (i, series) in self.series.iter().enumerate() {
            let length = series.length(bar);
            if length > 0.0 {
                let area = PixelArea::new((x(from), top), (x(from + length), top + BAR));
                let (share, filling) = (significant(100.0 * length / sum), series.filling(i));
                drawing.fill(area, filling, format!("{name}, {}: {} ({share} %)", series.name, significant(length)));
                // A single part equals the sum, whose number is after the bar.
                if self.series.len() > 1 || self.whole == BarLength::Share {
                    drawing.words_inside(area, &significant(length * factor), filling.0);
                }
                from += length;
            }
        }
        if self.whole == BarLength::Sum {
            if let Some((low, high)) = self.intervals.get(bar).copied().flatten() {
                draw_whisker(drawing, (x(low), x(high)), top + BAR + GAP / 2.0 - 0.5);
            }
            let (end, number) = (x(sum) + 5.0, significant(sum));
            if end + text_width(&number, FONT) <= drawing.width {
                drawing.add(DrawnMark::text(number, (end, top + BAR / 2.0), TextAnchor::Start, Ink::TEXT));
            }
        }
    }
}

/// An interval below its bar, where it covers no number.
fn draw_whisker(drawing: &Drawing, (low, high): (f64, f64), y: f64) {
    let end = |x: f64| vec![(x, y - 2.5), (x, y + 2.5)];
    drawing.add(DrawnMark::lines(vec![vec![(low, y), (high, y)], end(low), end(high)], Ink::TEXT, 1.5));
}
