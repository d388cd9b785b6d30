//! Physical latency: the accuracy it reaches on networks left out, and what holds for any network on any device.

use crate::fixtures::shared;
use crate::invented;
use perf4sight_base::stats::{mean, relative_errors};
use perf4sight_base::units::Milliseconds;
use perf4sight_cost::evaluation::{Evaluation, FitCandidate, FitProtocol};
use perf4sight_cost::features::physical::{KernelClass, KernelPass, kernels};
use perf4sight_cost::fingerprint::{
    DeviceFingerprints, Fingerprint, FingerprintSubject, FitMethod, FitRecipe, LevelSelection, MeasuredRow,
    NetworkFolder, Observations, RowSelection, gather,
};
use perf4sight_cost::records::layers;
use perf4sight_cost::records::layers::LayerRecord;
use perf4sight_cost::records::{RowReading, RowRecord, Variant};
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_network::{
    Activation, Affine, BinaryFunction, Conv, Linear, Network, NetworkBuilder, Op, ReductionKind, Shape,
    UnknownOperation, Window,
};
use perf4sight_platform::{ParameterPrior, Platform, SpeedParameter};
use perf4sight_step::workload::{Accumulate, Quantity, Stage, Step, Trainable, Workload};
use std::path::Path;
use std::sync::Arc;

fn fit(stage: Stage, platform: &Platform, rows: &[MeasuredRow]) -> Fingerprint {
    let subject = FingerprintSubject {
        device: platform.name.clone(),
        dataset: "imagenet".into(),
        step: Step::published(stage),
        quantity: Quantity::Latency,
    };
    Fingerprint::fit(
        subject,
        FitRecipe::new(FitMethod::Hybrid, 1),
        &Observations { rows, taught: &[], failed: &[], platform },
    )
    .unwrap()
}

/// Mean absolute percentage error.
fn error(fingerprint: &Fingerprint, rows: &[&MeasuredRow]) -> f64 {
    let measured: Vec<f64> = rows.iter().map(|row| row.measured).collect();
    let predict = |row: &&MeasuredRow| fingerprint.predict(&row.network, row.record.workload.batch).value();
    let predicted: Vec<f64> = rows.iter().map(predict).collect();
    mean(&relative_errors(&measured, &predicted).into_iter().map(f64::abs).collect::<Vec<_>>())
}

const NAMES: [&str; 5] = ["resnet18", "resnet50", "mobilenetv2", "squeezenet", "mnasnet"];

/// Every latency row of the TX2 whose network is there.
fn measured_rows() -> Option<Vec<MeasuredRow>> {
    let folder = shared("tx2")?;
    let selection = RowSelection {
        folders: &[folder.join("profiling_csvs/latency")],
        networks: &NAMES.map(str::to_owned),
        levels: LevelSelection::AllBut([].into()),
        step: Step::published(Stage::Training),
        quantity: Quantity::Latency,
    };
    Some(gather(&selection, &mut NetworkFolder::new(folder.join("networks"))).unwrap().rows)
}

fn cloned(rows: &[&MeasuredRow]) -> Vec<MeasuredRow> {
    rows.iter().map(|row| (*row).clone()).collect()
}

/// What is asked of the rows of the TX2.
fn protocol() -> FitProtocol {
    let (stage, quantity) = (Stage::Training, Quantity::Latency);
    let subject =
        FingerprintSubject { device: "tx2".into(), dataset: "imagenet".into(), step: Step::published(stage), quantity };
    FitProtocol { subject, recipe: FitRecipe::new(FitMethod::Hybrid, 1) }
}

fn errors(title: &str, evaluation: &Evaluation) -> [f64; 2] {
    let parts = [evaluation.clone(), evaluation.at_level_0(true)];
    let errors = parts.map(|part| part.mean_over_networks().unwrap_or(f64::NAN));
    println!("{title}: {errors:.2?}, {:.1?} % inside their intervals", evaluation.coverage_90());
    errors
}

