//! A laid-out picture: a few kinds of shapes in pixels, each in a colour by its meaning. Written as SVG or PNG.

mod font;
mod frame;
mod png;
mod ruler;
mod svg;
mod texture;

pub use frame::Frame;
pub use ruler::{Ruler, tick_text};
pub use texture::Texture;

use super::theme::Ink;

/// Font size of labels, in pixels.
pub const FONT: f64 = 14.0;
/// How much markers cover of what is below them.
pub const MARKER_ALPHA: f64 = 0.8;
/// How much the stripes of a texture cover of the colour that they tell from others.
pub const TEXTURE_ALPHA: f64 = 0.4;

/// Pixels from the left and from the top.
pub type Point = (f64, f64);

/// What is drawn, later marks above earlier ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    pub width: f64,
    pub height: f64,
    pub marks: Vec<Mark>,
    /// What the reader must know of how it was drawn; empty where nothing was left out or merged.
    pub note: String,
}

/// A shape, its colour, and the text under the pointer.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    pub shape: Shape,
    pub ink: Ink,
    pub alpha: f64,
    pub tip: String,
}

/// The kinds of shapes.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Filled.
    Rect(Area),
    /// Filled, all of them one shape: hundreds take little room in a page.
    Rects(Vec<Area>),
    /// Filled, with its centre and radius.
    Circle(Point, f64),
    /// Filled.
    Polygon(Vec<Point>),
    /// Lines through points, so many pixels wide.
    Lines(Vec<Vec<Point>>, Stroke),
    /// A line of text, the middle of its height at that point.
    Text { text: String, at: Point, anchor: Anchor, size: f64 },
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stroke {
    /// In pixels.
    pub width: f64,
    /// Interrupted.
    pub dashed: bool,
}

/// What a text's position refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A rectangle by its edges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Area {
    pub fn new((left, top): Point, (right, bottom): Point) -> Self {
        Area { left, top, right, bottom }
    }

    pub fn width(self) -> f64 {
        self.right - self.left
    }

    pub fn height(self) -> f64 {
        self.bottom - self.top
    }

    pub fn middle(self) -> Point {
        ((self.left + self.right) / 2.0, (self.top + self.bottom) / 2.0)
    }

    /// The part of it that another one shows.
    fn within(self, other: Area) -> Self {
        let (x, y) = (|x: f64| x.clamp(other.left, other.right), |y: f64| y.clamp(other.top, other.bottom));
        Area { left: x(self.left), top: y(self.top), right: x(self.right), bottom: y(self.bottom) }
    }

    fn moved(self, (right, down): Point) -> Self {
        Area::new((self.left + right, self.top + down), (self.right + right, self.bottom + down))
    }

    /// Smaller by so much on every side.
    pub fn inset(self, by: f64) -> Self {
        Area { left: self.left + by, top: self.top + by, right: self.right - by, bottom: self.bottom - by }
    }
}

impl Shape {
    fn lies_somewhere(&self) -> bool {
        let finite = |(x, y): &Point| x.is_finite() && y.is_finite();
        let whole = |area: &Area| finite(&(area.left, area.top)) && finite(&(area.right, area.bottom));
        match self {
            Shape::Rect(area) => whole(area),
            Shape::Rects(areas) => areas.iter().all(whole),
            Shape::Circle(at, _) | Shape::Text { at, .. } => finite(at),
            Shape::Polygon(points) => points.iter().all(finite),
            Shape::Lines(lines, _) => lines.iter().flatten().all(finite),
        }
    }
}

impl Mark {
    pub fn rect(area: Area, ink: Ink) -> Self {
        Self::new(Shape::Rect(area), ink)
    }

    pub fn rects(areas: Vec<Area>, ink: Ink) -> Self {
        Self::new(Shape::Rects(areas), ink)
    }

    pub fn circle(centre: Point, radius: f64, ink: Ink) -> Self {
        Self::new(Shape::Circle(centre, radius), ink)
    }

    pub fn polygon(points: Vec<Point>, ink: Ink) -> Self {
        Self::new(Shape::Polygon(points), ink)
    }

    pub fn lines(lines: Vec<Vec<Point>>, ink: Ink, width: f64) -> Self {
        Self::new(Shape::Lines(lines, Stroke { width, dashed: false }), ink)
    }

    pub fn dashed(line: Vec<Point>, ink: Ink) -> Self {
        Self::new(Shape::Lines(vec![line], Stroke { width: 1.5, dashed: true }), ink)
    }

    pub fn text(text: impl Into<String>, at: Point, anchor: Anchor, ink: Ink) -> Self {
        Self::new(Shape::Text { text: text.into(), at, anchor, size: FONT }, ink)
    }

