//! Charts as files of their own: well-formed, with letters on any machine, and no more certain than their data.

#![allow(clippy::unwrap_used)] // in a test it is the assertion

#[path = "../examples/charts.rs"]
mod gallery;

use perf4sight_report::{
    Axis, BarGroup, BarLength, Bars, CellContent, CellSign, Chart, Flame, FlameCall, HeatCell, Heatmap, Histogram,
    Line, Plot, Reference, Scatter, ScatterPoint, Series, StackedArea, StackedBars, Theme, Timeline, TimelineSpan,
    Tradeoff, Value,
};
use roxmltree::{Document, Node};
use std::io::Cursor;

fn svg(plot: Plot) -> String {
    Chart::new("title", "caption", plot).to_svg(Theme::Light)
}

fn number(node: &Node, name: &str) -> f64 {
    node.attribute(name).unwrap_or_else(|| panic!("{name} of {node:?}")).parse().unwrap()
}

#[test]
fn equal_charts_give_equal_bytes() {
    for ((name, one), (_, other)) in gallery::charts().iter().zip(gallery::charts()) {
        for theme in [Theme::Light, Theme::Dark] {
            assert_eq!(one.to_svg(theme), other.to_svg(theme), "{name}");
            assert!(one.to_png(theme).unwrap() == other.to_png(theme).unwrap(), "{name}");
        }
        assert_ne!(one.to_svg(Theme::Light), one.to_svg(Theme::Dark), "{name}");
    }
}

/// Pixels of the upper left that are not white: the height of a title.
fn ink_of_title(chart: &Chart) -> usize {
    let file = chart.to_png(Theme::Light).unwrap();
    let mut picture = png::Decoder::new(Cursor::new(file)).read_info().unwrap();
    let mut pixels = vec![0; picture.output_buffer_size().unwrap()];
    let width = picture.next_frame(&mut pixels).unwrap().width as usize;
    pixels[..width * 2 * 36 * 3].chunks(3).filter(|pixel| **pixel != [255; 3]).count()
}

#[test]
fn pictures_have_letters_where_the_machine_has_none() {
    for (name, chart) in gallery::charts() {
        let narrow = Chart { title: "iii".into(), ..chart.clone() };
        let wide = Chart { title: "WWW".into(), ..chart };
        let (narrow, wide) = (ink_of_title(&narrow), ink_of_title(&wide));
        // Letters of 36 pixels: an i has a stroke 3 wide and 26 high, a W four that are longer.
        assert!(narrow > 3 * 60 && wide > 2 * narrow, "{name}: {narrow} and {wide} pixels");
    }
}

