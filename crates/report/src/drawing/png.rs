//! A drawing as pixels.

use super::svg::baseline;
use super::{Anchor, Area, Drawing, Mark, Point, Shape, font, text_width};
use crate::theme::{Ink, Theme};
use perf4sight_base::error::{Error, Result};
use tiny_skia::{Color, FillRule, Paint, Path, PathBuilder, Pixmap, Rect, Stroke, StrokeDash, Transform};
use ttf_parser::OutlineBuilder;

/// Four bytes each while it is painted: what no machine that shows it should lack.
const MOST_PIXELS: u64 = 64 << 20;

/// Of what cannot have a shape, such as a rectangle without height, nothing is painted.
type Outline = Option<Path>;

impl Drawing {
    /// A PNG file with so many pixels for one of the drawing's.
    ///
    /// # Errors
    /// When it would have more pixels than a picture can have.
    pub fn to_png(&self, theme: Theme, scale: f64) -> Result<Vec<u8>> {
        let [width, height] = [self.width, self.height].map(|length| (length * scale).ceil() as u32);
        let too_large = || {
            Error::input(format!("a picture of {width} x {height} pixels cannot be drawn"))
                .help("draw it smaller, or as SVG")
        };
        let fits = u64::from(width).checked_mul(height.into()).is_some_and(|pixels| pixels <= MOST_PIXELS);
        let mut pixels = fits.then(|| Pixmap::new(width, height)).flatten().ok_or_else(too_large)?;
        pixels.fill(colour(Ink::PAPER, 1.0, theme));
        for mark in &self.marks {
            mark.paint(&mut pixels, theme, Transform::from_scale(scale as f32, scale as f32));
        }
        pixels.encode_png().map_err(|_| too_large())
    }
}

impl Mark {
    fn paint(&self, pixels: &mut Pixmap, theme: Theme, place: Transform) {
        let paint =
            Paint { shader: tiny_skia::Shader::SolidColor(colour(self.ink, self.alpha, theme)), ..Paint::default() };
        let mut fill = |outline: Outline| {
            if let Some(outline) = outline {
                pixels.fill_path(&outline, &paint, FillRule::Winding, place, None);
            }
        };
        match &self.shape {
            Shape::Rect(area) => fill(outline(std::slice::from_ref(area))),
            Shape::Rects(areas) => fill(outline(areas)),
            Shape::Circle((x, y), radius) => fill(PathBuilder::from_circle(*x as f32, *y as f32, *radius as f32)),
            Shape::Polygon(points) => fill(through(std::slice::from_ref(points), true)),
            Shape::Text { text, at, anchor, size } => fill(letters(text, start(text, *at, *anchor, *size), *size)),
            Shape::Lines(lines, stroke) => {
                let dash = stroke.dashed.then(|| StrokeDash::new(vec![4.0, 4.0], 0.0)).flatten();
                let stroke = Stroke { width: stroke.width as f32, dash, ..Stroke::default() };
                if let Some(path) = through(lines, false) {
                    pixels.stroke_path(&path, &paint, &stroke, place, None);
                }
            }
        }
    }
}

fn colour(ink: Ink, alpha: f64, theme: Theme) -> Color {
    let [red, green, blue] = ink.rgb(theme);
    Color::from_rgba8(red, green, blue, (alpha * 255.0).round() as u8)
}

fn outline(areas: &[Area]) -> Outline {
    let mut path = PathBuilder::new();
    for area in areas {
        let [left, top, right, bottom] = [area.left, area.top, area.right, area.bottom].map(|edge| edge as f32);
        if let Some(rect) = Rect::from_ltrb(left, top, right, bottom) {
            path.push_rect(rect);
        }
    }
    path.finish()
}

fn through(lines: &[Vec<Point>], closed: bool) -> Outline {
    let mut path = PathBuilder::new();
    for line in lines {
        for (i, (x, y)) in line.iter().enumerate() {
            match i {
                0 => path.move_to(*x as f32, *y as f32),
                _ => path.line_to(*x as f32, *y as f32),
            }
        }
        if closed {
            path.close();
        }
    }
    path.finish()
}

/// Where the first letter begins.
fn start(text: &str, (x, y): Point, anchor: Anchor, size: f64) -> Point {
    let before = match anchor {
        Anchor::Start => 0.0,
        Anchor::Middle => text_width(text, size) / 2.0,
        Anchor::End => text_width(text, size),
    };
    (x - before, baseline(y, size))
}

fn letters(text: &str, start: Point, size: f64) -> Outline {
    let mut pen = Pen { path: PathBuilder::new(), at: start, size };
    for c in text.chars() {
        font::outline(c, &mut pen);
        pen.at.0 += font::advance(c) * size;
    }
    pen.path.finish()
}

/// Puts the outlines of letters, which count upwards from their line, where they belong.
struct Pen {
    path: PathBuilder,
    at: Point,
    size: f64,
}

impl Pen {
    fn place(&self, x: f32, y: f32) -> (f32, f32) {
        let unit = self.size / font::units();
        ((self.at.0 + f64::from(x) * unit) as f32, (self.at.1 - f64::from(y) * unit) as f32)
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.place(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.place(x1, y1), self.place(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.place(x1, y1), self.place(x2, y2), self.place(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}
