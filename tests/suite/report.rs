//! Tables, the console and the HTML page: what is written where, and that equal data give equal bytes.

use crate::fixtures::{Sink, settings};
use perf4sight::report::{
    Axis, Bars, Block, Chart, Colour, Column, Console, Fact, Histogram, Line, Matrix, MatrixCell, Mode, Page, Plot,
    Point, Scatter, Series, State, Table, Tone,
};
use perf4sight::units::{Milliseconds, Percent};
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

struct Broken(io::ErrorKind);

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(self.0.into())
    }
}

fn say_everything(mode: Mode) -> (String, String) {
    let (out, err) = (Sink::default(), Sink::default());
    let console = Console::writing_to(settings(mode), out.clone(), err.clone());
    let mut table = Table::new("", [Column::number("n", "n")]);
    table.row([3u64.into()]);
    console.line("line");
    console.table(&table);
    console.note("note");
    console.warn("careful");
    console.json(&serde_json::json!({ "rows": 3 }));
    let progress = console.progress(40, "runs");
    (0..40).for_each(|_| progress.advance(1));
    drop(progress);
    console.finish().unwrap();
    (out.text(), err.text())
}

#[test]
fn results_go_to_stdout_and_the_rest_to_stderr() {
    let (out, err) = say_everything(Mode::Normal);
    assert_eq!(out, "line\n\nn\n─\n3\n");
    assert!(err.starts_with("note\nwarning: careful\nruns: 4/40 after 0s, "), "{err}");
    assert!(err.ends_with("runs: 40/40 after 0s, done\n"), "{err}");
    assert_eq!(err.lines().filter(|line| line.starts_with("runs:")).count(), 10);
}

#[test]
fn progress_never_runs_past_its_end() {
    let err = Sink::default();
    let console = Console::writing_to(settings(Mode::Normal), Sink::default(), err.clone());
    let progress = console.progress(2, "runs");
    (0..3).for_each(|_| progress.advance(1));
    progress.expect(7);
    progress.advance(7);
    let lines: Vec<String> = err.text().lines().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(lines, ["1/2", "2/2", "10/10"]);
}

#[test]
fn quiet_keeps_results_and_warnings() {
    let (out, err) = say_everything(Mode::Quiet);
    assert_eq!((out.as_str(), err.as_str()), ("line\n\nn\n─\n3\n", "warning: careful\n"));
}

#[test]
fn json_mode_puts_one_document_on_stdout() {
    for (mode, said) in [(Mode::Json, "note\nwarning: careful\nruns: "), (Mode::QuietJson, "warning: careful\n")] {
        let (out, err) = say_everything(mode);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&out).unwrap(), serde_json::json!({ "rows": 3 }));
        assert!(err.starts_with(said) && (err == said) == (mode == Mode::QuietJson), "{err}");
    }
}

#[test]
fn a_reader_that_went_away_is_no_failure_but_a_full_disk_is() {
    for (kind, fine) in [(io::ErrorKind::BrokenPipe, true), (io::ErrorKind::StorageFull, false)] {
        let console = Console::writing_to(settings(Mode::Normal), Broken(kind), Sink::default());
        console.line("result");
        assert_eq!(console.finish().is_ok(), fine, "{kind:?}");
    }
}

const NETWORKS: [&str; 6] = ["resnet18", "resnet50", "mobilenetv2", "squeezenet", "mnasnet", "<b>own & odd</b>"];
const BATCHES: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// Every kind of block and plot once, on made-up but fixed numbers.
fn page() -> Page {
    let mut page = Page::new("Fingerprint of <cpu> & co", "training, two quantities");
    let mut table = Table::new("Worst rows", [Column::text("variant", "variant"), Column::number("ms", "latency")]);
    table.row(["<script>alert(1)</script>".into(), Milliseconds(12.5).into()]);
    page.chapter(
        "Verdict",
        [
            Block::Verdict(Tone::Caution, "Predictions are usually within 10 % & sometimes not.".into()),
            Block::Headline(vec![
                Fact::new("latency error", Percent(5.52)).remark("mean of 120 rows"),
                Fact::new("memory error", Percent(3.8)).remark("mean of 118 rows"),
            ]),
            Block::Text("A <i>paragraph</i>.".into()),
        ],
    );
    page.chapter("Charts", [scatter(), histogram(), bars(), line(), matrix()].map(Block::Chart));
    page.chapter(
        "Rest",
        [
            Block::Table(table.clone()),
            Block::Folded(table),
            Block::Facts(vec![Fact::new("processor", "a \"quoted\" name"), Fact::new("rows", 238u64)]),
            Block::List(vec!["resnet18_95: no log".into()]),
        ],
    );
    page
}

/// A spread that looks like errors do: several percent, now and then more.
fn error(i: usize) -> f64 {
    let phase = (i * 37 % 101) as f64 / 101.0 - 0.5;
    0.6 * phase * phase * phase + 0.1 * phase
}

