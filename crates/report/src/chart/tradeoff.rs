//! Two costs of many choices against each other, with the Pareto front of each group.

use super::line::{draw_references, levels, uprights};
use super::{Axis, Draw, LegendEntry, Reference, ScatterPoint, Series, marker_legend, scatter};
use crate::drawing::{Axes, AxisExtent, Drawing};

/// Choices with two costs each; for both, less is better.
#[derive(Debug, Clone, PartialEq)]
pub struct Tradeoff {
    /// The cost to the right.
    pub x: Axis,
    /// The cost upwards.
    pub y: Axis,
    /// Choices by group.
    pub series: Vec<Series<ScatterPoint>>,
    /// Limits of either cost.
    pub references: Vec<Reference>,
}

const HEIGHT: f64 = 380.0;

impl Draw for Tradeoff {
    fn draw(&self, width: f64) -> Drawing {
        let drawing = Drawing::new(width, HEIGHT);
        let points = || self.series.iter().flat_map(|series| &series.data);
        let x = AxisExtent::with_margin(&self.x, points().map(|point| point.x).chain(uprights(&self.references)));
        let y = AxisExtent::with_margin(&self.y, points().map(|point| point.y).chain(levels(&self.references)));
        let mut axes = Axes::new(&drawing, x, y, &[]);
        draw_references(&drawing, &axes, &self.references);
        for (i, series) in self.series.iter().enumerate() {
            let positions = series.data.iter().filter_map(|point| axes.positions(point.x, point.y));
            axes.line(front(positions.collect()), series.ink(i));
        }
        scatter::draw_points(&drawing, &axes, &self.series);
        drawing
    }

    fn legend(&self) -> Vec<LegendEntry> {
        marker_legend(&self.series)
    }
}

/// The Pareto front from left to right, as steps: between two choices the left one is the best.
fn front(mut positions: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    positions.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for position in positions {
        match steps.last() {
            Some(&(_, lowest)) if position.1 >= lowest => {}
            Some(&(_, lowest)) => steps.extend([(position.0, lowest), position]),
            None => steps.push(position),
        }
    }
    steps
}
