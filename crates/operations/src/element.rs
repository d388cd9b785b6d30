//! Types of elements, as PyTorch, TensorFlow and MXNet write them.

use perf4sight_base::words;

words! {
    /// The type of a tensor's elements.
    pub enum ElementType: "type of elements" {
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
const SPELLINGS: [(&str, ElementType); 18] = [
    ("float", ElementType::Fp32),
    ("float32", ElementType::Fp32),
    ("double", ElementType::Fp64),
    ("float64", ElementType::Fp64),
    ("half", ElementType::Fp16),
    ("float16", ElementType::Fp16),
    ("bfloat16", ElementType::Bf16),
    ("long", ElementType::Int64),
    ("long int", ElementType::Int64),
    ("int", ElementType::Int32),
    ("resource", ElementType::Int64),
    ("short", ElementType::Int16),
    ("char", ElementType::Int8),
    ("signed char", ElementType::Int8),
    ("unsigned char", ElementType::Int8),
    ("uint8", ElementType::Int8),
    ("byte", ElementType::Int8),
    ("int8_t", ElementType::Int8),
];

impl ElementType {
    /// The type of that name in any spelling; none for what is no type of a tensor.
    pub fn from_spelling(name: &str) -> Option<ElementType> {
        let name = name.trim().trim_start_matches("c10::").trim_start_matches("torch.").to_ascii_lowercase();
        let own = ElementType::ALL.into_iter().find(|element| element.name() == name);
        let spelled = || SPELLINGS.iter().find(|(spelling, _)| *spelling == name).map(|(_, element)| *element);
        // Of eight bits there are several: float8_e4m3fn, float8_e5m2, each also as fnuz.
        own.or_else(spelled).or_else(|| name.starts_with("float8_").then_some(ElementType::Fp8))
    }

    /// Bytes of an element.
    pub fn bytes(self) -> f64 {
        match self {
            ElementType::Fp64 | ElementType::Int64 => 8.0,
            ElementType::Fp32 | ElementType::Int32 => 4.0,
            ElementType::Fp16 | ElementType::Bf16 | ElementType::Int16 => 2.0,
            ElementType::Fp8 | ElementType::Int8 | ElementType::Bool => 1.0,
        }
    }

    /// Whether products of it run on units for half precision, where a GPU has them.
    pub fn is_half(self) -> bool {
        match self {
            ElementType::Fp16 | ElementType::Bf16 | ElementType::Fp8 => true,
            ElementType::Fp64
            | ElementType::Fp32
            | ElementType::Int64
            | ElementType::Int32
            | ElementType::Int16
            | ElementType::Int8
            | ElementType::Bool => false,
        }
    }

    /// Whether data sheets here hold the rate of its products: in eight bits, in double precision and of whole numbers it is another one.
    pub(crate) fn has_rate(self) -> bool {
        match self {
            ElementType::Fp32 | ElementType::Fp16 | ElementType::Bf16 => true,
            ElementType::Fp64
            | ElementType::Fp8
            | ElementType::Int64
            | ElementType::Int32
            | ElementType::Int16
            | ElementType::Int8
            | ElementType::Bool => false,
        }
    }

    /// Whether it is a floating-point number.
    pub fn is_float(self) -> bool {
        self.is_half() || matches!(self, ElementType::Fp64 | ElementType::Fp32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_frameworks_are_known() {
        for (name, element) in [
            ("c10::BFloat16", ElementType::Bf16),
            ("float", ElementType::Fp32),
            ("long int", ElementType::Int64),
            ("float16", ElementType::Fp16),
            ("bf16", ElementType::Bf16),
            ("c10::Float8_e4m3fn", ElementType::Fp8),
            ("c10::Float8_e5m2fnuz", ElementType::Fp8),
        ] {
            assert_eq!(ElementType::from_spelling(name), Some(element), "{name}");
        }
        assert_eq!(["Scalar", "", "c10::Float4_e2m1fn_x2"].map(ElementType::from_spelling), [None; 3]);
    }
}