#[test]
fn networks_left_out_are_predicted_within_7_percent_on_the_tx2() {
    let Some(rows) = measured_rows() else { return };
    let platform = Platform::for_name("tx2").unwrap();
    let observations = Observations { rows: &rows, taught: &[], failed: &[], platform: &platform };
    let left_out = protocol().networks_left_out(&observations).unwrap().evaluation;
    let [all, intact] = errors("left out", &left_out);
    assert!(all <= 7.0 && intact <= 7.2, "left out {all:.2}, level 0 {intact:.2}");
    let networks = left_out.by(|case| case.variant.network.clone());
    assert!(networks.len() == 5 && networks.values().all(|scores| scores.mape <= 9.0), "{networks:.1?}");

    let calibrated = protocol().networks_calibrated(&observations, two_rows).unwrap().evaluation;
    assert_eq!(calibrated.cases.len() + rows.iter().filter(|row| two_rows(row)).count(), rows.len());
    let [all, intact] = errors("calibrated", &calibrated);
    // Level 0 comes no closer: its rows at batch 2 and 32 say little of its other batch sizes (`docs/accuracy/latency.md`).
    assert!(all <= 6.3 && intact <= 7.0, "calibrated {all:.2}, level 0 {intact:.2}");
    let others = left_out.filter(|case| case.variant.level != 0 || ![2, 32].contains(&case.batch));
    for (name, scores) in others.by(|case| case.variant.network.clone()) {
        let own = calibrated.filter(|case| case.variant.network == name).scores().unwrap();
        // From batch 2 to 32 level 0 of resnet50 drifts as none of its other levels does: what rows far apart say of a network's
        // slope is wrong there, and right where networks drift as a whole (next test).
        let margin = if name == "resnet50" { 1.3 } else { 0.3 };
        assert!(own.mape <= scores.mape + margin, "{name}: {:.2} before, {:.2} after", scores.mape, own.mape);
    }
}

/// Level 0 at batch 2 and 32.
fn two_rows(row: &MeasuredRow) -> bool {
    row.record.variant.level == 0 && [2, 32].contains(&row.record.workload.batch)
}

#[test]
fn intervals_hold_however_few_networks_were_profiled() {
    let Some(rows) = measured_rows() else { return };
    let platform = Platform::for_name("tx2").unwrap();
    let observations = Observations { rows: &rows, taught: &[], failed: &[], platform: &platform };
    let widths = [false, true].map(|calibrated| {
        let evaluation = protocol().subsets(&observations, [3, 20], |row| calibrated && two_rows(row)).unwrap();
        let intervals = evaluation.intervals().unwrap();
        println!("{intervals:.3?}");
        // A network's own slope over the batch size is more than most of these have.
        assert!((85.0..=98.5).contains(&intervals.coverage), "{intervals:.2?}");
        assert!(intervals.networks.len() == 5 && intervals.networks.values().all(|share| *share >= 60.0));
        assert!(intervals.width <= 1.9 * intervals.needed);
        intervals.width
    });
    assert!(widths[1] < widths[0]);
}

/// A sixth network of the published profile, in no fit, drifts from 13 % too long at batch 2 to 14 % too short at 256: so does here each of
/// the five in turn, by 0.08 for every factor of e, half as much again.
#[test]
fn two_rows_correct_networks_that_drift_over_batch_sizes() {
    let Some(mut rows) = measured_rows() else { return };
    let platform = Platform::for_name("tx2").unwrap();
    let known: Vec<MeasuredRow> =
        rows.iter().filter(|row| row.record.variant.network != "mobilenetv2").cloned().collect();
    rows.retain(|row| row.record.variant.network == "mobilenetv2");
    rows.iter_mut().for_each(|row| row.measured *= (row.record.workload.batch as f64 / 22.0).powf(0.08));
    let fingerprint = fit(Stage::Training, &platform, &known);
    let (own, others): (Vec<&MeasuredRow>, Vec<&MeasuredRow>) = rows.iter().partition(|row| two_rows(row));
    let calibrated = fingerprint.calibrate(&cloned(&own), &[]).unwrap();
    let [before, after] =
        [&fingerprint, &calibrated].map(|fingerprint| Evaluation::from_rows(fingerprint, &cloned(&others)));
    let errors = [&before, &after].map(|evaluation| evaluation.mean_over_networks().unwrap());
    let held = [&before, &after].map(|evaluation| evaluation.coverage_90().unwrap());
    println!("{errors:.2?} % off, {held:.1?} % inside");
    assert!(errors[1] < 0.85 * errors[0], "{errors:.2?}");
    assert!(held[0] > 60.0 && held[1] > 70.0, "{held:.1?}");
}

