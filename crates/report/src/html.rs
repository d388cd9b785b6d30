//! A page as one self-contained HTML file: style and drawings inline, nothing fetched, nothing scripted.

use super::chart::Chart;
use super::page::{Block, Chapter, Fact, Page, Tone};
use super::printable::is_obeyed;
use super::svg;
use super::table::{Align, Cell, Column, Table};

const STYLE: &str = include_str!("page.css");

impl Page {
    /// The whole file. Equal pages give equal bytes.
    pub fn to_html(&self) -> String {
        let title = escape(&self.title);
        let contents: String = numbered(&self.chapters)
            .map(|(id, chapter)| format!("<li><a href=\"#{id}\">{}</a></li>\n", escape(&chapter.title)))
            .collect();
        let chapters: String = numbered(&self.chapters).map(|(id, chapter)| chapter_html(&id, chapter)).collect();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
             <body>\n<header>\n<h1>{title}</h1>\n<p>{}</p>\n</header>\n\
             <nav aria-label=\"Contents\">\n<ul>\n{contents}</ul>\n</nav>\n<main>\n{chapters}</main>\n</body>\n</html>\n",
            escape(&self.subtitle)
        )
    }
}

/// Text as HTML content or attribute value.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // No control may stand in HTML, and marks of direction would turn around what follows.
            other if is_obeyed(other) => out.push(char::REPLACEMENT_CHARACTER),
            other => out.push(other),
        }
    }
    out
}

fn numbered(chapters: &[Chapter]) -> impl Iterator<Item = (String, &Chapter)> {
    chapters.iter().enumerate().map(|(i, chapter)| (format!("section-{}", i + 1), chapter))
}

fn chapter_html(id: &str, chapter: &Chapter) -> String {
    let is_chart = |block: &Block| matches!(block, Block::Chart(_));
    // Neighbouring charts share a grid, so that the page uses the width it has.
    let groups = chapter.blocks.chunk_by(|a, b| is_chart(a) && is_chart(b));
    let body: String = groups
        .map(|group| {
            let inner: String = group.iter().map(block_html).collect();
            if is_chart(&group[0]) { format!("<div class=\"charts\">\n{inner}</div>\n") } else { inner }
        })
        .collect();
    format!("<section id=\"{id}\">\n<h2>{}</h2>\n{body}</section>\n", escape(&chapter.title))
}

fn block_html(block: &Block) -> String {
    match block {
        Block::Text(text) => format!("<p>{}</p>\n", escape(text)),
        Block::Verdict(tone, text) => verdict_html(*tone, text),
        Block::Headline(facts) => format!("<dl class=\"headline\">\n{}</dl>\n", facts_html(facts)),
        Block::Facts(facts) => format!("<dl class=\"facts\">\n{}</dl>\n", facts_html(facts)),
        Block::List(items) => {
            let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
            format!("<ul>\n{items}</ul>\n")
        }
        Block::Table(table) => table_html(table, &format!("<caption>{}</caption>\n", escape(&table.title))),
        Block::Folded(table) => {
            let title = escape(&table.title);
            format!("<details>\n<summary>{title}</summary>\n{}</details>\n", table_html(table, ""))
        }
        Block::Chart(chart) => chart_html(chart),
        Block::Source(title, text) => {
            let (title, text) = (escape(title), escape(text));
            format!("<details>\n<summary>{title}</summary>\n<pre tabindex=\"0\">{text}</pre>\n</details>\n")
        }
    }
}

fn verdict_html(tone: Tone, text: &str) -> String {
    let (class, word) = match tone {
        Tone::Good => ("good", "Good"),
        Tone::Caution => ("caution", "Caution"),
        Tone::Bad => ("bad", "Do not rely on it"),
    };
    format!("<p class=\"verdict {class}\"><strong>{word}.</strong> {}</p>\n", escape(text))
}

fn facts_html(facts: &[Fact]) -> String {
    let one = |fact: &Fact| {
        let remark = match fact.remark.as_str() {
            "" => String::new(),
            remark => format!(" <small>{}</small>", escape(remark)),
        };
        let (name, value) = (escape(&fact.name), escape(&fact.value.to_string()));
        format!("<div><dt>{name}</dt><dd>{value}{remark}</dd></div>\n")
    };
    facts.iter().map(one).collect()
}

fn table_html(table: &Table, caption: &str) -> String {
    let head: String = table
        .columns
        .iter()
        .map(|column| format!("<th scope=\"col\"{}>{}</th>", align(column), escape(&column.heading)))
        .collect();
    let body: String = table
        .rows
        .iter()
        .map(|row| {
            let cells: String = row.iter().zip(&table.columns).map(|(cell, column)| cell_html(cell, column)).collect();
            format!("<tr>{cells}</tr>\n")
        })
        .collect();
    format!(
        // What is wider than the page can be scrolled, with the keyboard too.
        "<div class=\"table\" role=\"region\" aria-label=\"{}\" tabindex=\"0\">\n<table>\n{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>\n",
        escape(&table.title)
    )
}

fn cell_html(cell: &Cell, column: &Column) -> String {
    format!("<td{}>{}</td>", align(column), escape(&cell.to_string()))
}

fn align(column: &Column) -> &'static str {
    match column.align {
        Align::Left => "",
        Align::Right => " class=\"number\"",
    }
}

fn chart_html(chart: &Chart) -> String {
    let drawing = svg::draw(chart);
    let entries: String =
        drawing.legend.iter().map(|(sign, name)| format!("<li>{}{}</li>\n", sign.trim_end(), escape(name))).collect();
    let (title, caption) = (escape(&chart.title), escape(&chart.caption));
    format!(
        "<figure>\n<h3>{title}</h3>\n<ul class=\"legend\">\n{entries}</ul>\n{}<figcaption>{caption}</figcaption>\n</figure>\n",
        drawing.svg
    )
}
