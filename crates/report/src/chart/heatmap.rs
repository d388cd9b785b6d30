//! A grid of numbers: a larger number has a stronger colour; cells without a number have a sign.

use super::{Axis, Draw, LegendEntry, SIGN, SIGN_AREA, sign};
use crate::drawing::{AxisExtent, Drawing, DrawnMark, FONT, MarkShape, PixelArea, TextAnchor, text_width, tick_text};
use crate::table::significant;
use crate::theme::Ink;

/// A grid of cells, such as a time for each number of processors and amount of memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Heatmap {
    /// Above the names of the rows.
    pub row_label: String,
    /// Above the names of the columns.
    pub column_label: String,
    /// Names of the rows, from the top.
    pub rows: Vec<String>,
    /// Names of the columns, from the left.
    pub columns: Vec<String>,
    /// Row after row, as many as rows times columns.
    pub cells: Vec<HeatCell>,
    /// Label of the legend's scale, and whether it is logarithmic.
    pub value: Axis,
    /// The numbers of the faintest and the strongest colour; by default, the range of the cells.
    pub range: Option<(f64, f64)>,
    /// Whether cells show their numbers.
    pub printed: bool,
    /// The meaning of the signs for the legend, which lists the signs that occur.
    pub signs: Vec<(CellSign, String)>,
}

/// A number or a sign, with a tooltip.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatCell {
    /// What is drawn.
    pub content: CellContent,
    /// The tooltip.
    pub label: String,
}

/// What a [`Heatmap`] cell shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CellContent {
    /// A colour by its size.
    Number(f64),
    /// The reason why there is no number.
    Sign(CellSign),
}

/// Marks a cell without a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellSign {
    /// A cross on a strong colour: the reader should see it first.
    Cross,
    /// A dot on a faint colour: the value follows from other cells.
    Dot,
    /// A hole in the colour of numbers: the value exists but is unknown.
    Hole,
    /// Grey: no data.
    Blank,
}

const ROW: f64 = 20.0;
/// The minimum and maximum width of a column without printed numbers, in pixels.
const NARROW: f64 = 26.0;
const WIDE: f64 = 48.0;
/// The height of the column names and their label, in pixels.
const HEAD: f64 = 44.0;
/// The margin on the right of the cells and below them, in pixels.
const MARGIN: f64 = 4.0;
/// The gap between names and cells, in pixels.
const GAP: f64 = 8.0;
/// Colours in the legend's scale.
const STEPS: usize = 5;

/// The opacity of a cell, for a share of the range from 0 to 1. Numbers stay readable on it.
pub(crate) fn strength(share: f64, printed: bool) -> f64 {
    let (least, most) = if printed { (0.08, 0.6) } else { (0.15, 1.0) };
    least + (most - least) * share.clamp(0.0, 1.0)
}

struct HeatmapLayout {
    left: f64,
    column: f64,
}

impl Draw for Heatmap {
    fn draw(&self, width: f64) -> Drawing {
        let layout = self.layout(width);
        let size = (
            layout.left + self.columns.len() as f64 * layout.column + MARGIN,
            HEAD + self.rows.len() as f64 * ROW + MARGIN,
        );
        let drawing = Drawing::new(size.0.max(text_width(&self.column_label, FONT)), size.1);
        self.draw_names(&drawing, &layout);
        let extent = self.extent();
        for (i, cell) in self.cells.iter().enumerate() {
            let (row, column) = (i / self.columns.len().max(1), i % self.columns.len().max(1));
            let corner = (layout.left + column as f64 * layout.column, HEAD + row as f64 * ROW);
            self.draw_cell(&drawing, PixelArea::new(corner, (corner.0 + layout.column, corner.1 + ROW)), &extent, cell);
        }
        drawing
    }

    fn legend(&self) -> Vec<LegendEntry> {
        let of_sign = |(what, name): &(CellSign, String)| LegendEntry {
            sign: sign(|sign| draw_sign(sign, SIGN_AREA, *what, "")),
            name: name.clone(),
        };
        let scale = self.numbers().next().map(|_| LegendEntry { sign: self.scale(), name: self.value.label.clone() });
        let occurs = |sign: CellSign| self.cells.iter().any(|cell| cell.content == CellContent::Sign(sign));
        scale.into_iter().chain(self.signs.iter().filter(|(sign, _)| occurs(*sign)).map(of_sign)).collect()
    }
}

impl Heatmap {
    fn layout(&self, width: f64) -> HeatmapLayout {
        let widest = |names: &[String]| names.iter().map(|name| text_width(name, FONT)).fold(0.0, f64::max);
        let left = widest(&self.rows).max(text_width(&self.row_label, FONT)) + GAP;
        let even = ((width - left - MARGIN) / self.columns.len().max(1) as f64).clamp(NARROW, WIDE);
        let numbers: Vec<String> = self.numbers().map(significant).collect();
        HeatmapLayout { left, column: if self.printed { even.max(widest(&numbers) + GAP) } else { even } }
    }