#[test]
fn unseen_levels_are_predicted_within_5_percent_on_the_tx2() {
    let Some(rows) = measured_rows() else { return };
    let platform = Platform::for_name("tx2").unwrap();
    let observations = Observations { rows: &rows, taught: &[], failed: &[], platform: &platform };
    let levels = protocol().levels_left_out(&observations, &[0, 30, 50, 70, 90].into()).unwrap();
    let [all, _] = errors("unseen levels", &levels);
    assert!(all <= 4.8, "{all:.2}");
}

#[test]
fn what_is_chosen_for_a_network_has_not_seen_it() {
    let platform = Platform::for_name("cpu").unwrap();
    let mut absurd = platform.clone();
    // A device that is certain to need an hour a step.
    absurd.speed.priors.insert(SpeedParameter::Step, ParameterPrior { typical: 3.6e6, spread: 0.0 });
    let candidates =
        [&absurd, &platform].map(|platform| FitCandidate { recipe: FitRecipe::new(FitMethod::Hybrid, 1), platform });
    let names = ["mnasnet", "mobilenetv2", "resnet18", "squeezenet"];
    let rows = rows(Stage::Training, &names, |network, batch| 2.0 + batch * network.macs() as f64 / 1e9);
    let observations = Observations { rows: &rows, taught: &[], failed: &[], platform: &platform };
    let chosen = protocol().choose_nested(&candidates, &observations).unwrap();
    assert_eq!(chosen.iter().map(|one| one.network.as_str()).collect::<Vec<_>>(), names);
    assert!(chosen.iter().all(|one| one.candidate == 1));
    // Chosen by the other three, it answers as a fit on them.
    let left_out = protocol().networks_left_out(&observations).unwrap();
    let answers: Vec<_> = chosen.into_iter().flat_map(|one| one.trial.evaluation.cases).collect();
    assert_eq!(answers, left_out.evaluation.cases);
}

/// Rows of a device that needs `time` milliseconds a step.
fn rows(stage: Stage, names: &[&str], time: impl Fn(&Network, f64) -> f64) -> Vec<MeasuredRow> {
    let mut rows = Vec::new();
    for name in names {
        let network = Arc::new(zoo::build(name, Dataset::Cifar10).unwrap());
        rows.extend([1, 2, 4, 8, 16, 32, 64].map(|batch| {
            let measured = time(&network, batch as f64);
            invented::row(&network, Variant::new(*name, 0), Workload::published(stage, batch), measured)
        }));
    }
    rows
}

