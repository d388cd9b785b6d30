//! Which files a written network replaces, and which networks are not written because they could not be read again.

use super::super::*;
use std::fs;
use std::path::PathBuf;

/// A network of the repository.
fn committed(name: &str) -> Vec<u8> {
    fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models/imagenet").join(name)).unwrap()
}

fn changed(mut bytes: Vec<u8>, word: &[u8], into: &[u8]) -> Vec<u8> {
    let at = bytes.windows(word.len()).position(|window| window == word).unwrap();
    bytes[at..at + word.len()].copy_from_slice(into);
    bytes
}

#[test]
fn only_files_of_this_program_without_weights_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("net.onnx");
    let ours = committed("squeezenet.onnx");
    let network = from_bytes("net", &ours).unwrap().network;
    // ModelProto.graph (7) of one GraphProto.initializer (5) with a name (8) and data (9): protobuf merges appended messages.
    let trained =
        [ours.as_slice(), &[7 << 3 | 2, 10, 5 << 3 | 2, 8, 8 << 3 | 2, 1, b'w', 9 << 3 | 2, 3, 0, 0, 0]].concat();
    for (there, replaced) in [
        (&ours, true),
        (&Vec::new(), true),
        (&trained, false),
        (&changed(ours.clone(), b"perf4sight", b"pytorch2.9"), false),
        (&b"no network".to_vec(), false),
    ] {
        fs::write(&file, there).unwrap();
        assert_eq!(write(&network, &file).is_ok(), replaced);
        assert_eq!(check_replaced(&file, false).is_ok(), replaced);
        assert!(fs::read(&file).unwrap() == if replaced { to_bytes(&network) } else { there.clone() });
        assert!(write_over(&network, &file, true).is_ok());
    }
}

/// An unknown operator: the shape of its output is guessed, and later nodes do not fit.
#[test]
fn what_could_not_be_read_again_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("net.onnx");
    let damaged = from_bytes("net", &changed(committed("alexnet.onnx"), b"MaxPool", b"MaxPbol")).unwrap();
    assert!(!damaged.warnings.is_empty());
    let error = write_over(&damaged.network, &file, false).unwrap_err();
    assert_eq!(error.kind().exit_code(), 4, "{error}");
    assert!(error.to_string().contains("was not written") && !file.exists(), "{error}");
}

/// Exports of many programs are written and read again unchanged.
#[test]
fn exports_can_be_read_again() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/suite/exports");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|file| file.extension().is_some_and(|ending| ending == "onnx"));
    let target = tempfile::tempdir().unwrap();
    let refused = files.filter_map(|file| {
        let network = read(&file).ok()?.network;
        write_over(&network, target.path().join("net.onnx"), true).err()
    });
    assert_eq!(refused.map(|error| error.to_string()).collect::<Vec<_>>(), Vec::<String>::new());
}

/// `nn.BatchNorm2d(8, affine=False)`: ONNX asks for a scale and a shift, which are no parameters then.
#[test]
fn batch_normalisations_without_parameters_have_none_when_read_again() {
    use crate::tests::rewritten;
    use perf4sight_network::{NetworkBuilder, Op, Shape};
    for axis in [0, 1] {
        let mut builder = NetworkBuilder::new("plain", Shape::new([8, 8]));
        let norm = builder.add("norm", Op::BatchNorm { axis }, &[builder.input()]).unwrap();
        builder.set_trained(norm, 0);
        let network = builder.finish(norm);
        let again = rewritten(&network).network;
        assert_eq!((again.parameters(), network.parameters()), (0, 0));
    }
}
