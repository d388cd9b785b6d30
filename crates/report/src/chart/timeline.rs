//! A timeline of spans on several tracks: threads, streams, machines.
//!
//! Thousands of spans need no more elements than pixels. On a page, timeline.js draws what is zoomed into.

use super::{ACROSS, Axis, Draw, LegendEntry, Series, filled_legend};
use crate::drawing::{Axes, AxisExtent, Drawing, DrawnMark, MarkShape, PixelArea};
use crate::table::significant;
use perf4sight_base::units::grouped_digits;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Spans of time on tracks, one below the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// Time, evenly spaced.
    pub time: Axis,
    /// Names of the tracks, from the top.
    pub tracks: Vec<String>,
    /// Spans by category. A span that begins within another one of its track is drawn below it.
    pub series: Vec<Series<TimelineSpan>>,
}

/// A span of time. A span that does not end after its beginning, or that has no track, is not drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelineSpan {
    /// Index in [`Timeline::tracks`].
    pub track: usize,
    /// In the unit of the axis.
    pub start: f64,
    /// In the unit of the axis, after the beginning.
    pub end: f64,
    /// Written on it if there is room.
    pub name: String,
}

/// Height of a level, and between two tracks, in pixels.
const LEVEL: f64 = 18.0;
const GAP: f64 = 10.0;
/// Deeper levels of a track are counted but not drawn.
const LEVELS: usize = 12;
/// Spans narrower than this many pixels are merged.
const NARROW: f64 = 2.0;

/// Spans that a page's script gets: more would make pages of megabytes, and drawing slow.
const MOST: usize = 30_000;
/// Digits of the whole time that a page's script gets: a millionth of it is the closest that it zooms to.
const DIGITS: i32 = 7;

type PlacedSpan<'a> = (usize, &'a TimelineSpan);

#[derive(Default, Clone)]
struct MergedSpans {
    count: usize,
    took: f64,
    areas: Vec<PixelArea>,
}

impl Draw for Timeline {
    fn widths(&self) -> &'static [f64] {
        &ACROSS
    }

    fn draw(&self, width: f64) -> Drawing {
        let mut hidden = 0;
        let tracks: Vec<_> = (0..self.tracks.len()).map(|track| self.levels(track, &mut hidden)).collect();
        let levels: usize = tracks.iter().map(|levels| levels.len().max(1)).sum();
        let mut drawing = Drawing::new(width, Axes::HEIGHT + levels as f64 * LEVEL + tracks.len() as f64 * GAP);
        let time = AxisExtent::without_margin(&self.time, self.spans().flat_map(|(_, span)| [span.start, span.end]));
        let axes = Axes::new(&drawing, time, AxisExtent::rows(0), &self.tracks);
        let (mut top, mut merged) = (axes.area.top + GAP / 2.0, 0);
        for (name, levels) in self.tracks.iter().zip(&tracks) {
            drawing.name(name, &axes, top + LEVEL / 2.0);
            for (i, level) in levels.iter().enumerate() {
                merged += self.draw_level(&drawing, &axes, top + i as f64 * LEVEL, level);
            }
            top += levels.len().max(1) as f64 * LEVEL + GAP;
        }
        drawing.note = note(merged, hidden);
        drawing
    }

    fn legend(&self) -> Vec<LegendEntry> {
        filled_legend(&self.series)
    }

    fn spans_json(&self) -> Option<String> {
        Some(self.to_json().to_string())
    }
}

impl Timeline {
    /// What timeline.js reads. Each span: track, level, series, start, length, index of its name. Of too many the longest.
    fn to_json(&self) -> serde_json::Value {
        let tracks: Vec<_> = (0..self.tracks.len()).map(|track| self.levels(track, &mut 0)).collect();
        let mut all: Vec<(usize, usize, PlacedSpan)> = Vec::new();
        for (track, levels) in tracks.iter().enumerate() {
            for (level, placed) in levels.iter().enumerate() {
                all.extend(placed.iter().map(|span| (track, level, *span)));
            }
        }
        let left_out = all.len().saturating_sub(MOST);
        if left_out > 0 {
            let length = |(_, _, (_, span)): &(usize, usize, PlacedSpan)| span.end - span.start;
            all.sort_by(|a, b| length(b).total_cmp(&length(a)));
            all.truncate(MOST);
        }
        let time = AxisExtent::without_margin(&self.time, self.spans().flat_map(|(_, span)| [span.start, span.end]));
        let step = 10_f64.powi(((time.high - time.low).log10().ceil() as i32).saturating_sub(DIGITS));
        // By a whole number where that can be: 0.1 has no exact binary form, and many digits.
        let short = |at: f64| if step < 1.0 { (at / step).round() / (1.0 / step).round() } else { at };
        let names: BTreeSet<&str> = all.iter().map(|(_, _, (_, span))| span.name.as_str()).collect();
        let places: BTreeMap<&str, usize> = names.iter().zip(0..).map(|(name, place)| (*name, place)).collect();
        let row = |(track, level, (series, span)): &(usize, usize, PlacedSpan<'_>)| {
            let [start, length] = [span.start, span.end - span.start].map(short);
            json!([track, level, series, start, length, places[span.name.as_str()]])
        };
        let named = self.tracks.iter().zip(&tracks);
        let named = named.map(|(name, levels)| json!({ "name": name, "levels": levels.len() }));
        let coloured = self.series.iter().enumerate();
        let coloured = coloured.map(|(i, one)| json!({ "name": one.name, "colour": one.ink(i).css(None) }));
        json!({
            "label": self.time.label,
            "extent": [time.low, time.high],
            "tracks": named.collect::<Vec<_>>(),
            "series": coloured.collect::<Vec<_>>(),
            "names": names,
            "spans": all.iter().map(row).collect::<Vec<_>>(),
            "leftOut": left_out,
        })
    }

