//! `report.html` of `perf4sight breakdown`: says what is in the traces, whoever named the events in them, and stays small.

use crate::fixtures::{Scene, shared};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The main thread of the only process, autograd's, and a stream of its GPU.
const MAIN: [u64; 2] = [9, 9];
const AUTOGRAD: [u64; 2] = [9, 10];
const STREAM: [u64; 2] = [0, 7];

/// An event on a thread or stream from one millisecond to another.
fn event([process, thread]: [u64; 2], (category, name): (&str, &str), [start, end]: [f64; 2]) -> Value {
    let (start, duration) = (start * 1e3, (end - start) * 1e3);
    json!({ "ph": "X", "cat": category, "name": name, "pid": process, "tid": thread, "ts": start, "dur": duration })
}

fn trace(events: &[Value]) -> String {
    json!({ "traceEvents": events }).to_string()
}

/// Two steps of 100 ms that differ by their names alone: 40 ms of `step`, 30 ms of `linear` within it, 10 ms of which launch a kernel of
/// 25 ms; 20 ms of a backward pass, of which autograd's thread works 15; then nothing for 10 ms.
fn steps() -> Vec<Value> {
    let of_step = |step: u32| {
        let at = |[start, end]: [f64; 2]| [start, end].map(|time| f64::from(step) * 100.0 + time);
        let backward = "<built-in method run_backward of torch._C._EngineBase object at 0x7f>";
        vec![
            event(MAIN, ("user_annotation", &format!("ProfilerStep#{step}")), at([0.0, 100.0])),
            event(MAIN, ("python_function", "train.py(7): step"), at([0.0, 90.0])),
            event(MAIN, ("cpu_op", "aten::linear"), at([20.0, 50.0])),
            event(MAIN, ("cuda_runtime", "cudaLaunchKernel"), at([30.0, 40.0])),
            event(MAIN, ("python_function", backward), at([60.0, 80.0])),
            event(AUTOGRAD, ("cpu_op", "aten::mm"), at([62.0, 77.0])),
            event(STREAM, ("kernel", "gemm"), at([35.0, 60.0])),
        ]
    };
    (0..2).flat_map(of_step).collect()
}

/// Breaks a trace down; its page.
fn page(events: &[Value]) -> String {
    let scene = Scene::new().file("trace.json", trace(events));
    scene.run("breakdown trace.json --out out").succeeds();
    scene.read("out/report.html")
}

/// The cells of a table's row that begins with a text.
#[track_caller]
fn row(page: &str, table: &str, first: &str) -> Vec<String> {
    let table = page.split("<table>").find(|part| part.contains(&format!("<caption>{table}"))).expect(table);
    let row = table.split("<tr>").find(|row| row.starts_with(&format!("<td>{first}</td>"))).expect(first);
    let row = row.split("</tr>").next().unwrap();
    let cells = row.split("</td>").filter_map(|cell| cell.rsplit_once('>')).map(|(_, text)| text.to_owned());
    cells.collect()
}

/// By hand from [`steps`].
#[test]
fn the_page_says_what_is_in_the_trace() {
    let page = page(&steps());
    // 40 ms of the step itself, 10 of them while the kernel works.
    assert_eq!(row(&page, "Where an iteration", "Python")[..4], ["Python", "busy", "10.0 ms", "10.0 %"]);
    // aten::linear but for the launch, and the backward pass.
    assert_eq!(
        row(&page, "The longest operators", "aten::linear")[1..],
        ["20.0 ms", "20.0 %", "30.0 ms", "30.0 %", "1"]
    );
    assert_eq!(row(&page, "The longest operators", "aten::mm")[1..], ["15.0 ms", "15.0 %", "15.0 ms", "15.0 %", "1"]);
    assert_eq!(row(&page, "The longest functions", "train.py(7): step")[1..3], ["40.0 ms", "40.0 %"]);
    assert_eq!(row(&page, "The longest calls", "cudaLaunchKernel")[1..3], ["10.0 ms", "10.0 %"]);
    assert_eq!(
        row(&page, "What accelerators work on longest", "gemm"),
        ["gemm", "kernels", "25.0 ms", "25.0 %", "1", "25.0 ms"]
    );
    assert_eq!(row(&page, "Time by operation", "backward")[..3], ["backward", "20.0 ms", "20.0 %"]);
    // The stacks: what autograd's thread does lies below what waits for it.
    for tip in [
        "step (train.py:7) (Python): 90.0 (90.0 %); 1 call an iteration",
        "run_backward (C++): 20.0 (20.0 %); 1 call an iteration",
        "aten::mm (C++): 15.0 (15.0 %); 1 call an iteration",
    ] {
        assert!(page.contains(&format!("<title>{tip}</title>")), "{tip}");
    }
    // The rows of an iteration, and what a span in one of them is.
    for text in ["whose time", "main thread", "thread 10", "stream 7 of GPU 0"] {
        assert!(page.contains(&format!(">{text}<")), "{text}");
    }
    assert!(page.contains("gemm (kernels): 25.0 from 35.00 to 60.00"), "the kernel on its stream");
}

