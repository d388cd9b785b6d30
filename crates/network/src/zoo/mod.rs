//! The known families of networks in torchvision's layouts, built for a dataset's input and classes.

mod alexnet;
pub mod calibration;
mod convnext;
mod dataset;
mod densenet;
mod efficientnet;
mod googlenet;
mod images;
mod layers;
mod mnasnet;
mod mobilenetv2;
mod mobilenetv3;
mod regnet;
mod resnet;
mod shufflenet;
mod squeezenet;
mod vgg;
mod vit;

pub use dataset::Dataset;
pub use images::{ImageDataset, parse_classes, parse_input};

use super::{Network, Shape};
use layers::ZooLayers;
use perf4sight_base::error::{Error, Result};

/// Appends a whole network with this number of classes; nodes have the names of torchvision's modules.
type NetworkFamily = fn(&mut ZooLayers, classes: usize) -> Result<()>;

const FAMILIES: [(&str, NetworkFamily); 25] = [
    ("alexnet", alexnet::alexnet),
    ("vgg11", |layers, classes| vgg::vgg(layers, [1, 1, 2, 2, 2], classes)),
    ("vgg13", |layers, classes| vgg::vgg(layers, [2, 2, 2, 2, 2], classes)),
    ("vgg16", |layers, classes| vgg::vgg(layers, [2, 2, 3, 3, 3], classes)),
    ("vgg19", |layers, classes| vgg::vgg(layers, [2, 2, 4, 4, 4], classes)),
    ("resnet18", |layers, classes| resnet::resnet(layers, resnet::basic, [2, 2, 2, 2], classes)),
    ("resnet34", |layers, classes| resnet::resnet(layers, resnet::basic, [3, 4, 6, 3], classes)),
    ("resnet50", |layers, classes| resnet::resnet(layers, resnet::bottleneck, [3, 4, 6, 3], classes)),
    ("resnet101", |layers, classes| resnet::resnet(layers, resnet::bottleneck, [3, 4, 23, 3], classes)),
    ("resnet152", |layers, classes| resnet::resnet(layers, resnet::bottleneck, [3, 8, 36, 3], classes)),
    ("mobilenetv2", mobilenetv2::mobilenetv2),
    ("squeezenet", squeezenet::squeezenet),
    ("mnasnet", mnasnet::mnasnet),
    ("googlenet", googlenet::googlenet),
    ("vgg16_bn", |layers, classes| vgg::normalised(layers, [2, 2, 3, 3, 3], classes)),
    ("resnext50_32x4d", |layers, classes| resnet::resnet(layers, resnet::grouped, [3, 4, 6, 3], classes)),
    ("wide_resnet50_2", |layers, classes| resnet::resnet(layers, resnet::wide_bottleneck, [3, 4, 6, 3], classes)),
    ("densenet121", |layers, classes| densenet::densenet(layers, [6, 12, 24, 16], classes)),
    ("shufflenet_v2_x1_0", shufflenet::shufflenet),
    ("mobilenet_v3_small", mobilenetv3::small),
    ("mobilenet_v3_large", mobilenetv3::large),
    ("efficientnet_b0", efficientnet::efficientnet),
    ("regnet_y_400mf", regnet::regnet),
    ("convnext_tiny", convnext::convnext),
    ("vit_b_16", vit::vit_b_16),
];

/// Names of torchvision for networks that the published rows call otherwise.
const ALIASES: [(&str, &str); 3] =
    [("mobilenet_v2", "mobilenetv2"), ("mnasnet1_0", "mnasnet"), ("squeezenet1_0", "squeezenet")];

/// Larger than the minimum of any network here; the search for a smallest input stops at this size.
const LARGEST_INPUT: usize = 1024;

/// The names of the networks that [`build`] makes, family by family.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    FAMILIES.iter().map(|(name, _)| *name)
}

/// The network `name` for images of some size and classes: those of a dataset, or others.
///
/// ```
/// use perf4sight_network::zoo::{Dataset, ImageDataset, build};
/// assert_eq!(build("resnet18", Dataset::Imagenet)?.parameters(), 11_689_512);
/// assert!(build("alexnet", Dataset::Cifar10).is_err()); // needs images of 63 x 63 or more
/// let larger = build("resnet18", ImageDataset::from_word("imagenet-3x320x320-7")?)?;
/// assert_eq!((larger.read(), larger.classes()), ("3x320x320".to_owned(), 7));
/// # Ok::<(), perf4sight_base::error::Error>(())
/// ```
///
/// # Errors
/// An unknown name, with the nearest known one; images that the network cannot take, with the smallest size it takes.
pub fn build(name: &str, images: impl Into<ImageDataset>) -> Result<Network> {
    let ((name, family), images) = (family(name)?, images.into());
    let input = images.input();
    if input.rank() != 3 {
        return Err(Error::usage(format!("{name} reads images, not {input}")).expected("a shape such as 3x320x320"));
    }
    build_with(name, family, input.clone(), images.classes()).map_err(|misfit| {
        let error = Error::input(format!("{name} does not fit the {input} images of {}: {misfit}", images.word()));
        match smallest(name, family) {
            Some(least) => error.expected(format!("images of {least}x{least} or more")),
            None => error,
        }
    })
}