#[test]
fn no_text_becomes_markup() {
    let evil = "</text></svg><script>alert(1)</script>\" onload=\"alert(1)\" ' & \u{202e}\u{1b}\u{0}";
    for mut chart in charts_of(evil, &[1.0, 2.0, 3.0]) {
        (chart.title, chart.caption) = (evil.into(), evil.into());
        let svg = chart.to_svg(Theme::Light);
        let document = Document::parse(&svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
        for node in document.descendants().filter(Node::is_element) {
            let known = ["svg", "rect", "circle", "path", "text", "title"];
            assert!(known.contains(&node.tag_name().name()), "{node:?}");
            assert!(node.attributes().all(|attribute| !attribute.name().starts_with("on")), "{node:?}");
        }
        let label = document.root_element().attribute("aria-label").unwrap();
        assert!(
            label.contains("<script>alert(1)</script>") && label.ends_with("& \u{fffd}\u{fffd}\u{fffd}"),
            "{label}"
        );
        assert!(chart.to_png(Theme::Light).is_ok());
    }
}

/// One of every kind, with one text and one list of numbers everywhere.
fn charts_of(text: &str, numbers: &[f64]) -> Vec<Chart> {
    let first = numbers.first().copied().unwrap_or(f64::NAN);
    let (x, y) = (|| Axis::log(text), || Axis::linear(text));
    let plots = vec![
        scatter(text, numbers),
        tradeoff(text, numbers, first),
        line(text, numbers, first),
        bars(text, numbers, first),
        histogram(text, numbers),
        timeline(text, numbers),
        flame(text, numbers),
        stacked(text, numbers, BarLength::Sum),
        stacked(text, numbers, BarLength::Share),
        piled(text, numbers, first),
        Plot::Heatmap(Heatmap { printed: true, ..heatmap(text, numbers, x()) }),
        Plot::Heatmap(Heatmap { range: Some((first, first)), ..heatmap(text, numbers, y()) }),
    ];
    plots.into_iter().map(|plot| Chart::new(text, text, plot)).collect()
}

fn pairs(numbers: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    numbers.iter().flat_map(|x| numbers.iter().map(|y| (*x, *y)))
}

fn names(text: &str, numbers: &[f64]) -> Vec<String> {
    vec![text.to_string(); numbers.len()]
}

fn scatter(text: &str, numbers: &[f64]) -> Plot {
    let points = pairs(numbers).map(|(x, y)| ScatterPoint { x, y, label: text.into() });
    Plot::Scatter(Scatter {
        x: Axis::log(text),
        y: Axis::log(text),
        band: 0.1,
        series: vec![Series::new(text, points)],
    })
}

fn tradeoff(text: &str, numbers: &[f64], first: f64) -> Plot {
    let points = pairs(numbers).map(|(x, y)| ScatterPoint { x, y, label: text.into() });
    let references = vec![Reference::Upright(first, text.into()), Reference::Level(first, text.into())];
    Plot::Tradeoff(Tradeoff {
        x: Axis::log(text),
        y: Axis::linear(text),
        series: vec![Series::new(text, points)],
        references,
    })
}

fn line(text: &str, numbers: &[f64], first: f64) -> Plot {
    let values = pairs(numbers).map(|(x, y)| Value { x, y, interval: Some((y, first)) });
    let mut line = Line::new(Axis::log(text), Axis::linear(text), vec![Series::new(text, values)]);
    line.references = vec![Reference::Upright(first, text.into()), Reference::Level(first, text.into())];
    Plot::Line(line)
}

fn bars(text: &str, numbers: &[f64], first: f64) -> Plot {
    let series = vec![Series::new(text, numbers.iter().map(|number| Some(*number)))];
    let (categories, value) = (names(text, numbers), Axis::linear(text));
    Plot::Bars(Bars { categories, value, series, reference: Some(first), most: None })
}

fn histogram(text: &str, numbers: &[f64]) -> Plot {
    let series = vec![Series::new(text, numbers.to_vec())];
    Plot::Histogram(Histogram { x: Axis::linear(text), counted: text.into(), bin: 0.5, limit: 10.0, series })
}

fn timeline(text: &str, numbers: &[f64]) -> Plot {
    let spans = pairs(numbers).map(|(start, end)| TimelineSpan { track: 0, start, end, name: text.into() });
    let series = vec![Series::new(text, spans)];
    Plot::Timeline(Timeline { time: Axis::linear(text), tracks: vec![text.into()], series })
}

/// Calls that make each other, themselves, and none that there is.
fn flame(text: &str, numbers: &[f64]) -> Plot {
    let call = |(number, own): (usize, f64)| {
        let under = (number % 3 > 0).then_some((number * 7) % 5);
        FlameCall { number, under, name: text.into(), own, remark: text.into() }
    };
    let series = vec![Series::new(text, numbers.iter().copied().enumerate().map(call))];
    Plot::Flame(Flame { value: Axis::linear(text), whole: numbers.iter().sum(), series })
}

fn stacked(text: &str, numbers: &[f64], whole: BarLength) -> Plot {
    Plot::StackedBars(StackedBars {
        groups: vec![BarGroup { name: text.into(), bars: names(text, numbers) }],
        value: Axis::linear(text),
        series: vec![Series::new(text, numbers.to_vec()), Series::new(text, numbers.to_vec())],
        whole,
        keys: Vec::new(),
        intervals: pairs(numbers).map(Some).take(numbers.len()).collect(),
    })
}

fn piled(text: &str, numbers: &[f64], first: f64) -> Plot {
    let series = Series::new(text, numbers.to_vec());
    Plot::StackedArea(StackedArea {
        x: Axis::log(text),
        y: Axis::linear(text),
        places: numbers.to_vec(),
        series: vec![series.clone(), series],
        references: vec![Reference::Upright(first, text.into()), Reference::Level(first, text.into())],
    })
}

fn heatmap(text: &str, numbers: &[f64], value: Axis) -> Heatmap {
    let cell = |(x, _): (f64, f64)| HeatCell { content: CellContent::Number(x), label: text.into() };
    Heatmap {
        row_label: text.into(),
        column_label: text.into(),
        rows: names(text, numbers),
        columns: names(text, numbers),
        cells: pairs(numbers).map(cell).collect(),
        value,
        range: None,
        printed: false,
        signs: vec![(CellSign::Cross, text.into())],
    }
}

#[test]
fn whatever_the_numbers_are_something_is_drawn() {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, -1.0, 1e-300, 1e300, f64::MAX, f64::MIN, 5.0];
    let lists = odd.iter().map(|number| vec![*number]).chain([vec![], odd.to_vec(), vec![1e-300, 1e300], vec![5.0; 3]]);
    for numbers in lists {
        for chart in charts_of("word", &numbers) {
            let svg = chart.to_svg(Theme::Light);
            let document = Document::parse(&svg).unwrap();
            for attribute in document.descendants().flat_map(|node| node.attributes().collect::<Vec<_>>()) {
                let value = attribute.value();
                assert!(
                    !value.contains("NaN") && !value.contains("inf"),
                    "{numbers:?}: {} = {value}",
                    attribute.name()
                );
            }
            if numbers.len() == odd.len() {
                assert!(chart.to_png(Theme::Light).is_ok(), "{:?}", chart.plot);
            }
        }
    }
}

