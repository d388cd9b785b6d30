//! Two costs of many choices against each other, and those of each group that nothing else of it betters in both.

use super::line::draw_reference;
use super::{Axis, Draw, Entry, Point, Reference, Series, marker_legend, scatter};
use crate::drawing::{Drawing, Frame, Mark, Point as Place, Ruler};
use crate::table::{Cell, Column};

/// Choices by what each costs in two ways; of either less is better.
#[derive(Debug, Clone, PartialEq)]
pub struct Tradeoff {
    /// Horizontal.
    pub x: Axis,
    /// Vertical.
    pub y: Axis,
    /// Choices by group.
    pub series: Vec<Series<Point>>,
    /// What to compare with.
    pub references: Vec<Reference>,
}

const HEIGHT: f64 = 380.0;

impl Tradeoff {
    fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.data)
    }

    fn frame(&self, drawing: &mut Drawing) -> Frame {
        let (mut across, mut up): (Vec<f64>, Vec<f64>) = self.points().map(|point| (point.x, point.y)).unzip();
        for reference in &self.references {
            match reference {
                Reference::Upright(at, _) => across.push(*at),
                Reference::Level(at, _) => up.push(*at),
            }
        }
        let (x, y) = (Ruler::around(&self.x, across.into_iter()), Ruler::around(&self.y, up.into_iter()));
        Frame::new(drawing, x, y)
    }
}

impl Draw for Tradeoff {
    fn draw(&self, width: f64) -> Drawing {
        let mut drawing = Drawing::new(width, HEIGHT);
        let frame = self.frame(&mut drawing);
        self.references.iter().for_each(|reference| draw_reference(&mut drawing, &frame, reference));
        for (i, series) in self.series.iter().enumerate() {
            drawing.add(Mark::lines(vec![front(&series.data, &frame)], series.ink(i), 1.5));
        }
        scatter::draw_points(&mut drawing, &frame, &self.series);
        drawing
    }

    fn legend(&self) -> Vec<Entry> {
        marker_legend(&self.series)
    }

    fn numbers(&self) -> (Vec<Column>, Vec<Vec<Cell>>) {
        scatter::numbers([&self.x, &self.y], &self.series)
    }
}

/// Those that no other betters in both, from left to right, as steps: between two of them nothing is better than the left one.
fn front(points: &[Point], frame: &Frame) -> Vec<Place> {
    let mut places: Vec<Place> = points.iter().filter_map(|point| frame.at(point.x, point.y)).collect();
    // On the drawing what is less lies lower, which is further from its top.
    places.sort_by(|one, other| one.0.total_cmp(&other.0).then(other.1.total_cmp(&one.1)));
    let mut steps: Vec<Place> = Vec::new();
    for place in places {
        match steps.last() {
            Some(&(_, lowest)) if place.1 <= lowest => {}
            Some(&(_, lowest)) => steps.extend([(place.0, lowest), place]),
            None => steps.push(place),
        }
    }
    steps
}
