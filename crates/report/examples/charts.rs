//! Every kind of chart on a page, and each as SVG and PNG: `cargo run -p perf4sight-report --example charts -- FOLDER`.

use perf4sight_report::{
    Axis, BarGroup, BarLength, Bars, Block, CellContent, CellSign, Chart, Colour, Flame, FlameCall, HeatCell, Heatmap,
    Histogram, Line, Page, Plot, Reference, Scatter, ScatterPoint, Series, StackedArea, StackedBars, Texture, Theme,
    Timeline, TimelineSpan, Tradeoff, Value,
};
use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

#[allow(dead_code)] // tests use the charts alone
fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::args().nth(1).ok_or("expected the folder to write to")?);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("charts.html"), page().to_html())?;
    for (name, chart) in charts() {
        fs::write(folder.join(format!("{name}.svg")), chart.to_svg(Theme::Light))?;
        fs::write(folder.join(format!("{name}.png")), chart.to_png(Theme::Light)?)?;
        fs::write(folder.join(format!("{name}.dark.png")), chart.to_png(Theme::Dark)?)?;
    }
    Ok(())
}

/// A page with all of them.
pub fn page() -> Page {
    let mut page = Page::new("Charts", "every kind, on made-up numbers");
    page.chapter("All", charts().into_iter().map(|(_, chart)| Block::Chart(chart)));
    page
}

/// One of every kind, or several where a kind has several faces, under the names of their files.
pub fn charts() -> Vec<(&'static str, Chart)> {
    vec![
        ("scatter", scatter()),
        ("tradeoff", tradeoff()),
        ("histogram", histogram()),
        ("bars", bars()),
        ("line", line()),
        ("curve", curve()),
        ("stacked_bars", stacked(BarLength::Sum)),
        ("shares", stacked(BarLength::Share)),
        ("stacked_area", piled()),
        ("heatmap", heatmap()),
        ("map", map()),
        ("timeline", timeline()),
        ("operations", operations()),
        ("flame", flame()),
    ]
}

const FRUIT: [&str; 6] = ["apple", "pear", "quince", "medlar", "sloe", "<b>own & odd</b>"];

/// A spread that looks like errors do: several percent, now and then more.
fn error(i: usize) -> f64 {
    let phase = (i * 37 % 101) as f64 / 101.0 - 0.5;
    0.6 * phase * phase * phase + 0.1 * phase
}

fn scatter() -> Chart {
    let point = |n: usize, i: usize| {
        let x = 8.0 * (n + 1) as f64 * 1.25f64.powi(i as i32);
        ScatterPoint { x, y: x * (1.0 + error(n * 17 + i)), label: format!("{} row {i}", FRUIT[n]) }
    };
    let series = (0..6).map(|n| Series::new(FRUIT[n], (0..20).map(|i| point(n, i))));
    let (x, y) = (Axis::log("measured (ms)"), Axis::log("predicted (ms)"));
    let plot = Scatter { x, y, band: 0.1, series: series.collect() };
    Chart::new("Predicted against measured", "On the line both are equal; the band is ±10 %.", Plot::Scatter(plot))
}

fn tradeoff() -> Chart {
    let point = |n: usize, i: usize| {
        let x = 100.0 * 1.2f64.powi(i as i32);
        ScatterPoint {
            x,
            y: (1.0 + error(n * 17 + i).abs()) * (9.0 - 2.0 * n as f64) / (1.0 + i as f64),
            label: format!("{} {i}", FRUIT[n]),
        }
    };
    let series = (0..3).map(|n| Series::new(FRUIT[n], (0..7).map(|i| point(n, i)))).collect();
    let (x, y) = (Axis::log("time (ms)"), Axis::linear("memory (GiB)"));
    let plot = Tradeoff { x, y, series, references: vec![Reference::Level(6.0, "limit 6 GiB".into())] };
    Chart::new("Time against memory", "The line joins the best trade-offs.", Plot::Tradeoff(plot))
}

fn histogram() -> Chart {
    let series = (0..6).map(|n| Series::new(FRUIT[n], (0..20).map(|i| 100.0 * error(n * 17 + i)))).collect();
    let plot = Histogram { x: Axis::linear("error (%)"), counted: "rows".into(), bin: 2.0, limit: 30.0, series };
    Chart::new("Errors", "Left of zero: predicted too little.", Plot::Histogram(plot))
}

fn bars() -> Chart {
    let lengths = |more: f64| (0..6).map(move |n| (n != 2).then_some(more * (3.5 + 4.0 * n as f64)));
    let series = vec![
        Series::new("own", lengths(1.0)).coloured(Colour::Subject),
        Series::new("other", lengths(1.7)).coloured(Colour::Rival),
    ];
    let categories = FRUIT.map(String::from).to_vec();
    let (value, reference, most) = (Axis::linear("mean error (%)"), Some(10.0), Some(30.0));
    let plot = Bars { categories, value, series, reference, most };
    Chart::new("Error by fruit", "Shorter is better; the line is the goal.", Plot::Bars(plot))
}

