//! Vision transformers (Dosovitskiy et al. 2020, arXiv:2010.11929), as torchvision lays them out.

use super::layers::{ZooLayers, biased};
use crate::{Activation, NodeId, Op};
use perf4sight_base::error::{Error, Result};

/// ViT-B/16: side of a patch in pixels, and length of its vector.
const PATCH: usize = 16;
const WIDTH: usize = 768;
const HEADS: usize = 12;
const BLOCKS: usize = 12;

pub(super) fn vit_b_16(layers: &mut ZooLayers, classes: usize) -> Result<()> {
    // torchvision asserts it; a convolution alone would leave out the remaining pixels.
    if layers.shape().dims()[1..].iter().any(|side| !side.is_multiple_of(PATCH)) {
        return Err(Error::input(format!("its patches of {PATCH}x{PATCH} do not cover them")));
    }
    layers.conv("conv_proj", biased(WIDTH, PATCH, PATCH, 0))?;
    let patches = layers.shape().elements() as usize / WIDTH;
    layers.reshape("reshape", &[WIDTH, patches])?.transpose("permute", &[1, 0])?;
    let (rows, class) = (layers.at, layers.parameter("class_token", &[1, WIDTH])?);
    layers.concat("cat", &[class, rows])?;
    let positions = layers.parameter("encoder.pos_embedding", &[patches + 1, WIDTH])?;
    layers.add_to("encoder.add", positions)?;
    for index in 0..BLOCKS {
        block(layers, &format!("encoder.layers.encoder_layer_{index}"))?;
    }
    layers.layer_norm("encoder.ln")?.slice("class", [0, 0, 1])?.flatten()?.linear("heads.head", classes)?;
    Ok(())
}

fn block(layers: &mut ZooLayers, name: &str) -> Result<()> {
    let input = layers.at;
    layers.layer_norm(format!("{name}.ln_1"))?;
    add_attention(layers, &format!("{name}.self_attention"))?.add_to(format!("{name}.add"), input)?;
    let between = layers.at;
    layers.layer_norm(format!("{name}.ln_2"))?.linear(format!("{name}.mlp.0"), 4 * WIDTH)?;
    layers.activation(format!("{name}.mlp.1"), Activation::Gelu)?.linear(format!("{name}.mlp.3"), WIDTH)?;
    layers.add_to(format!("{name}.add_1"), between)?;
    Ok(())
}

fn add_attention<'a>(layers: &'a mut ZooLayers, name: &str) -> Result<&'a mut ZooLayers> {
    let (rows, each) = (layers.shape().dims()[0], WIDTH / HEADS);
    layers.linear(format!("{name}.in_proj"), 3 * WIDTH)?;
    let all = layers.at;
    let part = |layers: &mut ZooLayers, index: usize| -> Result<NodeId> {
        layers.at = all;
        layers.slice(format!("{name}.part_{index}"), [1, index * WIDTH, WIDTH])?;
        layers.reshape(format!("{name}.view_{index}"), &[rows, HEADS, each])?;
        Ok(layers.transpose(format!("{name}.transpose_{index}"), &[1, 0, 2])?.at)
    };
    let [query, key, value] = [part(layers, 0)?, part(layers, 1)?, part(layers, 2)?];
    layers.join(format!("{name}.attention"), Op::Attention, &[query, key, value])?;
    layers.transpose(format!("{name}.transpose"), &[1, 0, 2])?.reshape(format!("{name}.view"), &[rows, WIDTH])?;
    layers.linear(format!("{name}.out_proj"), WIDTH)
}
