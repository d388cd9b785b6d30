//! The font of pictures, so that they look the same on all machines.
//!
//! It is DejaVu Sans (Bitstream Vera's licence: free to use and to embed).

use super::{FONT, PixelPoint};
use ab_glyph::{Font, FontRef, ScaleFont, point};
use std::sync::LazyLock;

/// The font family in SVG, for machines that have the font.
pub const FAMILY: &str = "DejaVu Sans, sans-serif";

static DEJAVU: LazyLock<FontRef> = LazyLock::new(|| {
    FontRef::try_from_slice(dejavu::sans::regular()).expect("the font is part of the program and was read in tests")
});

/// ab_glyph measures sizes by line height, SVG by the em.
fn height(size: f64) -> f32 {
    size as f32 * DEJAVU.height_unscaled() / DEJAVU.units_per_em().unwrap_or(2048.0)
}

/// The width of a text in pixels; most of a browser's fonts are narrower.
pub fn text_width(text: &str, size: f64) -> f64 {
    let font = DEJAVU.as_scaled(height(size));
    text.chars().map(|c| f64::from(font.h_advance(font.glyph_id(c)))).sum()
}

/// The beginning of a text that fits.
pub fn cut(text: &str, room: f64) -> String {
    if text_width(text, FONT) <= room {
        return text.to_string();
    }
    let mut left = room - text_width("…", FONT);
    let fits = |c: &char| {
        left -= text_width(c.encode_utf8(&mut [0; 4]), FONT);
        left >= 0.0
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// Calls `draw` for every pixel of a text that starts at a point of its baseline, with the covered share of the pixel.
pub fn rasterize(text: &str, (mut x, y): PixelPoint, size: f64, mut draw: impl FnMut((i32, i32), f64)) {
    let font = DEJAVU.as_scaled(height(size));
    for id in text.chars().map(|c| font.glyph_id(c)) {
        if let Some(outline) = DEJAVU.outline_glyph(id.with_scale_and_position(height(size), point(x as f32, y as f32)))
        {
            let corner = outline.px_bounds().min;
            outline.draw(|right, down, covered| {
                draw((corner.x as i32 + right as i32, corner.y as i32 + down as i32), covered.min(1.0).into());
            });
        }
        x += f64::from(font.h_advance(id));
    }
}
