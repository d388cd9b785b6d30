//! Charts as data: the plotted values, without sizes in pixels.

mod bars;
mod flame;
pub(crate) mod heatmap;
mod histogram;
mod line;
mod scatter;
mod stacked_area;
mod stacked_bars;
mod timeline;
mod tradeoff;

pub use bars::Bars;
pub use flame::{Flame, FlameCall};
pub use heatmap::{CellContent, CellSign, HeatCell, Heatmap};
pub use histogram::Histogram;
pub use line::{Line, Reference, Value};
pub use scatter::{Scatter, ScatterPoint};
pub use stacked_area::StackedArea;
pub use stacked_bars::{BarGroup, BarLength, StackedBars};
pub use timeline::{Timeline, TimelineSpan};
pub use tradeoff::Tradeoff;

use crate::drawing::{Drawing, DrawnMark, PixelArea, Texture};
use crate::theme::Ink;

/// A titled plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The subject of the chart in plain words.
    pub title: String,
    /// One sentence below the plot that explains how to read it; also the description for readers who cannot see it.
    pub caption: String,
    /// What is drawn, and how.
    pub plot: Plot,
}

/// One variant for each way to draw.
#[derive(Debug, Clone, PartialEq)]
pub enum Plot {
    /// Two values of the same kind against each other.
    Scatter(Scatter),
    /// Two costs of choices.
    Tradeoff(Tradeoff),
    /// Values along an axis.
    Line(Line),
    /// Values per category, side by side.
    Bars(Bars),
    /// Parts of a whole per category.
    StackedBars(StackedBars),
    /// Parts of a whole along an axis.
    StackedArea(StackedArea),
    /// Numbers by row and column.
    Heatmap(Heatmap),
    /// Events over time, on parallel tracks.
    Timeline(Timeline),
    /// Call stacks with their times.
    Flame(Flame),
    /// How often values occur.
    Histogram(Histogram),
}

/// What an axis means and how its values are spaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// Name and unit: "measured (ms)".
    pub label: String,
    /// How values are spaced.
    pub scale: AxisScale,
}

/// How values are spaced along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisScale {
    /// Equal differences have equal lengths.
    Linear,
    /// By their logarithm; values at or below zero are left out.
    Log,
}

/// Points or values that belong together, under one name and colour.
#[derive(Debug, Clone, PartialEq)]
pub struct Series<T> {
    /// As in the legend.
    pub name: String,
    /// One item for each mark.
    pub data: Vec<T>,
    /// By role; the theme has the colour.
    pub colour: Colour,
    /// The stripes of filled areas; by default they depend on the index of the series.
    pub texture: Option<Texture>,
}

/// The role of a series' colour, the same throughout a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// One of several members that all charts list in the same order.
    Member,
    /// The member with that number, whatever its index.
    Nth(usize),
    /// What the page is about.
    Subject,
    /// The subject under other circumstances.
    Variation,
    /// The competitor of the subject.
    Rival,
    /// The measured reality.
    Truth,
}

impl Chart {
    /// A chart with its title, and a sentence that explains how to read it.
    pub fn new(title: impl Into<String>, caption: impl Into<String>, plot: Plot) -> Self {
        Chart { title: title.into(), caption: caption.into(), plot }
    }
}

impl Axis {
    /// Evenly spaced.
    pub fn linear(label: impl Into<String>) -> Self {
        Axis { label: label.into(), scale: AxisScale::Linear }
    }

    /// Spaced by logarithm.
    pub fn log(label: impl Into<String>) -> Self {
        Axis { label: label.into(), scale: AxisScale::Log }
    }
}

impl<T> Series<T> {
    /// A series in the colour of its index.
    pub fn new(name: impl Into<String>, data: impl IntoIterator<Item = impl Into<T>>) -> Self {
        let data = data.into_iter().map(Into::into).collect();
        Series { name: name.into(), data, colour: Colour::Member, texture: None }
    }

