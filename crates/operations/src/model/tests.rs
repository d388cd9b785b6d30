//! Made-up GPUs whose times follow a formula, with networks and GPUs left out.

use super::*;
use crate::element::ElementType;
use crate::file;
use crate::work::{TensorShape, work};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What these programs reach of data sheets, and their launches in microseconds.
const REACHED: f64 = 0.6;
const LAUNCH: f64 = 4.0;

fn tensor(shape: &[u64], element: ElementType) -> TensorShape {
    TensorShape { shape: shape.to_vec(), element }
}

/// Products and element-wise operations of a width; their time is a launch and the longer of FLOPs and bytes, times e^scatter.
fn rows(gpu: &str, network: &str, width: u64, scatter: f64, random: &mut Xoshiro256PlusPlus) -> Vec<OperationRow> {
    let sheet = sheet(gpu).unwrap();
    let mut rows = Vec::new();
    for element in [ElementType::Fp32, ElementType::Fp16] {
        for tokens in [64, 256, 1024, 4096, 16384] {
            let inputs = [tensor(&[tokens, width], element), tensor(&[width, 4 * width], element)];
            for (operation, class, inputs) in [
                ("aten::mm", OperationClass::Product, &inputs[..]),
                ("aten::gelu", OperationClass::Elementwise, &inputs[..1]),
            ] {
                let work = work(operation, class, inputs, &[]).unwrap();
                let flops = 1e6 * if element.is_half() { sheet.half_tflops } else { sheet.single_tflops };
                let [compute, memory] = [work.flops / flops, work.bytes / (1e3 * sheet.memory_gbs)];
                let time = LAUNCH + compute.max(memory) / REACHED;
                rows.push(OperationRow {
                    gpu: gpu.to_owned(),
                    network: network.to_owned(),
                    operation: operation.to_owned(),
                    class,
                    shapes: crate::row::shapes(inputs),
                    element,
                    work,
                    time_us: time * (scatter * random.random_range(-1.0..1.0)).exp(),
                    count: 1,
                });
            }
        }
    }
    rows
}

fn all(gpus: &[&str], scatter: f64) -> Vec<OperationRow> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let networks = [("tiny", 256), ("small", 512), ("base", 768), ("large", 1024), ("huge", 2048)];
    let of = |gpu: &&str| networks.map(|(network, width)| rows(gpu, network, width, scatter, &mut random)).concat();
    gpus.iter().flat_map(of).collect()
}

/// fp16 and bf16 take the same; what fp8 takes does not follow from them.
#[test]
fn elements_of_types_that_were_never_measured_are_refused() {
    let all = all(&["V100", "A100"], 0.1);
    let asked = all.iter().find(|row| row.element == ElementType::Fp16).unwrap().clone();
    let model = OperationModel::fit(all).unwrap();
    let device = model.device("A100").unwrap();
    assert!(model.predict(&OperationRow { element: ElementType::Bf16, ..asked.clone() }, &device).is_ok());
    let refused = model.predict(&OperationRow { element: ElementType::Fp8, ..asked }, &device).unwrap_err().to_string();
    assert!(refused.contains("no operation in fp8 was measured") && refused.contains("fp16, fp32"), "{refused}");
}