fn scatter() -> Chart {
    let point = |n: usize, i: usize| {
        let x = 8.0 * (n + 1) as f64 * 1.25f64.powi(i as i32);
        Point { x, y: x * (1.0 + error(n * 17 + i)), label: format!("{} row {i}", NETWORKS[n]) }
    };
    let series = (0..6).map(|n| Series::new(NETWORKS[n], (0..20).map(|i| point(n, i))));
    let (x, y) = (Axis::log("measured (ms)"), Axis::log("predicted (ms)"));
    let plot = Scatter { x, y, band: 0.1, series: series.collect() };
    Chart::new("Predicted against measured", "On the line both are equal; the band is ±10 %.", Plot::Scatter(plot))
}

fn histogram() -> Chart {
    let series = (0..6).map(|n| Series::new(NETWORKS[n], (0..20).map(|i| 100.0 * error(n * 17 + i))));
    let plot = Histogram { x: Axis::linear("error (%)"), bin: 2.0, limit: 30.0, series: series.collect() };
    Chart::new("Errors", "Left of zero: predicted too little.", Plot::Histogram(plot))
}

fn bars() -> Chart {
    let series =
        ["latency", "memory"].map(|name| Series::new(name, (0..6).map(|n| (n != 2).then_some(3.5 + n as f64))));
    let categories = NETWORKS.map(String::from).to_vec();
    let plot = Bars {
        categories,
        value: Axis::linear("mean error (%)"),
        series: series.to_vec(),
        reference: Some(2.0),
        most: None,
    };
    Chart::new("Error by network", "Shorter is better.", Plot::Bars(plot))
}

fn line() -> Chart {
    let series = (0..6)
        .map(|n| Series::new(NETWORKS[n], BATCHES.map(|b| (b, 2.0 + n as f64 + 100.0 * error(b as usize).abs()))));
    let plot = Line { x: Axis::log("batch size"), y: Axis::linear("mean error (%)"), series: series.collect() };
    Chart::new("Error by batch size", "Lower is better.", Plot::Line(plot))
}

fn matrix() -> Chart {
    let state = |level: usize, batch: f64| match batch * (100 - level) as f64 / 3200.0 {
        share if share <= 1.0 => State::Filled(share),
        share if share <= 2.0 => State::Failed,
        _ => State::Skipped,
    };
    let levels = [0, 10, 30, 50, 70, 90];
    let cell = |level: usize, batch: f64| MatrixCell::new(state(level, batch), format!("level {level}, batch {batch}"));
    let plot = Matrix {
        row_label: "level".into(),
        column_label: "batch size".into(),
        rows: levels.map(|level| level.to_string()).to_vec(),
        columns: BATCHES.map(|batch| batch.to_string()).to_vec(),
        cells: levels.iter().flat_map(|level| BATCHES.map(|batch| cell(*level, batch))).collect(),
        legend: vec![
            (State::Filled(0.7), "fits".into()),
            (State::Failed, "out of memory".into()),
            (State::Skipped, "not tried".into()),
        ],
    };
    Chart::new("What fits", "Stronger colour takes more of the memory.", Plot::Matrix(plot))
}

#[test]
fn a_page_is_one_file_that_fetches_and_runs_nothing() {
    let html = page().to_html();
    assert!(!html.contains("<script") && !html.contains("<i>") && !html.contains("<b>"), "text must be escaped");
    for reference in ["src=", "url(", "@import", "<link", "http:", "https:"] {
        assert!(!html.contains(reference), "{reference} would be fetched");
    }
    assert_eq!(html, page().to_html(), "equal pages, equal bytes");
}

#[test]
fn every_tag_is_closed_and_every_drawing_described() {
    let html = page().to_html();
    for tag in
        ["svg", "text", "title", "section", "figure", "table", "tr", "td", "th", "dl", "div", "ul", "li", "details"]
    {
        let opened = html.matches(&format!("<{tag} ")).count() + html.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "<{tag}>");
    }
    let drawings = html.matches("<svg ").count();
    assert_eq!(
        drawings,
        html.matches("role=\"img\" aria-label=").count() + html.matches("aria-hidden=\"true\"").count()
    );
}

#[test]
fn drawings_take_their_colours_from_the_page() {
    let html = page().to_html();
    let drawings: Vec<&str> = html.split("<svg ").skip(1).map(|rest| rest.split("</svg>").next().unwrap()).collect();
    assert!(drawings.iter().all(|svg| !svg.contains("=\"#")), "a fixed colour cannot follow light and dark");
    let scatter = drawings.iter().find(|svg| svg.contains("Predicted against measured")).unwrap();
    assert!(scatter.contains("<title>&lt;b&gt;own &amp; odd&lt;/b&gt; row 3</title>"));
    assert_eq!(scatter.matches("<title>").count(), 120, "one text under the pointer per point");
}

