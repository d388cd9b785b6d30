//! The detectors of torchvision that can be trained, as far as that is known before Python starts.

use perf4sight_base::error::{Error, Result, nearest};

/// A detector of torchvision.
struct KnownDetector {
    name: &'static str,
    /// The one size of images that it is made for, in pixels; none where it takes any.
    made_for: Option<u64>,
}

const fn of_any_size(name: &'static str) -> KnownDetector {
    KnownDetector { name, made_for: None }
}

const KNOWN: [KnownDetector; 8] = [
    of_any_size("fasterrcnn_resnet50_fpn"),
    of_any_size("fasterrcnn_resnet50_fpn_v2"),
    of_any_size("fasterrcnn_mobilenet_v3_large_fpn"),
    of_any_size("fasterrcnn_mobilenet_v3_large_320_fpn"),
    of_any_size("retinanet_resnet50_fpn"),
    KnownDetector { name: "ssd300_vgg16", made_for: Some(300) },
    KnownDetector { name: "ssdlite320_mobilenet_v3_large", made_for: Some(320) },
    of_any_size("fcos_resnet50_fpn"),
];

/// Refuses a network that no torchvision has; one that the installed version lacks, and one of the user's own, only Python knows.
pub(super) fn check_name(network: &str) -> Result<()> {
    if network.contains(':') || KNOWN.iter().any(|known| known.name == network) {
        return Ok(());
    }
    let names = KNOWN.map(|known| known.name);
    let error = Error::usage(format!("no detector is called \"{network}\""))
        .expected(format!("one of {}, or module:function of your own", names.join(", ")));
    Err(match nearest(network, names) {
        Some(name) => error.help(format!("did you mean \"{name}\"?")),
        None => error,
    })
}

/// Refuses images of a size that the network is not made for.
pub(super) fn check_size(network: &str, size: Option<u64>) -> Result<()> {
    let made_for = KNOWN.iter().find(|known| known.name == network).and_then(|known| known.made_for);
    match size.zip(made_for).filter(|(size, made_for)| size != made_for) {
        None => Ok(()),
        Some((size, made_for)) => {
            Err(Error::usage(format!("{network} is made for images of {made_for} pixels, not {size}"))
                .help("leave the size out, or choose a network that takes any size"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worker's own list, from which it makes them.
    #[test]
    fn the_worker_knows_the_same_detectors() {
        let worker = include_str!("../worker/detection_worker.py");
        let (_, list) = worker.split_once("NETWORKS = (").unwrap();
        let names: Vec<&str> =
            list.split_once(')').unwrap().0.split(',').map(|name| name.trim().trim_matches('"')).collect();
        assert_eq!(names, KNOWN.map(|known| known.name));
    }

    #[test]
    fn names_and_sizes_that_cannot_be_are_refused() {
        let error = check_name("fasterrcnn_resnet50_fnp").unwrap_err().to_string();
        assert!(error.contains("did you mean \"fasterrcnn_resnet50_fpn\"?"), "{error}");
        assert!(check_name("my.module:network").is_ok());
        let ssd = "ssdlite320_mobilenet_v3_large";
        let error = check_size(ssd, Some(200)).unwrap_err().to_string();
        assert!(error.contains("320 pixels, not 200"), "{error}");
        for (network, size) in [(ssd, Some(320)), (ssd, None), ("fcos_resnet50_fpn", Some(200)), ("my:ssd", Some(9))] {
            assert!(check_size(network, size).is_ok(), "{network} {size:?}");
        }
    }
}
