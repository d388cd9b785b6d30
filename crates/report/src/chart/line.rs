//! Values along an axis: lines with a marker at every value, bands for intervals, references to compare with.

use super::{Axis, Draw, LegendEntry, Series, marker_legend};
use crate::drawing::{
    Axes, AxisExtent, Drawing, DrawnMark, FONT, MarkShape, PixelArea, PixelPoint, TextAnchor, text_width,
};
use crate::table::significant;
use crate::theme::Ink;

/// Lines with a marker at every value.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Horizontal, with a tick at every value if there is room.
    pub x: Axis,
    /// Vertical; starts at zero.
    pub y: Axis,
    /// Values by group, in ascending x. The line is interrupted at values that cannot be shown.
    pub series: Vec<Series<Value>>,
    /// Values to compare with, or positions of changes.
    pub references: Vec<Reference>,
}

/// A value at a position. A pair of position and value has no interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// Along the horizontal axis.
    pub x: f64,
    /// Along the vertical axis.
    pub y: f64,
    /// The lower and upper limit of the value, drawn as a band.
    pub interval: Option<(f64, f64)>,
}

/// A line across the plot with its name.
#[derive(Debug, Clone, PartialEq)]
pub enum Reference {
    /// At an x value: a knee, a limit.
    Upright(f64, String),
    /// At a y value: the best, a goal.
    Level(f64, String),
}

impl From<(f64, f64)> for Value {
    fn from((x, y): (f64, f64)) -> Self {
        Value { x, y, interval: None }
    }
}

impl Line {
    /// Lines without references.
    pub fn new(x: Axis, y: Axis, series: Vec<Series<Value>>) -> Self {
        Line { x, y, series, references: Vec::new() }
    }
}

const HEIGHT: f64 = 330.0;

impl Draw for Line {
    fn draw(&self, width: f64) -> Drawing {
        let drawing = Drawing::new(width, HEIGHT);
        let values = || self.series.iter().flat_map(|series| &series.data);
        let x = values().map(|value| value.x).chain(uprights(&self.references));
        let highest = values().flat_map(|value| [value.y, value.interval.map_or(0.0, |(_, high)| high)]);
        let y = from_zero(&self.y, highest, &self.references);
        let mut axes = Axes::new(&drawing, AxisExtent::at_values(&self.x, x), y, &[]);
        for (i, series) in self.series.iter().enumerate() {
            for band in series.data.chunk_by(|a, b| a.interval.is_some() && b.interval.is_some()) {
                draw_band(&drawing, outline(&axes, band), series.ink(i));
            }
        }
        draw_references(&drawing, &axes, &self.references);
        for (i, series) in self.series.iter().enumerate() {
            let positions: Vec<_> = series.data.iter().map(|value| axes.positions(value.x, value.y)).collect();
            for run in positions.split(Option::is_none).filter(|run| run.len() > 1) {
                axes.line(run.iter().copied().flatten().collect(), series.ink(i));
            }
            for (position, value) in positions.iter().zip(&series.data) {
                if let Some((x, y)) = *position {
                    drawing
                        .add(DrawnMark::marker(axes.at_position(x, y), i, series.ink(i)).tip(tip(&series.name, value)));
                }
            }
        }
        drawing
    }

    fn legend(&self) -> Vec<LegendEntry> {
        marker_legend(&self.series)
    }
}

/// The outline of a band: along the upper ends of intervals, back along the lower ones.
fn outline(axes: &Axes, band: &[Value]) -> Vec<PixelPoint> {
    let end = |value: &Value, y: f64| axes.point_at(value.x, y.clamp(axes.y.low, axes.y.high));
    let upper = band.iter().filter_map(|value| end(value, value.interval?.1));
    let lower = band.iter().rev().filter_map(|value| end(value, value.interval?.0));
    upper.chain(lower).collect()
}

fn draw_band(drawing: &Drawing, outline: Vec<PixelPoint>, ink: Ink) {
    match outline.len() {
        0 => {}
        2 => drawing.add(DrawnMark::lines(vec![outline], ink, 1.5)),
        _ => drawing.add(DrawnMark::new(MarkShape::Polygon(outline), ink).alpha(0.2)),
    }
}