#[test]
fn what_is_too_large_for_a_picture_says_so() {
    let categories = vec!["a".to_string(); 100_000_000 / 30];
    let series = vec![Series::new("", Vec::<Option<f64>>::new())];
    let plot = Bars { categories, value: Axis::linear(""), series, reference: None, most: None };
    let error = Chart::new("", "", Plot::Bars(plot)).to_png(Theme::Light).unwrap_err().to_string();
    assert!(error.contains("pixels cannot be drawn"), "{error}");
}

/// Rectangles of a colour: their areas, in pixels, without the signs of the legend.
fn area(document: &Document, fill: &str) -> f64 {
    let filled = document.descendants().filter(|node| node.has_tag_name("rect") || node.tag_name().name() == "rect");
    let own = filled.filter(|node| node.attribute("fill") == Some(fill) && number(node, "y") > 60.0);
    let alone: f64 = own.map(|node| number(&node, "width") * number(&node, "height")).sum();
    let paths = document.descendants().filter(|node| node.attribute("fill") == Some(fill));
    let boxes = paths.filter_map(|node| node.attribute("d")).flat_map(|path| path.split_terminator('z'));
    alone + boxes.map(of_box).sum::<f64>()
}

/// The area of `M10 20h3v4h-3`.
fn of_box(path: &str) -> f64 {
    let [width, height] = ['h', 'v'].map(|side| path.split(side).nth(1).unwrap());
    let digits = |text: &str| text.split(|c: char| c != '.' && !c.is_ascii_digit()).next().unwrap().to_owned();
    digits(width).parse::<f64>().unwrap() * digits(height).parse::<f64>().unwrap()
}

