//! The HTML page: one file that fetches nothing and needs no script, read on phones and with the keyboard, whatever texts it is given.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

#[path = "../examples/charts.rs"]
mod gallery;

use perf4sight_report::{
    AnswerTone, Axis, Bars, Block, Chart, Colour, Fact, Page, Plot, Series, Table, TableColumn, Theme, Timeline,
    TimelineSpan,
};
use std::path::Path;
use std::process::Command;

/// Every kind of block once, all words made by one function.
fn page(word: impl Fn(&str) -> String) -> Page {
    let mut page = Page::new(word("title"), word("subtitle"));
    let mut table =
        Table::new(word("table"), [TableColumn::text("variant", word("variant")), TableColumn::number("n", "n")]);
    table.row([word("name").into(), 12.5.into()]);
    let fact = Fact::new(word("processor"), word("value")).remark(word("remark"));
    page.chapter(
        word("chapter"),
        [
            Block::Verdict(AnswerTone::Caution, word("verdict")),
            Block::Headline(vec![fact.clone()]),
            Block::Facts(vec![fact]),
            Block::Text(word("text")),
            Block::List(vec![word("item")]),
            Block::Table(table.clone()),
            Block::Folded(table),
            Block::Source(word("source"), word("[a]\nb = '<c>'\n")),
        ],
    );
    page.chapter("Charts", gallery::charts().into_iter().map(|(_, chart)| Block::Chart(chart)));
    page
}

fn plain(word: &str) -> String {
    word.to_string()
}

#[test]
fn a_page_is_one_file_that_fetches_nothing() {
    let html = page(plain).to_html();
    assert!(!html.contains("<b>"), "text must be escaped");
    for reference in ["src=", "url(", "@import", "<link", "http:", "https:"] {
        assert!(!html.contains(reference), "{reference} would be fetched");
    }
    assert_eq!(html, page(plain).to_html(), "equal pages, equal bytes");
}

#[test]
fn only_a_page_with_a_timeline_has_a_script() {
    let charts = || gallery::charts().into_iter().map(|(_, chart)| chart);
    let scripts = |charts: Vec<Chart>| {
        let mut page = Page::new("title", "subtitle");
        page.chapter("Charts", charts.into_iter().map(Block::Chart));
        page.to_html().matches("<script").count()
    };
    let is_timeline = |chart: &Chart| matches!(chart.plot, Plot::Timeline(_));
    let (timelines, others): (Vec<_>, Vec<_>) = charts().partition(is_timeline);
    assert_eq!(scripts(others), 0);
    // The data of each, and the program once.
    assert_eq!(scripts(timelines.clone()), timelines.len() + 1);
}

#[test]
fn every_tag_is_closed_and_every_drawing_described() {
    let html = page(plain).to_html();
    for tag in [
        "svg", "text", "title", "section", "figure", "table", "tr", "td", "th", "dl", "div", "ul", "li", "details",
        "rect", "path", "circle",
    ] {
        let opened = html.matches(&format!("<{tag} ")).count() + html.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "<{tag}>");
    }
    let described = html.matches("role=\"img\" aria-label=").count();
    // The timeline, the flame and the stacked area are drawn for wide and for narrow pages.
    assert_eq!(described, gallery::charts().len() + 3);
    assert_eq!(html.matches("<svg ").count(), described + html.matches("aria-hidden=\"true\"").count());
}

#[test]
fn no_text_becomes_markup() {
    let evil = |word: &str| format!("{word}</script></title></style><b>\" onload=\"alert(1)\" ' & \u{202e}\u{1b}[2J");
    let html = page(evil).to_html();
    assert_eq!(html.matches("</script").count(), html.matches("<script").count());
    for markup in ["<b>", "\" onload=\"", "\u{202e}", "\u{1b}"] {
        assert!(!html.contains(markup), "{markup:?} came through");
    }
    assert_eq!(html.matches("</title></svg>").count(), 0);
    let words = [
        "title",
        "subtitle",
        "table",
        "variant",
        "name",
        "processor",
        "value",
        "remark",
        "chapter",
        "verdict",
        "text",
        "item",
        "source",
    ];
    for word in words {
        let escaped = format!(
            "{word}&lt;/script&gt;&lt;/title&gt;&lt;/style&gt;&lt;b&gt;&quot; onload=&quot;alert(1)&quot; ' &amp; \u{fffd}\u{fffd}[2J"
        );
        assert!(html.contains(&escaped), "{word} is missing");
    }
}

#[test]
fn drawings_take_their_colours_from_the_page() {
    let html = page(plain).to_html();
    let drawings: Vec<&str> = html.split("<svg ").skip(1).map(|rest| rest.split("</svg>").next().unwrap()).collect();
    assert!(drawings.iter().all(|svg| !svg.contains("=\"#")), "a fixed colour cannot follow light and dark");
    let scatter = drawings.iter().find(|svg| svg.contains("Predicted against measured")).unwrap();
    assert!(scatter.contains("<title>&lt;b&gt;own &amp; odd&lt;/b&gt; row 3</title>"));
    assert_eq!(scatter.matches("<title>").count(), 120, "one text under the pointer per point");
}