/// Every kind of operation there is.
fn every_operation() -> Network {
    let mut builder = NetworkBuilder::new("everything", Shape::new([16, 16, 16]));
    let input = builder.input();
    let conv = |kernel, groups, bias| {
        Op::Conv(Conv { out_channels: 16, window: Window::square(kernel, 1, kernel / 2), groups, bias })
    };
    let mut at = input;
    let pool = Window::square(3, 1, 1);
    let chain = [
        conv(1, 1, true),
        conv(3, 1, false),
        conv(5, 1, false),
        conv(3, 4, false),
        conv(3, 16, false),
        Op::BatchNorm { axis: 0 },
        Op::Activation(Activation::HardSwish),
        Op::MaxPool(pool.clone()),
        Op::AvgPool { window: pool, count_include_pad: true },
        Op::Dropout { rate: 0.5 },
        Op::Unknown(UnknownOperation::new("Mystery", Shape::new([16, 16, 16]), 7)),
    ];
    for (index, op) in chain.into_iter().enumerate() {
        at = builder.add(format!("chain{index}"), op, &[at]).unwrap();
    }
    let gate = builder.add("squeeze", Op::AdaptiveAvgPool { output: [1, 1] }, &[at]).unwrap();
    let gated = builder.add("excite", Op::Binary(BinaryFunction::Mul), &[at, gate]).unwrap();
    let sum = builder.add("sum", Op::Binary(BinaryFunction::Add), &[gated, at]).unwrap();
    let joined = builder.add("joined", Op::Concat { axis: 0 }, &[sum, at]).unwrap();
    let part = builder.add("part", Op::Slice { axis: 0, start: 0, length: 16 }, &[joined]).unwrap();
    let tokens = builder.add("tokens", Op::Reshape(Shape::new([16, 256])), &[part]).unwrap();
    let turned = builder.add("turned", Op::Transpose { order: vec![1, 0] }, &[tokens]).unwrap();
    let normal = builder.add("normal", Op::LayerNorm { axis: 1, affine: Affine::ScaleAndShift }, &[turned]).unwrap();
    let linear = builder.add("linear", Op::Linear(Linear { out_features: 16, bias: true }), &[normal]).unwrap();
    let scores = builder.add("scores", Op::MatMul, &[linear, tokens]).unwrap();
    let attention = builder.add("attention", Op::Softmax { axis: 1 }, &[scores]).unwrap();
    let mixed = builder.add("mixed", Op::MatMul, &[attention, linear]).unwrap();
    let mean = builder
        .add("mean", Op::Reduce { reduction: ReductionKind::Mean, axes: vec![0], keep: false }, &[mixed])
        .unwrap();
    builder.finish(mean)
}

#[test]
fn a_convolution_is_three_products() {
    let mut builder = NetworkBuilder::new("two", Shape::new([3, 10, 10]));
    let conv = |out_channels, window| Op::Conv(Conv { out_channels, window, groups: 1, bias: false });
    let first = builder.add("first", conv(8, Window::square(1, 1, 0)), &[builder.input()]).unwrap();
    let second = builder.add("second", conv(16, Window::square(3, 2, 1)), &[first]).unwrap();
    let network = builder.finish(second);
    let step = kernels(&network, Step::published(Stage::Training));
    let sizes = |node: usize, pass: KernelPass| {
        let kernel = step.iter().find(|kernel| kernel.node.index() == node && kernel.pass == pass)?;
        let product = kernel.product?;
        let sizes = [product.rows, product.columns, product.inner, product.blocks].map(|amount| amount.for_batch(4.0));
        Some((sizes, kernel.traffic.for_batch(4.0)))
    };
    // Second: 8 channels of 10x10 to 16 of 5x5, 3x3 kernels, batch 4. Traffic: (8 x 100 + 16 x 25) x 4 + 8 x 16 x 9 floats.
    let traffic = 4.0 * (4800.0 + 1152.0);
    assert_eq!(sizes(2, KernelPass::Forward), Some(([16.0, 100.0, 72.0, 1.0], traffic)));
    assert_eq!(sizes(2, KernelPass::InputGradient), Some(([8.0, 400.0, 144.0, 1.0], traffic)));
    assert_eq!(sizes(2, KernelPass::WeightGradient), Some(([16.0, 72.0, 100.0, 1.0], traffic)));
    // Nobody asks for the gradient of the network's input.
    assert_eq!(sizes(1, KernelPass::InputGradient), None);
    assert_eq!(sizes(1, KernelPass::WeightGradient).map(|(sizes, _)| sizes), Some([8.0, 3.0, 400.0, 1.0]));
    // One launch forward, one for both gradients, one for the update of either; four for the loss.
    assert_eq!(step.iter().map(|kernel| kernel.launches).sum::<f64>(), 10.0);
}

#[test]
fn every_operation_has_its_time() {
    let network = every_operation();
    for stage in Stage::ALL {
        let kernels = kernels(&network, Step::published(stage));
        let absent: Vec<KernelClass> =
            KernelClass::ALL.into_iter().filter(|class| !kernels.iter().any(|kernel| kernel.class == *class)).collect();
        match stage {
            Stage::Training => assert_eq!(absent, []),
            Stage::Inference => assert_eq!(absent, [KernelClass::Dropout, KernelClass::Loss, KernelClass::Update]),
        }
        assert!(kernels.iter().all(|kernel| kernel.pass == KernelPass::Forward || stage == Stage::Training));
    }
}

