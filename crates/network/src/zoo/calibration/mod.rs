//! Calibration networks: small networks for what a profile cannot learn from CNNs. Together they contain every category of
//! operation, at sizes below and above those of caches. They are never trained; each has a few parallel branches of blocks, whose
//! results go into one classifier.

mod attention;
mod builder;
mod convolutions;
mod images;
mod tokens;
mod windows;

use crate::Network;
use builder::CalibrationBuilder;
use perf4sight_base::error::Result;

const PREFIX: &str = "teach-";

type AddContent = fn(&mut CalibrationBuilder) -> Result<()>;

const NETWORKS: [(&str, AddContent); 6] = [
    ("teach-attention", attention::attention),
    ("teach-windows", windows::windows),
    ("teach-tokens", tokens::tokens),
    ("teach-channels-last", convolutions::channels_last),
    ("teach-gates", convolutions::gates),
    ("teach-images", images::images),
];

/// Their names.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    NETWORKS.iter().map(|(name, _)| *name)
}

/// Whether a name is reserved for these networks.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// All of them.
///
/// ```
/// use perf4sight_network::zoo::calibration;
/// let networks = calibration::all()?;
/// assert!(networks.iter().all(|network| calibration::is_reserved(network.name())));
/// # Ok::<(), perf4sight_base::error::Error>(())
/// ```
///
/// # Errors
/// Operations that do not fit one another, which a test of this crate would find.
pub fn all() -> Result<Vec<Network>> {
    NETWORKS.iter().map(|(name, content)| CalibrationBuilder::build(name, *content)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;
    use std::collections::BTreeSet;

    /// Measured rows belong to these graphs: a changed graph needs another name.
    #[test]
    fn they_stay_as_they_were_measured() {
        let sizes: Vec<(usize, u64, u64)> = all()
            .unwrap()
            .iter()
            .map(|network| (network.nodes().len(), network.macs(), network.parameters()))
            .collect();
        let measured = [
            (123, 1_787_059_968, 13_888_522),
            (186, 861_808_768, 2_987_323),
            (97, 896_688_448, 8_798_447),
            (130, 1_861_336_192, 14_576_362),
            (114, 673_532_272, 2_882_578),
            (131, 1_170_314_624, 3_296_714),
        ];
        assert_eq!(sizes, measured);
    }

    #[test]
    fn they_hold_what_no_known_cnn_does() {
        let networks = all().unwrap();
        let held: BTreeSet<&str> =
            networks.iter().flat_map(|network| network.nodes().iter().map(|node| node.op.kind())).collect();
        let wanted = "attention drop-path dropout matmul softmax layer-norm group-norm gelu silu hard-swish hard-sigmoid sigmoid tanh mish elu \
                      leaky-relu softplus exp sqrt pow div sub erf where resize pad conv-transpose every pick slice \
                      expand mean sum reduce-max norm";
        let missing: Vec<&str> = wanted.split_whitespace().filter(|kind| !held.contains(kind)).collect();
        assert_eq!(missing, Vec::<&str>::new());
        let unknown = |network: &Network| network.nodes().iter().any(|node| matches!(node.op, Op::Unknown(_)));
        assert!(!networks.iter().any(unknown));
    }
}