fn tip(name: &str, value: &Value) -> String {
    let interval = value.interval.map(|(low, high)| format!(" ({} to {})", significant(low), significant(high)));
    format!("{name}: {}{} at {}", significant(value.y), interval.unwrap_or_default(), value.x)
}

/// Height of a row of names in pixels, and the share of the height that is left free for one.
const ROW: f64 = 16.0;
const FREE: f64 = 0.07;

pub(super) fn uprights(references: &[Reference]) -> impl Iterator<Item = f64> + Clone {
    references.iter().filter_map(|reference| match reference {
        Reference::Upright(at, _) => Some(*at),
        Reference::Level(..) => None,
    })
}

pub(super) fn levels(references: &[Reference]) -> impl Iterator<Item = f64> {
    references.iter().filter_map(|reference| match reference {
        Reference::Upright(..) => None,
        Reference::Level(at, _) => Some(*at),
    })
}

/// The range from zero that includes the values, the references, and room for the names of upright references above.
pub(super) fn from_zero(axis: &Axis, values: impl Iterator<Item = f64>, references: &[Reference]) -> AxisExtent {
    let mut values: Vec<f64> = values.chain(levels(references)).collect();
    let highest = values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    values.push(highest * (1.0 + FREE * uprights(references).count() as f64));
    AxisExtent::from_zero(axis, values.into_iter())
}

/// Draws lines with their names, each name at the first position where it overlaps no earlier name.
pub(super) fn draw_references(drawing: &Drawing, axes: &Axes, references: &[Reference]) {
    let PixelArea { left, top, right, bottom } = axes.area;
    let mut taken: Vec<PixelArea> = Vec::new();
    for reference in references {
        let (name, ends, places) = match reference {
            Reference::Upright(at, name) => {
                let Some((x, _)) = axes.x.position(*at).map(|at| axes.at_position(at, axes.y.low)) else { continue };
                let row = |i: usize| top + ROW * (i as f64 + 0.5);
                // If there is no room on its right, the name is on the left.
                let on_right = x + text_width(name, FONT) + 10.0 <= right;
                let place = |i| {
                    if on_right { ((x + 5.0, row(i)), TextAnchor::Start) } else { ((x - 5.0, row(i)), TextAnchor::End) }
                };
                (name, [(x, bottom), (x, top)], (0..=taken.len()).map(place).collect::<Vec<_>>())
            }
            Reference::Level(at, name) => {
                let Some((_, y)) = axes.y.position(*at).map(|at| axes.at_position(axes.x.low, at)) else { continue };
                let places = [
                    (right, -9.0, TextAnchor::End),
                    (right, 9.0, TextAnchor::End),
                    (left + 5.0, -9.0, TextAnchor::Start),
                ];
                (name, [(left, y), (right, y)], places.map(|(x, away, anchor)| ((x, y + away), anchor)).into())
            }
        };
        drawing.add(DrawnMark::dashed(ends[0], ends[1], Ink::MUTED));
        let free = |(at, anchor): &&(PixelPoint, TextAnchor)| {
            !taken.iter().any(|other| overlap(*other, extent(name, *at, *anchor)))
        };
        if let Some((at, anchor)) = places.iter().find(free).or(places.first()).copied() {
            taken.push(extent(name, at, anchor));
            drawing.add(DrawnMark::text(name, at, anchor, Ink::TEXT));
        }
    }
}

fn extent(name: &str, (x, y): PixelPoint, anchor: TextAnchor) -> PixelArea {
    let wide = text_width(name, FONT) + 10.0;
    let left = match anchor {
        TextAnchor::Start => x,
        TextAnchor::Middle => x - wide / 2.0,
        TextAnchor::End => x - wide,
    };
    PixelArea::new((left, y - ROW / 2.0), (left + wide, y + ROW / 2.0))
}

fn overlap(one: PixelArea, other: PixelArea) -> bool {
    one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom
}
