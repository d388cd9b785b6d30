//! A chart as a picture of its own, with its title, legend and caption.

use crate::chart::{Chart, LegendEntry};
use crate::drawing::{Drawing, DrawnMark, FONT, MarkShape, TextAnchor, text_width};
use crate::theme::{Ink, Theme};
use perf4sight_base::error::Result;

/// The margin of the picture, and the gap between its parts, in pixels.
const MARGIN: f64 = 16.0;
const GAP: f64 = 12.0;
/// Height of a line of the legend, in pixels.
const LINE: f64 = 20.0;
/// Size of the title's letters, in pixels.
const TITLE: f64 = 18.0;

impl Chart {
    /// An SVG file. Equal charts give equal bytes.
    pub fn to_svg(&self, theme: Theme) -> String {
        self.figure().to_svg(theme, &self.description())
    }

    /// A PNG file with two pixels for each of the SVG's, in a font that is part of the program. Equal charts give equal bytes.
    ///
    /// # Errors
    /// A picture that is too large.
    pub fn to_png(&self, theme: Theme) -> Result<Vec<u8>> {
        self.figure().to_png(theme)
    }

    /// The description for readers who cannot see the chart.
    pub(crate) fn description(&self) -> String {
        format!("{}. {}", self.title, self.caption)
    }

    fn figure(&self) -> Drawing {
        let plot = self.plot.as_draw();
        let drawing = plot.draw(plot.widths()[0]);
        let width = drawing.width.max(plot.widths()[0]);
        let [caption, note] = [&self.caption, &drawing.note].map(|text| paragraph(text, width, FONT, Ink::MUTED));
        let title = paragraph(&self.title, width, TITLE, Ink::TEXT);
        let parts = [title, legend(plot.legend(), width), drawing, caption, note];
        stacked(parts.into_iter().filter(|part| part.height > 0.0).collect(), width)
    }
}

fn stacked(parts: Vec<Drawing>, width: f64) -> Drawing {
    let height: f64 = parts.iter().map(|part| part.height + GAP).sum::<f64>() - GAP;
    let all = Drawing::new(width + 2.0 * MARGIN, height + 2.0 * MARGIN);
    let mut top = MARGIN;
    for part in parts {
        all.place(&part, (MARGIN, top));
        top += part.height + GAP;
    }
    all
}

/// Text in lines of at most this width; a longer word has a line of its own.
fn paragraph(text: &str, width: f64, size: f64, ink: Ink) -> Drawing {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), size) <= width => *line = format!("{line} {word}"),
            _ => lines.push(word.to_string()),
        }
    }
    let drawing = Drawing::new(width, lines.len() as f64 * 1.4 * size);
    for (i, text) in lines.into_iter().enumerate() {
        let at = (0.0, (i as f64 + 0.5) * 1.4 * size);
        drawing.add(DrawnMark::new(MarkShape::Text { text, at, anchor: TextAnchor::Start, size }, ink));
    }
    drawing
}

/// Entries next to each other, as many per line as fit.
fn legend(entries: Vec<LegendEntry>, width: f64) -> Drawing {
    let mut drawing = Drawing::new(width, 0.0);
    let (mut left, mut top) = (0.0, 0.0);
    for LegendEntry { sign, name } in entries {
        let name_at = sign.width + 6.0;
        let wide = name_at + text_width(&name, FONT);
        if left > 0.0 && left + wide > width {
            (left, top) = (0.0, top + LINE);
        }
        drawing.add(DrawnMark::text(name, (left + name_at, top + LINE / 2.0), TextAnchor::Start, Ink::TEXT));
        let lower = (LINE - sign.height) / 2.0;
        drawing.place(&sign, (left, top + lower));
        left += wide + 1.5 * FONT;
        drawing.height = top + LINE;
    }
    drawing
}
