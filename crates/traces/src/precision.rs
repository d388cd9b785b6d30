//! The precision of operators, from the recorded types of their inputs.

use crate::raw::RawArguments;
use crate::trace::PrecisionCounts;

/// The precision of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrecisionBits {
    /// 8 or fewer.
    Eight,
    /// 16.
    Half,
    Single,
    Double,
}

/// The precision of the first floating-point input of an operator, or of what it exchanges; none without one.
pub(crate) fn bits(arguments: &RawArguments) -> Option<PrecisionBits> {
    let types = arguments.types.or(arguments.element_type)?;
    types.split(|byte| *byte == b'"').find_map(of_type)
}

/// The types that PyTorch writes (`c10::Half` of inputs, `Half` of what NCCL exchanges).
fn of_type(name: &[u8]) -> Option<PrecisionBits> {
    let name = name.strip_prefix(b"c10::").unwrap_or(name);
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    let begins = |known: &[u8]| name.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known));
    match () {
        () if is(b"half") || is(b"bfloat16") => Some(PrecisionBits::Half),
        () if is(b"float") => Some(PrecisionBits::Single),
        () if is(b"double") => Some(PrecisionBits::Double),
        // Float8_e4m3fn, Float4_e2m1fn_x2 and the like.
        () if begins(b"float8_") || begins(b"float4_") => Some(PrecisionBits::Eight),
        () => None,
    }
}

impl PrecisionCounts {
    pub(crate) fn count(&mut self, bits: PrecisionBits) {
        let count = match bits {
            PrecisionBits::Eight => &mut self.eight,
            PrecisionBits::Half => &mut self.half,
            PrecisionBits::Single => &mut self.full,
            PrecisionBits::Double => &mut self.double,
        };
        *count = count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PyTorch 2.11 writes them: of a product, of an embedding, of an all-reduce of NCCL, of a list.
    #[test]
    fn types_of_inputs_are_read() {
        let inputs =
            |types: &'static str| bits(&RawArguments { types: Some(types.as_bytes()), ..RawArguments::default() });
        assert_eq!(inputs(r#"["c10::BFloat16", "c10::BFloat16"]"#), Some(PrecisionBits::Half));
        assert_eq!(inputs(r#"["long int", "float", ""]"#), Some(PrecisionBits::Single));
        for eight in ["c10::Float8_e4m3fn", "c10::Float8_e5m2fnuz", "c10::Float4_e2m1fn_x2"] {
            assert_eq!(of_type(eight.as_bytes()), Some(PrecisionBits::Eight), "{eight}");
        }
        assert_eq!(inputs(r#"["double", "double"]"#), Some(PrecisionBits::Double));
        assert_eq!(inputs(r#"["TensorList", "Scalar"]"#), None);
        assert_eq!(
            bits(&RawArguments { element_type: Some(b"\"Half\""), ..RawArguments::default() }),
            Some(PrecisionBits::Half)
        );
    }
}