#[test]
fn thousands_of_short_spans_take_the_room_of_their_time() {
    // One track of 1,000 units, 40,000 spans of two classes: 25 units in which the first takes 10 and the second 5, over and over.
    let spans = |offset: f64, took: f64| {
        (0..20_000).map(move |i| TimelineSpan {
            track: 0,
            start: f64::from(i) * 0.05 + offset,
            end: f64::from(i) * 0.05 + offset + took,
            name: "s".into(),
        })
    };
    let series = vec![Series::new("a", spans(0.0, 0.02)), Series::new("b", spans(0.025, 0.01))];
    let plot = Timeline { time: Axis::linear("t"), tracks: vec!["track".into()], series };
    let svg = svg(Plot::Timeline(plot));
    let document = Document::parse(&svg).unwrap();
    let rects = document.descendants().filter(|node| node.tag_name().name() == "rect").count();
    assert!(rects < 10 && svg.len() < 40_000, "{rects} rectangles, {} bytes for 40,000 spans", svg.len());
    // The palette's first two colours. 20,000 x 0.02 against 20,000 x 0.01 of the time.
    let (a, b) = (area(&document, "#0072b2"), area(&document, "#bd5300"));
    assert!((a / b - 2.0).abs() < 0.1, "{a} and {b}");
    // A level is 17 high; the first class takes 0.4 of about 880 pixels.
    let expected = 0.4 * 17.0 * 880.0;
    assert!((a / expected - 1.0).abs() < 0.1, "{a}, expected {expected}");
    assert!(svg.contains("40,000 spans too short to be drawn alone"), "there is no note");
}

/// By hand: 100,000 stretches, of which one of the second series is 30 high, where the first is 10 high throughout; all that is seen of
/// 100,000 stretches in some 890 pixels is their highest.
#[test]
fn the_highest_of_many_stretches_is_seen() {
    let places = (0..=100_000).map(f64::from).collect();
    let spike = (0..100_000).map(|i| if i == 70_000 { 30.0 } else { 0.0 });
    let series = vec![Series::new("a", vec![10.0; 100_000]), Series::new("b", spike)];
    let (x, y) = (Axis::linear("operation"), Axis::linear("memory"));
    let svg = svg(Plot::StackedArea(StackedArea { x, y, places, series, references: Vec::new() }));
    let document = Document::parse(&svg).unwrap();
    let rects = document.descendants().filter(|node| node.tag_name().name() == "rect" && node.has_children());
    let drawn: Vec<(String, [f64; 4])> = rects
        .map(|node| {
            let sides = ["x", "y", "width", "height"].map(|side| number(&node, side));
            (node.first_child().unwrap().text().unwrap().to_string(), sides)
        })
        .collect();
    let [(low, a), (high, b)] = drawn.as_slice() else { panic!("{drawn:?}") };
    assert_eq!((low.as_str(), high.as_str()), ("a: at most 10.0", "b: at most 30.0"));
    // Three times as high, upon the other, at seven tenths of its width.
    assert!((b[3] / a[3] - 3.0).abs() < 0.01 && (b[1] + b[3] - a[1]).abs() < 0.1, "{drawn:?}");
    assert!(((b[0] - a[0]) / a[2] - 0.7).abs() < 0.01 && b[2] < 10.0, "{drawn:?}");
}

/// Letters upon a filling are hard to read, and letters upon letters not at all.
#[test]
fn names_of_places_stand_above_what_is_piled_up_and_apart() {
    let places = (0..=100).map(f64::from).collect();
    let references = [(50.0, "backward"), (51.0, "peak"), (99.0, "update")];
    let plot = StackedArea {
        x: Axis::linear("operation"),
        y: Axis::linear("memory"),
        places,
        series: vec![Series::new("a", vec![10.0; 100])],
        references: references.map(|(at, name)| Reference::Upright(at, name.into())).into(),
    };
    let svg = svg(Plot::StackedArea(plot));
    let document = Document::parse(&svg).unwrap();
    let text = |name: &str| {
        let node = document.descendants().find(|node| node.is_text() && node.text() == Some(name)).unwrap();
        let node = node.ancestors().find(|node| node.has_tag_name("text")).unwrap();
        (number(&node, "x"), number(&node, "y"), node.attribute("text-anchor").map(str::to_owned))
    };
    let [backward, peak, update] = references.map(|(_, name)| text(name));
    let filled = document.descendants().find(|node| node.tag_name().name() == "rect" && node.has_children()).unwrap();
    let top = number(&filled, "y");
    assert!([&backward, &peak, &update].iter().all(|place| place.1 < top), "{backward:?} {peak:?} {update:?} {top}");
    // A hundredth of the width is no room for eight letters.
    assert!((peak.1 - backward.1).abs() > 12.0, "{backward:?} {peak:?}");
    assert_eq!((update.1, update.2.as_deref()), (backward.1, Some("end")), "what is at the edge stands to its left");
}