    /// The marker of the series at a place: its colour and its shape both tell which one it is.
    pub fn marker((x, y): Point, place: usize, ink: Ink) -> Self {
        let shape = match place % 4 {
            0 => Shape::Circle((x, y), 4.0),
            1 => Shape::Rect(Area::new((x - 3.5, y - 3.5), (x + 3.5, y + 3.5))),
            2 => Shape::Polygon(vec![(x, y - 5.0), (x + 4.5, y + 3.5), (x - 4.5, y + 3.5)]),
            _ => Shape::Polygon(vec![(x, y - 5.0), (x + 5.0, y), (x, y + 5.0), (x - 5.0, y)]),
        };
        Self::new(shape, ink).alpha(MARKER_ALPHA)
    }

    fn new(shape: Shape, ink: Ink) -> Self {
        Mark { shape, ink, alpha: 1.0, tip: String::new() }
    }

    /// Lets what is below it through.
    #[must_use]
    pub fn alpha(self, alpha: f64) -> Self {
        Mark { alpha, ..self }
    }

    /// What is shown under the pointer.
    #[must_use]
    pub fn tip(self, tip: impl Into<String>) -> Self {
        Mark { tip: tip.into(), ..self }
    }

    /// In letters of another size.
    #[must_use]
    pub fn sized(mut self, pixels: f64) -> Self {
        if let Shape::Text { size, .. } = &mut self.shape {
            *size = pixels;
        }
        self
    }

    fn moved(mut self, (right, down): Point) -> Self {
        let shift = |(x, y): &mut Point| (*x, *y) = (*x + right, *y + down);
        match &mut self.shape {
            Shape::Rect(area) => *area = area.moved((right, down)),
            Shape::Rects(areas) => areas.iter_mut().for_each(|area| *area = area.moved((right, down))),
            Shape::Circle(at, _) | Shape::Text { at, .. } => shift(at),
            Shape::Polygon(points) => points.iter_mut().for_each(shift),
            Shape::Lines(lines, _) => lines.iter_mut().flatten().for_each(shift),
        }
        self
    }
}

impl Drawing {
    /// Nothing yet, on so many pixels.
    pub fn new(width: f64, height: f64) -> Self {
        Drawing { width, height, marks: Vec::new(), note: String::new() }
    }

    /// Puts a mark above the others; one that lies nowhere, such as at infinity, is not drawn.
    pub fn add(&mut self, mark: Mark) {
        if mark.shape.lies_somewhere() {
            self.marks.push(mark);
        }
    }

    /// A rectangle that is told from others by texture as well as by colour.
    pub fn fill(&mut self, area: Area, (ink, texture): (Ink, Texture), tip: impl Into<String>) {
        if !Shape::Rect(area).lies_somewhere() {
            return;
        }
        let area = area.within(Area::new((0.0, 0.0), (self.width, self.height)));
        self.add(Mark::rect(area, ink).tip(tip));
        let stripes = texture.stripes(area);
        if !stripes.is_empty() {
            self.add(Mark::lines(stripes, Ink::PAPER, 1.0).alpha(TEXTURE_ALPHA));
        }
    }

    /// Words in a filled rectangle, on a plain ground; nothing where there is no room for them.
    pub fn words_inside(&mut self, area: Area, words: &str, ink: Ink) {
        let (half, (x, y)) = (text_width(words, FONT) / 2.0 + 3.0, area.middle());
        if !words.is_empty() && 2.0 * half <= area.width() && FONT <= area.height() {
            self.add(Mark::rect(Area::new((x - half, area.top), (x + half, area.bottom)), ink));
            self.add(Mark::text(words, (x, y), Anchor::Middle, Ink::PAPER));
        }
    }

    /// What stands left of something; cut where there is too little room, then whole under the pointer.
    pub fn name(&mut self, name: &str, end: Point, room: f64) {
        let cut = cut(name, room);
        let tip = if cut == name { "" } else { name };
        self.add(Mark::text(&cut, end, Anchor::End, Ink::MUTED).tip(tip));
    }

    /// Takes over what another drawing holds, its corner at that point.
    pub fn place(&mut self, other: Drawing, corner: Point) {
        self.marks.extend(other.marks.into_iter().map(|mark| mark.moved(corner)));
    }
}

/// How wide a text is, in pixels, in the font that pictures are written with; most of a browser's fonts are narrower.
pub fn text_width(text: &str, size: f64) -> f64 {
    text.chars().map(font::advance).sum::<f64>() * size
}

/// As much of a text as there is room for.
pub fn cut(text: &str, room: f64) -> String {
    if text_width(text, FONT) <= room {
        return text.to_string();
    }
    let mut left = room - text_width("…", FONT);
    let fits = |c: &char| {
        left -= font::advance(*c) * FONT;
        left >= 0.0
    };
    text.chars().take_while(fits).chain(['…']).collect()
}
