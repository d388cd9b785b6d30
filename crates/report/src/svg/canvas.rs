//! A plotters canvas whose colours are roles: resolved to the page's CSS variables when the drawing is done.
//!
//! plotters knows RGB only. So each shape is drawn in a code, the role in the red channel and the number of the text
//! shown under the pointer in the other two, and the finished markup is rewritten line by line.

use super::super::chart::Colour;
use plotters::coord::Shift;
use plotters::element::{Drawable, PointCollection};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::cell::RefCell;
use std::fmt::Write as _;

/// Half pixels: SVG units per CSS pixel, because plotters places everything on whole units.
pub const UNITS: i32 = 2;
/// Font size of labels, in pixels.
pub const FONT: i32 = 14;
/// Series before colours repeat; then the shape of the marker tells them apart.
const COLOURS: usize = 8;

/// The point of a drawing, in units.
pub type Pixel = (i32, i32);

/// What a colour means; the page decides what it looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    Text,
    Muted,
    Grid,
    Paper,
    Filled,
    Failed,
    Skipped,
    Subject,
    Variation,
    Rival,
    Truth,
    Series(usize),
}

/// What a text's position refers to.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    Left,
    Middle,
    Right,
}

/// A drawing in progress.
pub struct Canvas<'a> {
    pub area: DrawingArea<SVGBackend<'a>, Shift>,
    tips: RefCell<Vec<String>>,
}

impl Ink {
    const PLAIN: [(Ink, &'static str); 11] = [
        (Ink::Text, "ink"),
        (Ink::Muted, "muted"),
        (Ink::Grid, "grid"),
        (Ink::Paper, "paper"),
        (Ink::Filled, "filled"),
        (Ink::Failed, "failed"),
        (Ink::Skipped, "skipped"),
        (Ink::Subject, "subject"),
        (Ink::Variation, "variation"),
        (Ink::Rival, "rival"),
        (Ink::Truth, "truth"),
    ];

    /// That of a series at its place among the others of a chart.
    pub fn of(colour: Colour, place: usize) -> Ink {
        match colour {
            Colour::Member => Ink::Series(place),
            Colour::Subject => Ink::Subject,
            Colour::Variation => Ink::Variation,
            Colour::Rival => Ink::Rival,
            Colour::Truth => Ink::Truth,
        }
    }

    /// The colour code of this role without a text under the pointer.
    pub fn code(self) -> RGBColor {
        self.tipped(0)
    }

    fn tipped(self, tip: u16) -> RGBColor {
        let role = match self {
            Ink::Series(i) => Self::PLAIN.len() + i % COLOURS,
            plain => Self::PLAIN.iter().position(|(ink, _)| *ink == plain).unwrap_or(0),
        };
        let [high, low] = tip.to_be_bytes();
        RGBColor(role as u8, high, low)
    }

    fn variable(role: usize) -> String {
        match Self::PLAIN.get(role) {
            Some((_, name)) => format!("var(--{name})"),
            None => format!("var(--series-{})", role - Self::PLAIN.len()),
        }
    }
}

impl Canvas<'_> {
    /// An `<svg>` of that many pixels with what `draw` puts on it, described for those who cannot see it.
    pub fn drawing(size: (u32, u32), description: &str, draw: impl FnOnce(&Canvas)) -> String {
        let label = format!("role=\"img\" aria-label=\"{}\"", super::super::html::escape(description));
        render(size, &label, draw)
    }

    /// A small square `<svg>` for a legend; its name stands beside it.
    pub fn sign(side: u32, draw: impl FnOnce(&Canvas)) -> String {
        render((side, side), "aria-hidden=\"true\"", draw)
    }

    /// The middle of the canvas.
    pub fn middle(&self) -> Pixel {
        let (width, height) = self.area.dim_in_pixel();
        (width as i32 / 2, height as i32 / 2)
    }

    /// All of the canvas.
    pub fn whole(&self) -> [Pixel; 2] {
        let (width, height) = self.area.dim_in_pixel();
        [(0, 0), (width as i32, height as i32)]
    }

    /// A filled rectangle between two corners.
    pub fn rect(&self, corners: [Pixel; 2], ink: Ink, alpha: f64, tip: &str) {
        self.put(&Rectangle::new(corners, self.colour(ink, tip).mix(alpha).filled()));
    }

    /// A filled polygon.
    pub fn polygon(&self, corners: Vec<Pixel>, ink: Ink, alpha: f64, tip: &str) {
        self.put(&Polygon::new(corners, self.colour(ink, tip).mix(alpha)));
    }

