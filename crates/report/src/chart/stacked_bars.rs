//! Parts of a whole per category, as lying bars: of different lengths, or all of the same.

use super::{Axis, Draw, Entry, Series, filled_legend, named};
use crate::drawing::{Anchor, Area, Drawing, FONT, Frame, Mark, Ruler, text_width};
use crate::table::{Cell, Column, significant};
use crate::theme::Ink;

/// Lying bars made of parts, in groups.
#[derive(Debug, Clone, PartialEq)]
pub struct StackedBars {
    /// From the top.
    pub groups: Vec<Group>,
    /// What the lengths mean.
    pub value: Axis,
    /// One length per series and bar, over all groups; what is not above zero draws nothing.
    pub series: Vec<Series<f64>>,
    /// What the bars' lengths show.
    pub whole: Whole,
    /// What colours and textures stand for, where each tells something of its own; empty where every series stands for itself.
    pub keys: Vec<Series<f64>>,
    /// For each bar the smallest and the largest that its sum may be, drawn as a whisker below it; empty where nobody knows.
    pub intervals: Vec<Option<(f64, f64)>>,
}

/// Bars under one name, such as the operations of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Stands above the bars; may be empty.
    pub name: String,
    /// Names of its bars, from the top.
    pub bars: Vec<String>,
}

/// What the length of a whole bar shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// The sum of its parts.
    Sum,
    /// Always 100 %: its parts are shares.
    Share,
}

/// Height of a bar, of a group's name, and between two bars, in pixels.
const BAR: f64 = 22.0;
const NAME: f64 = 24.0;
const GAP: f64 = 8.0;

/// How much longer the axis is than the longest bar, for the number behind that.
const ROOM: f64 = 1.1;

impl StackedBars {
    fn length(&self, series: usize, bar: usize) -> f64 {
        let length = self.series[series].data.get(bar).copied().unwrap_or(0.0);
        if length.is_finite() && length > 0.0 { length } else { 0.0 }
    }

    fn sum(&self, bar: usize) -> f64 {
        (0..self.series.len()).map(|series| self.length(series, bar)).sum()
    }

    fn bars(&self) -> usize {
        self.groups.iter().map(|group| group.bars.len()).sum()
    }

    fn lengths(&self) -> Ruler {
        match self.whole {
            Whole::Share => Ruler::up_to(&self.value, 100.0),
            Whole::Sum => {
                let highest = self.intervals.iter().flatten().map(|(_, high)| *high);
                // With room for the longest sum behind its bar.
                Ruler::from_zero(&self.value, (0..self.bars()).map(|bar| ROOM * self.sum(bar)).chain(highest))
            }
        }
    }

    /// What a length is multiplied by.
    fn factor(&self, bar: usize) -> f64 {
        match self.whole {
            Whole::Sum => 1.0,
            Whole::Share if self.sum(bar) > 0.0 => 100.0 / self.sum(bar),
            Whole::Share => 0.0,
        }
    }

    fn draw_bar(&self, drawing: &mut Drawing, frame: &Frame, (bar, top, name): (usize, f64, &str)) {
        let middle = top + BAR / 2.0;
        drawing.name(name, (frame.area.left - 8.0, middle), frame.area.left - 8.0);
        let (sum, factor) = (self.sum(bar), self.factor(bar));
        let x = |length: f64| frame.at_position(length * factor, 0.0).0;
        let mut from = 0.0;
        for (i, series) in self.series.iter().enumerate() {
            let length = self.length(i, bar);
            if length > 0.0 {
                let area = Area::new((x(from), top), (x(from + length), top + BAR));
                let share = 100.0 * length / sum;
                let (ink, texture) = series.filling(i);
                let tip = format!("{name}, {}: {} ({} %)", series.name, significant(length), significant(share));
                drawing.fill(area, (ink, texture), tip);
                // The only part of a sum is the sum, which stands behind it.
                if self.series.len() > 1 || self.whole == Whole::Share {
                    drawing.words_inside(area, &significant(length * factor), ink);
                }
                from += length;
            }
        }
        if self.whole == Whole::Sum {
            if let Some((low, high)) = self.intervals.get(bar).copied().flatten() {
                draw_whisker(drawing, (x(low), x(high)), top + BAR + GAP / 2.0 - 0.5);
            }
            if x(sum) + 5.0 + text_width(&significant(sum), FONT) <= drawing.width {
                drawing.add(Mark::text(significant(sum), (x(sum) + 5.0, middle), Anchor::Start, Ink::TEXT));
            }
        }
    }
}

/// An interval below its bar, where it covers no number.
fn draw_whisker(drawing: &mut Drawing, (low, high): (f64, f64), y: f64) {
    if low.is_finite() && high.is_finite() {
        let end = |x: f64| vec![(x, y - 2.5), (x, y + 2.5)];
        drawing.add(Mark::lines(vec![vec![(low, y), (high, y)], end(low), end(high)], Ink::TEXT, 1.5));
    }
}

impl Draw for StackedBars {
    fn draw(&self, width: f64) -> Drawing {
        let heads = self.groups.iter().filter(|group| !group.name.is_empty()).count() as f64 * NAME;
        let mut drawing = Drawing::new(width, Frame::HEIGHT + heads + self.bars() as f64 * (BAR + GAP));
        let names: Vec<String> = self.groups.iter().flat_map(|group| group.bars.clone()).collect();
        let frame = Frame::beside(&mut drawing, self.lengths(), Ruler::of_names(&[]), &names);
        let (mut top, mut bar) = (frame.area.top + GAP / 2.0, 0);
        for group in &self.groups {
            if !group.name.is_empty() {
                drawing.add(Mark::text(&group.name, (0.0, top + NAME / 2.0), Anchor::Start, Ink::TEXT));
                top += NAME;
            }
            for name in &group.bars {
                self.draw_bar(&mut drawing, &frame, (bar, top, name));
                (top, bar) = (top + BAR + GAP, bar + 1);
            }
        }
        drawing
    }

    fn legend(&self) -> Vec<Entry> {
        filled_legend(if self.keys.is_empty() { &self.series } else { &self.keys })
    }

    fn numbers(&self) -> (Vec<Column>, Vec<Vec<Cell>>) {
        let heads = [Column::text("group", "group"), Column::text("bar", &self.value.label)];
        let names =
            self.groups.iter().flat_map(|group| group.bars.iter().map(|bar| (group.name.as_str(), bar.as_str())));
        let row = |(bar, (group, name)): (usize, (&str, &str))| {
            let lengths = (0..self.series.len()).map(|series| self.length(series, bar).into());
            [group.into(), name.into()].into_iter().chain(lengths).collect()
        };
        (heads.into_iter().chain(named(&self.series)).collect(), names.enumerate().map(row).collect())
    }
}