    fn numbers(&self) -> impl Iterator<Item = f64> {
        self.cells.iter().filter_map(|cell| match cell.content {
            CellContent::Number(number) => Some(number),
            CellContent::Sign(_) => None,
        })
    }

    fn extent(&self) -> AxisExtent {
        match self.range {
            Some((low, high)) => AxisExtent::without_margin(&self.value, [low, high].into_iter()),
            None => AxisExtent::without_margin(&self.value, self.numbers()),
        }
    }

    fn draw_names(&self, drawing: &Drawing, layout: &HeatmapLayout) {
        let middle = layout.left + layout.column * self.columns.len() as f64 / 2.0;
        // Centred above the columns, but not beyond the edge.
        let half = text_width(&self.column_label, FONT) / 2.0;
        let middle = middle.min(drawing.width - half).max(half);
        drawing.add(DrawnMark::text(&self.column_label, (middle, 9.0), TextAnchor::Middle, Ink::TEXT));
        drawing.add(DrawnMark::text(&self.row_label, (layout.left - GAP, HEAD - 12.0), TextAnchor::End, Ink::TEXT));
        let widest = self.columns.iter().map(|name| text_width(name, FONT)).fold(0.0, f64::max);
        // If columns are narrower than their names, only every second or third is named.
        let stride = ((widest + GAP) / layout.column).ceil().max(1.0) as usize;
        for (i, name) in self.columns.iter().enumerate().step_by(stride) {
            let x = layout.left + layout.column * (i as f64 + 0.5);
            drawing.add(DrawnMark::text(name, (x, HEAD - 12.0), TextAnchor::Middle, Ink::MUTED));
        }
        for (i, name) in self.rows.iter().enumerate() {
            drawing.add(DrawnMark::text(
                name,
                (layout.left - GAP, HEAD + ROW * (i as f64 + 0.5)),
                TextAnchor::End,
                Ink::MUTED,
            ));
        }
    }

    fn draw_cell(&self, drawing: &Drawing, area: PixelArea, extent: &AxisExtent, cell: &HeatCell) {
        let inside = area.inset(0.5);
        match cell.content {
            CellContent::Sign(sign) => draw_sign(drawing, inside, sign, &cell.label),
            CellContent::Number(number) => match extent.position(number).map(|at| extent.share(at)) {
                None => draw_sign(drawing, inside, CellSign::Blank, &cell.label),
                Some(share) => {
                    drawing.add(
                        DrawnMark::rect(inside, Ink::FILLED).alpha(strength(share, self.printed)).tip(&cell.label),
                    );
                    if self.printed {
                        drawing.add(DrawnMark::text(significant(number), area.middle(), TextAnchor::Middle, Ink::TEXT));
                    }
                }
            },
        }
    }

    /// The colour scale, with the numbers at both ends.
    fn scale(&self) -> Drawing {
        let extent = self.extent();
        let [low, high] = [extent.low, extent.high].map(|end| tick_text(extent.value(end)));
        let left = text_width(&low, FONT) + 4.0;
        let right = left + STEPS as f64 * SIGN;
        let scale = Drawing::new(right + 4.0 + text_width(&high, FONT), SIGN);
        scale.add(DrawnMark::text(low, (0.0, SIGN / 2.0), TextAnchor::Start, Ink::TEXT));
        for step in 0..STEPS {
            let at = left + step as f64 * SIGN;
            let alpha = strength(step as f64 / (STEPS - 1) as f64, self.printed);
            scale.add(DrawnMark::rect(PixelArea::new((at, 0.0), (at + SIGN, SIGN)), Ink::FILLED).alpha(alpha));
        }
        scale.add(DrawnMark::text(high, (right + 4.0, SIGN / 2.0), TextAnchor::Start, Ink::TEXT));
        scale
    }
}

fn draw_sign(drawing: &Drawing, area: PixelArea, sign: CellSign, label: &str) {
    let (x, y) = area.middle();
    match sign {
        CellSign::Cross => {
            drawing.add(DrawnMark::rect(area, Ink::FAILED).tip(label));
            let strokes =
                vec![vec![(x - 3.0, y - 3.0), (x + 3.0, y + 3.0)], vec![(x - 3.0, y + 3.0), (x + 3.0, y - 3.0)]];
            drawing.add(DrawnMark::lines(strokes, Ink::PAPER, 2.0));
        }
        CellSign::Dot => {
            drawing.add(DrawnMark::rect(area, Ink::SKIPPED).tip(label));
            drawing.add(DrawnMark::rect(PixelArea::new((x - 1.5, y - 1.5), (x + 1.5, y + 1.5)), Ink::FAILED));
        }
        CellSign::Hole => {
            drawing.add(DrawnMark::rect(area, Ink::FILLED).alpha(strength(0.6, false)).tip(label));
            drawing.add(DrawnMark::new(MarkShape::Circle((x, y), 3.0), Ink::PAPER));
        }
        CellSign::Blank => drawing.add(DrawnMark::rect(area, Ink::GRID).alpha(0.4).tip(label)),
    }
}