#[test]
fn latency_is_positive_and_never_falls_with_the_batch_size() {
    let names = ["resnet18", "mobilenetv2", "squeezenet"];
    let networks: Vec<Network> = ["mnasnet", "googlenet", "vgg11"]
        .iter()
        .filter_map(|name| zoo::build(name, Dataset::Imagenet).ok())
        .chain([every_operation()])
        .collect();
    for name in Platform::names() {
        let platform = Platform::for_name(name).unwrap();
        for stage in Stage::ALL {
            // A device without physics: steps, and a step back at a batch of 32.
            let odd = |network: &Network, batch: f64| {
                let back = if batch == 32.0 { 0.6 } else { 1.0 };
                back * (3.0 + (batch / 3.0).ceil() * network.macs() as f64 / 1e8)
            };
            let fingerprint = fit(stage, &platform, &rows(stage, &names, odd));
            for network in &networks {
                let about = fingerprint.about(network);
                let times: Vec<f64> = (1..600).map(|batch| about.predict(batch).value.value()).collect();
                let fall = times.windows(2).position(|pair| pair[1] < pair[0]);
                assert!(times[0] > 0.0 && fall.is_none(), "{} on {name}, {stage}: falls at {fall:?}", network.name());
                let huge = about.predict(1_000_000_000).value.value();
                assert!(huge.is_finite() && huge >= times[598]);
            }
        }
    }
}

/// The same rows with every operation timed: convolutions at 100 GFLOP/s of their multiply-accumulates, everything else a
/// microsecond per 10,000 results and pass, max-pooling ten times that.
fn operation_by_operation(mut rows: Vec<MeasuredRow>) -> Vec<MeasuredRow> {
    for row in &mut rows {
        let batch = row.record.workload.batch as f64;
        let (network, mut total) = (row.network.clone(), 0.0);
        for node in &network.nodes()[1..] {
            let moved = batch * node.shape.elements() as f64 / 1e7;
            let time = match node.op {
                Op::Conv(_) | Op::Linear(_) => batch * network.macs_of(node) as f64 / 5e7 + 0.01,
                Op::MaxPool(_) => 10.0 * moved,
                Op::Flatten => continue,
                _ => moved,
            };
            for pass in [layers::StepPart::Forward, layers::StepPart::Backward] {
                let operation = layers::LayerOperation {
                    node: node.name.clone(),
                    op: node.op.kind().to_owned(),
                    inputs: Vec::new(),
                    output: node.shape.dims().to_vec(),
                    parameters: network.parameters_of(node),
                };
                total += time;
                row.layers.push(LayerRecord {
                    record: RowRecord { reading: RowReading::Latency(Some(Milliseconds(time))), ..row.record.clone() },
                    operation: Some(operation),
                    pass,
                });
            }
        }
        row.measured = total;
    }
    rows
}

#[test]
fn timed_operations_teach_what_a_class_costs() {
    let platform = Platform::for_name("cpu").unwrap();
    let names = ["resnet18", "mobilenetv2", "googlenet", "vgg11", "squeezenet"];
    let rows = operation_by_operation(rows(Stage::Training, &names, |_, _| 1.0));
    let known = |row: &&MeasuredRow| row.record.variant.network != "squeezenet";
    let (fitted, unseen): (Vec<&MeasuredRow>, Vec<&MeasuredRow>) = rows.iter().partition(|row| known(row));
    let with = fit(Stage::Training, &platform, &cloned(&fitted));
    let bare: Vec<MeasuredRow> =
        fitted.iter().map(|row| MeasuredRow { layers: Vec::new(), ..(*row).clone() }).collect();
    let without = fit(Stage::Training, &platform, &bare);
    assert!(error(&with, &unseen) < 15.0, "{:.1} %", error(&with, &unseen));

    // The total alone does not show that it is pooling which is slow.
    let row = unseen.last().unwrap();
    let off = |fingerprint: &Fingerprint| {
        let operations = fingerprint.about(&row.network).operations(row);
        let pooling = operations.iter().filter(|operation| operation.class == "pooling");
        let times = pooling.map(|operation| [operation.measured.0, operation.predicted.0]);
        let [measured, predicted] = times.fold([0.0, 0.0], |sum, time| [sum[0] + time[0], sum[1] + time[1]]);
        (predicted / measured).ln().abs()
    };
    assert!(off(&with) < 2f64.ln() && off(&with) < off(&without), "{:.2} {:.2}", off(&with), off(&without));
}

