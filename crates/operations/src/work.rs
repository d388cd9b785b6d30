//! FLOPs and bytes of an operation, from the shapes of its tensors. Counted by hand in the tests; an operation whose work its
//! tensors do not say has none.

use crate::class::{OperationClass, base_name};
use crate::element::ElementType;

/// A tensor of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorShape {
    /// Its sizes.
    pub shape: Vec<u64>,
    /// The type of its elements.
    pub element: ElementType,
}

/// What an operation computes and moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperationWork {
    /// Floating-point operations; a multiplication with its addition counts as two.
    pub flops: f64,
    /// Bytes that it reads and writes if each tensor is moved once.
    pub bytes: f64,
}

impl TensorShape {
    fn elements(&self) -> f64 {
        self.shape.iter().map(|size| *size as f64).product()
    }

    fn bytes(&self) -> f64 {
        self.elements() * self.element.bytes()
    }

    /// A size, counted from the last.
    fn last(&self, place: usize) -> Option<f64> {
        self.shape.iter().rev().nth(place).map(|size| *size as f64)
    }
}

/// FLOPs of attention for the scores and for the sums over values, each a product.
const ATTENTION: f64 = 4.0;
/// Backward of attention: five products in place of two (T. Dao, "FlashAttention-2", 2023, appendix).
const ATTENTION_BACKWARD: f64 = 2.5;
/// Backward of products and convolutions: those of both gradients.
const BACKWARD: f64 = 2.0;

/// The work of an operation; none where its tensors do not say it. Outputs may be empty where a trace holds none.
pub fn work(
    operation: &str,
    class: OperationClass,
    inputs: &[TensorShape],
    outputs: &[TensorShape],
) -> Option<OperationWork> {
    let is_backward = operation.contains("_backward");
    match class {
        OperationClass::Product => product(operation, inputs, outputs),
        OperationClass::Convolution => convolution(operation, inputs, outputs, is_backward),
        OperationClass::Attention => attention(operation, inputs, outputs, is_backward),
        OperationClass::Movement if base_name(operation).starts_with("embedding") => {
            embedding(inputs, outputs, is_backward)
        }
        OperationClass::Elementwise if !is_broadcast(operation, inputs) => None,
        OperationClass::Normalization
        | OperationClass::Reduction
        | OperationClass::Elementwise
        | OperationClass::Movement => streamed(operation, class, inputs, outputs),
    }
}

/// Operations of PyTorch on two tensors, each size of which is that of the other, or 1.
const BROADCAST: [&str; 4] = ["add", "sub", "mul", "div"];

fn is_broadcast(operation: &str, inputs: &[TensorShape]) -> bool {
    let [first, second, ..] = inputs else { return true };
    let fits = |(one, other): (&u64, &u64)| one == other || *one == 1 || *other == 1;
    !(operation.starts_with("aten::") && BROADCAST.contains(&base_name(operation).as_str()))
        || first.shape.iter().rev().zip(second.shape.iter().rev()).all(fits)
}

fn bytes_of(tensors: &[TensorShape]) -> f64 {
    tensors.iter().map(TensorShape::bytes).sum()
}

fn largest(tensors: &[TensorShape]) -> Option<&TensorShape> {
    tensors.iter().max_by(|one, other| one.elements().total_cmp(&other.elements()))
}

/// Products of PyTorch whose operands come first, before a bias, scales, or the ends of groups.
const OPERANDS_FIRST: [&str; 9] = ["mm", "bmm", "matmul", "linear", "mv", "dot", "vdot", "scaled_mm", "grouped_mm"];

/// What a product multiplies. Where nothing says which inputs that are, the last two with two sizes or more: before them comes a bias.
fn operands<'t>(operation: &str, inputs: &'t [TensorShape]) -> Option<[&'t TensorShape; 2]> {
    let name = base_name(operation);
    let is_forward = operation.starts_with("aten::") && !operation.contains("_backward");
    match inputs {
        [first, second, ..] if is_forward && OPERANDS_FIRST.contains(&name.as_str()) => Some([first, second]),
        [.., first, second] if is_forward && name == "addmv" => Some([first, second]),
        [..] => {
            let mut matrices = inputs.iter().rev().filter(|tensor| tensor.shape.len() >= 2);
            let second = matrices.next();
            Some([matrices.next()?, second?])
        }
    }
}

