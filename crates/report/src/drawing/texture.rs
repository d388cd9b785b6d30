//! Stripes that distinguish filled areas without colours: in grey print, and for colour-blind readers.

use super::{PixelArea, PixelPoint};

/// The stripes of a filled area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Texture {
    /// No stripes.
    Plain,
    /// `/`
    Rising,
    /// `\`
    Falling,
    /// `|`
    Upright,
    /// `-`
    Level,
    /// `x`
    Crossed,
    /// `//`, closer than [`Texture::Rising`].
    DenseRising,
    /// `\\`, closer than [`Texture::Falling`].
    DenseFalling,
}

impl Texture {
    const ALL: [Texture; 8] = [
        Texture::Plain,
        Texture::Rising,
        Texture::Falling,
        Texture::Upright,
        Texture::Level,
        Texture::Crossed,
        Texture::DenseRising,
        Texture::DenseFalling,
    ];

    /// The texture of a series by index; textures repeat after eight.
    pub fn nth(index: usize) -> Self {
        Self::ALL[index % Self::ALL.len()]
    }

    /// Lines within an area. All areas share one grid, so that neighbours with the same texture look like one.
    pub(super) fn stripes(self, area: PixelArea) -> Vec<Vec<PixelPoint>> {
        match self {
            Texture::Plain => Vec::new(),
            Texture::Rising => rising(area, 8.0),
            Texture::Falling => falling(area, 8.0),
            Texture::Upright => {
                multiples(area.left, area.right, 5.0).map(|x| vec![(x, area.top), (x, area.bottom)]).collect()
            }
            Texture::Level => {
                multiples(area.top, area.bottom, 5.0).map(|y| vec![(area.left, y), (area.right, y)]).collect()
            }
            Texture::Crossed => [rising(area, 8.0), falling(area, 8.0)].concat(),
            Texture::DenseRising => rising(area, 4.0),
            Texture::DenseFalling => falling(area, 4.0),
        }
    }
}

fn multiples(low: f64, high: f64, of: f64) -> impl Iterator<Item = f64> {
    ((low / of).floor() as i64 + 1..(high / of).ceil() as i64).map(move |i| i as f64 * of)
}

/// Lines on which x + y is a multiple of `apart` pixels.
fn rising(area: PixelArea, apart: f64) -> Vec<Vec<PixelPoint>> {
    let PixelArea { left, top, right, bottom } = area;
    let line =
        |sum: f64| vec![(left.max(sum - bottom), bottom.min(sum - left)), (right.min(sum - top), top.max(sum - right))];
    multiples(left + top, right + bottom, apart).map(line).collect()
}

/// The mirror image of [`rising`].
fn falling(area: PixelArea, apart: f64) -> Vec<Vec<PixelPoint>> {
    let mirrored = PixelArea { left: -area.right, right: -area.left, ..area };
    let back = |line: Vec<PixelPoint>| line.into_iter().map(|(x, y)| (-x, y)).collect();
    rising(mirrored, apart).into_iter().map(back).collect()
}