/// Half of the width of an interval, as the logarithm of the factor between prediction and end.
fn half_width(fingerprint: &Fingerprint, network: &Network, batch: u64) -> f64 {
    let interval = fingerprint.about(network).predict(batch).interval.unwrap();
    0.5 * (interval.high.value() / interval.low.value()).ln()
}

#[test]
fn two_rows_move_predictions_whatever_was_timed() {
    let platform = Platform::for_name("cpu").unwrap();
    let names = ["resnet18", "mobilenetv2", "googlenet", "squeezenet"];
    let whole = rows(Stage::Training, &names, |network, batch| 2.0 + batch * network.macs() as f64 / 1e9);
    let network = zoo::build("vgg11", Dataset::Cifar10).unwrap();
    for rows in [operation_by_operation(whole.clone()), whole] {
        let fingerprint = fit(Stage::Training, &platform, &rows);
        for factor in [0.5, 1.3, 6.0] {
            let before = [2, 32].map(|batch| fingerprint.predict(&network, batch).value());
            let measured = [0, 1].map(|index| {
                let workload = Workload::published(Stage::Training, [2, 32][index]);
                let network = Arc::new(network.clone());
                invented::row(&network, Variant::new("vgg11", 0), workload, factor * before[index])
            });
            let calibrated = fingerprint.calibrate(&measured, &[]).unwrap();
            for (batch, before) in [2, 32].into_iter().zip(before) {
                let prediction = calibrated.about(&network).predict(batch);
                let moved = (prediction.value.value() / before).ln() / factor.ln();
                assert!((0.9..1.1).contains(&moved), "{factor}: {moved:.2} of the way at batch size {batch}");
                assert!(prediction.interval.unwrap().contains(factor * before));
                assert!(half_width(&calibrated, &network, batch) < half_width(&fingerprint, &network, batch));
            }
            // Networks of which nothing was measured stay what they are.
            let other = zoo::build("resnet50", Dataset::Cifar10).unwrap();
            assert_eq!(calibrated.about(&other).predict(8).value, fingerprint.about(&other).predict(8).value);
        }
    }
}

#[test]
fn intervals_are_wide_where_operations_were_never_measured() {
    let platform = Platform::for_name("cpu").unwrap();
    let names = ["resnet18", "mobilenetv2", "googlenet", "squeezenet"];
    let rows = rows(Stage::Training, &names, |network, batch| 2.0 + batch * network.macs() as f64 / 1e9);
    let fingerprint = fit(Stage::Training, &platform, &rows);
    let [alike, strange] = [zoo::build("resnet34", Dataset::Cifar10).unwrap(), every_operation()]
        .map(|network| half_width(&fingerprint, &network, 8));
    assert!(strange > 1.2 * alike && strange < 10f64.ln(), "{alike:.2} {strange:.2}");
    // Batch sizes outside those profiled are less certain, too.
    let resnet = zoo::build("resnet34", Dataset::Cifar10).unwrap();
    assert!(half_width(&fingerprint, &resnet, 6400) > half_width(&fingerprint, &resnet, 64));
}

#[test]
fn the_parts_of_a_step_make_the_whole() {
    let platform = Platform::for_name("cpu").unwrap();
    let names = ["resnet18", "mobilenetv2", "squeezenet"];
    let rows = rows(Stage::Training, &names, |network, batch| 2.0 + batch * network.macs() as f64 / 1e9);
    let fingerprint = fit(Stage::Training, &platform, &rows);
    let about = fingerprint.about(&rows[0].network);
    let shares = about.shares(8).unwrap();
    let sum: f64 = shares.classes.iter().map(|share| share.latency.0).sum();
    assert!((sum / about.predict(8).value.value() - 1.0).abs() < 1e-9);
    // Nearly all of resnet18's arithmetic is in 3x3 convolutions.
    assert_eq!(shares.classes[0].name, "3x3 convolution");
    assert!(shares.layers.is_sorted_by(|a, b| a.latency.0 >= b.latency.0));
    assert!(shares.layers.iter().all(|layer| rows[0].network.nodes().iter().any(|node| node.name == layer.name)));
}