#[test]
fn charts_can_be_read_on_a_phone() {
    let html = page(plain).to_html();
    for drawing in html.split("<div class=\"drawing").skip(1) {
        let number = |name: &str, end: char| -> f64 {
            let (_, rest) = drawing.split_once(name).unwrap();
            rest.split(end).next().unwrap().parse().unwrap()
        };
        let (width, font) = (number(" width=\"", '"'), number("font-size=\"", '"'));
        // 420 px less the margins of page and figure leave 374; a drawing shrinks to its least width, then it is scrolled.
        let shown = font * f64::min(1.0, f64::max(374.0, number("min-width: ", 'p')) / width);
        assert!(shown >= 9.9, "{shown} px in a drawing {width} wide");
        // What needs no scrolling is no stop of the keyboard.
        assert_eq!(drawing.split('>').next().unwrap().contains("tabindex"), width > 480.0);
    }
}

#[test]
fn bars_break_off_at_the_end_of_their_axis() {
    let bars = |most| {
        let series = vec![
            Series::new("own", [Some(5.0), Some(12.0)]).coloured(Colour::Subject),
            Series::new("other", [Some(20.0), Some(135.0)]).coloured(Colour::Rival),
        ];
        let categories = ["a", "b"].map(String::from).to_vec();
        let plot = Bars { categories, value: Axis::linear("error"), series, reference: None, most };
        Chart::new("", "", Plot::Bars(plot)).to_svg(Theme::Light)
    };
    let broken = bars(Some(30.0));
    // All four numbers are shown, the axis ends at 30.
    for number in ["5.00", "12.0", "20.0", "135", "30"] {
        assert!(broken.contains(&format!(">{number}</text>")), "{number}");
    }
    assert!(!broken.contains(">100<") && bars(None).contains(">100<"), "the axis goes beyond its end");
    assert!(broken.matches("#ffffff").count() > bars(None).matches("#ffffff").count(), "the break is not shown");
}

#[test]
fn wide_tables_and_sources_can_be_scrolled_with_the_keyboard() {
    let html = page(plain).to_html();
    let regions = html.matches("<div class=\"table\" role=\"region\" aria-label=").count();
    assert_eq!(regions, html.matches("<table>").count());
    assert!(html.contains("<pre tabindex=\"0\">[a]\nb = '&lt;c&gt;'\n</pre>"));
}

#[test]
fn long_numbers_of_a_headline_are_smaller() {
    let mut page = Page::new("", "");
    page.chapter("", [Block::Headline(["0.123", "< 0.000001"].map(|value| Fact::new("score", value)).into())]);
    let html = page.to_html();
    // A card is at least 11 rem wide; ten digits of 1.75 rem are wider than its inside.
    assert!(html.contains("<dd>0.123</dd>") && html.contains("<dd class=\"long\">&lt; 0.000001</dd>"), "{html}");
}

#[test]
#[ignore = "needs chromium; run with: cargo test -p perf4sight-report browser -- --ignored"]
fn a_browser_shows_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    std::fs::write(&file, page(plain).to_html()).unwrap();
    let dom = browse(&file, folder.path(), "--dump-dom");
    assert!(dom.contains("<title>title</title>"), "{dom}");
    assert_eq!(dom.matches("<figure").count(), gallery::charts().len());
}

#[test]
#[ignore = "needs chromium; run with: cargo test -p perf4sight-report browser -- --ignored"]
fn a_browser_finds_and_shows_a_span_of_a_timeline() {
    let span = |start: f64, end: f64, name: &str| TimelineSpan { track: 0, start, end, name: name.to_owned() };
    let spans = [span(0.0, 60.0, "forward"), span(60.0, 60.5, "</script> step"), span(70.0, 70.25, "Step")];
    let timeline = Timeline {
        time: Axis::linear("time (ms)"),
        tracks: vec!["thread".to_owned()],
        series: vec![Series::new("operation", spans)],
    };
    let mut page = Page::new("title", "subtitle");
    page.chapter("Charts", [Block::Chart(Chart::new("One step", "How to read it.", Plot::Timeline(timeline)))]);
    // What a user does: types, and presses Enter twice.
    let user = "<script>const box = document.querySelector('.live'), search = box.querySelector('input');\
        search.value = 'STEP'; search.oninput(); const first = box.querySelector('output').textContent;\
        search.onkeydown({ key: 'Enter' }); search.onkeydown({ key: 'Enter' });\
        document.title = first + '|' + box.querySelector('output').textContent;</script>";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    std::fs::write(&file, page.to_html().replace("</body>", &format!("{user}</body>"))).unwrap();
    let dom = browse(&file, folder.path(), "--dump-dom");
    // 60 to 60.5 and 70 to 70.25 ms.
    let told = "2 found, together 0.75|2 of 2: Step (operation): 0.25 from 70 to 70.25";
    assert!(dom.contains(&format!("<title>{told}</title>")), "{dom}");
}

fn browse(file: &Path, profile: &Path, what: &str) -> String {
    let quiet = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", what])
        .args(quiet)
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("chromium is installed");
    String::from_utf8(output.stdout).unwrap()
}