#[test]
fn spans_lie_below_those_they_begin_in_and_what_is_too_deep_is_counted() {
    let nested = (0..30).map(|i| TimelineSpan {
        track: 0,
        start: f64::from(i),
        end: 100.0 - f64::from(i),
        name: format!("level {i}"),
    });
    let plot = |series| Plot::Timeline(Timeline { time: Axis::linear("t"), tracks: vec!["track".into()], series });
    let deep = svg(plot(vec![Series::new("a", nested)]));
    // Twelve levels are drawn, 30 - 12 = 18 are not.
    assert!(deep.contains("18 spans below level 12 are not drawn"));
    let document = Document::parse(&deep).unwrap();
    let named = |name: &str| {
        document
            .descendants()
            .find(|node| node.tag_name().name() == "text" && node.text() == Some(name))
            .map(|node| number(&node, "y"))
    };
    assert!(named("level 0") < named("level 1") && named("level 11").is_some() && named("level 12").is_none());
    // One that begins within another and ends after it is below, too; the next one is on top again.
    let of = |(start, end): (f64, f64)| TimelineSpan { track: 0, start, end, name: format!("from {start}") };
    let crossing = svg(plot(vec![Series::new("a", [(0.0, 40.0), (30.0, 60.0), (60.0, 100.0)].map(of))]));
    let document = Document::parse(&crossing).unwrap();
    let y = |name: &str| {
        document
            .descendants()
            .find(|node| node.tag_name().name() == "text" && node.text() == Some(name))
            .map(|node| number(&node, "y"))
            .unwrap()
    };
    assert!(y("from 30") > y("from 0") && y("from 60") == y("from 0"));
}

/// By hand: `main` and what it makes take 100: `run` all but 0.2 of it, of which `a` takes 60 with 40 in `c`, and `b` 38.
#[test]
fn calls_lie_below_those_that_make_them_as_wide_as_their_time() {
    let call = |number: usize, under: usize, name: &str, own: f64| FlameCall {
        number,
        under: Some(under),
        name: name.into(),
        own,
        remark: String::new(),
    };
    let calls = [
        FlameCall { under: None, ..call(0, 0, "main", 0.2) },
        call(1, 0, "run", 1.8),
        call(2, 1, "b", 38.0),
        call(3, 1, "a", 20.0),
        call(4, 3, "c", 40.0),
        call(5, 3, "hidden", 0.01),
    ];
    let flame = Flame { value: Axis::linear("ms"), whole: 200.0, series: vec![Series::new("Python", calls)] };
    let svg = svg(Plot::Flame(flame));
    let document = Document::parse(&svg).unwrap();
    let titled = document.descendants().filter(|node| node.tag_name().name() == "rect" && node.has_children());
    let drawn: Vec<(String, [f64; 3])> = titled
        .map(|node| {
            (node.first_child().unwrap().text().unwrap().into(), ["x", "y", "width"].map(|at| number(&node, at)))
        })
        .collect();
    let of = |tip: &str| drawn.iter().find(|(other, _)| other == tip).unwrap_or_else(|| panic!("{tip}: {drawn:?}")).1;
    // What does nothing but call another is drawn with it; the longest stand first.
    let [main, a] = ["main > run (Python): 100 (50.0 %)", "a (Python): 60.0 (30.0 %)"].map(of);
    let [b, c] = ["b (Python): 38.0 (19.0 %)", "c (Python): 40.0 (20.0 %)"].map(of);
    let widths = [a[2] / main[2], b[2] / main[2], c[2] / main[2]];
    for (width, expected) in widths.into_iter().zip([0.6, 0.38, 0.4]) {
        assert!((width - expected).abs() < 0.005, "{widths:?}");
    }
    assert!(main[0] == a[0] && a[0] == c[0] && b[0] > a[0] && a[1] == b[1] && c[1] == a[1] + 18.0 && a[1] > main[1]);
    assert_eq!(drawn.len(), 4);
    assert!(svg.contains("Calls too short or too deep to be drawn, 0.00500 % of the time, are left out"));
}

