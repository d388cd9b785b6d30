//! Lying bars grouped by category, so that long names stay readable.

use super::{Axis, Draw, Entry, SIGN_AREA, Series, legend, named};
use crate::drawing::{Anchor, Area, Drawing, FONT, Frame, Mark, Ruler, text_width};
use crate::table::{Cell, Column, significant};
use crate::theme::Ink;

/// Lying bars from zero, grouped by category.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// Names of the groups, from the top.
    pub categories: Vec<String>,
    /// What the lengths mean.
    pub value: Axis,
    /// One length per category and series; `None` draws nothing.
    pub series: Vec<Series<Option<f64>>>,
    /// A length to compare all bars with, drawn across them.
    pub reference: Option<f64>,
    /// Where the axis ends; longer bars break off there. `None` shows all of them.
    pub most: Option<f64>,
}

/// Height of one bar and of the gap between two groups, in pixels.
const BAR: f64 = 18.0;
const GAP: f64 = 12.0;
/// Between a bar's end and its number, in pixels.
const AWAY: f64 = 5.0;
/// What the sign of a bar that goes on takes of its end, in pixels.
const BREAK: f64 = 14.0;

impl Draw for Bars {
    fn draw(&self, width: f64) -> Drawing {
        let groups = self.categories.len() as f64 * (self.series.len() as f64 * BAR + GAP);
        let mut drawing = Drawing::new(width, Frame::HEIGHT + groups);
        let frame = Frame::new(&mut drawing, self.lengths(), Ruler::of_names(&self.categories));
        for (i, series) in self.series.iter().enumerate() {
            for (category, length) in series.data.iter().enumerate() {
                if let Some(length) = length.filter(|length| length.is_finite()) {
                    let (_, middle) = frame.at_position(0.0, frame.y.high - 0.5 - category as f64);
                    let top = middle + BAR * (i as f64 - self.series.len() as f64 / 2.0);
                    draw_bar(&mut drawing, &frame, (top, series.ink(i)), length);
                }
            }
        }
        if let Some(reference) = self.reference.filter(|reference| *reference <= frame.x.high) {
            let ends = [frame.y.low, frame.y.high].map(|end| frame.at_position(reference, end));
            drawing.add(Mark::lines(vec![ends.into()], Ink::MUTED, 1.5));
        }
        drawing
    }

    fn legend(&self) -> Vec<Entry> {
        // Bars of a group lie in the order of the legend: no texture is needed to tell them apart.
        legend(&self.series, |sign, i, one| sign.add(Mark::rect(SIGN_AREA, one.ink(i))))
    }

    fn numbers(&self) -> (Vec<Column>, Vec<Vec<Cell>>) {
        let columns = [Column::text("category", &self.value.label)].into_iter().chain(named(&self.series));
        let length =
            |category: usize| move |series: &Series<Option<f64>>| series.data.get(category).copied().flatten().into();
        let row = |(category, name): (usize, &String)| {
            [name.as_str().into()].into_iter().chain(self.series.iter().map(length(category))).collect()
        };
        (columns.collect(), self.categories.iter().enumerate().map(row).collect())
    }
}

impl Bars {
    fn lengths(&self) -> Ruler {
        match self.most {
            Some(most) => Ruler::up_to(&self.value, most),
            None => {
                let all = self.series.iter().flat_map(|series| &series.data).flatten().copied();
                Ruler::from_zero(&self.value, all.chain(self.reference))
            }
        }
    }
}

fn draw_bar(drawing: &mut Drawing, frame: &Frame, (top, ink): (f64, Ink), length: f64) {
    let x = |position: f64| frame.at_position(position, 0.0).0;
    let bar = Area::new((x(0.0), top + 0.5), (x(length.clamp(0.0, frame.x.high)), top + BAR - 0.5));
    drawing.add(Mark::rect(bar, ink));
    let breaks = length > frame.x.high;
    if breaks {
        // Two strokes across it: the bar is longer than what is drawn.
        let stroke = |from_end: f64| vec![(bar.right - from_end, bar.bottom), (bar.right - from_end + 4.0, bar.top)];
        drawing.add(Mark::lines(vec![stroke(8.0), stroke(4.0)], Ink::PAPER, 1.5));
    }
    let (number, middle) = (significant(length), top + BAR / 2.0);
    drawing.add(match !breaks && bar.right + AWAY + text_width(&number, FONT) <= drawing.width {
        true => Mark::text(number, (bar.right + AWAY, middle), Anchor::Start, Ink::TEXT),
        false => Mark::text(number, (bar.right - if breaks { BREAK } else { AWAY }, middle), Anchor::End, Ink::PAPER),
    });
}
