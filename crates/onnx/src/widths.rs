//! Detects networks whose numbers are not of the width that is assumed here.

use super::file::OnnxFile;
use super::schema::tensor_proto::DataType;
use super::source::{dims, element_type};
use super::tensor::is_float;
use super::value::elements;
use super::warning::Warning;
use std::collections::BTreeMap;

/// A warning if most numbers of a file do not have 32 bits. The inputs' batch and other open dimensions count as one.
pub(super) fn warning(file: &OnnxFile) -> Option<Warning> {
    let mut held: BTreeMap<DataType, u64> = BTreeMap::new();
    let stored = file
        .initializers
        .iter()
        .map(|one| &one.tensor)
        .filter_map(|tensor| Some((DataType::try_from(tensor.data_type()).ok()?, elements(&tensor.dims))));
    let given = file.model.graph.iter().flat_map(|graph| &graph.input).filter_map(|input| {
        let sizes = dims(input).unwrap_or_default().into_iter().flatten();
        Some((element_type(input)?, sizes.fold(1u64, u64::saturating_mul)))
    });
    for (kind, elements) in stored.chain(given).filter(|(kind, _)| is_float(*kind)) {
        let all = held.entry(kind).or_default();
        *all = all.saturating_add(elements);
    }
    let (most, _) = held.into_iter().max_by_key(|&(_, elements)| elements)?;
    (most != DataType::Float).then(|| Warning::Width(most.as_str_name().to_lowercase()))
}