#[test]
fn keys_take_the_place_of_series_in_a_legend() {
    let operations = gallery::charts().into_iter().find(|(name, _)| *name == "operations").unwrap().1;
    let svg = operations.to_svg(Theme::Light);
    for (text, count) in [(">data loading</text>", 1), (">GPU</text>", 1), ("data loading, GPU</text>", 0)] {
        assert_eq!(svg.matches(text).count(), count, "{text}");
    }
}

#[test]
fn shares_fill_the_bar_and_sums_their_length() {
    let plot = |whole| {
        Plot::StackedBars(StackedBars {
            groups: vec![BarGroup { name: String::new(), bars: vec!["x".into(), "y".into()] }],
            value: Axis::linear("ms"),
            series: vec![Series::new("a", [30.0, 10.0]), Series::new("b", [10.0, 10.0])],
            whole,
            keys: Vec::new(),
            intervals: Vec::new(),
        })
    };
    let parts = |whole| -> Vec<(String, f64)> {
        let svg = svg(plot(whole));
        let document = Document::parse(&svg).unwrap();
        let titled = document.descendants().filter(|node| node.tag_name().name() == "rect" && node.has_children());
        let title = |node: &Node| node.first_child().unwrap().text().unwrap().to_string();
        titled.map(|node| (title(&node), number(&node, "width"))).collect()
    };
    let shares = parts(BarLength::Share);
    let tips: Vec<&str> = shares.iter().map(|(tip, _)| tip.as_str()).collect();
    assert_eq!(tips, ["x, a: 30.0 (75.0 %)", "x, b: 10.0 (25.0 %)", "y, a: 10.0 (50.0 %)", "y, b: 10.0 (50.0 %)"]);
    let whole = shares[0].1 + shares[1].1;
    assert!((shares[0].1 / whole - 0.75).abs() < 1e-3 && (shares[2].1 + shares[3].1 - whole).abs() < 0.3);
    let sums = parts(BarLength::Sum);
    assert!((sums[0].1 / sums[1].1 - 3.0).abs() < 0.01 && (sums[1].1 - sums[2].1).abs() < 0.2);
}

/// By hand: of (1, 5), (2, 3), (3, 4), (4, 1) the third costs more than the second in both ways. The line goes down from the first to where the
/// second is, and from there to the last: five places in all.
#[test]
fn the_front_joins_what_nothing_betters_in_both() {
    let points =
        [(3.0, 4.0), (1.0, 5.0), (4.0, 1.0), (2.0, 3.0)].map(|(x, y)| ScatterPoint { x, y, label: String::new() });
    let (x, y) = (Axis::linear("x"), Axis::linear("y"));
    let plot = Tradeoff { x, y, series: vec![Series::new("a", points)], references: Vec::new() };
    let svg = svg(Plot::Tradeoff(plot));
    let document = Document::parse(&svg).unwrap();
    let line = document.descendants().find(|node| node.attribute("stroke-width") == Some("1.5")).unwrap();
    let place = |words: &str| -> (f64, f64) {
        let (x, y) = words.split_once(' ').unwrap();
        (x.parse().unwrap(), y.parse().unwrap())
    };
    let path = line.attribute("d").unwrap();
    let places: Vec<(f64, f64)> = path.trim_start_matches('M').split('L').map(place).collect();
    let [a, below_a, b, below_b, c] = places[..] else { panic!("{path}") };
    assert!(a.1 == below_a.1 && below_a.0 == b.0 && b.1 == below_b.1 && below_b.0 == c.0, "{path}");
    // From 1 over 2 to 4, and from 5 over 3 to 1.
    assert!(((b.0 - a.0) / (c.0 - a.0) - 1.0 / 3.0).abs() < 0.01, "{path}");
    assert!(((b.1 - a.1) / (c.1 - a.1) - 0.5).abs() < 0.01, "{path}");
}

