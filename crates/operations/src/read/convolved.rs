//! The output of a convolution, from its inputs and how the profiler says that it is computed.

use crate::class::base_name;
use crate::work::TensorShape;

/// Backends take padding before strides (`aten::cudnn_convolution`), the functions above them strides first (native_functions.yaml).
const PADDING_FIRST: [&str; 4] =
    ["cudnn_convolution", "miopen_convolution", "mkldnn_convolution", "miopen_depthwise_convolution"];

/// The output of a convolution of these inputs, with its concrete arguments as the profiler writes them: `[1, 1]` for lists.
/// None where the trace does not hold them.
pub(super) fn output(operation: &str, inputs: &[TensorShape], concrete: &[String]) -> Option<TensorShape> {
    let [image, filter] = [inputs.first()?, inputs.get(1)?];
    let lists: Vec<Vec<u64>> = concrete.iter().filter_map(|text| list(text)).collect();
    let [first, second, dilations] = [lists.first()?, lists.get(1)?, lists.get(2)?];
    let (padding, strides) =
        if PADDING_FIRST.contains(&base_name(operation).as_str()) { (first, second) } else { (second, first) };
    let at = |list: &[u64], place: usize| list.get(place).or(list.first()).copied();
    let size = |place: usize| {
        let spans = at(dilations, place)? * filter.shape.get(place + 2)?.checked_sub(1)? + 1;
        let room = (image.shape.get(place + 2)? + 2 * at(padding, place)?).checked_sub(spans)?;
        Some(room / at(strides, place)?.max(1) + 1)
    };
    let sizes = (0..image.shape.len().checked_sub(2)?).map(size).collect::<Option<Vec<u64>>>()?;
    let shape = [*image.shape.first()?, *filter.shape.first()?].into_iter().chain(sizes).collect();
    Some(TensorShape { shape, element: image.element })
}

fn list(text: &str) -> Option<Vec<u64>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    inner.split(',').map(|number| number.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::ElementType;

    /// The first convolution of ResNet-50, 7x7 with stride 2 and padding 3: 224 becomes 112.
    #[test]
    fn the_first_convolution_of_resnet_gives_112_by_112() {
        let tensor = |shape: &[u64]| TensorShape { shape: shape.to_vec(), element: ElementType::Fp32 };
        let inputs = [tensor(&[8, 3, 224, 224]), tensor(&[64, 3, 7, 7])];
        let backend = ["", "", "[3, 3]", "[2, 2]", "[1, 1]", "1"].map(str::to_owned);
        let function = ["", "", "", "[2, 2]", "[3, 3]", "[1, 1]", "False"].map(str::to_owned);
        for (name, concrete) in [("aten::cudnn_convolution", &backend[..]), ("aten::conv2d", &function)] {
            assert_eq!(output(name, &inputs, concrete), Some(tensor(&[8, 64, 112, 112])), "{name}");
        }
        assert_eq!(output("aten::conv2d", &inputs, &[]), None);
    }
}