    /// A line through points, so many units wide.
    pub fn path(&self, points: Vec<Pixel>, ink: Ink, width: u32) {
        self.put(&PathElement::new(points, ink.code().stroke_width(width)));
    }

    /// The marker of the series at a place: its colour and its shape both tell which one it is.
    pub fn marker(&self, (x, y): Pixel, (place, ink): (usize, Ink), tip: &str) {
        const ALPHA: f64 = 0.8;
        match place % 4 {
            0 => self.put(&Circle::new((x, y), 8, self.colour(ink, tip).mix(ALPHA).filled())),
            1 => self.rect([(x - 7, y - 7), (x + 7, y + 7)], ink, ALPHA, tip),
            2 => self.polygon(vec![(x, y - 10), (x + 9, y + 7), (x - 9, y + 7)], ink, ALPHA, tip),
            _ => self.polygon(vec![(x, y - 10), (x + 10, y), (x, y + 10), (x - 10, y)], ink, ALPHA, tip),
        }
    }

    /// A line of text whose vertical middle is at that point.
    pub fn text(&self, text: &str, at: Pixel, anchor: Anchor, ink: Ink) {
        let horizontal = match anchor {
            Anchor::Left => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::Right => HPos::Right,
        };
        let colour = ink.code();
        let style = font().color(&colour).pos(Pos::new(horizontal, VPos::Center));
        self.put(&Text::new(text.to_string(), at, style));
    }

    fn colour(&self, ink: Ink, tip: &str) -> RGBColor {
        let mut tips = self.tips.borrow_mut();
        if tip.is_empty() || tips.len() >= usize::from(u16::MAX) {
            return ink.code();
        }
        tips.push(tip.to_string());
        ink.tipped(tips.len() as u16)
    }

    fn put<'e, E, C>(&self, element: &'e E)
    where
        &'e E: PointCollection<'e, Pixel, C>,
        E: for<'b> Drawable<SVGBackend<'b>, C>,
        C: plotters::element::CoordMapper,
    {
        self.area.draw(element).expect("writing into a string cannot fail");
    }
}

/// The font of all labels; plotters divides by 1.24 what it calls a size.
pub fn font() -> TextStyle<'static> {
    ("sans-serif", f64::from(FONT * UNITS) * 1.24).into_font().into()
}

/// About how many pixels wide a text is: a digit of a sans-serif font is 0.56 em wide, capitals are wider but rarer than narrow letters.
pub fn text_width(text: &str) -> i32 {
    text.chars().count() as i32 * FONT * 62 / 100
}

fn render(size: (u32, u32), attributes: &str, draw: impl FnOnce(&Canvas)) -> String {
    let units = (size.0 * UNITS as u32, size.1 * UNITS as u32);
    let mut markup = String::new();
    let tips = {
        let area = SVGBackend::with_string(&mut markup, units).into_drawing_area();
        let canvas = Canvas { area, tips: RefCell::default() };
        draw(&canvas);
        canvas.area.present().expect("writing into a string cannot fail");
        canvas.tips.into_inner()
    };
    let head = format!(
        "<svg width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\" {attributes}>\n",
        size.0, size.1, units.0, units.1
    );
    // The first line is plotters' own <svg>, without a label and in our units.
    markup.lines().skip(1).fold(head, |mut out, line| {
        resolve(line, &tips, &mut out);
        out
    })
}

/// Rewrites one line of plotters' markup: codes to CSS variables, with the text under the pointer; defaults left out.
fn resolve(line: &str, tips: &[String], out: &mut String) {
    if !line.starts_with('<') {
        // The content of a text element, already escaped.
        out.push_str(line);
        return;
    }
    let mut line = line.to_string();
    for default in [" opacity=\"1\"", " stroke=\"none\"", " stroke-width=\"1\"", " font-family=\"sans-serif\""] {
        line = line.replace(default, "");
    }
    // Lists of points end in a blank.
    line = line.replace(" \"", "\"");
    let mut tip = 0;
    while let Some(start) = line.find("=\"#") {
        let code = u32::from_str_radix(&line[start + 3..start + 9], 16).unwrap_or(0);
        tip = (code & 0xffff) as usize;
        line.replace_range(start + 2..start + 9, &Ink::variable((code >> 16) as usize));
    }
    match (tip.checked_sub(1).and_then(|i| tips.get(i)), line.strip_suffix("/>")) {
        (Some(tip), Some(open)) => {
            let name = open[1..].split(' ').next().unwrap_or_default();
            let _ = writeln!(out, "{open}><title>{}</title></{name}>", super::super::html::escape(tip));
        }
        _ if line.starts_with("<text") => out.push_str(&line),
        _ => {
            out.push_str(&line);
            out.push('\n');
        }
    }
}