    fn spans(&self) -> impl Iterator<Item = PlacedSpan<'_>> {
        let all = self.series.iter().enumerate();
        let all = all.flat_map(|(category, series)| series.data.iter().map(move |span| (category, span)));
        let valid = |span: &TimelineSpan| span.start.is_finite() && span.end.is_finite() && span.end > span.start;
        all.filter(move |(_, span)| valid(span) && span.track < self.tracks.len())
    }

    /// The spans of a track, each below the spans that it begins in; counts those that are too deep.
    fn levels(&self, track: usize, hidden: &mut usize) -> Vec<Vec<PlacedSpan<'_>>> {
        let mut spans: Vec<PlacedSpan> = self.spans().filter(|(_, span)| span.track == track).collect();
        spans.sort_by(|(_, a), (_, b)| a.start.total_cmp(&b.start).then(b.end.total_cmp(&a.end)));
        let (mut levels, mut open): (Vec<Vec<PlacedSpan>>, Vec<f64>) = Default::default();
        for placed in spans {
            while open.last().is_some_and(|end| *end <= placed.1.start) {
                open.pop();
            }
            match open.len() {
                deep if deep >= LEVELS => *hidden += 1,
                deep => {
                    levels.resize(levels.len().max(deep + 1), Vec::new());
                    levels[deep].push(placed);
                }
            }
            open.push(placed.1.end);
        }
        levels
    }

    /// Draws the spans, merging narrow neighbours; returns the number of merged spans.
    fn draw_level(&self, drawing: &Drawing, axes: &Axes, top: f64, level: &[PlacedSpan]) -> usize {
        let x = |time: f64| axes.at_position(time, 0.0).0;
        let bin = |(_, span): &PlacedSpan| match x(span.end) - x(span.start) {
            width if width >= NARROW => None,
            _ => Some((x(span.start) / NARROW).floor() as i64),
        };
        let mut merged: Vec<MergedSpans> = vec![MergedSpans::default(); self.series.len()];
        for together in level.chunk_by(|a, b| bin(a).is_some() && bin(a) == bin(b)) {
            match together {
                [one] if bin(one).is_none() => {
                    let (series, span) = (&self.series[one.0], one.1);
                    let area = PixelArea::new((x(span.start), top + 0.5), (x(span.end) - 0.5, top + LEVEL - 0.5));
                    drawing.named_box(area, series.filling(one.0), tip(&series.name, span, axes), &span.name);
                }
                many => merge(axes, top, many, &mut merged),
            }
        }
        let count = merged.iter().map(|merged| merged.count).sum();
        for (i, (series, merged)) in self.series.iter().zip(merged).enumerate().filter(|(_, (_, own))| own.count > 0) {
            let (count, took) = (grouped_digits(merged.count as u64), significant(merged.took));
            let tip = format!("{}: {count} too short to be drawn alone, together {took}", series.name);
            drawing.add(DrawnMark::new(MarkShape::Rects(merged.areas), series.ink(i)).tip(tip));
        }
        count
    }
}

/// The height of each category is its share of the time, so that its area is preserved.
fn merge(axes: &Axes, top: f64, many: &[PlacedSpan], merged: &mut [MergedSpans]) {
    let x = |time: f64| axes.at_position(time, 0.0).0;
    let from = many.iter().map(|(_, span)| span.start).fold(f64::INFINITY, f64::min);
    let to = many.iter().map(|(_, span)| span.end).fold(f64::NEG_INFINITY, f64::max);
    let (left, right) = (x(from), x(to).max(x(from) + 1.0));
    let mut bottom = top + LEVEL - 0.5;
    for (i, merged) in merged.iter_mut().enumerate() {
        let own = many.iter().filter(|(category, _)| *category == i);
        let took: f64 = own.clone().map(|(_, span)| span.end - span.start).sum();
        if took > 0.0 {
            let height = (LEVEL - 1.0) * (x(from + took) - x(from)) / (right - left);
            merged.count += own.count();
            merged.took += took;
            merged.areas.push(PixelArea::new((left, bottom - height), (right, bottom)));
            bottom -= height;
        }
    }
}

fn tip(category: &str, TimelineSpan { start, end, name, .. }: &TimelineSpan, axes: &Axes) -> String {
    let [from, to] = [start, end].map(|time| axes.x.near(*time));
    format!("{name} ({category}): {} from {from} to {to}", significant(end - start))
}

fn note(merged: usize, hidden: usize) -> String {
    let merged = match merged {
        0 => String::new(),
        1 => "1 span too short to be drawn alone is as high as its share of the time. ".into(),
        count => format!(
            "{} spans too short to be drawn alone are as high as their share of the time. ",
            grouped_digits(count as u64)
        ),
    };
    let hidden = match hidden {
        0 => String::new(),
        count => format!("{count} spans below level {LEVELS} are not drawn."),
    };
    format!("{merged}{hidden}").trim_end().to_string()
}
