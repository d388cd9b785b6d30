//! The plotters backend for a [`Drawing`].
//!
//! Its colours are roles, and its integer pixels are quarters of ours, so that lines keep their positions.

use super::{Drawing, DrawnMark, FONT, MarkShape, PixelArea, PixelPoint, TextAnchor};
use crate::theme::{Ink, Theme};
use plotters::style::{Color, FontDesc, FontFamily, FontStyle, RGBColor, ShapeStyle, TextStyle};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind};
use std::convert::Infallible;

/// The number of plotters' pixels per pixel of the drawing.
const UNIT: f64 = 4.0;

/// A length in pixels of plotters.
pub fn units(pixels: f64) -> i32 {
    (pixels * UNIT).round() as i32
}

pub fn pixels(units: i32) -> f64 {
    f64::from(units) / UNIT
}

/// A line of this width in pixels, or a filling.
pub fn style(ink: Ink, width: f64) -> ShapeStyle {
    ShapeStyle { color: colour(ink).to_rgba(), filled: true, stroke_width: units(width).unsigned_abs() }
}

/// The style of axis labels.
pub fn text_style(ink: Ink) -> TextStyle<'static> {
    FontDesc::new(FontFamily::SansSerif, FONT, FontStyle::Normal).color(&colour(ink))
}

fn colour(ink: Ink) -> RGBColor {
    let [red, green, blue] = ink.rgb(Theme::Light);
    RGBColor(red, green, blue)
}

fn ink(BackendColor { rgb: (red, green, blue), .. }: BackendColor) -> Ink {
    Ink::of_light([red, green, blue])
}

fn point((x, y): BackendCoord) -> PixelPoint {
    (pixels(x), pixels(y))
}

type DrawResult = Result<(), DrawingErrorKind<Infallible>>;

impl Drawing {
    fn draw(&self, shape: MarkShape, color: BackendColor) -> DrawResult {
        self.add(DrawnMark::new(shape, ink(color)).alpha(color.alpha));
        Ok(())
    }
}

impl DrawingBackend for Drawing {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (units(self.width).unsigned_abs(), units(self.height).unsigned_abs())
    }

    fn ensure_prepared(&mut self) -> DrawResult {
        Ok(())
    }

    fn present(&mut self) -> DrawResult {
        Ok(())
    }

    fn draw_pixel(&mut self, at: BackendCoord, color: BackendColor) -> DrawResult {
        let (x, y) = point(at);
        self.draw(MarkShape::Rects(vec![PixelArea::new((x, y), (x + 1.0 / UNIT, y + 1.0 / UNIT))]), color)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> DrawResult {
        self.draw_path([from, to], style)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> DrawResult {
        let line = path.into_iter().map(point).collect();
        self.draw(MarkShape::Lines(vec![line], f64::from(style.stroke_width()) / UNIT), style.color())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> DrawResult {
        self.draw(MarkShape::Polygon(path.into_iter().map(point).collect()), style.color())
    }

    fn draw_text<T: BackendTextStyle>(&mut self, text: &str, style: &T, at: BackendCoord) -> DrawResult {
        let (x, y) = point(at);
        let anchor = match style.anchor().h_pos {
            HPos::Left => TextAnchor::Start,
            HPos::Center => TextAnchor::Middle,
            HPos::Right => TextAnchor::End,
        };
        let down = match style.anchor().v_pos {
            VPos::Top => FONT / 2.0,
            VPos::Center => 0.0,
            VPos::Bottom => -FONT / 2.0,
        };
        self.draw(
            MarkShape::Text { text: text.to_owned(), at: (x, y + down), anchor, size: style.size() },
            style.color(),
        )
    }
}
