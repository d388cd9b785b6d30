//! Axes, grid and labels around a plot, and where a pair of values lies in it.

use super::canvas::{Canvas, FONT, Ink, Pixel, UNITS, font, text_width};
use super::ruler::Ruler;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;
use std::ops::Range;

/// The inside of two axes.
pub struct Frame<'a> {
    pub x: Ruler,
    pub y: Ruler,
    plane: ChartContext<'a, SVGBackend<'a>, Cartesian2d<Ruler, Ruler>>,
}

impl<'a> Frame<'a> {
    /// Draws both axes with their grid.
    pub fn new(canvas: &Canvas<'a>, x: Ruler, y: Ruler) -> Self {
        let text_width = y.ticks.iter().map(|(_, text)| text_width(text)).max().unwrap_or(0);
        let label_height = if y.label.is_empty() { 0 } else { FONT * 2 };
        let mut plane = ChartBuilder::on(&canvas.area)
            .margin_top(8 * UNITS)
            .margin_right(16 * UNITS)
            .x_label_area_size(48 * UNITS)
            .y_label_area_size((text_width + label_height + 14) * UNITS)
            .build_cartesian_2d(x.clone(), y.clone())
            .expect("writing into a string cannot fail");
        draw_mesh(&mut plane, &x.label, &y.label);
        Frame { x, y, plane }
    }

    /// Where a pair of values lies; `None` where an axis cannot show one of them.
    pub fn at(&self, x: f64, y: f64) -> Option<Pixel> {
        Some(self.at_position(self.x.position(x)?, self.y.position(y)?))
    }

    /// Where a pair of positions lies.
    pub fn at_position(&self, x: f64, y: f64) -> Pixel {
        self.plane.backend_coord(&(x, y))
    }
}

fn draw_mesh(plane: &mut ChartContext<SVGBackend, Cartesian2d<Ruler, Ruler>>, x_label: &str, y_label: &str) {
    plane
        .configure_mesh()
        .max_light_lines(0)
        .bold_line_style(Ink::Grid.code().stroke_width(UNITS as u32))
        .axis_style(Ink::Grid.code().stroke_width(UNITS as u32))
        .set_all_tick_mark_size(4 * UNITS)
        .label_style(font().color(&Ink::Muted.code()))
        .axis_desc_style(font().color(&Ink::Text.code()))
        .x_desc(x_label)
        .y_desc(y_label)
        .draw()
        .expect("writing into a string cannot fail");
}

/// Positions along a ruler, for plotters.
impl Ranged for Ruler {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, position: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (position - self.low) / (self.high - self.low);
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|(position, _)| *position).collect()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Ruler {
    fn format_ext(&self, position: &f64) -> String {
        self.text(*position)
    }
}
