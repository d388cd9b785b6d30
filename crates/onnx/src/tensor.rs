//! Constants of an ONNX file: shapes, axes, scalars, with their values.

use super::number::{BatchNumber, numbers};
use super::schema::{TensorProto, tensor_proto::DataType};

/// A tensor whose values are known. Integers up to 2^53 are exact.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KnownTensor {
    pub dims: Vec<usize>,
    pub values: Vec<BatchNumber>,
    /// Whether division truncates.
    pub integer: bool,
}

impl KnownTensor {
    pub fn scalar(value: f64) -> Self {
        KnownTensor { dims: Vec::new(), values: vec![value.into()], integer: false }
    }

    pub fn integers(values: impl IntoIterator<Item = impl Into<BatchNumber>>) -> Self {
        let values: Vec<BatchNumber> = values.into_iter().map(Into::into).collect();
        KnownTensor { dims: vec![values.len()], values, integer: true }
    }

    /// The values as integers; those out of range become the nearest integer in range.
    pub fn as_integers(&self) -> Vec<i64> {
        self.values.iter().map(|value| value.nearest()).collect()
    }

    /// The one value all elements have.
    pub fn uniform(&self) -> Option<f64> {
        let first = *self.values.first()?;
        first.fixed_value().filter(|_| self.values.iter().all(|&value| value == first))
    }

    /// A constant without elements.
    pub fn empty() -> KnownTensor {
        KnownTensor { dims: vec![0], values: vec![], integer: false }
    }

    /// From a message, if it has as many values as its shape needs.
    pub fn from_message(tensor: &TensorProto) -> Option<KnownTensor> {
        let dims = dims(tensor)?;
        let elements = dims.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim))?;
        let values = values(tensor)?;
        let integer = !is_float(kind(tensor)?);
        (values.len() == elements).then_some(KnownTensor { dims, values: numbers(&values), integer })
    }
}

/// The elements that a message holds.
pub(super) fn values(tensor: &TensorProto) -> Option<Vec<f64>> {
    let kind = kind(tensor)?;
    match tensor.raw_data() {
        [] => typed_values(tensor, kind),
        raw => raw_values(raw, kind),
    }
}

/// The shape of a tensor, unless a dimension is negative or beyond any memory.
pub(super) fn dims(tensor: &TensorProto) -> Option<Vec<usize>> {
    tensor.dims.iter().map(|&dim| usize::try_from(dim).ok().filter(|&dim| dim < 1 << 40)).collect()
}

/// The type of a tensor's elements; `None` for one that ONNX does not have.
pub(super) fn kind(tensor: &TensorProto) -> Option<DataType> {
    DataType::try_from(tensor.data_type()).ok()
}

pub(super) fn is_float(kind: DataType) -> bool {
    matches!(kind, DataType::Float | DataType::Float16 | DataType::Bfloat16 | DataType::Double)
}

fn typed_values(tensor: &TensorProto, kind: DataType) -> Option<Vec<f64>> {
    Some(match kind {
        DataType::Float => tensor.float_data.iter().map(|&v| f64::from(v)).collect(),
        DataType::Double => tensor.double_data.clone(),
        DataType::Int64 => tensor.int64_data.iter().map(|&v| v as f64).collect(),
        DataType::Uint32 | DataType::Uint64 => tensor.uint64_data.iter().map(|&v| v as f64).collect(),
        DataType::Float16 => tensor.int32_data.iter().map(|&v| from_half(v as u16)).collect(),
        DataType::Bfloat16 => tensor.int32_data.iter().map(|&v| brain(v as u16)).collect(),
        DataType::Int32 | DataType::Int16 | DataType::Int8 | DataType::Uint16 | DataType::Uint8 | DataType::Bool => {
            tensor.int32_data.iter().map(|&v| f64::from(v)).collect()
        }
        _ => return None,
    })
}

/// Little-endian elements, as ONNX stores them.
pub(super) fn raw_values(raw: &[u8], kind: DataType) -> Option<Vec<f64>> {
    Some(match kind {
        DataType::Float => elements(raw, |bytes| f64::from(f32::from_le_bytes(bytes))),
        DataType::Double => elements(raw, f64::from_le_bytes),
        DataType::Float16 => elements(raw, |bytes| from_half(u16::from_le_bytes(bytes))),
        DataType::Bfloat16 => elements(raw, |bytes| brain(u16::from_le_bytes(bytes))),
        DataType::Int64 => elements(raw, |bytes| i64::from_le_bytes(bytes) as f64),
        DataType::Uint64 => elements(raw, |bytes| u64::from_le_bytes(bytes) as f64),
        DataType::Int32 => elements(raw, |bytes| f64::from(i32::from_le_bytes(bytes))),
        DataType::Uint32 => elements(raw, |bytes| f64::from(u32::from_le_bytes(bytes))),
        DataType::Int16 => elements(raw, |bytes| f64::from(i16::from_le_bytes(bytes))),
        DataType::Uint16 => elements(raw, |bytes| f64::from(u16::from_le_bytes(bytes))),
        DataType::Int8 => elements(raw, |bytes| f64::from(i8::from_le_bytes(bytes))),
        DataType::Uint8 | DataType::Bool => elements(raw, |[byte]: [u8; 1]| f64::from(byte)),
        _ => return None,
    })
}

fn elements<const N: usize>(raw: &[u8], decode: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    raw.as_chunks::<N>().0.iter().map(|&bytes| decode(bytes)).collect()
}

/// IEEE 754 half precision: 1 sign bit, 5 exponent bits, 10 fraction bits.
fn from_half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

/// Brain float: the upper half of a single-precision number.
fn brain(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_follows_ieee_754() {
        // Table of IEEE 754-2008 binary16 examples: 1, -2, the largest number, the smallest subnormal.
        assert_eq!([0x3c00, 0xc000, 0x7bff, 0x0001].map(from_half), [1.0, -2.0, 65504.0, 2f64.powi(-24)]);
        assert_eq!(brain(0x3f80), 1.0);
    }

    #[test]
    fn a_payload_that_does_not_fill_the_shape_is_none() {
        let tensor = |dims: &[i64]| TensorProto {
            dims: dims.to_vec(),
            data_type: Some(DataType::Int64 as i32),
            int64_data: vec![1, 2],
            ..Default::default()
        };
        assert_eq!(KnownTensor::from_message(&tensor(&[2])), Some(KnownTensor::integers([1, 2])));
        assert_eq!(KnownTensor::from_message(&tensor(&[3])), None);
        assert_eq!(KnownTensor::from_message(&tensor(&[-1])), None);
        assert_eq!(KnownTensor::from_message(&tensor(&[i64::MAX, i64::MAX])), None);
    }
}
