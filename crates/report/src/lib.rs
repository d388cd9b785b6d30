//! Tables and charts as data, written to the console, CSV, JSON and one HTML page; knows no domain type.
//!
//! Stages build a [`Table`] (or a whole [`Page`]) and choose where it goes: [`Console::table`], [`Table::to_csv`],
//! [`Table::to_json`]. Nothing here reads a clock or the environment, so equal data give equal bytes.
#![warn(missing_docs)]

mod chart;
mod console;
mod html;
mod page;
mod printable;
mod progress;
mod svg;
mod table;
mod text;

pub use chart::{
    Axis, Bars, Chart, Colour, Histogram, Line, Matrix, MatrixCell, Plot, Point, Scale, Scatter, Series, State,
};
pub use console::{Console, Mode, Settings};
pub use page::{Block, Chapter, Fact, Page, Tone};
pub use printable::printable;
pub use progress::Progress;
pub use table::{Align, Cell, Column, Table};
