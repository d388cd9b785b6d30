//! Classes of operations whose time is modelled alike, products by FLOPs and others by bytes. Which operations they hold is data.

use perf4sight_base::words;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::LazyLock;

words! {
    /// A class of operations with parameters of its own.
    pub enum OperationClass: "class of operations" {
        /// Products of matrices.
        Product = "product",
        Convolution = "convolution",
        Attention = "attention",
        Normalization = "normalization",
        /// Sums, softmax, pooling.
        Reduction = "reduction",
        Elementwise = "elementwise",
        /// Copies, casts, gathers.
        Movement = "movement",
    }
}

#[derive(Deserialize)]
struct ListedOperation {
    name: String,
    class: String,
}

static CLASSES: LazyLock<HashMap<String, OperationClass>> = LazyLock::new(read);

/// The table of this program; a test reads every row.
fn read() -> HashMap<String, OperationClass> {
    let table = include_bytes!("data/classes.csv").as_slice();
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(table);
    let row = |row: ListedOperation| Some((row.name, OperationClass::parse(&row.class).ok()?));
    reader.deserialize().flatten().filter_map(row).collect()
}

/// The class of an operation of PyTorch, TensorFlow or MXNet; none if it is not known.
pub fn class_of(operation: &str) -> Option<OperationClass> {
    CLASSES.get(base_name(operation).as_str()).copied()
}

/// The name that operations share with their backward, in-place and out forms: `softmax` for `aten::_softmax_backward_data`.
pub(crate) fn base_name(operation: &str) -> String {
    let own = operation.rsplit("::").next().unwrap_or(operation).to_ascii_lowercase();
    let forward = own.split("_backward").next().unwrap_or(&own);
    forward.split('.').next().unwrap_or(forward).trim_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_read() {
        let rows = include_str!("data/classes.csv").lines().filter(|line| !line.starts_with('#')).count() - 1;
        assert_eq!(CLASSES.len(), rows);
    }

    #[test]
    fn forms_of_an_operation_have_its_class() {
        for (name, class) in [
            ("aten::addmm", Some(OperationClass::Product)),
            ("aten::_softmax_backward_data", Some(OperationClass::Reduction)),
            ("aten::add_", Some(OperationClass::Elementwise)),
            ("aten::_foreach_add_", Some(OperationClass::Elementwise)),
            ("Conv2DBackpropFilter", Some(OperationClass::Convolution)),
            ("aten::convolution_backward", Some(OperationClass::Convolution)),
            ("aten::view", None),
        ] {
            assert_eq!(class_of(name), class, "{name}");
        }
    }
}