#[test]
fn a_line_is_interrupted_where_nothing_is_known() {
    let values = [(1.0, 1.0), (2.0, 2.0), (3.0, f64::NAN), (4.0, 4.0), (5.0, 5.0)];
    let svg = svg(Plot::Line(Line::new(Axis::linear("x"), Axis::linear("y"), vec![Series::new("a", values)])));
    let document = Document::parse(&svg).unwrap();
    // From 1 to 2 and from 4 to 5.
    let lines = document.descendants().filter(|node| node.attribute("stroke-width") == Some("1.5"));
    let points: Vec<usize> = lines.map(|line| line.attribute("d").unwrap().matches(['M', 'L']).count()).collect();
    assert_eq!(points, [2, 2]);
}

#[test]
fn numbers_of_a_heat_map_are_written_and_its_legend_tells_what_occurs() {
    let cells =
        [10.0, 20.0, 40.0].map(|number| HeatCell { content: CellContent::Number(number), label: String::new() });
    let lost = HeatCell { content: CellContent::Sign(CellSign::Cross), label: String::new() };
    let plot = Heatmap {
        row_label: "memory".into(),
        column_label: "CPUs".into(),
        rows: vec!["a".into(), "b".into()],
        columns: vec!["1".into(), "2".into()],
        cells: cells.into_iter().chain([lost]).collect(),
        value: Axis::linear("seconds"),
        range: None,
        printed: true,
        signs: vec![(CellSign::Cross, "out of memory".into()), (CellSign::Dot, "not tried".into())],
    };
    let svg = svg(Plot::Heatmap(plot));
    for text in ["10.0", "20.0", "40.0", "seconds", "out of memory"] {
        assert!(svg.contains(&format!(">{text}</text>")), "{text}");
    }
    assert!(!svg.contains("not tried"));
}

/// The numbers along an axis: those of the horizontal one are centred, those of the vertical one end at it.
fn labels(x: Axis, anchor: &str, values: &[(f64, f64)]) -> Vec<String> {
    let svg = svg(Plot::Line(Line::new(x, Axis::linear(""), vec![Series::new("a", values.to_vec())])));
    let document = Document::parse(&svg).unwrap();
    let texts = document.descendants().filter(|node| node.attribute("text-anchor") == Some(anchor));
    let texts = texts.filter_map(|node| node.text().map(str::to_owned));
    texts.filter(|text| text.starts_with(|c: char| c.is_ascii_digit())).collect()
}

#[test]
fn ticks_are_round_numbers_or_the_values_themselves() {
    let linear = || Axis::linear("");
    // From zero to the next tick beyond 17.3.
    assert_eq!(labels(linear(), "end", &[(1.0, 17.3)]), ["0", "5", "10", "15", "20"]);
    let batches = [1.0, 2.0, 8.0, 32.0].map(|batch| (batch, 1.0));
    assert_eq!(labels(Axis::log(""), "middle", &batches), ["1", "2", "8", "32"]);
    // Thirty values are too many for labels; over less than a power of ten numbers are evenly spaced.
    let many = |from: f64, to: f64| -> Vec<(f64, f64)> {
        (0..30).map(|i| (from * (to / from).powf(f64::from(i) / 29.0), 1.0)).collect()
    };
    let decades = labels(Axis::log(""), "middle", &many(3.0, 4000.0));
    assert_eq!(decades, ["3", "10", "30", "100", "300", "1,000", "3,000"]);
    assert_eq!(labels(linear(), "middle", &many(1.0, 32.0)), ["0", "5", "10", "15", "20", "25", "30"]);
    let around_zero: Vec<(f64, f64)> = (0..30).map(|i| (-0.31 + 0.62 * f64::from(i) / 29.0, 1.0)).collect();
    assert_eq!(labels(linear(), "middle", &around_zero), ["0", "0.1", "0.2", "0.3"]);
    let even = labels(Axis::log(""), "middle", &many(120.0, 150.0));
    assert_eq!(even, ["120", "125", "130", "135", "140", "145", "150"]);
}

