//! The known families of networks in torchvision's layouts, built for a dataset's input and classes.

mod alexnet;
pub mod calibration;
mod dataset;
mod googlenet;
mod images;
mod layers;
mod mnasnet;
mod mobilenetv2;
mod resnet;
mod squeezenet;
mod vgg;

pub use dataset::Dataset;
pub use images::{Images, parse_classes, parse_input};

use super::{Network, Shape};
use layers::Layers;
use perf4sight_base::error::{Error, Result};

/// Appends a whole network with this number of classes; nodes have the names of torchvision's modules.
type Family = fn(&mut Layers, classes: usize) -> Result<()>;

const FAMILIES: [(&str, Family); 14] = [
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
];

/// Larger than the minimum of any network here; the search for a smallest input stops at this size.
const LARGEST_INPUT: usize = 1024;

/// The names that [`build`] accepts, family by family.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    FAMILIES.iter().map(|(name, _)| *name)
}

/// The network `name` for images of some size and classes: those of a dataset, or others.
///
/// ```
/// use perf4sight_network::zoo::{Dataset, Images, build};
/// assert_eq!(build("resnet18", Dataset::Imagenet)?.parameters(), 11_689_512);
/// assert!(build("alexnet", Dataset::Cifar10).is_err()); // needs images of 63 x 63 or more
/// let larger = build("resnet18", Images::named("imagenet-3x320x320-7")?)?;
/// assert_eq!((larger.read(), larger.classes()), ("3x320x320".to_owned(), 7));
/// # Ok::<(), perf4sight_base::error::Error>(())
/// ```
///
/// # Errors
/// An unknown name, with the nearest known one; images that the network cannot take, with the smallest size it takes.
pub fn build(name: &str, images: impl Into<Images>) -> Result<Network> {
    let (family, images) = (family(name)?, images.into());
    let input = images.input();
    if input.rank() != 3 {
        return Err(Error::input(format!("{name} reads images, not {input}")).expected("a shape such as 3x320x320"));
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
    smallest(name, family(name)?)
        .ok_or_else(|| Error::input(format!("{name} takes no image up to {LARGEST_INPUT}x{LARGEST_INPUT}")))
}

fn smallest(name: &str, family: Family) -> Option<usize> {
    (1..=LARGEST_INPUT).find(|&size| build_with(name, family, Shape::new([3, size, size]), 1).is_ok())
}

fn build_with(name: &str, family: Family, input: Shape, classes: usize) -> Result<Network> {
    let mut layers = Layers::new(name, input);
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

fn family(name: &str) -> Result<Family> {
    let found = FAMILIES.iter().find(|(known, _)| *known == name);
    found
        .map(|(_, family)| *family)
        .ok_or_else(|| Error::config(format!("unknown network \"{name}\"")).one_of(name, names()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// torchvision's documentation of its pretrained weights: `num_params` and `_ops` (GMACs at 224x224, rounded).
    const PUBLISHED: [(&str, u64, f64); 14] = [
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
        for name in names().filter(|name| *name != "alexnet") {
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
        let images = Images::of("imagenet", Some(&Shape::new([3, 320, 320])), Some(7)).unwrap();
        let network = build("resnet18", images).unwrap();
        assert_eq!(network.macs(), (1_814_073_344 - 512_000) / 49 * 100 + 7 * 512);
        assert_eq!(network.parameters(), 11_689_512 - 993 * 513);
        // Grey images, higher than wide: vgg11's first filters have one channel, and its adaptive pooling takes any remaining
        // size.
        let grey = Images::of("imagenet", Some(&Shape::new([1, 96, 64])), None).unwrap();
        assert_eq!(build("vgg11", grey).unwrap().parameters(), 132_863_336 - 2 * 64 * 9);
        let words = Images::of("imagenet", Some(&Shape::new([16, 8])), None).unwrap();
        assert!(build("vgg11", words).unwrap_err().to_string().contains("reads images, not 16x8"));
    }

    #[test]
    fn unknown_names_suggest_the_nearest() {
        let message = build("resnet81", Dataset::Imagenet).unwrap_err().to_string();
        assert!(message.contains("did you mean \"resnet18\"?"), "{message}");
    }
}
