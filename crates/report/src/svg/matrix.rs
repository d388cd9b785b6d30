//! A grid of coloured cells with names along both sides.

use super::super::chart::{Matrix, MatrixCell, State};
use super::SIGN;
use super::canvas::{Anchor, Canvas, FONT, Ink, Pixel, UNITS};

/// Height of a row in pixels.
const ROW: i32 = 20;
/// Widest and narrowest a column gets, in pixels.
const COLUMN: std::ops::RangeInclusive<i32> = 26..=48;
/// Width the columns share where there are many, in pixels.
const WIDTH: i32 = 400;
/// Height of the column names and of what they are, in pixels.
const HEAD: i32 = 44;

/// Places in the grid, in pixels.
struct Layout {
    left: i32,
    column: i32,
}

/// The chart as SVG.
pub fn draw(plot: &Matrix, description: &str) -> String {
    let layout = Layout::of(plot);
    let columns = plot.columns.len() as i32;
    let size = (layout.left + columns * layout.column + 4, HEAD + plot.rows.len() as i32 * ROW + 4);
    Canvas::drawing((size.0 as u32, size.1 as u32), description, |canvas| {
        draw_names(canvas, plot, &layout);
        for (i, cell) in plot.cells.iter().enumerate() {
            let (row, column) = (i as i32 / columns.max(1), i as i32 % columns.max(1));
            let corner = (layout.left + column * layout.column, HEAD + row * ROW);
            let opposite = (corner.0 + layout.column, corner.1 + ROW);
            draw_cell(canvas, [units(corner), units(opposite)], cell);
        }
    })
}

/// The states in the plot's own words.
pub fn legend(plot: &Matrix) -> Vec<(String, String)> {
    let sign = |state: &State| {
        let cell = MatrixCell { state: *state, label: String::new() };
        Canvas::sign(SIGN, |canvas| draw_cell(canvas, canvas.whole(), &cell))
    };
    plot.legend.iter().map(|(state, name)| (sign(state), name.clone())).collect()
}

impl Layout {
    fn of(plot: &Matrix) -> Self {
        let longest = plot.rows.iter().chain([&plot.row_label]).map(|name| name.chars().count()).max().unwrap_or(0);
        let column = WIDTH / plot.columns.len().max(1) as i32;
        Layout { left: longest as i32 * FONT * 6 / 10 + 12, column: column.clamp(*COLUMN.start(), *COLUMN.end()) }
    }
}

fn draw_names(canvas: &Canvas, plot: &Matrix, layout: &Layout) {
    let middle = layout.left + layout.column * plot.columns.len() as i32 / 2;
    canvas.text(&plot.column_label, units((middle, 9)), Anchor::Middle, Ink::Text);
    canvas.text(&plot.row_label, units((layout.left - 8, HEAD - 12)), Anchor::Right, Ink::Text);
    let longest = plot.columns.iter().map(|name| name.chars().count()).max().unwrap_or(0) as i32;
    // Where columns are narrower than their names, only every second or third is named.
    let stride = (longest * FONT * 8 / 10 / layout.column + 1) as usize;
    for (i, name) in plot.columns.iter().enumerate().step_by(stride) {
        let x = layout.left + layout.column * i as i32 + layout.column / 2;
        canvas.text(name, units((x, HEAD - 12)), Anchor::Middle, Ink::Muted);
    }
    for (i, name) in plot.rows.iter().enumerate() {
        canvas.text(name, units((layout.left - 8, HEAD + ROW * i as i32 + ROW / 2)), Anchor::Right, Ink::Muted);
    }
}

/// Colour is never the only sign: a failure also carries a cross, an untried cell a dot.
fn draw_cell(canvas: &Canvas, [(left, top), (right, bottom)]: [Pixel; 2], cell: &MatrixCell) {
    let inside = [(left + 1, top + 1), (right - 1, bottom - 1)];
    let (x, y) = ((left + right) / 2, (top + bottom) / 2);
    match cell.state {
        State::Filled(share) => canvas.rect(inside, Ink::Filled, 0.15 + 0.85 * share.clamp(0.0, 1.0), &cell.label),
        State::Failed => {
            canvas.rect(inside, Ink::Failed, 1.0, &cell.label);
            // One line through the middle twice: profiles have thousands of such cells.
            let cross = vec![(x - 6, y - 6), (x + 6, y + 6), (x, y), (x - 6, y + 6), (x + 6, y - 6)];
            canvas.path(cross, Ink::Paper, 4);
        }
        State::Skipped => {
            canvas.rect(inside, Ink::Skipped, 1.0, &cell.label);
            canvas.rect([(x - 3, y - 3), (x + 3, y + 3)], Ink::Failed, 1.0, "");
        }
        State::Unknown => canvas.rect(inside, Ink::Grid, 0.4, &cell.label),
    }
}

fn units((x, y): Pixel) -> Pixel {
    (x * UNITS, y * UNITS)
}
