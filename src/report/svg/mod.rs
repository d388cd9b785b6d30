//! Charts as SVG that takes its colours from the page around it, so that one drawing serves light, dark and print.

mod bars;
mod canvas;
mod frame;
mod histogram;
mod line;
mod matrix;
mod ruler;
mod scatter;

use super::chart::{Chart, Plot};
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
        Plot::Scatter(plot) => Drawing { svg: scatter::draw(plot, &description), legend: markers(names(&plot.series)) },
        Plot::Line(plot) => Drawing { svg: line::draw(plot, &description), legend: markers(names(&plot.series)) },
        Plot::Bars(plot) => Drawing { svg: bars::draw(plot, &description), legend: swatches(names(&plot.series)) },
        Plot::Histogram(plot) => {
            Drawing { svg: histogram::draw(plot, &description), legend: swatches(names(&plot.series)) }
        }
        Plot::Matrix(plot) => Drawing { svg: matrix::draw(plot, &description), legend: matrix::legend(plot) },
    }
}

fn names<T>(series: &[super::chart::Series<T>]) -> Vec<String> {
    series.iter().map(|series| series.name.clone()).collect()
}

/// Side of a legend's sign, in pixels.
const SIGN: u32 = 14;

fn markers(names: Vec<String>) -> Vec<(String, String)> {
    let sign = |i| Canvas::sign(SIGN, |canvas| canvas.marker(canvas.middle(), i, ""));
    names.into_iter().enumerate().map(|(i, name)| (sign(i), name)).collect()
}

fn swatches(names: Vec<String>) -> Vec<(String, String)> {
    let sign = |i| Canvas::sign(SIGN, |canvas| canvas.rect(canvas.whole(), Ink::Series(i), 1.0, ""));
    names.into_iter().enumerate().map(|(i, name)| (sign(i), name)).collect()
}
