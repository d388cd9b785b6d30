//! A table as aligned text, cut to the width of a terminal.

use super::printable::one_line;
use super::table::{Align, Table};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const GAP: usize = 2;
/// The minimum width of a text column when it is cut.
const NARROWEST: usize = 8;

impl Table {
    /// Title, headings, a rule and the rows. If the table is wider than `width`, the widest text columns are cut and
    /// end in `…`; numbers are never cut.
    pub fn to_text(&self, width: Option<usize>) -> String {
        let mut lines = self.lines(width);
        lines.push(String::new());
        lines.join("\n")
    }

    /// The lines of [`Table::to_text`]: the title if there is one, the headings, the rule, then one per row.
    pub(super) fn lines(&self, width: Option<usize>) -> Vec<String> {
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(|cell| one_line(&cell.to_string())).collect()).collect();
        let headings: Vec<String> = self.columns.iter().map(|column| one_line(&column.heading)).collect();
        let widths = self.widths(&headings, &rows, width);
        let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        let title = Some(one_line(&self.title)).filter(|title| !title.is_empty());
        let body = [headings, rule].into_iter().chain(rows);
        title.into_iter().chain(body.map(|cells| self.line(&cells, &widths))).collect()
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let padded: Vec<String> = cells
            .iter()
            .zip(widths)
            .zip(&self.columns)
            .map(|((cell, width), column)| pad(&cut(cell, *width), *width, column.align))
            .collect();
        padded.join(&" ".repeat(GAP)).trim_end().to_string()
    }

    fn widths(&self, headings: &[String], rows: &[Vec<String>], limit: Option<usize>) -> Vec<usize> {
        let widest = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
        let mut widths: Vec<usize> =
            headings.iter().enumerate().map(|(column, heading)| heading.width().max(widest(column))).collect();
        let room = limit.unwrap_or(usize::MAX).saturating_sub(GAP * widths.len().saturating_sub(1));
        while widths.iter().sum::<usize>() > room {
            let words = (0..widths.len()).filter(|i| self.columns[*i].align == Align::Left && widths[*i] > NARROWEST);
            let Some(widest) = words.max_by_key(|i| widths[*i]) else { break };
            widths[widest] -= 1;
        }
        widths
    }
}

fn pad(text: &str, width: usize, align: Align) -> String {
    let blanks = " ".repeat(width.saturating_sub(text.width()));
    match align {
        Align::Left => format!("{text}{blanks}"),
        Align::Right => format!("{blanks}{text}"),
    }
}

fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_string();
    }
    let mut used = 1;
    let kept = text.chars().take_while(|c| {
        used += c.width().unwrap_or(0);
        used <= width
    });
    kept.chain(['…']).collect()
}

#[cfg(test)]
mod tests;
