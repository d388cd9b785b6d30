//! Writes a drawing as PNG, with plotters' bitmap backend.

use super::svg::baseline;
use super::{Drawing, DrawnMark, MarkShape, PixelPoint, TextAnchor, font, text_width};
use crate::theme::{Ink, Theme};
use perf4sight_base::error::{Error, Result};
use plotters::backend::BitMapBackend;
use plotters::style::{RGBAColor, ShapeStyle};
use plotters_backend::{BackendColor, DrawingBackend};

/// The number of PNG pixels per pixel of the drawing.
const SCALE: f64 = 2.0;
/// Each pixel is the mean of a square with this side length, which smooths edges.
const FINE: u32 = 2;
/// The number of bitmap pixels per pixel of the drawing.
const UNIT: f64 = SCALE * FINE as f64;
/// The maximum number of pixels: drawing needs twelve bytes per pixel.
const MOST_PIXELS: u64 = 32 << 20;

impl Drawing {
    /// A PNG file with two pixels per pixel of the drawing.
    ///
    /// # Errors
    /// A picture that would be too large.
    pub fn to_png(&self, theme: Theme) -> Result<Vec<u8>> {
        let [width, height] = [self.width, self.height].map(|length| (length * SCALE).ceil() as u32);
        let too_large = || {
            Error::input(format!("a picture of {width} x {height} pixels cannot be drawn"))
                .help("draw it smaller, or as SVG")
        };
        if u64::from(width) * u64::from(height) > MOST_PIXELS {
            return Err(too_large());
        }
        let paper = Ink::PAPER.rgb(theme);
        let mut pixels = paper.repeat((width * FINE * height * FINE) as usize);
        let mut bitmap = BitMapBackend::with_buffer(&mut pixels, (width * FINE, height * FINE));
        self.marks.borrow().iter().for_each(|mark| mark.paint(&mut bitmap, theme));
        drop(bitmap);
        encoded((width, height), &averaged(&pixels, width as usize)).map_err(|_| too_large())
    }
}

fn averaged(pixels: &[u8], width: usize) -> Vec<u8> {
    let fine = FINE as usize;
    let line = width * fine * 3;
    let mean = |rows: &[u8], at: usize| {
        let (x, channel) = (at / 3 * fine, at % 3);
        let sum: usize = (0..fine * fine).map(|i| rows[i / fine * line + (x + i % fine) * 3 + channel] as usize).sum();
        (sum / (fine * fine)) as u8
    };
    pixels.chunks_exact(line * fine).flat_map(|rows| (0..width * 3).map(move |at| mean(rows, at))).collect()
}

fn encoded((width, height): (u32, u32), pixels: &[u8]) -> std::result::Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(file)
}

impl DrawnMark {
    /// Draws the mark on a bitmap in memory, which cannot fail.
    fn paint(&self, bitmap: &mut BitMapBackend, theme: Theme) {
        let [red, green, blue] = self.ink.rgb(theme);
        let color = RGBAColor(red, green, blue, self.alpha);
        let style = |width: f64| ShapeStyle { color, filled: true, stroke_width: (width * UNIT).round() as u32 };
        let fine = |(x, y): PixelPoint| ((x * UNIT).round() as i32, (y * UNIT).round() as i32);
        let _ = match &self.shape {
            MarkShape::Rects(areas) => areas.iter().try_for_each(|area| {
                bitmap.draw_rect(fine((area.left, area.top)), fine((area.right, area.bottom)), &color, true)
            }),
            MarkShape::Circle(centre, radius) => {
                bitmap.draw_circle(fine(*centre), (radius * UNIT) as u32, &color, true)
            }
            MarkShape::Polygon(points) => bitmap.fill_polygon(points.iter().copied().map(fine), &color),
            MarkShape::Lines(lines, width) => {
                lines.iter().try_for_each(|line| bitmap.draw_path(line.iter().copied().map(fine), &style(*width)))
            }
            MarkShape::Text { text, at: (x, y), anchor, size } => {
                let before = match anchor {
                    TextAnchor::Start => 0.0,
                    TextAnchor::Middle => text_width(text, *size) / 2.0,
                    TextAnchor::End => text_width(text, *size),
                };
                let start = ((x - before) * UNIT, baseline(*y, *size) * UNIT);
                font::rasterize(text, start, size * UNIT, |at, covered| {
                    let _ =
                        bitmap.draw_pixel(at, BackendColor { alpha: covered * self.alpha, rgb: (red, green, blue) });
                });
                Ok(())
            }
        };
    }
}
