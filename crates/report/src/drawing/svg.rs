//! Writes a drawing as SVG: inside a page in the page's colours, as a file in fixed ones.

use super::font::FAMILY;
use super::{Drawing, DrawnMark, FONT, MarkShape, PixelArea, PixelPoint, TextAnchor};
use crate::theme::Theme;
use maud::{Markup, Render, html};
use std::fmt::Write;

/// A length rounded to tenths of a pixel, which is invisible and keeps pages small.
struct Px(f64);

impl Render for Px {
    fn render_to(&self, out: &mut String) {
        let tenths = (self.0 * 10.0).round();
        // Adding zero turns minus zero into zero. Writing into a string cannot fail.
        let _ = write!(out, "{}", tenths / 10.0 + 0.0);
    }
}

impl Drawing {
    /// The drawing as part of a page. Without a description it is decorative, and its meaning is next to it.
    pub fn to_markup(&self, description: Option<&str>) -> Markup {
        // Letters never become smaller than 10 pixels; a drawing that is then too wide is scrolled.
        let least = format!("min-width: {}px", (self.width * 10.0 / FONT).floor());
        html! {
            svg width=(Px(self.width)) height=(Px(self.height)) viewBox=(self.view_box()) font-size=(Px(FONT))
                role=[description.map(|_| "img")] aria-label=[description] aria-hidden=[description.is_none().then_some("true")]
                style=[description.map(|_| least)] { (self.marks_in(None)) }
        }
    }

    /// The drawing as a file of its own.
    pub fn to_svg(&self, theme: Theme, description: &str) -> String {
        crate::html::clean_text(html! {
            svg xmlns="http://www.w3.org/2000/svg" width=(Px(self.width)) height=(Px(self.height)) viewBox=(self.view_box())
                font-family=(FAMILY) font-size=(Px(FONT)) role="img" aria-label=(description) { (self.marks_in(Some(theme))) }
        })
    }

    fn view_box(&self) -> Markup {
        html! { "0 0 " (Px(self.width)) " " (Px(self.height)) }
    }

    fn marks_in(&self, theme: Option<Theme>) -> Markup {
        html! { @for mark in self.marks.borrow().iter() { (mark.to_markup(theme)) } }
    }
}

impl DrawnMark {
    fn to_markup(&self, theme: Option<Theme>) -> Markup {
        let ink = self.ink.css(theme);
        let alpha = (self.alpha < 1.0).then(|| format!("{:.2}", self.alpha));
        let tip = html! { @if !self.tip.is_empty() { title { (self.tip) } } };
        match &self.shape {
            MarkShape::Rects(areas) => match areas.as_slice() {
                [area] => html! {
                    rect x=(Px(area.left)) y=(Px(area.top)) width=(Px(area.width())) height=(Px(area.height())) fill=(ink) opacity=[alpha] { (tip) }
                },
                areas => html! { path d={ @for area in areas { (area) } } fill=(ink) opacity=[alpha] { (tip) } },
            },
            MarkShape::Circle((x, y), radius) => html! {
                circle cx=(Px(*x)) cy=(Px(*y)) r=(Px(*radius)) fill=(ink) opacity=[alpha] { (tip) }
            },
            MarkShape::Polygon(points) => {
                html! { path d={ (PathData(points)) "Z" } fill=(ink) opacity=[alpha] { (tip) } }
            }
            MarkShape::Lines(lines, width) => html! {
                path d={ @for line in lines { (PathData(line)) } } fill="none" stroke=(ink) opacity=[alpha]
                    stroke-width=[(*width != 1.0).then_some(Px(*width))] { (tip) }
            },
            MarkShape::Text { text, at: (x, y), anchor, size } => html! {
                text x=(Px(*x)) y=(Px(baseline(*y, *size))) fill=(ink) text-anchor=[anchor.css()]
                    font-size=[(*size != FONT).then_some(Px(*size))] { (text) (tip) }
            },
        }
    }
}

/// The baseline of a text whose middle is at a height: capitals are about 0.7 of the size high.
pub fn baseline(middle: f64, size: f64) -> f64 {
    middle + 0.35 * size
}

impl TextAnchor {
    fn css(self) -> Option<&'static str> {
        match self {
            TextAnchor::Start => None,
            TextAnchor::Middle => Some("middle"),
            TextAnchor::End => Some("end"),
        }
    }
}

impl Render for PixelArea {
    fn render_to(&self, out: &mut String) {
        let (width, height) = (Px(self.width()), Px(self.height()));
        html! { "M" (Px(self.left)) " " (Px(self.top)) "h" (width) "v" (height) "h" (Px(-self.width())) "z" }
            .render_to(out);
    }
}

struct PathData<'a>(&'a [PixelPoint]);

impl Render for PathData<'_> {
    fn render_to(&self, out: &mut String) {
        for (i, (x, y)) in self.0.iter().enumerate() {
            html! { (if i == 0 { "M" } else { "L" }) (Px(*x)) " " (Px(*y)) }.render_to(out);
        }
    }
}
