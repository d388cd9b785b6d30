//! A chart as data: what is plotted against what, never how many pixels it takes.

use super::table::Cell;

/// A titled plot.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What the chart shows, as a person would say it.
    pub title: String,
    /// How to read it: one sentence below the plot, also its description for those who cannot see it.
    pub caption: String,
    /// The data.
    pub plot: Plot,
}

/// The kinds of plot.
#[derive(Debug, Clone, PartialEq)]
pub enum Plot {
    /// Two values of the same kind against each other.
    Scatter(Scatter),
    /// Values along an axis.
    Line(Line),
    /// Values per category, side by side.
    Bars(Bars),
    /// A grid of coloured cells.
    Matrix(Matrix),
    /// How often values occur.
    Histogram(Histogram),
}

/// One axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// Name and unit: "measured (ms)".
    pub label: String,
    /// How values are spaced.
    pub scale: Scale,
}

/// How values are spaced along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm; values at or below zero are left out.
    Log,
}

/// Points or values that belong together, under one name and colour.
#[derive(Debug, Clone, PartialEq)]
pub struct Series<T> {
    /// Name in the legend.
    pub name: String,
    /// What is drawn.
    pub data: Vec<T>,
    /// What its colour stands for.
    pub colour: Colour,
}

/// What the colour of a series stands for: one thing throughout a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// One of several of a kind that all charts name in the same order.
    Member,
    /// What the page is about.
    Subject,
    /// The same under other circumstances.
    Variation,
    /// What it is compared with.
    Rival,
    /// What really happened.
    Truth,
}

/// One point of a [`Scatter`].
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Along the horizontal axis.
    pub x: f64,
    /// Along the vertical axis.
    pub y: f64,
    /// What it is, shown under the pointer.
    pub label: String,
}

/// Points around the line where both values are equal. Both axes span the same range.
#[derive(Debug, Clone, PartialEq)]
pub struct Scatter {
    /// Horizontal.
    pub x: Axis,
    /// Vertical.
    pub y: Axis,
    /// Half width of the band around the line of equality, as a share: 0.1 is within 10 %.
    pub band: f64,
    /// Points by group.
    pub series: Vec<Series<Point>>,
}

/// Lines with a marker at every value.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Horizontal.
    pub x: Axis,
    /// Vertical; starts at zero.
    pub y: Axis,
    /// Pairs of x and y by group, in ascending x.
    pub series: Vec<Series<(f64, f64)>>,
}

/// Lying bars from zero, grouped by category.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// Names of the groups, from the top.
    pub categories: Vec<String>,
    /// What the lengths mean.
    pub value: Axis,
    /// One length per category and series; `None` draws nothing.
    pub series: Vec<Series<Option<f64>>>,
    /// A length to compare all bars with, drawn across them.
    pub reference: Option<f64>,
    /// Where the axis ends; longer bars break off there. `None` shows all of them.
    pub most: Option<f64>,
}

/// A grid of cells, such as which batch size fits at which level.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// What the rows are.
    pub row_label: String,
    /// What the columns are.
    pub column_label: String,
    /// Names of the rows, from the top.
    pub rows: Vec<String>,
    /// Names of the columns, from the left.
    pub columns: Vec<String>,
    /// Row after row, as many as rows times columns.
    pub cells: Vec<MatrixCell>,
    /// What the states mean here, in the words of the legend.
    pub legend: Vec<(State, String)>,
}

/// One cell of a [`Matrix`].
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixCell {
    /// Decides the colour.
    pub state: State,
    /// What is shown under the pointer.
    pub label: String,
}

/// What a cell of a [`Matrix`] says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum State {
    /// It went well and took this share, from 0 to 1, of what there is.
    Filled(f64),
    /// It failed.
    Failed,
    /// It was not tried, because a smaller one had failed.
    Skipped,
    /// Nobody asked.
    Unknown,
}

/// Counts of values in bins of equal width.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// What the values are.
    pub x: Axis,
    /// Width of a bin; one bin is centred on zero.
    pub bin: f64,
    /// Values further from zero than this are counted in the outermost bins.
    pub limit: f64,
    /// Values by group, stacked.
    pub series: Vec<Series<f64>>,
}

impl Chart {
    /// A chart with its title and the sentence that says how to read it.
    pub fn new(title: impl Into<String>, caption: impl Into<String>, plot: Plot) -> Self {
        Chart { title: title.into(), caption: caption.into(), plot }
    }
}

impl Axis {
    /// Evenly spaced.
    pub fn linear(label: impl Into<String>) -> Self {
        Axis { label: label.into(), scale: Scale::Linear }
    }

    /// Spaced by logarithm.
    pub fn log(label: impl Into<String>) -> Self {
        Axis { label: label.into(), scale: Scale::Log }
    }
}

impl<T> Series<T> {
    /// Named data.
    pub fn new(name: impl Into<String>, data: impl IntoIterator<Item = T>) -> Self {
        Series { name: name.into(), data: data.into_iter().collect(), colour: Colour::Member }
    }

    /// In another colour than that of its place.
    #[must_use]
    pub fn coloured(self, colour: Colour) -> Self {
        Series { colour, ..self }
    }
}

impl MatrixCell {
    /// A cell whose label follows from what it holds.
    pub fn new(state: State, label: impl Into<Cell>) -> Self {
        MatrixCell { state, label: label.into().to_string() }
    }
}