/// `first` times `second`, of vectors a row times a column. Products of PyTorch transpose nothing, but for a linear layer, whose weights are outputs x
/// inputs; of others either operand may be transposed: the size that both have is summed over.
fn product(operation: &str, inputs: &[TensorShape], outputs: &[TensorShape]) -> Option<OperationWork> {
    let [first, second] = operands(operation, inputs)?;
    let own = first.last(0)?;
    let [rows, columns] = second.last(1).map_or([second.last(0)?, 1.0], |rows| [rows, second.last(0).unwrap_or(1.0)]);
    let is_plain = operation.starts_with("aten::") && base_name(operation) != "linear";
    // The size that is summed over, and the size of the second operand that stays.
    let (summed, stays) = match first.last(1) {
        _ if own == rows => (own, columns),
        _ if is_plain => return None,
        _ if own == columns => (own, rows),
        Some(before) if before == rows => (before, columns),
        _ => return None,
    };
    let read = pairs(operation, first, second)? * own * first.last(1).unwrap_or(1.0);
    let result = read / summed.max(1.0) * stays * first.element.bytes();
    let written = if outputs.is_empty() { result } else { bytes_of(outputs) };
    let times = if operation.contains("_backward") { BACKWARD } else { 1.0 };
    Some(OperationWork { flops: times * 2.0 * read * stays, bytes: bytes_of(inputs) + written })
}

/// How many pairs of matrices are multiplied: of the sizes before the last two each is that of the other operand, or 1. Groups of rows, or columns, share one
/// pair.
fn pairs(operation: &str, first: &TensorShape, second: &TensorShape) -> Option<f64> {
    let [fewest, most] = [first.shape.len().min(second.shape.len()), first.shape.len().max(second.shape.len())];
    if fewest < 3 && base_name(operation) == "grouped_mm" {
        return Some(1.0);
    }
    let broadcast = |place: usize| match [first, second].map(|tensor| tensor.last(place).unwrap_or(1.0)) {
        [one, other] if one == other || other == 1.0 => Some(one),
        [one, other] => (one == 1.0).then_some(other),
    };
    (2..most).map(broadcast).product()
}

/// Products of a convolution: each element of the output takes one filter.
fn convolution(
    operation: &str,
    inputs: &[TensorShape],
    outputs: &[TensorShape],
    is_backward: bool,
) -> Option<OperationWork> {
    let image = |tensor: &&TensorShape| tensor.shape.len() >= 3;
    let images: Vec<&TensorShape> = inputs.iter().filter(image).collect();
    let (output, filter, times) = match (base_name(operation).as_str(), images.as_slice()) {
        ("conv2dbackpropfilter", [_, gradient]) => (*gradient, outputs.first()?, 1.0),
        ("conv2dbackpropinput", [filter, gradient]) => (*gradient, *filter, 1.0),
        (_, [gradient, _, filter, ..]) if is_backward => (*gradient, *filter, BACKWARD),
        (_, [_, filter, ..]) => (outputs.first()?, *filter, 1.0),
        _ => return None,
    };
    // TensorFlow's filters are height, width, inputs, outputs; PyTorch's outputs, inputs, height, width.
    let channels = if operation.contains("::") { filter.shape.first() } else { filter.shape.last() };
    let flops = times * 2.0 * output.elements() * filter.elements() / (*channels?).max(1) as f64;
    let written = match (is_backward, images.as_slice()) {
        (true, [_, input, filter, ..]) => input.bytes() + filter.bytes(),
        _ => bytes_of(outputs),
    };
    Some(OperationWork { flops, bytes: bytes_of(inputs) + written })
}

fn attention(
    operation: &str,
    inputs: &[TensorShape],
    outputs: &[TensorShape],
    is_backward: bool,
) -> Option<OperationWork> {
    let heads: Vec<&TensorShape> = inputs.iter().filter(|tensor| tensor.shape.len() == 4).collect();
    let [query, key] = match (is_backward, heads.as_slice()) {
        (true, [_, query, key, ..]) | (false, [query, key, ..]) => [*query, *key],
        _ => return None,
    };
    // PyTorch's function takes batch, heads, tokens, width; the kernels below it batch, tokens, heads, width.
    let tokens = key.last(if base_name(operation).starts_with("scaled_dot") { 1 } else { 2 })?;
    let times = if is_backward { ATTENTION_BACKWARD } else { 1.0 };
    let written = if outputs.is_empty() { query.bytes() * times } else { bytes_of(outputs) };
    let read: f64 = heads.iter().map(|tensor| tensor.bytes()).sum();
    Some(OperationWork { flops: times * ATTENTION * query.elements() * tokens, bytes: read + written })
}

