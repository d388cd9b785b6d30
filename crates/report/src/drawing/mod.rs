//! A drawing: shapes in pixels, each in a colour by its role. Charts and plotters add shapes; the drawing is written as SVG or PNG.

mod axes;
mod backend;
mod font;
mod png;
mod svg;
mod texture;

pub use axes::{Axes, AxisExtent, tick_text};
pub use font::{cut, text_width};
pub use texture::Texture;

use super::theme::Ink;
use std::cell::RefCell;
use std::rc::Rc;

/// Font size of labels, in pixels.
pub const FONT: f64 = 14.0;
pub const MARKER_ALPHA: f64 = 0.8;
/// Opacity of the stripes of a texture.
pub const TEXTURE_ALPHA: f64 = 0.4;

/// Pixels from the left and from the top.
pub type PixelPoint = (f64, f64);

/// Shapes, later ones above earlier ones. Clones share their shapes, as plotters' areas require.
#[derive(Debug, Clone)]
pub struct Drawing {
    pub width: f64,
    pub height: f64,
    marks: Rc<RefCell<Vec<DrawnMark>>>,
    /// A remark about omitted or merged shapes; may be empty.
    pub note: String,
}

/// A shape, its colour and its tooltip.
#[derive(Debug, Clone)]
pub struct DrawnMark {
    pub shape: MarkShape,
    pub ink: Ink,
    pub alpha: f64,
    pub tip: String,
}

#[derive(Debug, Clone)]
pub enum MarkShape {
    /// Filled rectangles; many of them as one shape take little room in a page.
    Rects(Vec<PixelArea>),
    /// Filled, with its centre and radius.
    Circle(PixelPoint, f64),
    Polygon(Vec<PixelPoint>),
    /// Lines through points, and their width.
    Lines(Vec<Vec<PixelPoint>>, f64),
    /// A line of text; `at` is at half its height.
    Text {
        text: String,
        at: PixelPoint,
        anchor: TextAnchor,
        size: f64,
    },
}

/// The point of a text that its position refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextAnchor {
    Start,
    Middle,
    End,
}

/// A rectangle by its edges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PixelArea {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl PixelArea {
    pub fn new((left, top): PixelPoint, (right, bottom): PixelPoint) -> Self {
        PixelArea { left, top, right, bottom }
    }

    pub fn width(self) -> f64 {
        self.right - self.left
    }

    pub fn height(self) -> f64 {
        self.bottom - self.top
    }

    pub fn middle(self) -> PixelPoint {
        ((self.left + self.right) / 2.0, (self.top + self.bottom) / 2.0)
    }

    /// The rectangle reduced by `by` on every side.
    pub fn inset(self, by: f64) -> Self {
        PixelArea { left: self.left + by, top: self.top + by, right: self.right - by, bottom: self.bottom - by }
    }
}

impl MarkShape {
    fn for_each_point(&mut self, mut change: impl FnMut(&mut f64, &mut f64)) {
        match self {
            MarkShape::Rects(areas) => areas.iter_mut().for_each(|area| {
                change(&mut area.left, &mut area.top);
                change(&mut area.right, &mut area.bottom);
            }),
            MarkShape::Circle((x, y), _) | MarkShape::Text { at: (x, y), .. } => change(x, y),
            MarkShape::Polygon(points) => points.iter_mut().for_each(|(x, y)| change(x, y)),
            MarkShape::Lines(lines, _) => lines.iter_mut().flatten().for_each(|(x, y)| change(x, y)),
        }
    }
}

impl DrawnMark {
    pub fn new(shape: MarkShape, ink: Ink) -> Self {
        DrawnMark { shape, ink, alpha: 1.0, tip: String::new() }
    }

    pub fn rect(area: PixelArea, ink: Ink) -> Self {
        Self::new(MarkShape::Rects(vec![area]), ink)
    }

    pub fn lines(lines: Vec<Vec<PixelPoint>>, ink: Ink, width: f64) -> Self {
        Self::new(MarkShape::Lines(lines, width), ink)
    }

    /// A dashed line; dashes and gaps have the same length.
    pub fn dashed(from: PixelPoint, to: PixelPoint, ink: Ink) -> Self {
        let dashes = f64::hypot(to.0 - from.0, to.1 - from.1) / 8.0;
        let at = |i: f64| (from.0 + (to.0 - from.0) * i / dashes, from.1 + (to.1 - from.1) * i / dashes);
        let dash = |i: u32| vec![at(i.into()), at((f64::from(i) + 0.5).min(dashes))];
        Self::lines((0..dashes.ceil() as u32).map(dash).collect(), ink, 1.5)
    }

