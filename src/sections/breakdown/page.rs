//! `report.html`.

use super::{Shown, answer, tables};
use crate::report::{Block, Page};

/// The whole page.
pub(super) fn of(shown: &Shown) -> Page {
    let traces: Vec<String> = shown.run.traces.iter().map(|ranked| ranked.trace.file.display().to_string()).collect();
    let mut page = Page::new("Where an iteration's time goes", traces.join(", "));
    let blocks = [Block::Text(answer::of(&shown.run)), Block::Table(tables::classes(&shown.run))];
    let warnings = Some(shown.warnings.clone()).filter(|warnings| !warnings.is_empty()).map(Block::List);
    page.chapter("Classes", blocks.into_iter().chain(warnings));
    page
}