/// The rows of a table that are named, read and written.
fn embedding(inputs: &[TensorShape], outputs: &[TensorShape], is_backward: bool) -> Option<OperationWork> {
    let named = inputs.iter().find(|tensor| !tensor.element.is_float())?;
    let table = inputs.iter().find(|tensor| tensor.element.is_float())?;
    let rows = if is_backward { table.bytes() } else { named.elements() * table.last(0)? * table.element.bytes() };
    let written = if outputs.is_empty() { rows } else { bytes_of(outputs) };
    Some(OperationWork { flops: 0.0, bytes: rows + named.bytes() + written })
}

/// Operations that write all that they read.
const JOINING: [&str; 3] = ["cat", "concatv2", "stack"];

/// Operations that read their inputs once and write as much as the largest, a reduction nearly nothing.
fn streamed(
    operation: &str,
    class: OperationClass,
    inputs: &[TensorShape],
    outputs: &[TensorShape],
) -> Option<OperationWork> {
    let large = largest(inputs).or_else(|| largest(outputs))?;
    let written = if !outputs.is_empty() {
        bytes_of(outputs)
    } else if JOINING.contains(&base_name(operation).as_str()) {
        bytes_of(inputs)
    } else if class == OperationClass::Reduction {
        0.0
    } else {
        large.bytes()
    };
    let flops = if class == OperationClass::Movement { 0.0 } else { large.elements() };
    Some(OperationWork { flops, bytes: bytes_of(inputs) + written })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensors(shapes: &[&[u64]]) -> Vec<TensorShape> {
        shapes.iter().map(|shape| TensorShape { shape: shape.to_vec(), element: ElementType::Fp32 }).collect()
    }

    fn work_counts(operation: &str, class: OperationClass, inputs: &[&[u64]], outputs: &[&[u64]]) -> (f64, f64) {
        let work = work(operation, class, &tensors(inputs), &tensors(outputs)).unwrap();
        (work.flops, work.bytes)
    }

    /// 2 m k n; bytes of both operands, the bias and the result.
    #[test]
    fn products_are_counted_with_transposed_operands_and_batches() {
        let bytes = 4.0 * (8.0 * 16.0 + 16.0 * 32.0 + 8.0 * 32.0);
        assert_eq!(work_counts("aten::mm", OperationClass::Product, &[&[8, 16], &[16, 32]], &[]), (8192.0, bytes));
        assert_eq!(
            work_counts("MatMul", OperationClass::Product, &[&[8, 16], &[32, 16]], &[&[8, 32]]),
            (8192.0, bytes)
        );
        let biased = work_counts("aten::addmm", OperationClass::Product, &[&[32], &[8, 16], &[16, 32]], &[]);
        assert_eq!(biased, (8192.0, bytes + 128.0));
        let batched = work_counts("aten::bmm", OperationClass::Product, &[&[4, 8, 16], &[4, 16, 32]], &[]);
        assert_eq!(batched, (4.0 * 8192.0, 4.0 * bytes));
        assert!(work("aten::mm", OperationClass::Product, &tensors(&[&[8, 16], &[5, 7]]), &[]).is_none());
        // PyTorch's own operations transpose nothing, but for a linear layer, whose weights are outputs x inputs.
        assert!(work("aten::mm", OperationClass::Product, &tensors(&[&[8, 16], &[32, 16]]), &[]).is_none());
        assert_eq!(work_counts("aten::linear", OperationClass::Product, &[&[8, 16], &[32, 16]], &[]), (8192.0, bytes));
    }

    /// One multiplication and one addition for each element of the matrix, or of the vectors.
    #[test]
    fn vectors_are_multiplied_as_rows_and_columns() {
        let class = OperationClass::Product;
        let bytes = 4.0 * (8.0 * 16.0 + 16.0 + 8.0);
        assert_eq!(work_counts("aten::mv", class, &[&[8, 16], &[16]], &[]), (256.0, bytes));
        assert_eq!(work_counts("aten::mv", class, &[&[16, 16], &[16]], &[]).0, 512.0);
        assert_eq!(work_counts("aten::addmv", class, &[&[8], &[8, 16], &[16]], &[]), (256.0, bytes + 32.0));
        assert_eq!(work_counts("aten::dot", class, &[&[100], &[100]], &[]), (200.0, 804.0));
        assert_eq!(work_counts("aten::matmul", class, &[&[16], &[16, 8]], &[]), (256.0, bytes));
        assert_eq!(work_counts("aten::matmul", class, &[&[5, 8, 16], &[16]], &[]).0, 5.0 * 256.0);
        assert!(work("aten::mv", class, &tensors(&[&[8, 16], &[8]]), &[]).is_none());
    }

    /// `numpy.matmul` of these shapes gives 3 x 4 matrices of 8 x 32, each element of which sums 16 products.
    #[test]
    fn batches_of_products_are_broadcast() {
        let class = OperationClass::Product;
        let flops = 3.0 * 4.0 * 8192.0;
        let (own, bytes) = work_counts("aten::matmul", class, &[&[3, 1, 8, 16], &[4, 16, 32]], &[]);
        assert_eq!((own, bytes), (flops, 4.0 * (3.0 * 128.0 + 4.0 * 512.0 + 12.0 * 256.0)));
        assert_eq!(work_counts("aten::matmul", class, &[&[8, 16], &[3, 4, 16, 32]], &[]).0, flops);
        assert_eq!(work_counts("BatchMatMulV2", class, &[&[1, 8, 16], &[12, 16, 32]], &[]).0, flops);
        assert!(work("aten::matmul", class, &tensors(&[&[3, 8, 16], &[4, 16, 32]]), &[]).is_none());
    }

    /// Scales of rows and columns are no operands, and each row of a grouped product is multiplied by the matrix of its group alone.
    #[test]
    fn what_follows_the_operands_is_not_multiplied() {
        let class = OperationClass::Product;
        let scaled = work_counts("aten::_scaled_mm", class, &[&[8, 16], &[16, 32], &[8, 1], &[1, 32]], &[]);
        assert_eq!(scaled.0, 8192.0);
        assert_eq!(work_counts("aten::_grouped_mm", class, &[&[8, 16], &[4, 16, 32], &[4]], &[]).0, 8192.0);
        assert_eq!(work_counts("aten::_grouped_mm", class, &[&[4, 8, 16], &[4, 16, 32]], &[]).0, 4.0 * 8192.0);
    }

    /// The first convolution of ResNet-50: 2 x 7 x 7 x 3 x 64 x 112 x 112 an image, by both frameworks' filters.
    #[test]
    fn convolutions_are_counted_by_output_and_filter() {
        let flops = 2.0 * 49.0 * 3.0 * 64.0 * 112.0 * 112.0;
        let class = OperationClass::Convolution;
        let torch =
            work_counts("aten::cudnn_convolution", class, &[&[1, 3, 224, 224], &[64, 3, 7, 7]], &[&[1, 64, 112, 112]]);
        let tensorflow = work_counts("Conv2D", class, &[&[1, 224, 224, 3], &[7, 7, 3, 64]], &[&[1, 112, 112, 64]]);
        assert_eq!((torch.0, tensorflow.0), (flops, flops));
        assert_eq!(torch.1, tensorflow.1);
        let both = work_counts(
            "aten::convolution_backward",
            class,
            &[&[1, 64, 112, 112], &[1, 3, 224, 224], &[64, 3, 7, 7]],
            &[],
        );
        assert_eq!(both.0, 2.0 * flops);
    }

    /// Scores and sums are each 2 B H S S D.
    #[test]
    fn attention_is_two_products() {
        let heads: &[u64] = &[2, 4, 128, 64];
        let name = "aten::_scaled_dot_product_flash_attention";
        let (flops, bytes) = work_counts(name, OperationClass::Attention, &[heads, heads, heads], &[]);
        assert_eq!(flops, 2.0 * 2.0 * 2.0 * 4.0 * 128.0 * 128.0 * 64.0);
        assert_eq!(bytes, 4.0 * 4.0 * 2.0 * 4.0 * 128.0 * 64.0);
    }

    #[test]
    fn others_move_their_tensors_once() {
        assert_eq!(work_counts("aten::add", OperationClass::Elementwise, &[&[100], &[100]], &[]), (100.0, 1200.0));
        assert_eq!(work_counts("aten::add", OperationClass::Elementwise, &[&[8, 16], &[16]], &[]).0, 128.0);
        assert!(work("aten::add", OperationClass::Elementwise, &tensors(&[&[8, 16], &[8, 15]]), &[]).is_none());
        assert_eq!(work_counts("aten::sum", OperationClass::Reduction, &[&[100]], &[]), (100.0, 400.0));
        let named = [
            TensorShape { shape: vec![1000, 16], element: ElementType::Fp32 },
            TensorShape { shape: vec![10], element: ElementType::Int64 },
        ];
        let embedded = work("aten::embedding", OperationClass::Movement, &named, &[]).unwrap();
        // Ten rows of 64 bytes read and written, and ten numbers.
        assert_eq!(embedded.bytes, 2.0 * 640.0 + 80.0);
    }
}
