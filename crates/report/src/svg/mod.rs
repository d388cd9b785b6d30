//! Charts as SVG that takes its colours from the page around it, so that one drawing serves light, dark and print.

mod bars;
mod canvas;
mod frame;
mod histogram;
mod line;
mod matrix;
mod ruler;
mod scatter;

use super::chart::{Chart, Plot, Series};
use canvas::{Canvas, Ink};

/// A drawn chart and the signs used in it.
pub(super) struct Drawing {
    /// The `<svg>` element.
    pub svg: String,
    /// A small `<svg>` and the name it stands for.
    pub legend: Vec<(String, String)>,
}

/// Draws a chart.
pub(super) fn draw(chart: &Chart) -> Drawing {
    let description = format!("{}. {}", chart.title, chart.caption);
    match &chart.plot {
        Plot::Scatter(plot) => Drawing { svg: scatter::draw(plot, &description), legend: markers(&plot.series) },
        Plot::Line(plot) => Drawing { svg: line::draw(plot, &description), legend: markers(&plot.series) },
        Plot::Bars(plot) => Drawing { svg: bars::draw(plot, &description), legend: swatches(&plot.series) },
        Plot::Histogram(plot) => Drawing { svg: histogram::draw(plot, &description), legend: swatches(&plot.series) },
        Plot::Matrix(plot) => Drawing { svg: matrix::draw(plot, &description), legend: matrix::legend(plot) },
    }
}

/// Side of a legend's sign, in pixels.
const SIGN: u32 = 14;

fn markers<T>(series: &[Series<T>]) -> Vec<(String, String)> {
    legend(series, |place, ink| Canvas::sign(SIGN, |canvas| canvas.marker(canvas.middle(), (place, ink), "")))
}

fn swatches<T>(series: &[Series<T>]) -> Vec<(String, String)> {
    legend(series, |_, ink| Canvas::sign(SIGN, |canvas| canvas.rect(canvas.whole(), ink, 1.0, "")))
}

fn legend<T>(series: &[Series<T>], sign: impl Fn(usize, Ink) -> String) -> Vec<(String, String)> {
    let entry = |(place, one): (usize, &Series<T>)| (sign(place, Ink::of(one.colour, place)), one.name.clone());
    series.iter().enumerate().map(entry).collect()
}
