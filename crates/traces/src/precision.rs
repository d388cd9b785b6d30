//! The precision of operators, from the recorded types of their inputs.

use crate::raw::Args;
use crate::trace::Precision;

/// Whether the first floating-point input of an operator, or what it exchanges, has 16 bits or fewer; none without one.
pub(crate) fn is_half(arguments: &Args) -> Option<bool> {
    let types = arguments.types.or(arguments.element_type)?;
    types.split(|byte| *byte == b'"').find_map(of_type)
}

/// The types that PyTorch writes (`c10::Half` of inputs, `Half` of what NCCL exchanges).
fn of_type(name: &[u8]) -> Option<bool> {
    let name = name.strip_prefix(b"c10::").unwrap_or(name);
    let is = |known: &&[u8]| name.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known));
    let [half, full]: [&[&[u8]]; 2] = [&[b"half", b"bfloat16", b"float8"], &[b"float", b"double"]];
    if half.iter().any(is) { Some(true) } else { full.iter().any(is).then_some(false) }
}

impl Precision {
    pub(crate) fn count(&mut self, is_half: bool) {
        let count = if is_half { &mut self.half } else { &mut self.full };
        *count = count.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PyTorch 2.11 writes them: of a product, of an embedding, of an all-reduce of NCCL, of a list.
    #[test]
    fn types_of_inputs_are_read() {
        let inputs = |types: &'static str| is_half(&Args { types: Some(types.as_bytes()), ..Args::default() });
        assert_eq!(inputs(r#"["c10::BFloat16", "c10::BFloat16"]"#), Some(true));
        assert_eq!(inputs(r#"["long int", "float", ""]"#), Some(false));
        assert_eq!(inputs(r#"["c10::Float8_e4m3fn"]"#), Some(true));
        assert_eq!(inputs(r#"["TensorList", "Scalar"]"#), None);
        assert_eq!(is_half(&Args { element_type: Some(b"\"Half\""), ..Args::default() }), Some(true));
    }
}
