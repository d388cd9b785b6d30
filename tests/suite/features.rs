//! Features against a convolution worked out by hand and against the published fitter's own numbers.

use super::fixtures::shared;
use perf4sight_cost::features::physical::{Kernel, KernelClass, KernelPass, kernels};
use perf4sight_cost::features::{features, names};
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_network::{Activation, Conv, Network, NetworkBuilder, Op, Shape, Window};
use perf4sight_onnx as onnx;
use perf4sight_step::workload::{Accumulate, Checkpoint, FrozenNormalisation, Stage, Step, Trainable, Workload};
use std::collections::{BTreeMap, BTreeSet};

const TRAINING_OF_2: Workload = Workload::published(Stage::Training, 2);

fn one_convolution(input: Shape, conv: Conv) -> Network {
    let mut builder = NetworkBuilder::new("one", input);
    let output = builder.add("conv", Op::Conv(conv), &[builder.input()]).unwrap();
    builder.finish(output)
}

/// 6 to 4 channels in 2 groups, so e = 3; k = 3, ip = 8, op = 1 + floor((8 + 2 - 3) / 2) = 4.
fn grouped() -> Network {
    let conv = Conv { out_channels: 4, window: Window::square(3, 2, 1), groups: 2, bias: true };
    one_convolution(Shape::new([6, 8, 8]), conv)
}

#[test]
#[rustfmt::skip]
fn a_convolution_by_hand() {
    let expected: [f64; 56] = [
        108.0, 216.0, 1536.0, 256.0, 2116.0, // tensors
        32.0, 1728.0, 128.0, 6912.0, 864.0, 9504.0, 192.0, // im2col
        3456.0, 27648.0, 34560.0, // products
        864.0, 864.0, 576.0, 240.0, 160.0, 1728.0, 400.0, 1440.0, 3568.0, // Fourier: 8 x 9 and 4 x 5 per channel
        9216.0, 1792.0, 4608.0, 15616.0, // c = 12 + 8 + 12: 64 x 3 c + 3072; 16 x 2 c + 768; 8 x 6 c + 3072
        3456.0, 1296.0, 10368.0, 4752.0, 13824.0, 11664.0, 15120.0, // t = 36, 2 x 2 and 1 x 1 tiles
        3456.0, 2304.0, 10368.0, 5760.0, 13824.0, 12672.0, 16128.0, // t = 16, 3 x 3 and 2 x 2 tiles
        3456.0, 1728.0, 13824.0, 5184.0, 17280.0, 15552.0, 19008.0,
        13824.0, 12288.0, 13824.0, 26112.0, 27648.0, 26112.0, 39936.0,
    ];
    assert_eq!(features(&grouped(), TRAINING_OF_2), expected);
    let inference = [
        108.0, 768.0, 128.0, 1004.0, 32.0, 1728.0, 3456.0, 864.0, 864.0, 1728.0, 9216.0, 3456.0, 3456.0, 3456.0, 13824.0,
    ];
    assert_eq!(features(&grouped(), Workload::published(Stage::Inference, 2)), inference);
}

#[test]
fn rectangles_keep_their_elements_and_operations() {
    let window = Window { kernel: [1, 7], padding: [0, 3, 0, 3], ..Window::square(1, 1, 0) };
    let conv = Conv { out_channels: 5, window, groups: 1, bias: false };
    let network = one_convolution(Shape::new([2, 4, 9]), conv);
    let step = features(&network, TRAINING_OF_2);
    let close = |index: usize, exact: f64| assert!((step[index] / exact - 1.0).abs() < 1e-12, "feature {index}");
    close(0, 5.0 * 2.0 * 7.0);
    close(2, 2.0 * 2.0 * 2.0 * 36.0);
    close(12, 2.0 * network.macs() as f64);
}

#[test]
fn names_are_as_many_as_values_and_unique() {
    for stage in Stage::ALL {
        let names = names(stage);
        assert_eq!(names.len(), features(&grouped(), Workload::published(stage, 1)).len());
        let unique: BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }
}