/// Corners of a path or a rectangle.
fn points(node: &Node) -> Vec<(f64, f64)> {
    let pair = |words: &str| words.split_once(' ').map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()));
    match node.attribute("d") {
        Some(path) => path.split(['M', 'L']).filter_map(pair).collect(),
        None => {
            let [x, y, width, height] = ["x", "y", "width", "height"].map(|side| number(node, side));
            vec![(x, y), (x + width, y + height)]
        }
    }
}

#[test]
fn stripes_are_inside_of_what_they_fill() {
    let histogram = gallery::charts().into_iter().find(|(name, _)| *name == "histogram").unwrap().1;
    let svg = histogram.to_svg(Theme::Light);
    let document = Document::parse(&svg).unwrap();
    let shapes: Vec<Node> = document.root_element().children().filter(Node::is_element).collect();
    let striped = shapes.windows(2).filter(|pair| pair[1].attribute("opacity") == Some("0.40"));
    let striped: Vec<_> = striped.map(|pair| (points(&pair[0]), points(&pair[1]))).collect();
    // Five of six series have stripes, also in the legend.
    assert!(striped.len() > 5 * 8, "{}", striped.len());
    for (area, stripes) in striped {
        let [(left, top), (right, bottom)] = area[..] else { panic!("{area:?}") };
        let inside =
            |(x, y): &(f64, f64)| (left - 0.2..=right + 0.2).contains(x) && (top - 0.2..=bottom + 0.2).contains(y);
        assert!(stripes.iter().all(inside), "{area:?} {stripes:?}");
    }
}

/// 90 and 95 % of the best rate are often one CPU apart: less than their names are long.
#[test]
fn names_of_references_never_overlap() {
    let references = vec![
        Reference::Upright(7.0, "90 % of the best".into()),
        Reference::Upright(7.4, "95 % of the best".into()),
        Reference::Level(900.0, "best".into()),
        Reference::Level(880.0, "goal".into()),
    ];
    let values = (1..=8).map(|n| (f64::from(n), 100.0 * f64::from(n)));
    let (x, y) = (Axis::linear("CPUs"), Axis::linear("rate"));
    let svg = svg(Plot::Line(Line { x, y, series: vec![Series::new("a", values)], references }));
    let document = Document::parse(&svg).unwrap();
    let height = |name: &str| {
        let found = document.descendants().find(|node| node.tag_name().name() == "text" && node.text() == Some(name));
        number(&found.unwrap(), "y")
    };
    let [ninety, ninety_five, best, goal] = ["90 % of the best", "95 % of the best", "best", "goal"].map(height);
    assert!((ninety - ninety_five).abs() > 12.0 && (best - goal).abs() > 12.0, "{ninety} {ninety_five} {best} {goal}");
}

/// A bar of 7.5 ends left of the line at 10, its number would reach across that.
#[test]
fn a_reference_crosses_no_number() {
    let bars = gallery::charts().into_iter().find(|(name, _)| *name == "bars").unwrap().1;
    let svg = bars.to_svg(Theme::Light);
    let document = Document::parse(&svg).unwrap();
    let muted =
        |node: &Node| node.attribute("stroke-width") == Some("1.5") && node.attribute("stroke") == Some("#59636e");
    let line = points(&document.descendants().find(muted).unwrap())[0].0;
    let number_of =
        |text: &str| document.descendants().find(|node| node.tag_name().name() == "text" && node.text() == Some(text));
    assert!(number(&number_of("7.50").unwrap(), "x") > line && number(&number_of("3.50").unwrap(), "x") < line);
}