    /// The same in a colour by role.
    #[must_use]
    pub fn coloured(self, colour: Colour) -> Self {
        Series { colour, ..self }
    }

    /// Sets stripes other than those of its index, so that colour and texture each have a meaning.
    #[must_use]
    pub fn textured(self, texture: Texture) -> Self {
        Series { texture: Some(texture), ..self }
    }

    fn ink(&self, index: usize) -> Ink {
        match self.colour {
            Colour::Member => Ink::member(index),
            Colour::Nth(number) => Ink::member(number),
            Colour::Subject => Ink::SUBJECT,
            Colour::Variation => Ink::VARIATION,
            Colour::Rival => Ink::RIVAL,
            Colour::Truth => Ink::TRUTH,
        }
    }

    fn filling(&self, index: usize) -> (Ink, Texture) {
        (self.ink(index), self.texture.unwrap_or(Texture::nth(index)))
    }
}

impl Series<f64> {
    /// The length at an index; zero if there is none to draw.
    fn length(&self, index: usize) -> f64 {
        self.data.get(index).copied().filter(|length| length.is_finite() && *length > 0.0).unwrap_or(0.0)
    }
}

pub(crate) trait Draw {
    /// The widths that it is drawn in, the widest first; a page shows the one that fits.
    fn widths(&self) -> &'static [f64] {
        &[COLUMN]
    }

    /// The plot without title and legend, with about this width in pixels.
    fn draw(&self, width: f64) -> Drawing;

    /// The signs in the plot and their meanings.
    fn legend(&self) -> Vec<LegendEntry>;

    /// What a page's script needs to draw a part of it, where one can zoom into it.
    fn spans_json(&self) -> Option<String> {
        None
    }
}

/// A sign of a legend and its meaning.
pub(crate) struct LegendEntry {
    pub sign: Drawing,
    pub name: String,
}

/// Width of a drawing that shares a page with others, in pixels.
pub(crate) const COLUMN: f64 = 480.0;

/// Widths of a drawing across a page, and of the same for a phone.
const ACROSS: [f64; 2] = [2.0 * COLUMN, 400.0];

impl Plot {
    pub(crate) fn as_draw(&self) -> &dyn Draw {
        match self {
            Plot::Scatter(plot) => plot,
            Plot::Tradeoff(plot) => plot,
            Plot::Line(plot) => plot,
            Plot::Bars(plot) => plot,
            Plot::StackedBars(plot) => plot,
            Plot::StackedArea(plot) => plot,
            Plot::Heatmap(plot) => plot,
            Plot::Flame(plot) => plot,
            Plot::Histogram(plot) => plot,
            Plot::Timeline(plot) => plot,
        }
    }
}

/// Side of a legend's sign, in pixels.
const SIGN: f64 = 14.0;

/// All of a legend's sign.
const SIGN_AREA: PixelArea = PixelArea { left: 0.0, top: 0.0, right: SIGN, bottom: SIGN };

fn sign(draw: impl FnOnce(&Drawing)) -> Drawing {
    let sign = Drawing::new(SIGN, SIGN);
    draw(&sign);
    sign
}

fn legend<T>(series: &[Series<T>], draw: impl Fn(&Drawing, usize, &Series<T>)) -> Vec<LegendEntry> {
    let entry =
        |(i, one): (usize, &Series<T>)| LegendEntry { sign: sign(|sign| draw(sign, i, one)), name: one.name.clone() };
    series.iter().enumerate().map(entry).collect()
}

fn marker_legend<T>(series: &[Series<T>]) -> Vec<LegendEntry> {
    legend(series, |sign, i, one| sign.add(DrawnMark::marker(SIGN_AREA.middle(), i, one.ink(i))))
}

fn filled_legend<T>(series: &[Series<T>]) -> Vec<LegendEntry> {
    legend(series, |sign, i, one| sign.fill(SIGN_AREA, one.filling(i), ""))
}
