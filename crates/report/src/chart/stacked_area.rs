//! Parts of a whole along an axis, stacked: each holds from its place to the next.

use super::line::draw_reference;
use super::{Axis, COLUMN, Draw, Entry, Reference, Series, filled_legend, named};
use crate::drawing::{Anchor, Area, Drawing, FONT, Frame, Mark, Ruler, text_width};
use crate::table::{Cell, Column, significant};
use crate::theme::Ink;

/// Heights stacked upon each other, at places that ascend.
#[derive(Debug, Clone, PartialEq)]
pub struct StackedArea {
    /// Horizontal, evenly spaced.
    pub x: Axis,
    /// Vertical; starts at zero.
    pub y: Axis,
    /// Where heights begin; each reaches to the next place, the last is where it ends.
    pub places: Vec<f64>,
    /// One height per series and stretch between two places, from the lowest; what is not above zero draws nothing.
    pub series: Vec<Series<f64>>,
    /// What to compare with, or where something changes.
    pub references: Vec<Reference>,
}

const HEIGHT: f64 = 380.0;

/// Stretches narrower than this are drawn as one, as high as the highest of them, in pixels.
const SEEN: f64 = 3.0;

/// A line of names in pixels, and the share of the height above what is drawn that is left free for it.
const NAMES: (f64, f64) = (16.0, 0.07);

/// Edges that lie no further apart are one, in pixels.
const SAME: f64 = 0.5;

impl StackedArea {
    fn height(&self, series: usize, stretch: usize) -> f64 {
        let height = self.series[series].data.get(stretch).copied().unwrap_or(0.0);
        if height.is_finite() && height > 0.0 { height } else { 0.0 }
    }

    fn sum(&self, stretch: usize) -> f64 {
        (0..self.series.len()).map(|series| self.height(series, stretch)).sum()
    }

    fn stretches(&self) -> impl Iterator<Item = usize> {
        let ascends = |stretch: &usize| self.places[*stretch] < self.places[stretch + 1];
        (0..self.places.len().saturating_sub(1)).filter(ascends)
    }

    fn frame(&self, drawing: &mut Drawing) -> Frame {
        let (mut across, mut up) = (self.places.clone(), Vec::new());
        for reference in &self.references {
            match reference {
                Reference::Upright(at, _) => across.push(*at),
                Reference::Level(at, _) => up.push(*at),
            }
        }
        up.extend(self.stretches().map(|stretch| self.sum(stretch)));
        let highest = up.iter().copied().fold(0.0, f64::max);
        up.push(highest * (1.0 + NAMES.1 * self.uprights().count() as f64));
        let x = Axis::linear(&self.x.label);
        Frame::new(drawing, Ruler::within(&x, across.into_iter()), Ruler::from_zero(&self.y, up.into_iter()))
    }

    fn uprights(&self) -> impl Iterator<Item = (f64, &str)> {
        self.references.iter().filter_map(|reference| match reference {
            Reference::Upright(at, name) => Some((*at, name.as_str())),
            Reference::Level(..) => None,
        })
    }

    /// Where something changes, with its name above what is drawn: each in the first line where it touches none of those to its left.
    fn draw_uprights(&self, drawing: &mut Drawing, frame: &Frame) {
        let mut uprights: Vec<(f64, &str)> = self.uprights().collect();
        uprights.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let mut ends: Vec<f64> = Vec::new();
        for (at, name) in uprights {
            let [Some(from), Some(to)] = [frame.y.low, frame.y.high].map(|y| frame.at(at, y)) else { continue };
            drawing.add(Mark::dashed(vec![from, to], Ink::MUTED));
            let wide = text_width(name, FONT) + 10.0;
            // What has no room to its right stands to the left.
            let is_right = to.0 + wide <= frame.area.right;
            let (left, anchor) = if is_right { (to.0, Anchor::Start) } else { (to.0 - wide, Anchor::End) };
            let line = ends.iter().position(|end| *end <= left).unwrap_or(ends.len());
            match ends.get_mut(line) {
                Some(end) => *end = left + wide,
                None => ends.push(left + wide),
            }
            let across = if is_right { to.0 + 5.0 } else { to.0 - 5.0 };
            drawing.add(Mark::text(name, (across, to.1 + NAMES.0 * (line as f64 + 0.5)), anchor, Ink::TEXT));
        }
    }

    /// Stretches that are wide enough to be seen, from left to right: where one begins and ends, and which of those it is drawn for is the
    /// highest.
    fn seen(&self, frame: &Frame) -> Vec<(f64, f64, usize)> {
        let mut seen: Vec<(f64, f64, usize)> = Vec::new();
        for stretch in self.stretches() {
            let ends = [stretch, stretch + 1].map(|place| frame.at(self.places[place], frame.y.low));
            let [Some((from, _)), Some((to, _))] = ends else { continue };
            match seen.last_mut() {
                Some((begun, end, highest)) if to - *begun < SEEN || *end - *begun < SEEN => {
                    *end = to;
                    if self.sum(stretch) > self.sum(*highest) {
                        *highest = stretch;
                    }
                }
                _ => seen.push((from, to, stretch)),
            }
        }
        seen
    }

    /// The rectangles of a series, neighbours that are equally high as one.
    fn areas(&self, frame: &Frame, series: usize) -> Vec<Area> {
        let mut areas: Vec<Area> = Vec::new();
        for (from, to, stretch) in self.seen(frame) {
            let below: f64 = (0..series).map(|lower| self.height(lower, stretch)).sum();
            let edges = [below, below + self.height(series, stretch)].map(|height| frame.at_position(0.0, height).1);
            let [bottom, top] = edges;
            let same = |one: &Area| (one.top - top).abs() < SAME && (one.bottom - bottom).abs() < SAME;
            match areas.last_mut() {
                Some(last) if last.right == from && same(last) => last.right = to,
                _ if bottom - top > 0.0 => areas.push(Area::new((from, top), (to, bottom))),
                _ => {}
            }
        }
        areas
    }
}

impl Draw for StackedArea {
    /// Across a page, and for a phone.
    fn widths(&self) -> &'static [f64] {
        &[2.0 * COLUMN, 400.0]
    }

    fn draw(&self, width: f64) -> Drawing {
        let mut drawing = Drawing::new(width, HEIGHT);
        let frame = self.frame(&mut drawing);
        for (i, series) in self.series.iter().enumerate() {
            let most = self.stretches().map(|stretch| self.height(i, stretch)).fold(0.0, f64::max);
            let tip = format!("{}: at most {}", series.name, significant(most));
            self.areas(&frame, i).into_iter().for_each(|area| drawing.fill(area, series.filling(i), &tip));
        }
        let levels = self.references.iter().filter(|reference| matches!(reference, Reference::Level(..)));
        levels.for_each(|reference| draw_reference(&mut drawing, &frame, reference));
        self.draw_uprights(&mut drawing, &frame);
        drawing
    }

    fn legend(&self) -> Vec<Entry> {
        filled_legend(&self.series)
    }

    fn numbers(&self) -> (Vec<Column>, Vec<Vec<Cell>>) {
        let columns = [Column::number("from", &self.x.label), Column::number("to", "to")];
        let row = |stretch: usize| {
            let ends = [stretch, stretch + 1].map(|place| Cell::from(self.places[place]));
            ends.into_iter().chain((0..self.series.len()).map(|series| self.height(series, stretch).into())).collect()
        };
        (columns.into_iter().chain(named(&self.series)).collect(), self.stretches().map(row).collect())
    }
}
