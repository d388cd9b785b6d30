//! A page as one self-contained HTML file: style and drawings inline, nothing fetched. Text is escaped by the templates.
//! All is there without scripts; one lets people zoom into timelines.

use super::chart::{COLUMN, Chart, Plot};
use super::page::{AnswerTone, Block, Chapter, Fact, Page};
use super::printable::is_obeyed;
use super::table::{Align, Table, TableColumn};
use super::theme;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use perf4sight_base::overwrite::PROGRAM;

const STYLE: &str = include_str!("page.css");
const TIMELINES: &str = include_str!("chart/timeline.js");

impl Page {
    /// The whole file. Equal pages give equal bytes.
    pub fn to_html(&self) -> String {
        clean_text(html! {
            (DOCTYPE) "\n"
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="generator" content=(PROGRAM);
                    title { (self.title) }
                    style { "\n" (PreEscaped(theme::variables())) (PreEscaped(STYLE)) }
                }
                "\n"
                body {
                    header { h1 { (self.title) } p { (self.subtitle) } }
                    "\n"
                    nav aria-label="Contents" {
                        ul { @for (id, chapter) in self.numbered_chapters() { li { a href={ "#" (id) } { (chapter.title) } } "\n" } }
                    }
                    "\n"
                    main { @for (id, chapter) in self.numbered_chapters() { (chapter_html(&id, chapter)) "\n" } }
                    @if self.has_timeline() {
                        script { "\n" (PreEscaped(TIMELINES)) }
                    }
                }
            }
            "\n"
        })
    }

    fn has_timeline(&self) -> bool {
        let mut blocks = self.chapters.iter().flat_map(|chapter| &chapter.blocks);
        blocks.any(|block| matches!(block, Block::Chart(Chart { plot: Plot::Timeline(_), .. })))
    }

    fn numbered_chapters(&self) -> impl Iterator<Item = (String, &Chapter)> {
        self.chapters.iter().enumerate().map(|(i, chapter)| (format!("section-{}", i + 1), chapter))
    }
}

/// The finished text without control and direction characters: HTML allows no control characters, and direction
/// characters would reverse the text after them. The templates contain none.
pub(crate) fn clean_text(markup: Markup) -> String {
    markup.into_string().replace(is_obeyed, "\u{fffd}")
}

fn chapter_html(id: &str, chapter: &Chapter) -> Markup {
    let is_chart = |block: &Block| matches!(block, Block::Chart(_));
    html! {
        section id=(id) {
            h2 { (chapter.title) }
            "\n"
            // Neighbouring charts share a grid, so that the page uses the width it has.
            @for group in chapter.blocks.chunk_by(|a, b| is_chart(a) && is_chart(b)) {
                @if is_chart(&group[0]) {
                    div.charts { @for block in group { (block_html(block)) } }
                } @else {
                    @for block in group { (block_html(block)) }
                }
                "\n"
            }
        }
    }
}

fn block_html(block: &Block) -> Markup {
    match block {
        Block::Text(text) => html! { p { (text) } },
        Block::Verdict(tone, text) => verdict_html(*tone, text),
        Block::Headline(facts) => html! { dl.headline { (facts_html(facts, CARD)) } },
        Block::Facts(facts) => html! { dl.facts { (facts_html(facts, usize::MAX)) } },
        Block::List(items) => html! { ul { @for item in items { li { (item) } "\n" } } },
        Block::Table(table) => table_html(table, true),
        Block::Folded(table) => html! { details { summary { (table.title) } (table_html(table, false)) } },
        Block::Chart(chart) => chart_html(chart),
        // To be copied, and seen before.
        Block::Source(title, text) => html! { details open { summary { (title) } pre tabindex="0" { (text) } } },
    }
}

fn verdict_html(tone: AnswerTone, text: &str) -> Markup {
    let (class, word) = match tone {
        AnswerTone::Good => ("good", "Good"),
        AnswerTone::Caution => ("caution", "Caution"),
        AnswerTone::Bad => ("bad", "Do not rely on it"),
    };
    html! { p class={ "verdict " (class) } { strong { (word) "." } " " (text) } }
}

/// Characters in large type that fit in a card.
const CARD: usize = 9;

fn facts_html(facts: &[Fact], room: usize) -> Markup {
    html! {
        @for (fact, value) in facts.iter().map(|fact| (fact, fact.value.to_string())) {
            div {
                dt { (fact.name) }
                dd class=[(value.chars().count() > room).then_some("long")] { (value) @if !fact.remark.is_empty() { " " small { (fact.remark) } } }
            }
            "\n"
        }
    }
}

fn table_html(table: &Table, captioned: bool) -> Markup {
    html! {
        // A table wider than the page can be scrolled, also with the keyboard.
        div.table role="region" aria-label=(table.title) tabindex="0" {
            table {
                @if captioned { caption { (table.title) } }
                thead { tr { @for column in &table.columns { th scope="col" class=[class(column)] { (column.heading) } } } }
                "\n"
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (cell, column) in row.iter().zip(&table.columns) {
                                td class=[class(column)] { (cell.to_string()) }
                            }
                        }
                        "\n"
                    }
                }
            }
        }
    }
}

fn class(column: &TableColumn) -> Option<&'static str> {
    match column.align {
        Align::Left => None,
        Align::Right => Some("number"),
    }
}

fn chart_html(chart: &Chart) -> Markup {
    let (plot, description) = (chart.plot.as_draw(), chart.description());
    let drawings: Vec<_> = plot.widths().iter().map(|width| plot.draw(*width)).collect();
    // If there is a drawing for wide pages and one for narrow ones, the style shows one of them.
    let classes = if drawings.len() > 1 { ["drawing wide", "drawing narrow"] } else { ["drawing", ""] };
    let wide = drawings.iter().any(|drawing| drawing.width > COLUMN);
    html! {
        figure class=[wide.then_some("whole")] {
            h3 { (chart.title) }
            ul.legend { @for entry in plot.legend() { li { (entry.sign.to_markup(None)) (entry.name) } "\n" } }
            @for (drawing, class) in drawings.iter().zip(classes) {
                // A drawing wider than the page can be scrolled, also with the keyboard.
                div class=(class) tabindex=[(drawing.width > COLUMN).then_some("0")] {
                    (drawing.to_markup(Some(&description)))
                    @if !drawing.note.is_empty() { p.note { (drawing.note) } }
                }
            }
            figcaption { (chart.caption) }
            @if let Some(spans) = plot.spans_json() {
                // Nothing in a name may end the element.
                script.spans type="application/json" { (PreEscaped(spans.replace('<', "\\u003c"))) }
            }
        }
        "\n"
    }
}
