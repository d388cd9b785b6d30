//! Stripes that tell filled areas apart where colours cannot: in grey print, and for those who see colours otherwise.

use super::{Area, Point};

/// How a filled area is striped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Texture {
    /// Not at all.
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

/// Pixels between stripes, and between close ones.
const APART: f64 = 8.0;
const CLOSE: f64 = 4.0;

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

    /// That of the member of a group at a place; after eight they repeat.
    pub fn nth(place: usize) -> Self {
        Self::ALL[place % Self::ALL.len()]
    }

    /// Lines within an area. They lie on one grid for all areas, so that neighbours of a kind look like one.
    pub(super) fn stripes(self, area: Area) -> Vec<Vec<Point>> {
        match self {
            Texture::Plain => Vec::new(),
            Texture::Rising => rising(area, APART),
            Texture::Falling => falling(area, APART),
            Texture::Upright => {
                multiples(area.left, area.right, 5.0).map(|x| vec![(x, area.top), (x, area.bottom)]).collect()
            }
            Texture::Level => {
                multiples(area.top, area.bottom, 5.0).map(|y| vec![(area.left, y), (area.right, y)]).collect()
            }
            Texture::Crossed => [rising(area, APART), falling(area, APART)].concat(),
            Texture::DenseRising => rising(area, CLOSE),
            Texture::DenseFalling => falling(area, CLOSE),
        }
    }
}

fn multiples(low: f64, high: f64, of: f64) -> impl Iterator<Item = f64> {
    ((low / of).floor() as i64 + 1..(high / of).ceil() as i64).map(move |i| i as f64 * of)
}

/// Lines on which x + y is a multiple.
fn rising(area: Area, apart: f64) -> Vec<Vec<Point>> {
    let Area { left, top, right, bottom } = area;
    let line =
        |sum: f64| vec![(left.max(sum - bottom), bottom.min(sum - left)), (right.min(sum - top), top.max(sum - right))];
    multiples(left + top, right + bottom, apart).map(line).collect()
}

/// The mirror image of [`rising`].
fn falling(area: Area, apart: f64) -> Vec<Vec<Point>> {
    let mirrored = Area { left: -area.right, right: -area.left, ..area };
    let back = |line: Vec<Point>| line.into_iter().map(|(x, y)| (-x, y)).collect();
    rising(mirrored, apart).into_iter().map(back).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_stay_inside() {
        let area = Area::new((3.0, 5.0), (40.0, 18.0));
        for texture in Texture::ALL {
            let stripes = texture.stripes(area);
            assert_eq!(stripes.is_empty(), texture == Texture::Plain);
            for (x, y) in stripes.into_iter().flatten() {
                assert!(
                    (area.left..=area.right).contains(&x) && (area.top..=area.bottom).contains(&y),
                    "{texture:?} {x} {y}"
                );
            }
        }
    }
}
