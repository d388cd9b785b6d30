//! The same network for another number of classes: its classifiers change, and the nodes after them follow.

use super::graph::{Network, NetworkBuilder, Node, NodeId};
use super::op::{ConvTranspose, Op};
use super::shape::Shape;
use perf4sight_base::error::{Error, Result};

type Clause = String;

impl Network {
    /// The same network for this number of classes.
    ///
    /// A classifier is the fully connected layer or convolution that computes a result, followed only by operations that keep
    /// classes apart: activations, pooling, views. Each of several results has its own, with the same number of classes.
    ///
    /// ```
    /// use perf4sight_network::zoo::{Dataset, ImageDataset, build};
    /// let seven = build("squeezenet", ImageDataset::from_word("imagenet-3x224x224-7")?)?;
    /// assert_eq!(build("squeezenet", Dataset::Imagenet)?.telling_apart(7)?, seven);
    /// # Ok::<(), perf4sight_base::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// A result of another operation, classes that another node depends on, heads with different numbers of classes.
    pub fn telling_apart(&self, classes: usize) -> Result<Network> {
        let refused = |why: Clause| {
            Error::input(format!("{} cannot have {classes} classes: {why}", self.name()))
                .expected("results that come from a classifier each, a fully connected layer or a last convolution, whose classes nothing else reads")
                .help("leave classes out, or export the network with so many")
        };
        let classifiers = self.classifiers().map_err(refused)?;
        if classifiers.iter().all(|classifier| self.node(*classifier).classes() == Some(classes)) {
            return Ok(self.clone());
        }
        let axes = self.axes(&classifiers).map_err(refused)?;
        self.with_classes_on(&axes, classes)
    }

    fn classifiers(&self) -> std::result::Result<Vec<NodeId>, Clause> {
        let of_results = self.outputs().iter().map(|output| self.classifier(*output));
        let mut classifiers: Vec<NodeId> = of_results.collect::<std::result::Result<_, _>>()?;
        classifiers.sort_unstable();
        classifiers.dedup();
        let counts: Vec<usize> = classifiers.iter().filter_map(|id| self.node(*id).classes()).collect();
        match counts.iter().find(|count| **count != counts[0]) {
            Some(other) => Err(format!(
                "its results are of {} and of {other}, and which of them are classes is not known",
                counts[0]
            )),
            None => Ok(classifiers),
        }
    }

    fn classifier(&self, output: NodeId) -> std::result::Result<NodeId, Clause> {
        let mut at = output;
        loop {
            let node = self.node(at);
            if node.classes().is_some() {
                return self.check_classifier(at).map(|()| at);
            }
            match node.inputs.as_slice() {
                [input] if keeps_apart(&node.op) => at = *input,
                _ => {
                    return Err(format!("its result comes from \"{}\" ({}), no classifier", node.name, node.op.kind()));
                }
            }
        }
    }

    fn check_classifier(&self, classifier: NodeId) -> std::result::Result<(), Clause> {
        let node = self.node(classifier);
        let tied = self.iter().find(|(_, other)| other.shares == Some(classifier)).map(|(_, other)| other);
        let owner = node.shares.map(|owner| self.node(owner));
        match owner.or(tied) {
            Some(other) => Err(format!("\"{}\" has the weights of \"{}\", too", node.name, other.name)),
            None if node.trained.is_some() => Err(format!("the weights of \"{}\" are computed from others", node.name)),
            None => Ok(()),
        }
    }

    /// For every node, the axis of its result that holds classes.
    fn axes(&self, classifiers: &[NodeId]) -> std::result::Result<Vec<Option<usize>>, Clause> {
        let mut axes: Vec<Option<usize>> = Vec::with_capacity(self.nodes().len());
        for (id, node) in self.iter() {
            let read = node.inputs.iter().find_map(|input| axes[input.index()]);
            axes.push(match read {
                Some(axis) => Some(
                    self.class_axis(node, axis)
                        .ok_or_else(|| format!("\"{}\" ({}) reads its classes", node.name, node.op.kind()))?,
                ),
                None => classifiers.contains(&id).then(|| first_axis(node)),
            });
        }
        Ok(axes)
    }

    /// The axis of a node's result that holds the classes of its input; none if it mixes them.
    fn class_axis(&self, node: &Node, axis: usize) -> Option<usize> {
        let [input] = node.inputs.as_slice() else { return None };
        let from = &self.node(*input).shape;
        if let Op::Transpose { order } = &node.op {
            order.iter().position(|from| *from == axis)
        } else if matches!(node.op, Op::Flatten | Op::Reshape(_)) {
            reshaped_axis(from.dims(), axis, node.shape.dims())
        } else if let Op::Reduce { axes, keep, .. } = &node.op {
            let gone = axes.iter().filter(|gone| **gone < axis && !keep).count();
            (!axes.contains(&axis)).then_some(axis - gone)
        } else if let Op::Slice { axis: cut, .. } | Op::Every { axis: cut, .. } = node.op {
            (cut != axis).then_some(axis)
        } else if matches!(
            node.op,
            Op::MaxPool(_) | Op::AvgPool { .. } | Op::AdaptiveAvgPool { .. } | Op::Resize { .. }
        ) {
            // Classes are the channels.
            (axis == 0).then_some(axis)
        } else {
            keeps_apart(&node.op).then_some(axis)
        }
    }

