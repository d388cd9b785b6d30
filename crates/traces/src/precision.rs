//! The precision of operators, from the recorded types of their inputs.

use crate::raw::Args;
use crate::trace::Precision;

/// The precision of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bits {
    /// 8 or fewer.
    Eight,
    /// 16.
    Half,
    Single,
    Double,
}

/// The precision of the first floating-point input of an operator, or of what it exchanges; none without one.
pub(crate) fn bits(arguments: &Args) -> Option<Bits> {
    let types = arguments.types.or(arguments.element_type)?;
    types.split(|byte| *byte == b'"').find_map(of_type)
}

/// The types that PyTorch writes (`c10::Half` of inputs, `Half` of what NCCL exchanges).
fn of_type(name: &[u8]) -> Option<Bits> {
    let name = name.strip_prefix(b"c10::").unwrap_or(name);
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    let begins = |known: &[u8]| name.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known));
    match () {
        () if is(b"half") || is(b"bfloat16") => Some(Bits::Half),
        () if is(b"float") => Some(Bits::Single),
        () if is(b"double") => Some(Bits::Double),
        // Float8_e4m3fn, Float4_e2m1fn_x2 and the like.
        () if begins(b"float8_") || begins(b"float4_") => Some(Bits::Eight),
        () => None,
    }
}

impl Precision {
    pub(crate) fn count(&mut self, bits: Bits) {
        let count = match bits {
            Bits::Eight => &mut self.eight,
            Bits::Half => &mut self.half,
            Bits::Single => &mut self.full,
            Bits::Double => &mut self.double,
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
        let inputs = |types: &'static str| bits(&Args { types: Some(types.as_bytes()), ..Args::default() });
        assert_eq!(inputs(r#"["c10::BFloat16", "c10::BFloat16"]"#), Some(Bits::Half));
        assert_eq!(inputs(r#"["long int", "float", ""]"#), Some(Bits::Single));
        for eight in ["c10::Float8_e4m3fn", "c10::Float8_e5m2fnuz", "c10::Float4_e2m1fn_x2"] {
            assert_eq!(of_type(eight.as_bytes()), Some(Bits::Eight), "{eight}");
        }
        assert_eq!(inputs(r#"["double", "double"]"#), Some(Bits::Double));
        assert_eq!(inputs(r#"["TensorList", "Scalar"]"#), None);
        assert_eq!(bits(&Args { element_type: Some(b"\"Half\""), ..Args::default() }), Some(Bits::Half));
    }
}
