//! How often values occur, stacked by series.

use super::{Axis, Draw, LegendEntry, Series, filled_legend};
use crate::drawing::{Axes, AxisExtent, Drawing, PixelArea};
use std::collections::BTreeMap;

/// Counts of values in bins of equal width.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// What is counted in bins.
    pub x: Axis,
    /// The counted items, such as "rows".
    pub counted: String,
    /// Width of a bin; one bin is centred on zero.
    pub bin: f64,
    /// Values further from zero than this are counted in the outermost bins.
    pub limit: f64,
    /// Values by group, stacked.
    pub series: Vec<Series<f64>>,
}

const HEIGHT: f64 = 300.0;

impl Draw for Histogram {
    fn draw(&self, width: f64) -> Drawing {
        let counts: Vec<BTreeMap<i64, u64>> = self.series.iter().map(|series| self.count(&series.data)).collect();
        let mut heights: BTreeMap<i64, u64> = BTreeMap::new();
        for (bin, count) in counts.iter().flatten() {
            *heights.entry(*bin).or_default() += count;
        }
        let drawing = Drawing::new(width, HEIGHT);
        let edges = heights.keys().flat_map(|bin| [*bin as f64 - 0.5, *bin as f64 + 0.5]).map(|edge| edge * self.bin);
        let y = AxisExtent::from_zero(&Axis::linear(&self.counted), heights.values().map(|count| *count as f64));
        let axes = Axes::new(&drawing, AxisExtent::with_margin(&self.x, edges), y, &[]);
        let mut bottoms: BTreeMap<i64, u64> = BTreeMap::new();
        for (i, (series, counts)) in self.series.iter().zip(counts).enumerate() {
            for (bin, count) in counts {
                let (centre, bottom) = (bin as f64, bottoms.entry(bin).or_default());
                let (left, low) = axes.at_position((centre - 0.5) * self.bin, *bottom as f64);
                let (right, high) = axes.at_position((centre + 0.5) * self.bin, (*bottom + count) as f64);
                let tip = format!("{}: {count} {} at {}", series.name, self.counted, centre * self.bin);
                drawing.fill(PixelArea::new((left + 0.5, high), (right - 0.5, low)), series.filling(i), tip);
                *bottom += count;
            }
        }
        drawing
    }

    fn legend(&self) -> Vec<LegendEntry> {
        filled_legend(&self.series)
    }
}

impl Histogram {
    fn count(&self, values: &[f64]) -> BTreeMap<i64, u64> {
        let mut counts = BTreeMap::new();
        for value in values.iter().filter(|value| value.is_finite()) {
            let bin = (value.clamp(-self.limit, self.limit) / self.bin).round() as i64;
            *counts.entry(bin).or_default() += 1;
        }
        counts
    }
}
