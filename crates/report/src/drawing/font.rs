//! The letters of pictures that are no part of a page: DejaVu Sans (Bitstream Vera's licence: free to use and to embed), so that they
//! look alike on machines with and without fonts.

use std::sync::OnceLock;
use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// The name by which a machine that has the font knows it.
pub const FAMILY: &str = "DejaVu Sans, sans-serif";

fn face() -> &'static Face<'static> {
    static FACE: OnceLock<Face> = OnceLock::new();
    FACE.get_or_init(|| {
        Face::parse(dejavu::sans::regular(), 0).expect("the font is part of the program and was read in tests")
    })
}

/// The glyph of a character; where the font has none, the box that says so.
fn glyph(c: char) -> GlyphId {
    face().glyph_index(c).unwrap_or_default()
}

/// How far a character moves the next one, in parts of the font's size.
pub fn advance(c: char) -> f64 {
    f64::from(face().glyph_hor_advance(glyph(c)).unwrap_or(0)) / units()
}

/// Units of outlines in the font's size.
pub fn units() -> f64 {
    f64::from(face().units_per_em())
}

/// The shape of a character in the font's units, upwards.
pub fn outline(c: char, builder: &mut impl OutlineBuilder) {
    face().outline_glyph(glyph(c), builder);
}
