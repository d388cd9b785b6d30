//! Values along an axis, a marker at each.

use super::super::chart::Line;
use super::super::table::significant;
use super::canvas::{Canvas, Ink, Pixel};
use super::frame::Frame;
use super::ruler::Ruler;

const SIZE: (u32, u32) = (480, 320);

/// The chart as SVG.
pub fn draw(plot: &Line, description: &str) -> String {
    Canvas::drawing(SIZE, description, |canvas| {
        let points = || plot.series.iter().flat_map(|series| &series.data);
        let x = Ruler::at_values(&plot.x, points().map(|(x, _)| *x));
        let frame = Frame::new(canvas, x, Ruler::from_zero(&plot.y, points().map(|(_, y)| *y)));
        for (i, series) in plot.series.iter().enumerate() {
            let placed: Vec<(Pixel, String)> =
                series.data.iter().filter_map(|(x, y)| Some((frame.at(*x, *y)?, tip(&series.name, *x, *y)))).collect();
            let ink = Ink::of(series.colour, i);
            canvas.path(placed.iter().map(|(at, _)| *at).collect(), ink, 3);
            placed.iter().for_each(|(at, tip)| canvas.marker(*at, (i, ink), tip));
        }
    })
}

fn tip(name: &str, x: f64, y: f64) -> String {
    format!("{name}: {} at {}", significant(y), x)
}