/// The formula is one of the model's, so that only the scatter of 10 % is left: 5 % in the mean.
#[test]
fn networks_and_gpus_that_were_left_out_are_predicted() {
    let model = OperationModel::fit(all(&["V100", "A100", "H100"], 0.1)).unwrap();
    let (by_network, interval) = model.by_network().mean_percent();
    assert!(by_network < 8.0 && interval.unwrap()[1] < 12.0, "{by_network} {interval:?}");
    let (by_gpu, _) = model.by_gpu().unwrap().mean_percent();
    assert!(by_gpu < 12.0, "{by_gpu}");
    assert_eq!(model.by_gpu().unwrap().groups.len(), 3);
    assert!(model.limits().iter().any(|limit| limit.contains("data sheet")));
    let fresh = rows("H200", "huge", 1536, 0.0, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let device = model.device("NVIDIA H200").unwrap();
    assert!(!device.measured);
    for row in &fresh {
        let TimeEstimate { time_us, interval_us: (low, high), .. } = model.predict(row, &device).unwrap();
        assert!((low..=high).contains(&row.time_us), "{row:?}: {time_us} {low} {high}");
    }
}

/// Of rows that all take 1 ms and more, with a scatter of 2 %, nothing says what a launch is. Where short ones were measured, it is known.
#[test]
fn an_operation_far_smaller_than_all_measured_ones_is_uncertain() {
    let all = all(&["V100", "A100"], 0.02);
    let large: Vec<OperationRow> = all.iter().filter(|row| row.time_us > 100.0).cloned().collect();
    let small = all.iter().filter(|row| row.time_us < 2.0 * LAUNCH && row.class == OperationClass::Product);
    let small: Vec<&OperationRow> = small.collect();
    let of_large = OperationModel::fit(large.clone()).unwrap();
    let of_all = OperationModel::fit(all.clone()).unwrap();
    let width = |one: TimeEstimate| one.interval_us.1 / one.interval_us.0;
    for row in small {
        let device = of_all.device(&row.gpu).unwrap();
        let [unlike, alike] = [&of_large, &of_all].map(|model| model.predict(row, &device).unwrap());
        let (low, high) = unlike.interval_us;
        assert!(unlike.unlike && (low..=high).contains(&row.time_us), "{row:?} {unlike:?}");
        assert!(!alike.unlike && width(alike) < 1.5, "{row:?} {alike:?}");
    }
    let device = of_large.device("A100").unwrap();
    let own = large.iter().filter(|row| row.gpu == "A100");
    assert!(own.map(|row| of_large.predict(row, &device).unwrap()).all(|one| width(one) < 1.25));
}

/// Long products scale by FLOPs (15.7 to 67 TFLOP/s), long element-wise kernels by bytes (900 to 3350 GB/s), short ones not at all.
#[test]
fn kernels_scale_by_what_bounds_them() {
    let model = OperationModel::fit(all(&["V100", "H100"], 0.02)).unwrap();
    let [from, to] = ["V100", "H100"].map(|name| model.device(name).unwrap());
    let scaling = model.scaling(&from, &to);
    let near = |ratio: f64, expected: f64| assert!((ratio / expected - 1.0).abs() < 0.15, "{ratio} {expected}");
    near(scaling.ratio(Some(OperationClass::Product), Some(false), 2e4), 15.7 / 67.0);
    near(scaling.ratio(Some(OperationClass::Elementwise), Some(false), 1e3), 900.0 / 3350.0);
    near(scaling.ratio(Some(OperationClass::Elementwise), Some(true), LAUNCH), 1.0);
    assert_eq!(model.scaling(&from, &from).off, 0.0);
    near(model.launch_us(OperationClass::Elementwise, &from).unwrap(), LAUNCH);
    near(model.to_half(&from).unwrap().ratio(Some(OperationClass::Product), None, 2e4), 15.7 / 125.0);
}

/// An H100 on which nothing was measured in half precision is known by its data sheet there, as a GPU on which nothing was; a class that was measured in
/// single precision alone may gain 125 / 15.7 times on a V100, or nothing.
#[test]
fn what_was_not_measured_in_a_precision_is_less_certain_there() {
    let half = |row: &OperationRow| row.element.is_half();
    let mut rows = all(&["V100", "A100", "H100"], 0.1);
    rows.retain(|row| !half(row) || (row.gpu != "H100" && row.class == OperationClass::Product));
    let model = OperationModel::fit(rows).unwrap();
    let [from, to] = ["V100", "H100"].map(|name| model.device(name).unwrap());
    let scaling = model.scaling(&from, &to);
    let off = |half| {
        scaling.ratio_at(1.0, Some(OperationClass::Product), Some(half), 1e3)
            / scaling.ratio_at(0.0, Some(OperationClass::Product), Some(half), 1e3)
    };
    assert!(off(true) > 1.5 * off(false) && off(true) > scaling.off.exp(), "{} {}", off(true), off(false));
    let to_half = model.to_half(&from).unwrap();
    let bounds = [-1.0, 1.0].map(|bound| to_half.ratio_at(bound, Some(OperationClass::Elementwise), None, 1e3));
    assert!((bounds[0] / (15.7 / 125.0) - 1.0).abs() < 1e-9 && bounds[1] == 1.0, "{bounds:?}");
}

/// An H100 whose long products reach a quarter of what its short ones do, of which alone it was measured: 15.7 / (67 / 4) is beyond what its short ones say, and
/// within the bounds. A kernel that says no precision is bounded by those of both.
#[test]
fn a_kernel_unlike_the_measured_ones_is_as_uncertain_as_an_operation() {
    let mut rows = all(&["V100", "H100"], 0.02);
    rows.retain(|row| row.gpu == "V100" || row.time_us < 3.0 * LAUNCH);
    let model = OperationModel::fit(rows).unwrap();
    let [from, to] = ["V100", "H100"].map(|name| model.device(name).unwrap());
    let scaling = model.scaling(&from, &to);
    let bounds =
        |half, time| [-1.0, 1.0].map(|bound| scaling.ratio_at(bound, Some(OperationClass::Product), half, time));
    let [low, high] = bounds(Some(false), 2e4);
    assert!(low <= 15.7 / 67.0 && 4.0 * 15.7 / 67.0 <= high, "{low} {high}");
    assert!(scaling.is_unlike(OperationClass::Product, Some(false), 2e4));
    let [short_low, short_high] = bounds(Some(false), LAUNCH);
    assert!(short_high / short_low < 1.6 && high / low > 4.0, "{short_low} {short_high}, {low} {high}");
    let [single, half, unknown] = [Some(false), Some(true), None].map(|half| bounds(half, 100.0));
    assert_eq!(unknown, [single[0].min(half[0]), single[1].max(half[1])]);
}

/// Far beyond the measured sizes an interval is wide, and yet no single precision is faster than half of the 125 TFLOP/s of half precision.
#[test]
fn no_interval_begins_below_what_a_data_sheet_allows() {
    let mut measured = all(&["V100"], 0.02);
    measured.retain(|row| row.time_us < 3.0 * LAUNCH);
    let model = OperationModel::fit(measured).unwrap();
    let far = rows("V100", "giant", 16384, 0.0, &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let product = far.iter().rfind(|row| row.class == OperationClass::Product && !row.element.is_half()).unwrap();
    let (low, high) = model.predict(product, &model.device("V100").unwrap()).unwrap().interval_us;
    assert!(low >= product.work.flops / (62.5 * 1e6) && high > 4.0 * low, "{low} {high}");
}

/// Nine runs of a network say of others what one says, and a row for each of ten calls what their median does.
#[test]
fn operations_that_were_measured_again_say_nothing_of_others() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let once = rows("V100", "base", 768, 0.3, &mut random);
    let run = |name: usize| once.iter().map(move |row| OperationRow { network: format!("run{name}"), ..row.clone() });
    let runs = OperationModel::fit((0..9).flat_map(run).collect()).unwrap();
    assert!(
        !runs.by_network().is_by_network() && runs.limits()[0].contains("the same operations"),
        "{:?}",
        runs.limits()
    );
    let alone = OperationModel::fit(once.clone()).unwrap();
    let calls: Vec<OperationRow> = once.iter().flat_map(|row| std::iter::repeat_n(row.clone(), 10)).collect();
    let asked = rows("V100", "large", 1024, 0.0, &mut random).swap_remove(3);
    let width = |model: &OperationModel| {
        let (low, high) = model.predict(&asked, &model.device("V100").unwrap()).unwrap().interval_us;
        high / low
    };
    assert_eq!(OperationModel::fit(calls).unwrap().by_network().mean_percent(), alone.by_network().mean_percent());
    assert!(width(&runs) > 0.8 * width(&alone), "{} {}", width(&runs), width(&alone));
}

#[test]
fn gpus_and_classes_that_nobody_measured_are_refused_by_name() {
    let model = OperationModel::fit(all(&["V100"], 0.1)).unwrap();
    let message = model.device("Voodoo 2").unwrap_err().to_string();
    assert!(message.contains("trained on (V100)") && message.contains("H100"), "{message}");
    let mut row = all(&["V100"], 0.0).swap_remove(0);
    row.class = OperationClass::Convolution;
    let message = model.predict(&row, &model.device("V100").unwrap()).unwrap_err().to_string();
    assert!(message.contains("no convolution was measured"), "{message}");
    assert!(model.by_gpu().is_none() && model.limits().iter().any(|limit| limit.contains("fewer than two GPUs")));
    assert!(OperationModel::fit(Vec::new()).unwrap_err().to_string().contains("0 operations"));
}

#[test]
fn a_stored_model_predicts_the_same_and_other_files_are_refused() {
    let mut model = OperationModel::fit(all(&["V100"], 0.1)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.json");
    file::save(&model, &path, false).unwrap();
    // Rows that were left out are for the page of the fit alone.
    assert!(model.by_network.groups.iter().all(|group| group.predicted.len() == group.rows));
    model.by_network.groups.iter_mut().for_each(|group| group.predicted.clear());
    assert_eq!(file::load(&path).unwrap(), model);
    std::fs::write(&path, "{\"format\": \"perf4sight model of plans\", \"version\": 1}").unwrap();
    assert!(file::load(&path).unwrap_err().to_string().contains("this is a \"perf4sight model of plans\""));
    std::fs::write(&path, format!("{{\"format\": \"{}\", \"version\": 99}}", file::FORMAT)).unwrap();
    assert!(file::load(&path).unwrap_err().to_string().contains("version 99"));
}