    fn with_classes_on(&self, axes: &[Option<usize>], classes: usize) -> Result<Network> {
        let mut builder = self.builder_with_input();
        let mut ids = vec![builder.input()];
        for (id, node) in self.iter().skip(1) {
            let op = axes[id.index()].map_or_else(|| node.op.clone(), |axis| classifier_for(node, axis, classes));
            let inputs: Vec<NodeId> = node.inputs.iter().map(|input| ids[input.index()]).collect();
            ids.push(add_copy(&mut builder, node, op, &inputs, &ids)?);
        }
        let outputs: Vec<NodeId> = self.outputs().iter().map(|output| ids[output.index()]).collect();
        Ok(builder.finish_with(&outputs).folded(self.is_folded()).holding(self.unread()))
    }
}

/// Adds a copy of a node, with its operation for other classes.
fn add_copy(builder: &mut NetworkBuilder, node: &Node, op: Op, inputs: &[NodeId], ids: &[NodeId]) -> Result<NodeId> {
    let new = builder.add(&node.name, op, inputs)?;
    node.trained.into_iter().for_each(|trained| builder.set_trained(new, trained));
    node.shares.map_or(Ok(()), |owner| builder.share(new, ids[owner.index()]))?;
    Ok(new)
}

impl Node {
    /// Number of classes of a classifier; none if the layer cannot be one.
    pub fn classes(&self) -> Option<usize> {
        output_count(&mut self.op.clone()).map(|classes| *classes)
    }
}

fn output_count(op: &mut Op) -> Option<&mut usize> {
    if let Op::Linear(linear) = op {
        Some(&mut linear.out_features)
    } else if let Op::Conv(conv) | Op::ConvTranspose(ConvTranspose { conv, .. }) = op {
        Some(&mut conv.out_channels)
    } else if let Op::Conv3d(conv) = op {
        Some(&mut conv.out_channels)
    } else {
        None
    }
}

fn first_axis(node: &Node) -> usize {
    if matches!(node.op, Op::Linear(_)) { node.shape.rank() - 1 } else { 0 }
}

/// The operation of a classifier, or of a node after one, for this many classes along this axis of its result.
fn classifier_for(node: &Node, axis: usize, classes: usize) -> Op {
    let mut op = node.op.clone();
    if let Some(own) = output_count(&mut op) {
        *own = classes;
    } else if let Op::Reshape(shape) = &mut op {
        let mut dims = shape.dims().to_vec();
        dims[axis] = classes;
        *shape = Shape::new(dims);
    }
    op
}

/// Whether an operation of one input has no weights, and depends on the number of classes no more than a softmax does. An
/// operation of two inputs must be judged by its inputs.
fn keeps_apart(op: &Op) -> bool {
    matches!(
        op,
        Op::Activation(_)
            | Op::Binary(_)
            | Op::Softmax { .. }
            | Op::Dropout { .. }
            | Op::DropPath { .. }
            | Op::Cast(_)
            | Op::MaxPool(_)
            | Op::AvgPool { .. }
            | Op::AdaptiveAvgPool { .. }
            | Op::Resize { .. }
            | Op::Reduce { .. }
            | Op::Flatten
            | Op::Reshape(_)
            | Op::Transpose { .. }
            | Op::Contiguous { .. }
            | Op::Slice { .. }
            | Op::Every { .. }
    )
}

/// Where an axis goes when a tensor is reshaped; none if it does not stay an axis of its own.
fn reshaped_axis(from: &[usize], axis: usize, to: &[usize]) -> Option<usize> {
    let [before, behind] = [&from[..axis], &from[axis + 1..]].map(|dims| dims.iter().product::<usize>());
    let stays = |place: &usize| {
        let around = [&to[..*place], &to[place + 1..]].map(|dims| dims.iter().product::<usize>());
        to[*place] == from[axis] && around == [before, behind]
    };
    (0..to.len()).find(stays)
}

#[cfg(test)]
mod tests {
    use crate::zoo;
    use crate::zoo::ImageDataset;
    use crate::{
        Activation, BinaryFunction, Conv, Embedding, Interpolation, Linear, Network, NetworkBuilder, NetworkInput,
        NodeId, Op, ReductionKind, Shape, Window,
    };

    fn linear(out_features: usize) -> Op {
        Op::Linear(Linear { out_features, bias: true })
    }

    fn conv(out_channels: usize) -> Op {
        Op::Conv(Conv { out_channels, window: Window::square(1, 1, 0), groups: 1, bias: true })
    }

    fn add(builder: &mut NetworkBuilder, name: &str, op: Op, inputs: &[NodeId]) -> NodeId {
        builder.add(name, op, inputs).unwrap()
    }

