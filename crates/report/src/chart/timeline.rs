//! What happened when, on several tracks: threads, streams, machines. Thousands of spans take no more room than pixels.

use super::{Axis, COLUMN, Draw, Entry, Series, filled_legend};
use crate::drawing::{Area, Drawing, Frame, Mark, Ruler, cut};
use crate::table::{Cell, Column, significant};
use perf4sight_base::units::grouped;

/// Spans of time on tracks, one below the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// Time, evenly spaced.
    pub time: Axis,
    /// Names of the tracks, from the top.
    pub tracks: Vec<String>,
    /// Spans by class. A span that begins within another one of its track is drawn below it.
    pub series: Vec<Series<Span>>,
}

/// Something that took time. One that ends where or before it begins, or on no track, is not drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Which track it is on.
    pub track: usize,
    /// When it began.
    pub start: f64,
    /// When it ended.
    pub end: f64,
    /// What it was.
    pub name: String,
}

/// Height of a level, and between two tracks, in pixels.
const LEVEL: f64 = 18.0;
const GAP: f64 = 10.0;
/// Levels of a track beyond which nothing is drawn: the reader is told.
const LEVELS: usize = 12;
/// Spans narrower than this are drawn together, in pixels.
const SEEN: f64 = 2.0;
/// Spans wider than this may carry their name, in pixels.
const NAMED: f64 = 30.0;

/// Spans that lie on one line, by their beginning.
type Level<'a> = Vec<Placed<'a>>;

/// A span and the place of its class.
#[derive(Clone, Copy)]
struct Placed<'a> {
    class: usize,
    span: &'a Span,
}

/// Spans of a class that are drawn together.
#[derive(Default, Clone)]
struct Merged {
    count: usize,
    took: f64,
    areas: Vec<Area>,
}

/// What was left out or merged.
#[derive(Default)]
struct Told {
    together: usize,
    deeper: usize,
}

impl Draw for Timeline {
    /// Across a page, and for a phone.
    fn widths(&self) -> &'static [f64] {
        &[2.0 * COLUMN, 400.0]
    }

    fn draw(&self, width: f64) -> Drawing {
        let mut told = Told::default();
        let tracks: Vec<Vec<Level>> = (0..self.tracks.len()).map(|track| self.levels(track, &mut told)).collect();
        let levels: usize = tracks.iter().map(|levels| levels.len().max(1)).sum();
        let height = Frame::HEIGHT + levels as f64 * LEVEL + tracks.len() as f64 * GAP;
        let mut drawing = Drawing::new(width, height);
        let ends = self.all().flat_map(|placed| [placed.span.start, placed.span.end]);
        let frame = Frame::beside(&mut drawing, Ruler::within(&self.time, ends), Ruler::of_names(&[]), &self.tracks);
        let mut top = frame.area.top + GAP / 2.0;
        for (name, levels) in self.tracks.iter().zip(&tracks) {
            drawing.name(name, (frame.area.left - 8.0, top + LEVEL / 2.0), frame.area.left - 8.0);
            for (i, level) in levels.iter().enumerate() {
                self.draw_level(&mut drawing, &frame, (top + i as f64 * LEVEL, level), &mut told);
            }
            top += levels.len().max(1) as f64 * LEVEL + GAP;
        }
        drawing.note = told.note();
        drawing
    }

    fn legend(&self) -> Vec<Entry> {
        filled_legend(&self.series)
    }

    fn numbers(&self) -> (Vec<Column>, Vec<Vec<Cell>>) {
        let columns = vec![
            Column::text("track", "track"),
            Column::text("class", "class"),
            Column::text("name", "name"),
            Column::number("start", "from"),
            Column::number("end", "to"),
        ];
        let row = |Placed { class, span }: Placed| {
            let [track, class, name] =
                [&self.tracks[span.track], &self.series[class].name, &span.name].map(|name| name.as_str().into());
            vec![track, class, name, span.start.into(), span.end.into()]
        };
        (columns, self.all().map(row).collect())
    }
}

