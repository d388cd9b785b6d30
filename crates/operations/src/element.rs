//! Types of elements, as PyTorch, TensorFlow and MXNet write them.

use perf4sight_base::words;

words! {
    /// The type of a tensor's elements.
    pub enum Element: "type of elements" {
        Fp64 = "fp64",
        Fp32 = "fp32",
        Fp16 = "fp16",
        Bf16 = "bf16",
        Fp8 = "fp8",
        Int64 = "int64",
        Int32 = "int32",
        Int16 = "int16",
        Int8 = "int8",
        Bool = "bool",
    }
}

/// Other spellings: of PyTorch's profiler, of TensorFlow and NumPy.
const SPELLINGS: [(&str, Element); 18] = [
    ("float", Element::Fp32),
    ("float32", Element::Fp32),
    ("double", Element::Fp64),
    ("float64", Element::Fp64),
    ("half", Element::Fp16),
    ("float16", Element::Fp16),
    ("bfloat16", Element::Bf16),
    ("long", Element::Int64),
    ("long int", Element::Int64),
    ("int", Element::Int32),
    ("resource", Element::Int64),
    ("short", Element::Int16),
    ("char", Element::Int8),
    ("signed char", Element::Int8),
    ("unsigned char", Element::Int8),
    ("uint8", Element::Int8),
    ("byte", Element::Int8),
    ("int8_t", Element::Int8),
];

impl Element {
    /// The type of that name in any spelling; none for what is no type of a tensor.
    pub fn spelled(name: &str) -> Option<Element> {
        let name = name.trim().trim_start_matches("c10::").trim_start_matches("torch.").to_ascii_lowercase();
        let own = Element::ALL.into_iter().find(|element| element.name() == name);
        let spelled = || SPELLINGS.iter().find(|(spelling, _)| *spelling == name).map(|(_, element)| *element);
        // Of eight bits there are several: float8_e4m3fn, float8_e5m2, each also as fnuz.
        own.or_else(spelled).or_else(|| name.starts_with("float8_").then_some(Element::Fp8))
    }

    /// Bytes of an element.
    pub fn bytes(self) -> f64 {
        match self {
            Element::Fp64 | Element::Int64 => 8.0,
            Element::Fp32 | Element::Int32 => 4.0,
            Element::Fp16 | Element::Bf16 | Element::Int16 => 2.0,
            Element::Fp8 | Element::Int8 | Element::Bool => 1.0,
        }
    }

    /// Whether products of it run on units for half precision, where a GPU has them.
    pub fn is_half(self) -> bool {
        match self {
            Element::Fp16 | Element::Bf16 | Element::Fp8 => true,
            Element::Fp64
            | Element::Fp32
            | Element::Int64
            | Element::Int32
            | Element::Int16
            | Element::Int8
            | Element::Bool => false,
        }
    }

    /// Whether data sheets here hold the rate of its products: in eight bits, in double precision and of whole numbers it is another one.
    pub(crate) fn has_rate(self) -> bool {
        match self {
            Element::Fp32 | Element::Fp16 | Element::Bf16 => true,
            Element::Fp64
            | Element::Fp8
            | Element::Int64
            | Element::Int32
            | Element::Int16
            | Element::Int8
            | Element::Bool => false,
        }
    }

    /// Whether it is a floating-point number.
    pub fn is_float(self) -> bool {
        self.is_half() || matches!(self, Element::Fp64 | Element::Fp32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_frameworks_are_known() {
        for (name, element) in [
            ("c10::BFloat16", Element::Bf16),
            ("float", Element::Fp32),
            ("long int", Element::Int64),
            ("float16", Element::Fp16),
            ("bf16", Element::Bf16),
            ("c10::Float8_e4m3fn", Element::Fp8),
            ("c10::Float8_e5m2fnuz", Element::Fp8),
        ] {
            assert_eq!(Element::spelled(name), Some(element), "{name}");
        }
        assert_eq!(["Scalar", "", "c10::Float4_e2m1fn_x2"].map(Element::spelled), [None; 3]);
    }
}
