//! Values along an axis: lines with a marker at every value, bands of what is likely, references to compare with.

use super::{Axis, Draw, Entry, Series, marker_legend};
use crate::drawing::{Anchor, Drawing, FONT, Frame, Mark, Point, Ruler, text_width};
use crate::table::{Cell, Column, significant};
use crate::theme::Ink;

/// Lines with a marker at every value.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Horizontal.
    pub x: Axis,
    /// Vertical; starts at zero.
    pub y: Axis,
    /// Values by group, in ascending x. Where one of them cannot be shown, the line is interrupted.
    pub series: Vec<Series<Value>>,
    /// What to compare with, or where something changes.
    pub references: Vec<Reference>,
}

/// A value at a place. A pair of place and value is one without an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// Along the horizontal axis.
    pub x: f64,
    /// Along the vertical axis.
    pub y: f64,
    /// The smallest and the largest that it may be, drawn as a band.
    pub interval: Option<(f64, f64)>,
}

/// A line across the plot with its name on it.
#[derive(Debug, Clone, PartialEq)]
pub enum Reference {
    /// At a place: a knee, a limit.
    Upright(f64, String),
    /// At a value: the best, a goal.
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

    fn values(&self) -> impl Iterator<Item = &Value> {
        self.series.iter().flat_map(|series| &series.data)
    }

    fn rulers(&self) -> (Ruler, Ruler) {
        let (mut across, mut up): (Vec<f64>, Vec<f64>) = self.values().map(|value| (value.x, value.y)).unzip();
        up.extend(self.values().filter_map(|value| value.interval).map(|(_, high)| high));
        for reference in &self.references {
            match reference {
                Reference::Upright(at, _) => across.push(*at),
                Reference::Level(at, _) => up.push(*at),
            }
        }
        (Ruler::at_values(&self.x, across.into_iter()), Ruler::from_zero(&self.y, up.into_iter()))
    }
}

const HEIGHT: f64 = 330.0;

impl Draw for Line {
    fn draw(&self, width: f64) -> Drawing {
        let mut drawing = Drawing::new(width, HEIGHT);
        let (x, y) = self.rulers();
        let frame = Frame::new(&mut drawing, x, y);
        for (i, series) in self.series.iter().enumerate() {
            for band in series.data.chunk_by(|a, b| a.interval.is_some() && b.interval.is_some()) {
                let outline = outline(&frame, band);
                match outline.len() {
                    0 => {}
                    2 => drawing.add(Mark::lines(vec![outline], series.ink(i), 1.5)),
                    _ => drawing.add(Mark::polygon(outline, series.ink(i)).alpha(0.2)),
                }
            }
        }
        self.references.iter().for_each(|reference| draw_reference(&mut drawing, &frame, reference));
        for (i, series) in self.series.iter().enumerate() {
            let placed: Vec<_> = series.data.iter().map(|value| (frame.at(value.x, value.y), value)).collect();
            let runs = placed.split(|(at, _)| at.is_none()).filter(|run| run.len() > 1);
            let lines: Vec<Vec<Point>> = runs.map(|run| run.iter().filter_map(|(at, _)| *at).collect()).collect();
            drawing.add(Mark::lines(lines, series.ink(i), 1.5));
            for (at, value) in placed {
                if let Some(at) = at {
                    drawing.add(Mark::marker(at, i, series.ink(i)).tip(tip(&series.name, value)));
                }
            }
        }
        drawing
    }

    fn legend(&self) -> Vec<Entry> {
        marker_legend(&self.series)
    }

    fn numbers(&self) -> (Vec<Column>, Vec<Vec<Cell>>) {
        let columns = vec![
            Column::text("series", "series"),
            Column::number("x", &self.x.label),
            Column::number("y", &self.y.label),
            Column::number("low", "from"),
            Column::number("high", "to"),
        ];
        let row = |name: &str, value: &Value| {
            let (low, high) = value.interval.unzip();
            vec![name.into(), value.x.into(), value.y.into(), low.into(), high.into()]
        };
        let rows = self.series.iter().flat_map(|series| series.data.iter().map(|value| row(&series.name, value)));
        (columns, rows.collect())
    }
}

/// Along the upper ends of intervals, back along the lower ones.
fn outline(frame: &Frame, band: &[Value]) -> Vec<Point> {
    let inside = |y: f64| y.clamp(frame.y.low, frame.y.high);
    let ends = |value: &Value| value.interval.map(|(low, high)| (value.x, inside(low), inside(high)));
    let ends: Vec<(f64, f64, f64)> = band.iter().filter_map(ends).collect();
    let upper = ends.iter().filter_map(|(x, _, high)| frame.at(*x, *high));
    let lower = ends.iter().rev().filter_map(|(x, low, _)| frame.at(*x, *low));
    upper.chain(lower).collect()
}

pub(super) fn draw_reference(drawing: &mut Drawing, frame: &Frame, reference: &Reference) {
    let (ends, name) = match reference {
        Reference::Upright(at, name) => ([(*at, frame.y.low), (*at, frame.y.high)].map(|(x, y)| frame.at(x, y)), name),
        Reference::Level(at, name) => {
            let (low, high) = (frame.x.value(frame.x.low), frame.x.value(frame.x.high));
            ([frame.at(low, *at), frame.at(high, *at)], name)
        }
    };
    let [Some(from), Some(to)] = ends else { return };
    drawing.add(Mark::dashed(vec![from, to], Ink::MUTED));
    // Above the end of a level line, beside the upper end of an upright one, on the side that has room.
    let wide = text_width(name, FONT) + 5.0;
    let (at, anchor) = match reference {
        Reference::Level(..) => ((to.0, to.1 - 9.0), Anchor::End),
        Reference::Upright(..) if to.0 + wide > frame.area.right => {
            ((to.0 - 5.0, frame.area.bottom - 9.0), Anchor::End)
        }
        Reference::Upright(..) => ((to.0 + 5.0, frame.area.bottom - 9.0), Anchor::Start),
    };
    drawing.add(Mark::text(name, at, anchor, Ink::TEXT));
}

fn tip(name: &str, value: &Value) -> String {
    let interval = value.interval.map(|(low, high)| format!(" ({} to {})", significant(low), significant(high)));
    format!("{name}: {}{} at {}", significant(value.y), interval.unwrap_or_default(), value.x)
}
