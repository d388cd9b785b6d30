//! Axes, grid and labels around a plot, and where a pair of values lies in it.

use super::{Anchor, Area, Drawing, FONT, Mark, Point, Ruler, text_width};
use crate::theme::Ink;

/// Between an axis and its numbers, in pixels.
const GAP: f64 = 8.0;
/// Height of the numbers below a plot, and of a label below or above it, in pixels.
const NUMBERS: f64 = 26.0;
const LABEL: f64 = 22.0;
/// Free on the right, where the last number reaches beyond its tick.
const RIGHT: f64 = 16.0;

/// The inside of two axes.
pub struct Frame {
    pub x: Ruler,
    pub y: Ruler,
    pub area: Area,
}

impl Frame {
    /// What the axes take of a drawing's height.
    pub const HEIGHT: f64 = 8.0 + NUMBERS + LABEL;

    /// Draws both axes with their grid into all of the drawing.
    pub fn new(drawing: &mut Drawing, x: Ruler, y: Ruler) -> Self {
        let names = y.ticks.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>();
        let frame = Self::beside(drawing, x, y, &names);
        for (at, text) in &frame.y.ticks {
            let (left, y) = frame.at_position(frame.x.low, *at);
            drawing.name(text, (left - GAP, y), left - GAP);
        }
        frame
    }

    /// The same with room for names on the left, which somebody else writes.
    pub fn beside(drawing: &mut Drawing, x: Ruler, y: Ruler, names: &[String]) -> Self {
        let widest = names.iter().map(|name| text_width(name, FONT)).fold(0.0, f64::max);
        let top = if y.label.is_empty() { GAP } else { LABEL + GAP };
        // Long names leave room for what they are names of.
        let left = (widest + GAP).min(drawing.width / 2.0);
        // The last number stands in the middle below its tick, which may be at the very end.
        let last = x.ticks.last().map_or(0.0, |(_, text)| text_width(text, FONT) / 2.0 + 1.0);
        let right = drawing.width - last.max(RIGHT);
        let area = Area::new((left, top), (right, drawing.height - NUMBERS - LABEL));
        let frame = Frame { x, y, area };
        frame.draw(drawing);
        frame
    }

    /// Where a pair of values lies; `None` where an axis cannot show one of them.
    pub fn at(&self, x: f64, y: f64) -> Option<Point> {
        Some(self.at_position(self.x.position(x)?, self.y.position(y)?))
    }

    /// Where a pair of positions lies.
    pub fn at_position(&self, x: f64, y: f64) -> Point {
        let Area { left, bottom, .. } = self.area;
        (left + self.x.share(x) * self.area.width(), bottom - self.y.share(y) * self.area.height())
    }

    fn draw(&self, drawing: &mut Drawing) {
        let Area { left, top, right, bottom } = self.area;
        let places = |ruler: &Ruler| ruler.ticks.clone().into_iter();
        let upright =
            places(&self.x).map(|(at, _)| self.at_position(at, self.y.low).0).map(|x| vec![(x, top), (x, bottom)]);
        let level =
            places(&self.y).map(|(at, _)| self.at_position(self.x.low, at).1).map(|y| vec![(left, y), (right, y)]);
        let edges = [vec![(left, top), (left, bottom), (right, bottom)]];
        let level: Vec<_> = if self.y.lines { level.collect() } else { Vec::new() };
        drawing.add(Mark::lines(upright.chain(level).chain(edges).collect(), Ink::GRID, 1.0));
        let mut free = f64::NEG_INFINITY;
        for (at, text) in places(&self.x) {
            let (x, half) = (self.at_position(at, self.y.low).0, text_width(&text, FONT) / 2.0);
            // A number that would run into the one before it is left out.
            if x - half >= free {
                free = x + half + GAP;
                drawing.add(Mark::text(text, (x, bottom + NUMBERS / 2.0), Anchor::Middle, Ink::MUTED));
            }
        }
        drawing.add(Mark::text(
            &self.x.label,
            ((left + right) / 2.0, bottom + NUMBERS + LABEL / 2.0 - 2.0),
            Anchor::Middle,
            Ink::TEXT,
        ));
        if !self.y.label.is_empty() {
            drawing.add(Mark::text(&self.y.label, (0.0, LABEL / 2.0), Anchor::Start, Ink::TEXT));
        }
    }
}