/// Equal to 1e-9 relative, column by column; the published names of the Winograd sums repeat, so position counts.
#[test]
fn the_published_numbers_are_reproduced() {
    let Some(folder) = shared("tx2") else { return };
    let mut reader = csv::Reader::from_path(folder.join("golden/training_features.csv")).unwrap();
    let mut networks = BTreeMap::new();
    let mut compared = 0;
    for row in reader.records() {
        let row = row.unwrap();
        let file = folder.join("networks").join(format!("{}_{}.onnx", &row[0], &row[1]));
        let network = networks.entry(file).or_insert_with_key(|file| onnx::read(file).unwrap().network);
        let step = features(network, Workload::published(Stage::Training, row[2].parse().unwrap()));
        assert_eq!(row.len(), 3 + step.len());
        for (i, ours) in step.iter().enumerate() {
            let published: f64 = row[3 + i].parse().unwrap();
            assert!((ours - published).abs() <= 1e-9 * published.abs(), "{:?} {i}: {ours}", row.position());
        }
        compared += 1;
    }
    assert_eq!(compared, 213);
}

#[test]
fn what_is_not_trained_is_not_computed() {
    let network = zoo::build("resnet18", Dataset::Imagenet).unwrap();
    let step =
        |trainable: &str| Step { trainable: Trainable::parse(trainable).unwrap(), ..Step::published(Stage::Training) };
    let flops = |trainable: &str, pass: KernelPass| -> f64 {
        let kernels = kernels(&network, step(trainable)).into_iter().filter(|kernel| kernel.pass == pass);
        kernels.filter_map(|kernel| kernel.product).map(|product| product.flops(1.0)).sum()
    };
    let forward = flops("all", KernelPass::Forward);
    assert_eq!(flops("classifier", KernelPass::Forward), forward);
    // 512 features to 1000 classes, and nothing below.
    assert_eq!(
        [KernelPass::WeightGradient, KernelPass::InputGradient].map(|pass| flops("classifier", pass)),
        [2.0 * 512_000.0, 0.0]
    );
    // Normalisations multiply nothing themselves, but gradients flow through all layers behind the first.
    assert_eq!(flops("normalisation", KernelPass::WeightGradient), 0.0);
    assert_eq!(flops("normalisation", KernelPass::InputGradient), flops("all", KernelPass::InputGradient));
    // The last block's second convolution, its normalisation and the classifier: 512 x 512 filters of 3 x 3 at 7 x 7 places.
    let last = 2.0 * (512.0 * 512.0 * 9.0 * 49.0 + 512_000.0);
    assert_eq!(flops("last 3", KernelPass::WeightGradient), last);
    // SGD touches what is trained.
    let updated = |trainable: &str| -> f64 {
        let kernels = kernels(&network, step(trainable)).into_iter().filter(|kernel| kernel.pass == KernelPass::Update);
        kernels.map(|kernel| kernel.traffic.fixed).sum()
    };
    assert_eq!(updated("classifier"), 6.0 * 4.0 * 513_000.0);
}

#[test]
fn frozen_normalisations_that_keep_their_statistics_move_what_inference_does() {
    let network = zoo::build("resnet18", Dataset::Imagenet).unwrap();
    let moved = |trainable: &str, frozen_normalisation, pass| -> f64 {
        let trainable = Trainable::parse(trainable).unwrap();
        let step = Step { trainable, frozen_normalisation, ..Step::published(Stage::Training) };
        let kernels = kernels(&network, step).into_iter();
        let normalised = kernels.filter(|kernel| kernel.class == KernelClass::Normalisation && kernel.pass == pass);
        normalised.map(|kernel| kernel.traffic.sample).sum()
    };
    // Four bytes of 2,483,712 elements: 64 x 112 x 112, of stage 1 4 x 64 x 56 x 56, of the others 5 x 128 x 28 x 28, 5 x 256 x 14 x 14 and
    // 5 x 512 x 7 x 7. Batch statistics are a reading more.
    let all = 4.0 * 2_483_712.0;
    use FrozenNormalisation::{Eval, Train};
    assert_eq!([Train, Eval].map(|frozen| moved("classifier", frozen, KernelPass::Forward)), [3.0 * all, 2.0 * all]);
    // Gradients flow through the normalisations alone that lie behind the lowest that is trained: from the first convolution on through all of
    // them, with neither mean nor deviation to go through where they are kept.
    assert_eq!([Train, Eval].map(|frozen| moved("conv1", frozen, KernelPass::InputGradient)), [5.0 * all, 4.0 * all]);
    // What is trained works with the statistics of the batch whatever is said of the frozen.
    assert_eq!([Train, Eval].map(|frozen| moved("all", frozen, KernelPass::Forward)), [3.0 * all; 2]);
}