fn line() -> Chart {
    let batches = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
    let of = |n: usize| batches.map(|batch| (batch, 2.0 + n as f64 + 100.0 * error(batch as usize).abs()));
    let series = (0..6).map(|n| Series::new(FRUIT[n], of(n))).collect();
    let plot = Line::new(Axis::log("batch size"), Axis::linear("mean error (%)"), series);
    Chart::new("Error by batch size", "Lower is better.", Plot::Line(plot))
}

fn curve() -> Chart {
    let value = |n: i32| {
        let (x, y) = (f64::from(n), 900.0 * (1.0 - 0.75f64.powi(n)));
        Value { x, y, interval: Some((y * 0.94, y * 1.05)) }
    };
    let series = vec![
        Series::new("measured", (1..=12).map(value)).coloured(Colour::Subject),
        Series::new("model", (1..=12).map(|n| (f64::from(n), 880.0 * (1.0 - 0.74f64.powi(n))))).coloured(Colour::Rival),
    ];
    let references = vec![Reference::Upright(8.0, "knee: 8 CPUs".into()), Reference::Level(900.0, "best".into())];
    let plot = Line { x: Axis::linear("CPUs"), y: Axis::linear("images per second"), series, references };
    Chart::new(
        "Rate by CPUs",
        "The band holds 95 %. Beyond the knee more CPUs bring less than a tenth.",
        Plot::Line(plot),
    )
}

fn stacked(whole: BarLength) -> Chart {
    let operations = ["forward", "backward", "optimizer"].map(String::from).to_vec();
    let group = |rank: usize| BarGroup { name: format!("rank {rank}"), bars: operations.clone() };
    let of = |class: usize| (0..6).map(move |bar| (7.3 - class as f64 * 1.5) * (1.0 + 3.0 * error(bar * 7 + class)));
    let classes = ["Python", "C++", "CUDA API", "GPU"];
    let series = classes.iter().enumerate().map(|(i, name)| Series::new(*name, of(i))).collect();
    let (label, caption, intervals) = match whole {
        BarLength::Sum => {
            ("time per iteration (ms)", "Whiskers hold 95 % of the iterations.", vec![Some((17.0, 25.5)); 6])
        }
        BarLength::Share => ("share of the time (%)", "The same, each bar in shares of its own.", Vec::new()),
    };
    let groups = (0..2).map(group).collect();
    let plot = StackedBars { groups, value: Axis::linear(label), series, whole, keys: Vec::new(), intervals };
    Chart::new("Whose time it is", caption, Plot::StackedBars(plot))
}

fn piled() -> Chart {
    let places: Vec<f64> = (0..=900).map(f64::from).collect();
    let hill = |of: usize| (0..900).map(move |i| (450 - (i as i64 - 450 * of as i64).abs()).max(0) as f64 / 150.0);
    let series = vec![
        Series::new("weights", vec![2.5; 900]),
        Series::new("activations", hill(1)),
        Series::new("workspace", (0..900).map(|i| if i % 60 == 0 { 1.5 } else { 0.0 })),
    ];
    let references = vec![Reference::Upright(450.0, "peak".into()), Reference::Level(8.0, "limit".into())];
    let (x, y) = (Axis::linear("operations done"), Axis::linear("memory (GiB)"));
    let plot = StackedArea { x, y, places, series, references };
    Chart::new("Memory over a step", "The highest place is the peak.", Plot::StackedArea(plot))
}

/// Colour and texture each have a meaning.
fn operations() -> Chart {
    let operations = ["forward", "backward", "optimizer", "data loading"];
    let classes = [("Python", Texture::Rising), ("C++", Texture::Crossed), ("GPU", Texture::Plain)];
    let key = |name: &str, colour, texture| Series::<f64>::new(name, [0.0; 0]).coloured(colour).textured(texture);
    let colours = operations.iter().enumerate().map(|(i, name)| key(name, Colour::Nth(i), Texture::Plain));
    let textures = classes.iter().map(|(name, texture)| key(name, Colour::Subject, *texture));
    let part = |(i, (operation, class)): (usize, (usize, usize))| {
        let lengths = [0, 1].map(|bar| 3.0 + 20.0 * error(i * 11 + bar * 5));
        let (name, texture) = classes[class];
        Series::new(format!("{}, {name}", operations[operation]), lengths)
            .coloured(Colour::Nth(operation))
            .textured(texture)
    };
    let pairs = (0..operations.len()).flat_map(|operation| (0..classes.len()).map(move |class| (operation, class)));
    let plot = StackedBars {
        groups: vec![BarGroup { name: String::new(), bars: vec!["before".into(), "after".into()] }],
        value: Axis::linear("time per iteration (s)"),
        series: pairs.enumerate().map(part).collect(),
        whole: BarLength::Sum,
        keys: colours.chain(textures).collect(),
        intervals: Vec::new(),
    };
    Chart::new("Operations", "The colour is the operation, the texture the category.", Plot::StackedBars(plot))
}

