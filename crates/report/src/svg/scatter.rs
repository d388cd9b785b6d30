//! Two values against each other, around the line where they are equal.

use super::super::chart::{Scale, Scatter, Series};
use super::canvas::{Canvas, Ink};
use super::frame::Frame;
use super::ruler::Ruler;

/// Nearly square, so that the line of equality rises at 45 degrees.
const SIZE: (u32, u32) = (480, 450);
/// Points on either edge of the band; on a linear scale two would do.
const EDGE: usize = 24;

/// The chart as SVG.
pub fn draw(plot: &Scatter, description: &str) -> String {
    Canvas::drawing(SIZE, description, |canvas| {
        let values = || plot.series.iter().flat_map(|series| &series.data).flat_map(|point| [point.x, point.y]);
        let frame = Frame::new(canvas, Ruler::around(&plot.x, values()), Ruler::around(&plot.y, values()));
        draw_band(canvas, &frame, plot);
        for (i, series) in plot.series.iter().enumerate() {
            draw_points(canvas, &frame, i, series);
        }
    })
}

fn draw_band(canvas: &Canvas, frame: &Frame, plot: &Scatter) {
    let value = |position: f64| match plot.x.scale {
        Scale::Linear => position,
        Scale::Log => 10f64.powf(position),
    };
    let (low, high) = (frame.x.low, frame.x.high);
    let steps: Vec<f64> = (0..=EDGE).map(|i| value(low + (high - low) * i as f64 / EDGE as f64)).collect();
    let edge = |share: f64| {
        let inside = |y: f64| frame.y.position(y).map(|at| at.clamp(frame.y.low, frame.y.high));
        let points = steps.iter().filter_map(move |x| Some((frame.x.position(*x)?, inside(x * share)?)));
        points.map(|(x, y)| frame.at_position(x, y)).collect::<Vec<_>>()
    };
    let outline = edge(1.0 + plot.band).into_iter().chain(edge(1.0 - plot.band).into_iter().rev()).collect();
    canvas.polygon(outline, Ink::Muted, 0.16, "");
    canvas.path(edge(1.0), Ink::Muted, 2);
}

fn draw_points(canvas: &Canvas, frame: &Frame, i: usize, series: &Series<super::super::chart::Point>) {
    for point in &series.data {
        if let Some(at) = frame.at(point.x, point.y) {
            canvas.marker(at, (i, Ink::of(series.colour, i)), &point.label);
        }
    }
}