impl Timeline {
    fn all(&self) -> impl Iterator<Item = Placed<'_>> {
        let drawn = |span: &&Span| {
            span.start.is_finite() && span.end.is_finite() && span.end > span.start && span.track < self.tracks.len()
        };
        self.series
            .iter()
            .enumerate()
            .flat_map(move |(class, series)| series.data.iter().filter(drawn).map(move |span| Placed { class, span }))
    }

    /// The spans of a track, each below those that it begins in.
    fn levels(&self, track: usize, told: &mut Told) -> Vec<Level<'_>> {
        let mut spans: Vec<Placed> = self.all().filter(|placed| placed.span.track == track).collect();
        spans.sort_by(|a, b| a.span.start.total_cmp(&b.span.start).then(b.span.end.total_cmp(&a.span.end)));
        let (mut levels, mut open): (Vec<Level>, Vec<f64>) = Default::default();
        for placed in spans {
            while open.last().is_some_and(|end| *end <= placed.span.start) {
                open.pop();
            }
            match open.len() {
                deep if deep >= LEVELS => told.deeper += 1,
                deep => {
                    levels.resize(levels.len().max(deep + 1), Level::new());
                    levels[deep].push(placed);
                }
            }
            open.push(placed.span.end);
        }
        levels
    }

    fn draw_level(&self, drawing: &mut Drawing, frame: &Frame, (top, level): (f64, &Level), told: &mut Told) {
        let x = |time: f64| frame.at_position(time, 0.0).0;
        let bin = |placed: &Placed| match x(placed.span.end) - x(placed.span.start) {
            wide if wide >= SEEN => None,
            _ => Some((x(placed.span.start) / SEEN).floor() as i64),
        };
        let mut merged: Vec<Merged> = vec![Merged::default(); self.series.len()];
        for together in level.chunk_by(|a, b| bin(a).is_some() && bin(a) == bin(b)) {
            match together {
                [one] if bin(one).is_none() => {
                    let (class, span) = (&self.series[one.class], one.span);
                    let area = Area::new((x(span.start), top + 0.5), (x(span.end), top + LEVEL - 0.5));
                    let (ink, texture) = class.filling(one.class);
                    drawing.fill(Area { right: area.right - 0.5, ..area }, (ink, texture), self.tip(one, frame));
                    if area.width() >= NAMED {
                        drawing.words_inside(area, &cut(&span.name, area.width() - 8.0), ink);
                    }
                }
                many => {
                    told.together += many.len();
                    self.place_together(frame, (top, many), &mut merged);
                }
            }
        }
        for (i, (class, merged)) in self.series.iter().zip(merged).enumerate().filter(|(_, (_, own))| own.count > 0) {
            let (count, took) = (grouped(merged.count as u64), significant(merged.took));
            let tip = format!("{}: {count} too short to be seen alone, together {took}", class.name);
            drawing.add(Mark::rects(merged.areas, class.ink(i)).tip(tip));
        }
    }

    /// Spans too short to be seen: each class as high as its share of the time, so that areas stay what they were.
    fn place_together(&self, frame: &Frame, (top, many): (f64, &[Placed]), merged: &mut [Merged]) {
        let x = |time: f64| frame.at_position(time, 0.0).0;
        let from = many.iter().map(|placed| placed.span.start).fold(f64::INFINITY, f64::min);
        let to = many.iter().map(|placed| placed.span.end).fold(f64::NEG_INFINITY, f64::max);
        let (left, right) = (x(from), x(to).max(x(from) + 1.0));
        let mut bottom = top + LEVEL - 0.5;
        for (i, merged) in merged.iter_mut().enumerate() {
            let own = many.iter().filter(|placed| placed.class == i);
            let took: f64 = own.clone().map(|placed| placed.span.end - placed.span.start).sum();
            let high = (LEVEL - 1.0) * (x(from + took) - x(from)) / (right - left);
            if took > 0.0 {
                merged.count += own.count();
                merged.took += took;
                merged.areas.push(Area::new((left, bottom - high), (right, bottom)));
                bottom -= high;
            }
        }
    }

    fn tip(&self, placed: &Placed, frame: &Frame) -> String {
        let Span { start, end, name, .. } = placed.span;
        let class = &self.series[placed.class].name;
        format!(
            "{name} ({class}): {} from {} to {}",
            significant(end - start),
            frame.x.near(*start),
            frame.x.near(*end)
        )
    }
}

impl Told {
    fn note(&self) -> String {
        let together = match self.together {
            0 => String::new(),
            count => format!(
                "{} too short to be seen alone {} drawn as high as the share of the time that they take. ",
                if count == 1 { "1 span".to_string() } else { format!("{} spans", grouped(count as u64)) },
                if count == 1 { "is" } else { "are" },
            ),
        };
        let deeper = match self.deeper {
            0 => String::new(),
            count => format!("{count} spans below level {LEVELS} are not drawn."),
        };
        format!("{together}{deeper}").trim_end().to_string()
    }
}