#[test]
fn what_is_not_recorded_is_unknown() {
    let without =
        |category: &str| -> Vec<Value> { steps().into_iter().filter(|event| event["cat"] != category).collect() };
    let no_python = page(&without("python_function"));
    assert!(
        no_python.contains("unknown: not in the trace")
            && no_python.contains("operators and calls of the runtime alone")
    );
    assert!(!no_python.contains("The longest functions"));
    let no_gpu = page(&without("kernel"));
    assert!(
        !no_gpu.contains("Accelerators") && !no_gpu.contains("GPU busy") && no_gpu.contains("The longest functions")
    );
    // Without marks the two steps are one.
    let no_marks = page(&without("user_annotation"));
    assert!(no_marks.contains("the whole trace counts as one") && no_marks.contains("There is one iteration only."));
}

/// Names that would be markup, that would turn lines around, and that are as long as nobody reads.
#[test]
fn names_are_shown_and_nothing_else() {
    let evil = "</title></svg><script>alert(1)</script>\" onload=\"alert(1) ' & \u{202e}\u{1b}\u{0}";
    let long = "x".repeat(1 << 20);
    let mut events = steps();
    for (place, name) in [evil, &long].into_iter().enumerate() {
        let at = 1.0 + 6.0 * place as f64;
        for (track, category) in [
            (MAIN, "python_function"),
            (MAIN, "cpu_op"),
            (MAIN, "user_annotation"),
            (STREAM, "kernel"),
            (MAIN, "cuda_runtime"),
        ] {
            events.push(event(track, (category, name), [at, at + 5.0]));
        }
    }
    let page = page(&events);
    assert!(!page.contains("<script>alert") && page.contains("&lt;script&gt;alert(1)"));
    assert_eq!(page.matches("<script").count(), page.matches("</script").count());
    assert!(!page.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'));
    assert!(page.len() < 200_000 && !page.contains(&"x".repeat(300)), "{} bytes", page.len());
}

#[test]
fn equal_traces_give_equal_pages() {
    assert!(page(&steps()) == page(&steps()));
}

/// Rank 1 takes 150 ms, so that it is the one in full.
#[test]
fn ranks_stand_side_by_side() {
    let slower: Vec<Value> = steps()
        .into_iter()
        .map(|mut event| {
            ["ts", "dur"].iter().for_each(|key| event[key] = (event[key].as_f64().unwrap() * 1.5).into());
            event
        })
        .collect();
    let scene = Scene::new().file("rank0.json", trace(&steps())).file("rank1.json", trace(&slower));
    scene.run("breakdown rank0.json rank1.json --out out").succeeds();
    let page = scene.read("out/report.html");
    for text in [
        ">rank 0<",
        ">rank 1<",
        "of rank 1, whose iterations take longest",
        "<summary>Rank 0: what takes longest</summary>",
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert_eq!(row(&page, "The longest operators", "aten::linear")[1..3], ["30.0 ms", "20.0 %"]);
}

#[test]
fn before_and_after_stand_on_one_page() {
    let scene = Scene::new().file("before.json", trace(&steps())).file("after.json", trace(&steps()));
    scene.run("breakdown before.json --compare after.json --out out").succeeds();
    let page = scene.read("out/report.html");
    for text in
        ["Before and after", "Time by category, before and after", ">before<", ">after<", "distinguished from noise"]
    {
        assert!(page.contains(text), "{text}");
    }
}

/// The largest traces there are, and one of 200,000 events that all differ.
#[test]
fn pages_of_large_traces_stay_small() {
    let names = ["a/model.py(1): forward", "a/model.py(2): attention", "<built-in function linear>", "aten::linear"];
    let events = (0..200_000u32).map(|i| {
        let (depth, begin) = (i % 4, f64::from(i / 4) * 0.01);
        let category = if depth == 3 { "cpu_op" } else { "python_function" };
        let name = format!("{} {}", names[depth as usize], i / 4 % 5000);
        let inset = f64::from(depth) * 0.001;
        event(MAIN, (category, &name), [begin + inset, begin + 0.009 - inset])
    });
    let invented = Scene::new().file("trace.json", trace(&events.collect::<Vec<_>>()));
    let mut traces = vec![invented.path("trace.json")];
    let folder =
        ["hta/df_index_resolver.json.gz", "tracelens/h100_google_owlv2-large-patch14-ensemble__1016001.json.gz"];
    traces.extend(folder.into_iter().filter_map(|name| shared(&format!("traces/{name}"))));
    for trace in traces {
        let (scene, began) = (Scene::new(), Instant::now());
        scene.run(&format!("breakdown {} --out out", trace.display())).succeeds();
        let (took, size) = (began.elapsed(), scene.read("out/report.html").len());
        assert!(size < 1_500_000, "{}: {size} bytes", trace.display());
        assert!(took < Duration::from_secs(20), "{}: {took:?}", trace.display());
    }
}
