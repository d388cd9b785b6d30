//! Writes `report.html`: the answer, what to change, what was found for other programs.

use super::{Shown, tables};
use perf4sight_base::units::{Milliseconds, grouped};
use perf4sight_report::{Block, Fact, Page, sentence};

/// The whole page.
pub(super) fn of(shown: &Shown) -> Page {
    let mut page = Page::new("What to change in distributed training", subtitle(shown));
    page.chapter("The answer", answer(shown));
    page.chapter("For other programs", [Block::Table(tables::others(shown))]);
    page
}

fn subtitle(shown: &Shown) -> String {
    let step = &shown.start.recorded.typical;
    format!("{} ranks, {} operations a step.", step.ranks.len(), grouped(step.graph.nodes().len() as u64))
}

fn answer(shown: &Shown) -> Vec<Block> {
    let facts = vec![Fact::new("a step as it is", Milliseconds(shown.start.before() as f64 / 1e6))];
    let mut blocks =
        vec![Block::Text(shown.answer.clone()), Block::Headline(facts), Block::Table(tables::proposals(shown))];
    let remarks = shown.found.nothing.iter().chain(&shown.warnings).map(|remark| sentence(remark));
    let remarks: Vec<String> = remarks.collect();
    blocks.extend(Some(remarks).filter(|remarks| !remarks.is_empty()).map(Block::List));
    blocks
}