/// Height and width of the smallest square image the network takes, found by trying larger and larger ones.
///
/// # Errors
/// An unknown name, with the nearest known one.
pub fn smallest_input(name: &str) -> Result<usize> {
    let (name, family) = family(name)?;
    smallest(name, family)
        .ok_or_else(|| Error::input(format!("{name} takes no image up to {LARGEST_INPUT}x{LARGEST_INPUT}")))
}

fn smallest(name: &str, family: NetworkFamily) -> Option<usize> {
    (1..=LARGEST_INPUT).find(|&size| build_with(name, family, Shape::new([3, size, size]), 1).is_ok())
}

fn build_with(name: &str, family: NetworkFamily, input: Shape, classes: usize) -> Result<Network> {
    let mut layers = ZooLayers::new(name, input);
    family(&mut layers, classes)?;
    Ok(layers.finish())
}

/// Refuses a name that is not among [`names`].
///
/// # Errors
/// An unknown name; the nearest known one is suggested.
pub fn check_name(name: &str) -> Result<()> {
    family(name).map(drop)
}

fn family(name: &str) -> Result<(&'static str, NetworkFamily)> {
    let meant = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, meant)| meant);
    let found = FAMILIES.iter().find(|(known, _)| *known == meant).copied();
    found.ok_or_else(|| Error::config(format!("unknown network \"{name}\"")).one_of(name, names()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// torchvision's documentation of its pretrained weights: `num_params` and `_ops` (GMACs at 224x224, rounded).
    const PUBLISHED: [(&str, u64, f64); 25] = [
        ("alexnet", 61_100_840, 0.714),
        ("vgg11", 132_863_336, 7.609),
        ("vgg13", 133_047_848, 11.308),
        ("vgg16", 138_357_544, 15.470),
        ("vgg19", 143_667_240, 19.632),
        ("resnet18", 11_689_512, 1.814),
        ("resnet34", 21_797_672, 3.664),
        ("resnet50", 25_557_032, 4.089),
        ("resnet101", 44_549_160, 7.801),
        ("resnet152", 60_192_808, 11.514),
        ("mobilenetv2", 3_504_872, 0.301),
        ("squeezenet", 1_248_424, 0.819),
        ("mnasnet", 4_383_312, 0.314),
        ("googlenet", 6_624_904, 1.498),
        ("vgg16_bn", 138_365_992, 15.470),
        ("resnext50_32x4d", 25_028_904, 4.230),
        ("wide_resnet50_2", 68_883_240, 11.398),
        ("densenet121", 7_978_856, 2.834),
        ("shufflenet_v2_x1_0", 2_278_604, 0.145),
        ("mobilenet_v3_small", 2_542_856, 0.057),
        ("mobilenet_v3_large", 5_483_032, 0.217),
        ("efficientnet_b0", 5_288_548, 0.386),
        ("regnet_y_400mf", 4_344_144, 0.402),
        ("convnext_tiny", 28_589_128, 4.456),
        ("vit_b_16", 86_567_656, 17.564),
    ];

    #[test]
    fn parameters_and_macs_are_the_published_ones() {
        assert!(names().eq(PUBLISHED.iter().map(|(name, ..)| *name)));
        for (name, parameters, gmacs) in PUBLISHED {
            let network = build(name, Dataset::Imagenet).unwrap();
            assert_eq!(network.parameters(), parameters, "{name}");
            let counted = network.macs() as f64 / 1e9;
            assert!((counted - gmacs).abs() <= 0.0011, "{name}: {counted} GMACs, published {gmacs}");
        }
    }

    /// Multiply-accumulates of a forward pass in training of torchvision 0.26, by `torch.utils.flop_counter` of PyTorch 2.11 (half
    /// of its FLOPs of a sample).
    const COUNTED: [(&str, u64); 11] = [
        ("vgg16_bn", 15_470_264_320),
        ("resnext50_32x4d", 4_230_479_872),
        ("wide_resnet50_2", 11_398_021_120),
        ("densenet121", 2_834_161_664),
        ("shufflenet_v2_x1_0", 144_907_992),
        ("mobilenet_v3_small", 56_510_400),
        ("mobilenet_v3_large", 216_589_760),
        ("efficientnet_b0", 385_814_752),
        ("regnet_y_400mf", 401_842_848),
        ("convnext_tiny", 4_455_531_264),
        ("vit_b_16", 17_563_828_224),
    ];

    #[test]
    fn macs_are_those_that_pytorch_counts() {
        for (name, macs) in COUNTED {
            assert_eq!(build(name, Dataset::Imagenet).unwrap().macs(), macs, "{name}");
        }
    }

    #[test]
    fn names_of_nodes_are_unique() {
        for name in names() {
            let network = build(name, Dataset::Imagenet).unwrap();
            let unique: HashSet<_> = network.nodes().iter().map(|node| &node.name).collect();
            assert_eq!(unique.len(), network.nodes().len(), "{name}");
        }
    }

    #[test]
    fn small_images_change_only_the_classifier() {
        // resnet18's fully connected layer has 512 input features: 990 fewer classes of 512 weights and a bias each.
        let small = build("resnet18", Dataset::Cifar10).unwrap();
        assert_eq!(small.parameters(), 11_689_512 - 990 * 513);
        assert_eq!((small.input_shape(), small.classes()), (&Shape::new([3, 32, 32]), 10));
        // A vision transformer's places are those of the images that it was built for: two patches across, two down.
        let vit = build("vit_b_16", Dataset::Cifar10).unwrap();
        assert_eq!(vit.parameters(), 86_567_656 - 990 * 769 - (197 - 5) * 768);
        for name in names().filter(|name| !["alexnet", "densenet121"].contains(name)) {
            assert_eq!(build(name, Dataset::Cifar100).unwrap().classes(), 100, "{name}");
        }
    }

    #[test]
    fn too_small_images_are_refused_with_the_smallest_that_fit() {
        // `min_size` in torchvision's documentation of its weights.
        for (name, least) in [
            ("alexnet", 63),
            ("vgg16", 32),
            ("resnet50", 1),
            ("mobilenetv2", 1),
            ("squeezenet", 21),
            ("mnasnet", 1),
            ("googlenet", 15),
            ("densenet121", 29),
            ("convnext_tiny", 32),
            ("efficientnet_b0", 1),
            ("mobilenet_v3_small", 1),
            ("mobilenet_v3_large", 1),
            ("shufflenet_v2_x1_0", 1),
            ("regnet_y_400mf", 1),
            ("resnext50_32x4d", 1),
            ("wide_resnet50_2", 1),
        ] {
            assert_eq!(smallest_input(name).unwrap(), least, "{name}");
        }
        let message = build("alexnet", Dataset::Cifar10).unwrap_err().to_string();
        assert!(message.contains("3x32x32 images of cifar10") && message.contains("63x63 or more"), "{message}");
    }

    #[test]
    fn images_of_any_size_change_activations_and_classes_the_classifier() {
        // By hand: at 320 the image after the five halvings is 10 x 10 instead of 7 x 7, and every convolution of resnet18 has
        // (10 / 7)^2 as many positions; of its 1,814,073,344 multiply-accumulates at 224 the 512,000 of the classifier stay, at 7
        // classes 3,584 of them.
        let images = ImageDataset::from_dataset("imagenet", Some(&Shape::new([3, 320, 320])), Some(7)).unwrap();
        let network = build("resnet18", images).unwrap();
        assert_eq!(network.macs(), (1_814_073_344 - 512_000) / 49 * 100 + 7 * 512);
        assert_eq!(network.parameters(), 11_689_512 - 993 * 513);
        // Grey images, higher than wide: vgg11's first filters have one channel, and its adaptive pooling takes any remaining
        // size.
        let grey = ImageDataset::from_dataset("imagenet", Some(&Shape::new([1, 96, 64])), None).unwrap();
        assert_eq!(build("vgg11", grey).unwrap().parameters(), 132_863_336 - 2 * 64 * 9);
        let words = ImageDataset::from_dataset("imagenet", Some(&Shape::new([16, 8])), None).unwrap();
        assert!(build("vgg11", words).unwrap_err().to_string().contains("reads images, not 16x8"));
    }

    #[test]
    fn names_of_torchvision_are_understood() {
        for (alias, name) in ALIASES {
            assert_eq!(build(alias, Dataset::Imagenet).unwrap(), build(name, Dataset::Imagenet).unwrap());
            assert!(smallest_input(alias).is_ok() && !names().any(|known| known == alias));
        }
    }

    #[test]
    fn unknown_names_suggest_the_nearest() {
        let message = build("resnet81", Dataset::Imagenet).unwrap_err().to_string();
        assert!(message.contains("did you mean \"resnet18\"?"), "{message}");
    }
}
