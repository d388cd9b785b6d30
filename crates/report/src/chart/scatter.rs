//! Two values of the same kind against each other, around the line where they are equal.

use super::{Axis, Draw, Entry, Series, marker_legend};
use crate::drawing::{Drawing, Frame, Mark, Ruler};
use crate::table::{Cell, Column};
use crate::theme::Ink;

/// Points around the line where both values are equal. Both axes span the same range.
#[derive(Debug, Clone, PartialEq)]
pub struct Scatter {
    /// Horizontal.
    pub x: Axis,
    /// Vertical.
    pub y: Axis,
    /// Half width of the band around the line of equality, as a share: 0.1 is within 10 %.
    pub band: f64,
    /// Points by group.
    pub series: Vec<Series<Point>>,
}

/// One point of a [`Scatter`].
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Along the horizontal axis.
    pub x: f64,
    /// Along the vertical axis.
    pub y: f64,
    /// What it is, shown under the pointer.
    pub label: String,
}

/// Points on either edge of the band; on a linear scale two would do.
const EDGE: usize = 24;

impl Draw for Scatter {
    fn draw(&self, width: f64) -> Drawing {
        // Nearly square, so that the line of equality rises at 45 degrees.
        let mut drawing = Drawing::new(width, width * 0.95);
        let values = || self.series.iter().flat_map(|series| &series.data).flat_map(|point| [point.x, point.y]);
        let frame = Frame::new(&mut drawing, Ruler::around(&self.x, values()), Ruler::around(&self.y, values()));
        self.draw_band(&mut drawing, &frame);
        draw_points(&mut drawing, &frame, &self.series);
        drawing
    }

    fn legend(&self) -> Vec<Entry> {
        marker_legend(&self.series)
    }

    fn numbers(&self) -> (Vec<Column>, Vec<Vec<Cell>>) {
        numbers([&self.x, &self.y], &self.series)
    }
}

/// Marks every point that lies on the frame, each series in its own way, with its label under the pointer.
pub(super) fn draw_points(drawing: &mut Drawing, frame: &Frame, series: &[Series<Point>]) {
    for (i, series) in series.iter().enumerate() {
        for point in &series.data {
            if let Some(at) = frame.at(point.x, point.y) {
                drawing.add(Mark::marker(at, i, series.ink(i)).tip(&point.label));
            }
        }
    }
}

/// Points of series with their labels.
pub(super) fn numbers([x, y]: [&Axis; 2], series: &[Series<Point>]) -> (Vec<Column>, Vec<Vec<Cell>>) {
    let columns = vec![
        Column::text("series", "series"),
        Column::text("label", "label"),
        Column::number("x", &x.label),
        Column::number("y", &y.label),
    ];
    let row =
        |name: &str, point: &Point| vec![name.into(), point.label.as_str().into(), point.x.into(), point.y.into()];
    let rows = series.iter().flat_map(|series| series.data.iter().map(|point| row(&series.name, point)));
    (columns, rows.collect())
}

impl Scatter {
    fn draw_band(&self, drawing: &mut Drawing, frame: &Frame) {
        let (low, high) = (frame.x.low, frame.x.high);
        let position = |i: usize| low + (high - low) * i as f64 / EDGE as f64;
        let edge = |share: f64| {
            let point = move |i: usize| {
                let y = frame.y.position(frame.x.value(position(i)) * share)?;
                Some(frame.at_position(position(i), y.clamp(frame.y.low, frame.y.high)))
            };
            (0..=EDGE).filter_map(point).collect::<Vec<_>>()
        };
        let outline = edge(1.0 + self.band).into_iter().chain(edge(1.0 - self.band).into_iter().rev()).collect();
        drawing.add(Mark::polygon(outline, Ink::MUTED).alpha(0.16));
        drawing.add(Mark::lines(vec![edge(1.0)], Ink::MUTED, 1.0));
    }
}
