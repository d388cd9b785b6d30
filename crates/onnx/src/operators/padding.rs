//! Padding of convolutions and poolings, in PyTorch's terms: an operator pads both sides of an axis alike; a program, or `padding="same"`, pads
//! the rest before it (`constant_pad_nd`), which makes a tensor of its own that backward keeps.

use super::convolution::size;
use crate::call::{NodeCall, NodeMisfit};
use crate::notes;
use crate::translate::{GraphTranslation, own_name};
use crate::value::Feature;
use perf4sight_network::{Op, PaddingFill};

/// The padding before and behind each axis of an image.
pub(super) type Sides<const N: usize> = [[usize; 2]; N];

/// The extent of a window over an image.
pub(super) struct Extent<const N: usize> {
    pub image: [usize; N],
    pub kernel: [usize; N],
    pub stride: [usize; N],
    pub dilation: [usize; N],
}

impl<const N: usize> Extent<N> {
    /// The padding that a node gives its window.
    pub fn sides(&self, call: &NodeCall) -> Result<Sides<N>, NodeMisfit> {
        match (call.text("auto_pad"), call.ints("pads")) {
            (same @ ("SAME_UPPER" | "SAME_LOWER"), _) => Ok(self.same(same == "SAME_UPPER")),
            ("VALID", _) | (_, None) => Ok([[0; 2]; N]),
            (_, Some(pads)) if pads.len() == 2 * N => {
                let sizes: Vec<usize> = pads.iter().map(|&pad| size(pad)).collect::<Result<_, _>>()?;
                Ok(std::array::from_fn(|axis| [sizes[axis], sizes[axis + N]]))
            }
            (_, Some(pads)) => Err(NodeMisfit::Wrong(format!("has {} pads for {N} axes", pads.len()))),
        }
    }

    /// Padding that gives ceil(size / stride) positions, with the odd one at the end (upper) or at the beginning (lower).
    fn same(&self, upper: bool) -> Sides<N> {
        std::array::from_fn(|axis| {
            let stride = self.stride[axis].max(1);
            let reach = self.kernel[axis].saturating_sub(1).saturating_mul(self.dilation[axis]).saturating_add(1);
            let last = (self.image[axis].div_ceil(stride).saturating_sub(1)).saturating_mul(stride);
            let total = last.saturating_add(reach).saturating_sub(self.image[axis]);
            let (less, more) = (total / 2, total - total / 2);
            if upper { [less, more] } else { [more, less] }
        })
    }
}

/// The padding that a convolution does itself, and what was padded before it.
///
/// The default exporter merges a `pad` into the convolution behind it (`FuseConvPad` of onnxscript), but its notes keep the convolution's own
/// padding. If a batch normalisation was merged, too, the notes are of that, and all is taken to be of the `pad`, as of the layers that imitate TensorFlow.
/// Without notes, what both sides share is the convolution's, as `padding="same"` has it (`_convolution_same` of PyTorch).
pub(super) fn split<const N: usize>(call: &NodeCall, sides: Sides<N>) -> ([usize; N], Sides<N>) {
    let shared = sides.map(|[before, behind]| before.min(behind));
    let own = match noted_padding(call) {
        Some(own) if (0..N).all(|axis| own[axis] <= shared[axis]) => own,
        _ if notes::has_merged_pad(call.node) => [0; N],
        _ => shared,
    };
    (own, std::array::from_fn(|axis| sides[axis].map(|side| side - own[axis])))
}

/// The padding that a note gives for a convolution: the fifth of its arguments, zero where that is left out.
fn noted_padding<const N: usize>(call: &NodeCall) -> Option<[usize; N]> {
    if !has_note_of_convolution(call) {
        return None;
    }
    let arguments = notes::arguments(call.node);
    let Some(padding) = arguments.get(4) else { return Some([0; N]) };
    let list = padding.strip_prefix('[')?.strip_suffix(']')?;
    let sizes: Vec<usize> = list.split(',').map(|size| size.trim().parse().ok()).collect::<Option<_>>()?;
    sizes.try_into().ok()
}

fn has_note_of_convolution(call: &NodeCall) -> bool {
    notes::operation(call.node).contains("aten.conv")
}

/// The image with zeros around it, if there are any to add. Convolutions of the same `pad`, as notes name it, read one tensor.
pub(super) fn pad(
    to: &mut GraphTranslation,
    call: &NodeCall,
    image: Feature,
    sides: &[[usize; 2]],
) -> Result<Feature, NodeMisfit> {
    if sides.iter().all(|side| *side == [0; 2]) {
        return Ok(image);
    }
    let merged = (has_note_of_convolution(call) && notes::has_merged_pad(call.node))
        .then(|| notes::arguments(call.node).first()?.strip_prefix('%'))
        .flatten();
    if let Some(known) = merged.and_then(|name| to.expressions.restored.get(name)) {
        return Ok(*known);
    }
    let sides = std::iter::once([0; 2]).chain(sides.iter().map(|side| side.map(|added| added as i64))).collect();
    let name = format!("{}_padded", own_name(call));
    let padded = to.add_like(&name, Op::Pad { sides, fill: PaddingFill::Zeros }, &[image])?;
    if let Some(name) = merged {
        to.expressions.restored.insert(name.to_owned(), padded);
    }
    Ok(padded)
}
