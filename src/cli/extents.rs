//! How large what networks read and give is to be, in arguments.

use clap::Args;
use perf4sight_base::error::Result;
use perf4sight_cost::verbs::extents::Extents;
use perf4sight_network::Shape;
use perf4sight_network::zoo::{parse_classes, parse_input};
use perf4sight_onnx as onnx;
use perf4sight_onnx::parse_dim;

/// Every one may be left out.
#[derive(Debug, Args)]
pub(super) struct ExtentsArguments {
    /// One sample of what the network reads, where it is not as its dataset or its file has it: 3x320x320
    #[arg(long, value_name = "SHAPE", value_parser = parse_input)]
    input: Option<Shape>,

    /// How many classes the network tells apart, where it is not as its dataset or its file has it
    #[arg(long, value_name = "NUMBER", value_parser = parse_classes)]
    classes: Option<usize>,

    /// How large a dimension is that the file leaves open, by its name there, such as tokens=197; once for each
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = parse_dim)]
    dims: Vec<(String, u64)>,
}

impl ExtentsArguments {
    /// What they ask for.
    ///
    /// # Errors
    /// Two sizes of one dimension.
    pub fn extents(self) -> Result<Extents> {
        Ok(Extents { dims: onnx::dims(self.dims)?, input: self.input, classes: self.classes })
    }
}
