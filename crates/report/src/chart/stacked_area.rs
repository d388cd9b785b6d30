//! Parts of a whole along an axis, stacked: each value holds from its position to the next.

use super::line::{draw_references, from_zero, uprights};
use super::{ACROSS, Axis, Draw, LegendEntry, Reference, Series, filled_legend};
use crate::drawing::{Axes, AxisExtent, Drawing, PixelArea};
use crate::table::significant;

/// Stacked heights at ascending positions.
#[derive(Debug, Clone, PartialEq)]
pub struct StackedArea {
    /// Horizontal, evenly spaced.
    pub x: Axis,
    /// Vertical; starts at zero.
    pub y: Axis,
    /// The positions: each height extends from one to the next, and the last position is the end.
    pub places: Vec<f64>,
    /// One height per series and interval between two positions, from the lowest; heights that are not above zero are
    /// not drawn.
    pub series: Vec<Series<f64>>,
    /// Values to compare with, or positions of changes.
    pub references: Vec<Reference>,
}

const HEIGHT: f64 = 380.0;

/// Intervals narrower than this many pixels are drawn as one, as high as the highest of them.
const NARROW: f64 = 3.0;

/// Edges at most this many pixels apart count as equal.
const SAME: f64 = 0.5;

/// Intervals that are drawn as one: its ends in pixels, and the index of the highest.
type AreaColumn = (f64, f64, usize);

impl Draw for StackedArea {
    fn widths(&self) -> &'static [f64] {
        &ACROSS
    }

    fn draw(&self, width: f64) -> Drawing {
        let drawing = Drawing::new(width, HEIGHT);
        let x = self.places.iter().copied().chain(uprights(&self.references));
        let y = from_zero(&self.y, self.intervals().map(|interval| self.sum(interval)), &self.references);
        let axes = Axes::new(&drawing, AxisExtent::without_margin(&Axis::linear(&self.x.label), x), y, &[]);
        let columns = self.columns(&axes);
        for (i, series) in self.series.iter().enumerate() {
            let most = self.intervals().map(|interval| series.length(interval)).fold(0.0, f64::max);
            let tip = format!("{}: at most {}", series.name, significant(most));
            self.areas(&axes, &columns, i).into_iter().for_each(|area| drawing.fill(area, series.filling(i), &tip));
        }
        draw_references(&drawing, &axes, &self.references);
        drawing
    }

    fn legend(&self) -> Vec<LegendEntry> {
        filled_legend(&self.series)
    }
}

impl StackedArea {
    fn sum(&self, interval: usize) -> f64 {
        self.series.iter().map(|series| series.length(interval)).sum()
    }

    fn intervals(&self) -> impl Iterator<Item = usize> {
        let ascends = |interval: &usize| self.places[*interval] < self.places[interval + 1];
        (0..self.places.len().saturating_sub(1)).filter(ascends)
    }

    fn columns(&self, axes: &Axes) -> Vec<AreaColumn> {
        let mut columns: Vec<AreaColumn> = Vec::new();
        for interval in self.intervals() {
            let ends = [interval, interval + 1].map(|place| axes.point_at(self.places[place], axes.y.low));
            let [Some((from, _)), Some((to, _))] = ends else { continue };
            match columns.last_mut() {
                Some((start, end, highest)) if to - *start < NARROW || *end - *start < NARROW => {
                    *end = to;
                    if self.sum(interval) > self.sum(*highest) {
                        *highest = interval;
                    }
                }
                _ => columns.push((from, to, interval)),
            }
        }
        columns
    }

    /// The rectangles of a series, neighbours that are equally high as one.
    fn areas(&self, axes: &Axes, columns: &[AreaColumn], series: usize) -> Vec<PixelArea> {
        let mut areas: Vec<PixelArea> = Vec::new();
        for &(from, to, interval) in columns {
            let below: f64 = self.series[..series].iter().map(|lower| lower.length(interval)).sum();
            let heights = [below, below + self.series[series].length(interval)];
            let [bottom, top] = heights.map(|height| axes.at_position(0.0, height).1);
            let same = |one: &PixelArea| (one.top - top).abs() < SAME && (one.bottom - bottom).abs() < SAME;
            match areas.last_mut() {
                Some(last) if last.right == from && same(last) => last.right = to,
                _ if bottom - top > 0.0 => areas.push(PixelArea::new((from, top), (to, bottom))),
                _ => {}
            }
        }
        areas
    }
}
