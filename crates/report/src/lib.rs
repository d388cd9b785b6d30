//! Tables, charts and pages as data, written to the console, CSV, JSON, HTML, SVG and PNG; without domain types.
//!
//! Sections build a [`Table`], a [`Chart`] or a whole [`Page`] and choose where it goes: [`Console::table`], [`Table::to_csv`],
//! [`Table::to_json`], [`Page::to_html`], [`Chart::to_svg`], [`Chart::to_png`]. Nothing here reads a clock or the environment, so equal
//! data give equal bytes.
//!
//! A chart defines the plotted values and the meaning of colours, but no sizes in pixels. plotters draws axes, grid,
//! labels and lines on a `Drawing`, which stores colours by role: a page shows them in its own colours (light, dark,
//! printed), SVG and PNG files in those of a [`Theme`]. `examples/charts.rs` draws every kind.
//!
//! ```
//! use perf4sight_report::{Axis, Chart, Line, Plot, Reference, Series, Theme, Value};
//!
//! let rates = [(1.0, 210.0), (2.0, 400.0), (4.0, 610.0), (8.0, 640.0)];
//! let measured = rates.map(|(cpus, rate)| Value { x: cpus, y: rate, interval: Some((rate - 20.0, rate + 20.0)) });
//! let mut plot = Line::new(Axis::log("CPUs"), Axis::linear("images per second"), vec![Series::new("measured", measured)]);
//! plot.references.push(Reference::Upright(4.0, "knee: 4 CPUs".into()));
//! let chart = Chart::new("Rate by CPUs", "The band holds 95 %.", Plot::Line(plot));
//! assert!(chart.to_svg(Theme::Light).contains("knee: 4 CPUs"));
//! assert!(chart.to_png(Theme::Dark)?.starts_with(b"\x89PNG"));
//! # Ok::<(), perf4sight_base::error::Error>(())
//! ```
#![warn(missing_docs)]

mod chart;
mod console;
mod drawing;
mod figure;
mod html;
mod page;
mod printable;
mod progress;
mod table;
mod text;
mod theme;

// All parts of a chart: a new kind is named only in its own module.
pub use chart::*;
pub use console::{Console, ConsoleSettings, OutputMode};
pub use drawing::Texture;
pub use page::{AnswerTone, Block, Chapter, Fact, Page, sentence};
pub use printable::{paragraph, printable};
pub use progress::Progress;
pub use table::{Align, Cell, Table, TableBuilder, TableColumn, significant};
pub use theme::Theme;