/// A call that makes three others, of which the first does the same, and so on.
fn flame() -> Chart {
    let name = |i: usize| ["train", "forward", "linear", "aten::addmm", "cudaLaunchKernel"][i % 5].to_string();
    let call = |number: usize| {
        let (own, remark) = (0.2 + 2.0 * error(number).abs(), format!("{number} times"));
        FlameCall { number, under: number.checked_sub(1).map(|i| i / 3), name: name(number), own, remark }
    };
    let class = |name: &str, class: usize| Series::new(name, (0..200).filter(|i| i % 3 == class).map(call));
    let series = ["Python", "C++", "CUDA API"].iter().enumerate().map(|(i, name)| class(name, i)).collect();
    let plot = Flame { value: Axis::linear("time (ms)"), whole: 120.0, series };
    Chart::new("Who calls what", "Each call is below its caller.", Plot::Flame(plot))
}

fn heatmap() -> Chart {
    let (cpus, memory) = ([1.0, 2.0, 4.0, 8.0, 16.0], [16.0, 32.0, 64.0, 128.0]);
    let time = |cpus: f64, memory: f64| 40.0 + f64::max(900.0 / cpus, 3000.0 / memory);
    let cell = |cpus: f64, memory: f64| HeatCell {
        content: CellContent::Number(time(cpus, memory)),
        label: format!("{cpus} CPUs, {memory} GiB: {:.0} s", time(cpus, memory)),
    };
    let lost = HeatCell { content: CellContent::Sign(CellSign::Cross), label: "16 CPUs, 16 GiB: out of memory".into() };
    let mut cells: Vec<HeatCell> = memory.iter().flat_map(|memory| cpus.map(|cpus| cell(cpus, *memory))).collect();
    cells[4] = lost;
    let plot = Heatmap {
        row_label: "GiB".into(),
        column_label: "CPUs".into(),
        rows: memory.map(|memory| memory.to_string()).to_vec(),
        columns: cpus.map(|cpus| cpus.to_string()).to_vec(),
        cells,
        value: Axis::log("epoch time (s)"),
        range: None,
        printed: true,
        signs: vec![(CellSign::Cross, "out of memory".into())],
    };
    Chart::new("Epoch time", "Fainter is faster.", Plot::Heatmap(plot))
}

fn map() -> Chart {
    let content = |level: usize, batch: usize| match (batch * (100 - level)) as f64 / 32.0 {
        share if share <= 100.0 => CellContent::Number(share),
        share if share <= 200.0 => CellContent::Sign(CellSign::Cross),
        _ if level == 90 => CellContent::Sign(CellSign::Blank),
        _ => CellContent::Sign(CellSign::Dot),
    };
    let (levels, batches) = ([0, 10, 30, 50, 70, 90], [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]);
    let cell = |level: usize, batch: usize| HeatCell {
        content: content(level, batch),
        label: format!("level {level}, batch {batch}"),
    };
    let plot = Heatmap {
        row_label: "level".into(),
        column_label: "batch size".into(),
        rows: levels.map(|level| level.to_string()).to_vec(),
        columns: batches.map(|batch| batch.to_string()).to_vec(),
        cells: levels.iter().flat_map(|level| batches.map(|batch| cell(*level, batch))).collect(),
        value: Axis::linear("fits, memory used (%)"),
        range: Some((0.0, 100.0)),
        printed: false,
        signs: vec![
            (CellSign::Cross, "out of memory".into()),
            (CellSign::Dot, "not tried".into()),
            (CellSign::Blank, "no row".into()),
        ],
    };
    Chart::new("What fits", "Stronger colour takes more of the memory.", Plot::Heatmap(plot))
}

fn timeline() -> Chart {
    let span = |track: usize, start: f64, took: f64, name: &str| TimelineSpan {
        track,
        start,
        end: start + took,
        name: name.into(),
    };
    let phases = |i: usize, name: &'static str| span(0, i as f64 * 10.0, 9.7, name);
    let python = vec![phases(0, "forward"), phases(1, "backward"), span(0, 20.0, 3.0, "optimizer.step")];
    let operators = (0..40).map(|i| span(0, 0.2 + i as f64 * 0.5, 0.42, "aten::conv2d"));
    let calls =
        (0..2300).map(|i| span(0, 0.21 + i as f64 * 0.01, 0.002 + 0.004 * (1.0 + error(i)), "cudaLaunchKernel"));
    let kernels =
        (0..900).map(|i| span(1 + i % 2, 0.6 + i as f64 * 0.025, 0.02 + 0.2 * error(i).abs(), "implicit_gemm"));
    let long = [span(1, 23.2, 1.5, "all_reduce"), span(2, 23.4, 1.1, "memcpy")];
    let series = vec![
        Series::new("Python", python),
        Series::new("C++", operators),
        Series::new("CUDA API", calls),
        Series::new("GPU", kernels),
        Series::new("communication", long).textured(Texture::Crossed),
    ];
    let tracks = ["main thread", "stream 7", "stream 20"].map(String::from).to_vec();
    let plot = Timeline { time: Axis::linear("time (ms)"), tracks, series };
    Chart::new("One iteration", "Threads of the host above, streams of the GPU below.", Plot::Timeline(plot))
}
