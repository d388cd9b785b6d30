//! Two values of the same kind against each other, around the line where they are equal.

use super::{Axis, Draw, LegendEntry, Series, marker_legend};
use crate::drawing::{Axes, AxisExtent, Drawing, DrawnMark, MarkShape};
use crate::theme::Ink;

/// Points around the line where both values are equal. Both axes span the same range.
#[derive(Debug, Clone, PartialEq)]
pub struct Scatter {
    /// Horizontal, over the range of both.
    pub x: Axis,
    /// Vertical, over the range of both.
    pub y: Axis,
    /// Half width of the band around the line of equality, as a share: 0.1 is within 10 %.
    pub band: f64,
    /// One marker for each group.
    pub series: Vec<Series<ScatterPoint>>,
}

/// A marker with a tooltip.
#[derive(Debug, Clone, PartialEq)]
pub struct ScatterPoint {
    /// Along the horizontal axis.
    pub x: f64,
    /// Along the vertical axis.
    pub y: f64,
    /// Its description, shown as a tooltip.
    pub label: String,
}

/// The number of points on either edge of the band; a linear scale would need only two.
const EDGE: usize = 24;

impl Draw for Scatter {
    fn draw(&self, width: f64) -> Drawing {
        // Nearly square, so that the line of equality rises at 45 degrees.
        let drawing = Drawing::new(width, width * 0.95);
        let values = || self.series.iter().flat_map(|series| &series.data).flat_map(|point| [point.x, point.y]);
        let mut axes = Axes::new(
            &drawing,
            AxisExtent::with_margin(&self.x, values()),
            AxisExtent::with_margin(&self.y, values()),
            &[],
        );
        let place = |(x, y)| axes.at_position(x, y);
        let (low, high) = (self.edge(&axes, 1.0 - self.band), self.edge(&axes, 1.0 + self.band));
        let outline = low.into_iter().chain(high.into_iter().rev()).map(place).collect();
        drawing.add(DrawnMark::new(MarkShape::Polygon(outline), Ink::MUTED).alpha(0.16));
        axes.line(self.edge(&axes, 1.0), Ink::MUTED);
        draw_points(&drawing, &axes, &self.series);
        drawing
    }

    fn legend(&self) -> Vec<LegendEntry> {
        marker_legend(&self.series)
    }
}

impl Scatter {
    /// Positions where y is `share` times x.
    fn edge(&self, axes: &Axes, share: f64) -> Vec<(f64, f64)> {
        let (low, high) = (axes.x.low, axes.x.high);
        let across = (0..=EDGE).map(|i| low + (high - low) * i as f64 / EDGE as f64);
        let up = |x| Some((x, axes.y.position(axes.x.value(x) * share)?.clamp(axes.y.low, axes.y.high)));
        across.filter_map(up).collect()
    }
}

/// Draws every point that the axes can show with the marker of its series and its label as tooltip.
pub(super) fn draw_points(drawing: &Drawing, axes: &Axes, series: &[Series<ScatterPoint>]) {
    for (i, series) in series.iter().enumerate() {
        for point in &series.data {
            if let Some(at) = axes.point_at(point.x, point.y) {
                drawing.add(DrawnMark::marker(at, i, series.ink(i)).tip(&point.label));
            }
        }
    }
}