#[test]
fn rows_that_are_as_predicted_change_nothing() {
    // Of bottlenecks: from 16 images on another library computes their 1x1 convolutions, in less time than 15 images take.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fingerprinting/epyc-1-core/imagenet");
    let fingerprints = DeviceFingerprints::load(&folder, Stage::Training).unwrap();
    let fingerprint = fingerprints.latency.unwrap();
    let network = Arc::new(zoo::build("resnet101", Dataset::Imagenet).unwrap());
    let before = |batch: u64| fingerprint.predict(&network, batch).value();
    for batches in [[2, 16].as_slice(), &[16], &[15], &[1, 12]] {
        let row = |&batch: &u64| {
            let workload = Workload::published(Stage::Training, batch);
            invented::row(&network, Variant::new("resnet101", 0), workload, before(batch))
        };
        let calibrated = fingerprint.calibrate(&batches.iter().map(row).collect::<Vec<MeasuredRow>>(), &[]).unwrap();
        for batch in [1, 2, 3, 8, 12, 15, 16, 17, 40] {
            let after = calibrated.predict(&network, batch).value();
            assert!((after / before(batch) - 1.0).abs() < 1e-3, "{batches:?}: {after} at {batch}, {}", before(batch));
        }
    }
}

/// Intervals of other steps by the table in `docs/accuracy/latency.md`: factors on the published step that were measured, at batch 4.
#[test]
fn intervals_of_other_steps_widen_with_what_these_add_and_leave_out() {
    let folder = Path::new(crate::ROOT).join("fingerprinting/epyc-1-core/imagenet");
    let fingerprint = DeviceFingerprints::load(&folder, Stage::Training).unwrap().latency.unwrap();
    let network = zoo::build("resnet18", Dataset::Imagenet).unwrap();
    let step = |trainable: &str, passes| Step {
        trainable: Trainable::parse(trainable).unwrap(),
        accumulate: Accumulate::new(passes).unwrap(),
        ..Step::published(Stage::Training)
    };
    // Milliseconds, and the logarithm of the upper end over them.
    let answer = |step| {
        let prediction = fingerprint.about_step(&network, step, None).unwrap().predict(4);
        let (value, interval) = (prediction.value.value(), prediction.interval.unwrap());
        let [below, above] = [interval.low, interval.high].map(|end| (end.value() / value).ln());
        assert!((below + above).abs() < 1e-9, "of other levels, as far below as above");
        (value, above)
    };
    let (own, width) = answer(step("all", 1));
    // How much wider, as the standard deviation that nine tenths leave at 1.645 of it either way, in addition to the factor in logarithms.
    let apart = |step| {
        let (value, wider) = answer(step);
        ((wider.powi(2) - width.powi(2)).sqrt() / 1.645, (value / own).ln())
    };
    for (trainable, passes, measured) in [("last 10", 1, 0.541), ("classifier", 1, 0.353), ("all", 4, 1.213)] {
        let (wider, factor) = apart(step(trainable, passes));
        assert!((wider / (0.25 * factor.abs()) - 1.0).abs() < 0.1, "{trainable}, {passes}: {wider} for {factor}");
        let (value, above) = answer(step(trainable, passes));
        assert!((measured * own / value).ln().abs() < above, "{trainable}, {passes}: {value} of {own} ms");
    }
    // Four passes of the classifier's training take what four forward passes add, and leave out what one backward pass saves.
    let (wider, factor) = apart(step("classifier", 4));
    let [(left_out, _), (added, _)] = [apart(step("classifier", 1)), apart(step("all", 4))];
    assert!(wider > 1.1 * 0.25 * factor.abs() && wider > left_out && added > 0.0, "{wider} for {factor}");
}