/// The colours that a stylesheet names, on paper and in the dark.
fn colours(css: &str) -> [std::collections::BTreeMap<String, [f64; 3]>; 2] {
    let (light, dark) = css.split_once("prefers-color-scheme: dark").unwrap();
    [light, dark].map(|scheme| {
        let named = scheme.split("--").skip(1).filter_map(|rest| {
            let (name, value) = rest.split_once(": #")?;
            let part = |at: usize| Some(f64::from(u8::from_str_radix(value.get(at..at + 2)?, 16).ok()?));
            Some((name.to_owned(), [part(0)?, part(2)?, part(4)?]))
        });
        named.collect()
    })
}

/// Contrast as WCAG 2.2 defines it, of a colour that covers so much of its background.
fn contrast(colour: [f64; 3], alpha: f64, paper: [f64; 3]) -> f64 {
    let luminance = |rgb: [f64; 3]| {
        let linear = rgb
            .map(|part| part / 255.0)
            .map(|part| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    };
    let seen = std::array::from_fn(|part| alpha * colour[part] + (1.0 - alpha) * paper[part]);
    let [one, other] = [luminance(seen), luminance(paper)].map(|luminance| luminance + 0.05);
    f64::max(one / other, other / one)
}

#[test]
fn marks_stand_out_from_the_paper_in_light_and_dark() {
    for scheme in colours(include_str!("../../crates/report/src/page.css")) {
        let marks = scheme
            .iter()
            .filter(|(name, _)| name.starts_with("series-") || ["filled", "failed"].contains(&name.as_str()));
        for (name, colour) in marks {
            // WCAG asks for 3:1 of graphics; markers let a fifth of the paper through.
            let contrast = contrast(*colour, 0.8, scheme["paper"]);
            assert!(contrast >= 3.0, "--{name}: {contrast:.2}");
        }
        for name in ["subject", "variation", "rival", "truth"] {
            // Numbers are written on these in the colour of the paper.
            let least = if name == "variation" || name == "truth" { 3.0 } else { 4.5 };
            let contrast = contrast(scheme[name], 1.0, scheme["paper"]);
            assert!(contrast >= least, "--{name}: {contrast:.2}");
        }
        assert!(scheme.len() >= 20, "the stylesheet names its colours otherwise: {scheme:?}");
    }
}

#[test]
fn charts_can_be_read_on_a_phone() {
    let html = page().to_html();
    for figure in html.split("<figure>").skip(1) {
        let svg = figure.split("role=\"img\"").next().unwrap().rsplit("<svg ").next().unwrap();
        let width: f64 = svg.split('"').nth(1).unwrap().parse().unwrap();
        let text = figure.split("font-size=\"").nth(1).unwrap().split('"').next().unwrap();
        // 420 px less the margins of page and figure leave 374; the drawing has half pixels; plotters writes size / 1.24.
        let shown = text.parse::<f64>().unwrap() / 2.0 * f64::min(1.0, 374.0 / width);
        assert!(shown >= 10.0, "{shown} px in a drawing {width} wide");
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
        let mut page = Page::new("", "");
        page.chapter("", [Block::Chart(Chart::new("", "", Plot::Bars(plot)))]);
        page.to_html()
    };
    let broken = bars(Some(30.0));
    // All four numbers are told, the axis ends at 30.
    for number in ["5.00", "12.0", "20.0", "135", "30"] {
        assert!(
            broken.contains(&format!(">\n{number}\n</text>")) || broken.contains(&format!(">{number}</text>")),
            "{number}"
        );
    }
    assert!(!broken.contains(">100<") && bars(None).contains(">100<"), "the axis goes beyond its end");
    assert!(
        broken.matches("var(--paper)").count() > bars(None).matches("var(--paper)").count(),
        "the break is not shown"
    );
}

#[test]
fn wide_tables_and_sources_can_be_scrolled_with_the_keyboard() {
    let mut page = page();
    page.chapter("", [Block::Source("config.ini".into(), "[a]\nb = '<c>'\n".into())]);
    let html = page.to_html();
    assert_eq!(
        html.matches("<div class=\"table\" role=\"region\" aria-label=").count(),
        html.matches("<table>").count()
    );
    assert_eq!(html.matches("tabindex=\"0\"").count(), html.matches("<table>").count() + html.matches("<pre").count());
    assert!(html.contains("[a]\nb = &#39;&lt;c&gt;&#39;\n</pre>"));
}

#[test]
#[ignore = "needs chromium; run with: cargo test --test suite browser -- --ignored"]
fn a_browser_shows_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    std::fs::write(&file, page().to_html()).unwrap();
    let dom = browse(&file, folder.path(), "--dump-dom");
    assert!(dom.contains("<title>Fingerprint of &lt;cpu&gt; &amp; co</title>"), "{dom}");
    assert_eq!(dom.matches("<figure>").count(), 5);
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