    fn refused(network: &Network) -> String {
        network.telling_apart(7).unwrap_err().to_string()
    }

    #[test]
    fn a_known_network_is_what_is_built_for_so_many_classes() {
        for name in zoo::names() {
            let [built, seven] = [
                ImageDataset::from_dataset("imagenet", None, None),
                ImageDataset::from_dataset("imagenet", None, Some(7)),
            ]
            .map(|images| zoo::build(name, images.unwrap()).unwrap());
            assert_eq!(built.telling_apart(7).unwrap(), seven, "{name}");
            assert_eq!(built.telling_apart(1000).unwrap(), built, "{name}");
        }
    }

    /// The head of torchvision's fcn: a convolution whose result is resized to the image.
    #[test]
    fn classes_of_pixels_and_of_several_heads_follow() {
        let heads = |classes: usize| {
            let mut builder = NetworkBuilder::new("heads", Shape::new([3, 8, 8]));
            let image = builder.input();
            let body = add(&mut builder, "body", conv(4), &[image]);
            let score = add(&mut builder, "score", conv(classes), &[body]);
            let resize = Op::Resize { image: [16, 16], interpolation: Interpolation::Linear, corners: false };
            let pixels = add(&mut builder, "pixels", resize, &[score]);
            let rows = add(&mut builder, "rows", Op::Reshape(Shape::new([classes, 256])), &[pixels]);
            let turned = add(&mut builder, "turned", Op::Transpose { order: vec![1, 0] }, &[rows]);
            let likely = add(&mut builder, "likely", Op::Softmax { axis: 1 }, &[turned]);
            let beside = add(&mut builder, "beside", conv(classes), &[body]);
            let mean = Op::Reduce { reduction: ReductionKind::Mean, axes: vec![1, 2], keep: false };
            let mean = add(&mut builder, "mean", mean, &[beside]);
            builder.finish_with(&[likely, mean])
        };
        assert_eq!(heads(21).telling_apart(7).unwrap(), heads(7));
    }

    #[test]
    fn what_is_no_classifier_or_is_read_elsewhere_is_told() {
        let built = |make: fn(&mut NetworkBuilder) -> Vec<NodeId>| {
            let mut builder = NetworkBuilder::new("own", Shape::new([8]));
            let results = make(&mut builder);
            builder.finish_with(&results)
        };
        let added = built(|builder| {
            let input = builder.input();
            let fc = add(builder, "fc", linear(8), &[input]);
            vec![add(builder, "sum", Op::Binary(BinaryFunction::Add), &[fc, input])]
        });
        let message = refused(&added);
        assert!(
            message.contains("own cannot have 7 classes") && message.contains("\"sum\" (add), no classifier"),
            "{message}"
        );
        let read = built(|builder| {
            let input = builder.input();
            let [fc, other] = ["fc", "other"].map(|name| add(builder, name, linear(8), &[input]));
            let gate = add(builder, "gate", Op::Binary(BinaryFunction::Mul), &[fc, other]);
            vec![fc, add(builder, "last", linear(8), &[gate])]
        });
        assert!(refused(&read).contains("\"gate\" (mul) reads its classes"), "{}", refused(&read));
        let stacked = built(|builder| {
            let input = builder.input();
            let fc = add(builder, "fc", linear(8), &[input]);
            vec![fc, add(builder, "last", linear(8), &[fc])]
        });
        assert!(refused(&stacked).contains("\"last\" (linear) reads its classes"), "{}", refused(&stacked));
        let boxes = built(|builder| {
            let input = builder.input();
            vec![add(builder, "classes", linear(10), &[input]), add(builder, "boxes", linear(4), &[input])]
        });
        assert!(refused(&boxes).contains("of 10 and of 4, and which of them are classes"), "{}", refused(&boxes));
        let normalised = built(|builder| {
            let input = builder.input();
            let fc = add(builder, "fc", linear(8), &[input]);
            let relu = add(builder, "relu", Op::Activation(Activation::Relu), &[fc]);
            vec![add(builder, "norm", Op::LayerNorm { axis: 0, affine: crate::Affine::ScaleAndShift }, &[relu])]
        });
        assert!(refused(&normalised).contains("\"norm\""), "{}", refused(&normalised));
    }

    #[test]
    fn words_that_are_looked_up_by_the_same_weights_stay_as_many() {
        let mut builder = NetworkBuilder::reading("words", "ids", NetworkInput::integers(Shape::new([16])));
        let ids = builder.input();
        let table = Op::Embedding(Embedding { rows: 100, width: 8, fixed: None });
        let words = add(&mut builder, "words", table, &[ids]);
        let next = add(&mut builder, "next", Op::Linear(Linear { out_features: 100, bias: false }), &[words]);
        builder.share(next, words).unwrap();
        let message = refused(&builder.finish(next));
        assert!(message.contains("\"next\" has the weights of \"words\", too"), "{message}");
    }
}