#[test]
fn passes_repeat_all_but_the_update() {
    let network = zoo::build("squeezenet", Dataset::Imagenet).unwrap();
    let accumulate = Accumulate::new(4).unwrap();
    let (once, four) = (Step::published(Stage::Training), Step { accumulate, ..Step::published(Stage::Training) });
    let (whole, parts) = (kernels(&network, once), kernels(&network, four));
    assert_eq!(whole.len(), parts.len());
    for (one, repeated) in whole.iter().zip(&parts) {
        let times = if one.pass == KernelPass::Update { 1.0 } else { 4.0 };
        assert_eq!((repeated.repeats, repeated.launches), (times, times * one.launches));
        assert_eq!(repeated.samples(16.0), 16.0 / times);
    }
    // Four passes of 16 samples move as much as four steps of 4, but for three updates.
    let moved = |kernels: &[Kernel], batch: f64, update: bool| -> f64 {
        let some = kernels.iter().filter(|kernel| update || kernel.pass != KernelPass::Update);
        some.map(|kernel| kernel.repeats * kernel.traffic.for_batch(kernel.samples(batch))).sum()
    };
    let update = moved(&whole, 4.0, true) - moved(&whole, 4.0, false);
    let expected = 4.0 * moved(&whole, 4.0, true) - 3.0 * update;
    assert!((moved(&parts, 16.0, true) / expected - 1.0).abs() < 1e-12);
    // SGD with momentum moves six times its 1,248,424 weights of four bytes.
    assert_eq!(update, 6.0 * 4.0 * 1_248_424.0);
}

#[test]
fn a_checkpointed_segment_runs_forward_twice() {
    let network = zoo::build("resnet18", Dataset::Imagenet).unwrap();
    let flops = |checkpoint: Checkpoint, pass: KernelPass| -> f64 {
        let step = Step { checkpoint, ..Step::published(Stage::Training) };
        let kernels = kernels(&network, step).into_iter().filter(|kernel| kernel.pass == pass);
        kernels.filter_map(|kernel| kernel.product).map(|product| product.flops(1.0)).sum()
    };
    // All but the classifier, whose 512 x 1000 products run once.
    let once = 2.0 * network.macs() as f64;
    assert_eq!(flops(Checkpoint::None, KernelPass::Forward), once);
    assert_eq!(flops(Checkpoint::EveryBlock, KernelPass::Forward), 2.0 * once - 2.0 * 512_000.0);
    assert_eq!(flops(Checkpoint::EveryBlock, KernelPass::WeightGradient), once);
}

#[test]
fn nothing_to_train_is_refused_by_name() {
    let network = zoo::build("squeezenet", Dataset::Imagenet).unwrap();
    let step = |word: &str| Step { trainable: Trainable::parse(word).unwrap(), ..Step::published(Stage::Training) };
    let check = |word: &str| network.check_step(step(word));
    for word in ["all", "classifier", "last 1", "bias", "features.3.*"] {
        check(word).unwrap_or_else(|error| panic!("{word}: {error}"));
    }
    // It has no normalisations.
    for word in ["normalisation", "layer9.*"] {
        let problem = check(word).unwrap_err().to_string();
        assert!(problem.contains("leaves nothing of squeezenet to train"), "{problem}");
    }
    // A rectifier has no weights: there is nothing to train, and nothing to keep anybody from running it.
    let mut builder = NetworkBuilder::new("bare", Shape::new([3, 8, 8]));
    let output = builder.add("relu", Op::Activation(Activation::Relu), &[builder.input()]).unwrap();
    let bare = builder.finish(output);
    let problem = bare.check_step(step("all")).unwrap_err().to_string();
    assert!(problem.contains("bare has no weights, so that there is nothing to train"), "{problem}");
    bare.check_step(Step::published(Stage::Inference)).unwrap();
}