    pub fn text(text: impl Into<String>, at: PixelPoint, anchor: TextAnchor, ink: Ink) -> Self {
        Self::new(MarkShape::Text { text: text.into(), at, anchor, size: FONT }, ink)
    }

    /// The marker of a series by index: both its colour and its shape identify the series.
    pub fn marker((x, y): PixelPoint, series: usize, ink: Ink) -> Self {
        let shape = match series % 4 {
            0 => MarkShape::Circle((x, y), 4.0),
            1 => MarkShape::Rects(vec![PixelArea::new((x - 3.5, y - 3.5), (x + 3.5, y + 3.5))]),
            2 => MarkShape::Polygon(vec![(x, y - 5.0), (x + 4.5, y + 3.5), (x - 4.5, y + 3.5)]),
            _ => MarkShape::Polygon(vec![(x, y - 5.0), (x + 5.0, y), (x, y + 5.0), (x - 5.0, y)]),
        };
        Self::new(shape, ink).alpha(MARKER_ALPHA)
    }

    /// Sets the opacity.
    #[must_use]
    pub fn alpha(self, alpha: f64) -> Self {
        DrawnMark { alpha, ..self }
    }

    /// Sets the tooltip.
    #[must_use]
    pub fn tip(self, tip: impl Into<String>) -> Self {
        DrawnMark { tip: tip.into(), ..self }
    }
}

impl Drawing {
    /// An empty drawing of this size in pixels.
    pub fn new(width: f64, height: f64) -> Self {
        Drawing { width, height, marks: Rc::default(), note: String::new() }
    }

    /// Adds a shape above the others; ignores it if a coordinate is not finite.
    pub fn add(&self, mut mark: DrawnMark) {
        let mut finite = true;
        mark.shape.for_each_point(|x, y| finite &= x.is_finite() && y.is_finite());
        if finite {
            self.marks.borrow_mut().push(mark);
        }
    }

    /// A rectangle with a texture, cut at the edges of the drawing.
    pub fn fill(&self, area: PixelArea, (ink, texture): (Ink, Texture), tip: impl Into<String>) {
        let (x, y) = (|x: f64| x.clamp(0.0, self.width), |y: f64| y.clamp(0.0, self.height));
        let area = PixelArea { left: x(area.left), top: y(area.top), right: x(area.right), bottom: y(area.bottom) };
        self.add(DrawnMark::rect(area, ink).tip(tip));
        let stripes = texture.stripes(area);
        if !stripes.is_empty() {
            self.add(DrawnMark::lines(stripes, Ink::PAPER, 1.0).alpha(TEXTURE_ALPHA));
        }
    }

    /// Adds text in a filled rectangle, on a plain background, if it fits.
    pub fn words_inside(&self, area: PixelArea, words: &str, ink: Ink) {
        let (half, (x, y)) = (text_width(words, FONT) / 2.0 + 3.0, area.middle());
        if !words.is_empty() && 2.0 * half <= area.width() && FONT <= area.height() {
            self.add(DrawnMark::rect(PixelArea::new((x - half, area.top), (x + half, area.bottom)), ink));
            self.add(DrawnMark::text(words, (x, y), TextAnchor::Middle, Ink::PAPER));
        }
    }

    /// Adds a box with the part of a name that fits.
    pub fn named_box(&self, area: PixelArea, (ink, texture): (Ink, Texture), tip: String, name: &str) {
        self.fill(area, (ink, texture), tip);
        if area.width() >= 2.5 * FONT {
            self.words_inside(area, &cut(name, area.width() - 8.0), ink);
        }
    }

    /// Adds a name left of the axes; if it is cut, its tooltip is the whole name.
    pub fn name(&self, name: &str, axes: &Axes, y: f64) {
        let end = axes.area.left - 8.0;
        let cut = cut(name, end);
        let tip = if cut == name { "" } else { name };
        self.add(DrawnMark::text(&cut, (end, y), TextAnchor::End, Ink::MUTED).tip(tip));
    }

    /// Adds the shapes of another drawing, with its corner at this point.
    pub fn place(&self, other: &Drawing, (right, down): PixelPoint) {
        for mark in other.marks.borrow().iter() {
            let mut mark = mark.clone();
            mark.shape.for_each_point(|x, y| (*x, *y) = (*x + right, *y + down));
            self.add(mark);
        }
    }
}
