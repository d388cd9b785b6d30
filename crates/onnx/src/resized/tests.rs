//! Files for inputs of other sizes than they were exported with.

use crate::tests::*;
use perf4sight_network::zoo;
use perf4sight_network::zoo::{Dataset, ImageDataset};

/// The file of a draft or of a written network.
struct WrittenFile {
    path: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

fn written(bytes: &[u8]) -> WrittenFile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.onnx");
    std::fs::write(&path, bytes).unwrap();
    WrittenFile { path, _folder: folder }
}

fn at(file: &WrittenFile, input: impl Into<Vec<usize>>) -> error::Result<LoadedOnnx> {
    read_at(&file.path, &NamedDims::new(), &Shape::new(input))
}

fn problem(file: &WrittenFile, input: impl Into<Vec<usize>>) -> String {
    at(file, input).unwrap_err().to_string()
}

#[test]
fn a_graph_that_fixes_nothing_is_what_is_built_for_the_other_size() {
    for name in ["resnet18", "mobilenetv2", "squeezenet", "googlenet", "mnasnet"] {
        let file = written(&to_bytes(&zoo::build(name, Dataset::Imagenet).unwrap()));
        for images in ["imagenet-3x320x320", "imagenet-3x256x192", "imagenet-3x96x96"] {
            let built = zoo::build(name, ImageDataset::from_word(images).unwrap()).unwrap();
            let LoadedOnnx { network, warnings } = at(&file, built.input_shape().dims()).unwrap();
            assert_eq!((network, warnings), (built.renamed("net"), vec![]), "{name} {images}");
        }
        let own = read(&file.path).unwrap();
        assert_eq!(at(&file, [3, 224, 224]).unwrap(), own);
    }
}

#[test]
fn what_a_graph_fixes_is_told() {
    // The first fully connected layer has 512 x 7 x 7 input features; at 320 they would be 512 x 10 x 10.
    let vgg = written(&to_bytes(&zoo::build("vgg11", Dataset::Imagenet).unwrap()));
    let answer = problem(&vgg, [3, 320, 320]);
    assert!(answer.contains("does not take an input of 3x320x320") && answer.contains("51200 features"), "{answer}");
    assert!(answer.contains("expected: 3x224x224") && answer.contains("export the network again"), "{answer}");
    // Reshapes to fixed shapes.
    let shape = [-1, 4 * 8 * 8];
    let viewed = Draft::new().weight("w", [4, 3, 1, 1]).node("Conv", &["x", "w"], "c", vec![]);
    let viewed = viewed.numbers("to", &shape).node("Reshape", &["c", "to"], "y", vec![]).output("y");
    let viewed = written(&viewed.0.encode_to_vec());
    for input in [[3, 16, 16], [3, 12, 12]] {
        let answer = problem(&viewed, input);
        assert!(answer.contains("does not take an input") && answer.contains("expected: 3x8x8"), "{answer}");
    }
    // Another number of channels than the first layer has weights for.
    assert!(problem(&vgg, [1, 224, 224]).contains("does not take an input of 1x224x224"));
}

#[test]
fn the_smallest_that_is_taken_is_named() {
    // In torchvision's documentation it is 21 for squeezenet; a search in whole pixels between 4 and 224 finds it.
    let squeezenet = written(&to_bytes(&zoo::build("squeezenet", Dataset::Imagenet).unwrap()));
    let answer = problem(&squeezenet, [3, 4, 4]);
    assert!(answer.contains("expected: 3x21x21 or more; it was exported with 3x224x224"), "{answer}");
}

#[test]
fn sizes_between_which_others_are_refused_are_named_as_two() {
    // An image halved and doubled again can be concatenated with itself only if its sides are even.
    let windows = || vec![with::ints("kernel_shape", vec![2, 2]), with::ints("strides", vec![2, 2])];
    let draft = Draft::opset(17).input("x", [Named("batch"), Is(3), Is(12), Is(12)]);
    let draft = draft.node("AveragePool", &["x"], "p", windows()).stored("twice", floats(&[4], &[1.0, 1.0, 2.0, 2.0]));
    let draft = draft.node("Resize", &["p", "", "twice"], "r", vec![with::text("mode", "nearest")]);
    let joined = draft.node("Concat", &["x", "r"], "y", vec![with::int("axis", 1)]).output("y");
    let joined = written(&joined.0.encode_to_vec());
    assert!(at(&joined, [3, 6, 6]).is_ok() && at(&joined, [3, 7, 7]).is_err());
    let answer = problem(&joined, [3, 5, 5]);
    assert!(answer.contains("or 3x12x12, with which it was exported, and not all between"), "{answer}");
}

#[test]
fn where_the_largest_is_the_own_one_no_larger_is_promised() {
    // Windows of 4 at steps of 4 make a 2 x 2 grid of 8 to 11 pixels; the next layer has 3 * 2 * 2 input features.
    let windows = || vec![with::ints("kernel_shape", vec![4, 4]), with::ints("strides", vec![4, 4])];
    let draft = Draft::opset(17).input("x", [Named("batch"), Is(3), Is(11), Is(11)]).weight("w", [12, 5]);
    let draft = draft.node("AveragePool", &["x"], "p", windows()).node("Flatten", &["p"], "f", vec![]);
    let grid = written(&draft.node("MatMul", &["f", "w"], "y", vec![]).output("y").0.encode_to_vec());
    assert!(at(&grid, [3, 8, 8]).is_ok());
    let answer = problem(&grid, [3, 4, 4]);
    assert!(answer.contains("expected: 3x8x8 to 3x11x11, with which it was exported"), "{answer}");
}

#[test]
fn what_is_no_size_of_the_input_is_refused() {
    let one = Draft::new().node("Relu", &["x"], "y", vec![]).output("y");
    let one = written(&one.0.encode_to_vec());
    let answer = problem(&one, [8, 8]);
    assert!(answer.contains("reads [batch, 3, 8, 8], a batch and 3 dimensions, not 8x8"), "{answer}");
    let two = Draft::new().input("z", [Named("batch"), Is(3), Is(8), Is(8)]).node("Add", &["x", "z"], "y", vec![]);
    let answer = problem(&written(&two.output("y").0.encode_to_vec()), [3, 16, 16]);
    assert!(answer.contains("reads 2 inputs (\"x\", \"z\")") && answer.contains("--dim"), "{answer}");
}

#[test]
fn an_open_size_is_given_by_the_input() {
    let open = Draft::opset(17).input("x", [Named("batch"), Is(3), Named("h"), Named("w")]);
    let open = open.node("Relu", &["x"], "y", vec![]).output("y");
    let open = written(&open.0.encode_to_vec());
    assert_eq!(at(&open, [3, 40, 24]).unwrap().network.output_shape(), &Shape::new([3, 40, 24]));
    assert!(read(&open.path).is_err());
}

#[test]
fn an_image_that_is_resized_to_a_size_stays_of_it() {
    let draft =
        Draft::new().weight("w", [4, 3, 3, 3]).node("Conv", &["x", "w"], "c", vec![with::ints("strides", vec![2, 2])]);
    let draft = draft.numbers("to", &[1, 4, 8, 8]).node("Resize", &["c", "", "", "to"], "y", vec![]).output("y");
    let LoadedOnnx { network, warnings } = at(&written(&draft.0.encode_to_vec()), [3, 32, 32]).unwrap();
    assert_eq!(network.output_shape(), &Shape::new([4, 8, 8]));
    assert!(warnings.iter().any(|answer| answer.contains("that it was exported with: y")), "{warnings:?}");
}
