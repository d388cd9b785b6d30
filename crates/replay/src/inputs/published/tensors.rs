//! The tensors that ranks exchange in the published layout: their names by number, and their sizes.

use crate::inputs::contents;
use crate::inputs::exchange::element_type;
use perf4sight_base::error::{Error, Result};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;

/// Tensors by the number that timelines call them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TensorTable {
    names: Vec<String>,
    /// Elements and their type by name.
    sizes: HashMap<String, (u64, String)>,
}

const NAMES: &str = "gradient_name_list.json";
const METADATA: &str = "metadata.json";

impl TensorTable {
    /// Reads what a folder of a GPU contains of them.
    ///
    /// # Errors
    /// A file that is no JSON.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut tensors = TensorTable::default();
        let metadata = json(&folder.join(METADATA))?;
        let list = json(&folder.join(NAMES))?;
        let names = [&list, &metadata].into_iter().find_map(|source| match source {
            Value::Array(names) => Some(names),
            other => other.get("gradient_name_list")?.as_array(),
        });
        names.into_iter().flatten().for_each(|name| tensors.add(name));
        let operations = metadata.as_object().into_iter().flatten();
        let values = operations.flat_map(|(_, operation)| ["input", "output"].map(|side| operation.get(side)));
        for tensor in values.flatten().filter_map(Value::as_array).flatten() {
            if let (Some(name), Some(size)) = (tensor.get("name").and_then(Value::as_str), size(tensor)) {
                tensors.sizes.entry(without_output(name).to_owned()).or_insert(size);
            }
        }
        Ok(tensors)
    }

    /// Adds a name: alone, or with shape and type as MXNet's recorder writes it, `name;shape=(512, 1024);dtype=float16` in
    /// one text or in three.
    fn add(&mut self, entry: &Value) {
        let texts: Vec<String> = match entry {
            Value::Array(parts) => {
                parts.iter().map(|part| part.as_str().map_or(part.to_string(), str::to_owned)).collect()
            }
            other => other.as_str().unwrap_or_default().split(';').map(str::to_owned).collect(),
        };
        let [name, rest @ ..] = texts.as_slice() else { return };
        if let [shape, kind] = rest {
            let numbers = shape.split(|letter: char| !letter.is_ascii_digit()).filter_map(|text| text.parse().ok());
            let elements = numbers.fold(1u64, |product, size: u64| product.saturating_mul(size));
            self.sizes.insert(name.clone(), (elements, element_type(kind.trim_start_matches("dtype="))));
        }
        self.names.push(name.clone());
    }

    /// Elements and their type of tensors, by number or name, together; none if any is not known.
    pub fn size(&self, tensors: &[String]) -> Option<(u64, String)> {
        let mut sizes = tensors.iter().map(|tensor| self.sizes.get(self.name(tensor)));
        let (first, kind) = sizes.next()??.clone();
        let add = |sum: u64, (elements, other): &(u64, String)| sum.checked_add(*elements).filter(|_| *other == kind);
        let elements = sizes.try_fold(first, |sum, size| add(sum, size?))?;
        Some((elements, kind))
    }

    /// The name of a tensor that is called by its number.
    pub fn name<'a>(&'a self, tensor: &'a str) -> &'a str {
        let by_number = tensor.parse().ok().and_then(|number: usize| self.names.get(number));
        by_number.map_or(tensor, String::as_str)
    }

    /// What timelines call a tensor: its number, else its name.
    pub fn timeline_name(&self, name: &str) -> String {
        let place = self.names.iter().position(|known| known == name);
        place.map_or_else(|| name.to_owned(), |place| place.to_string())
    }
}

/// TensorFlow calls the first output of an operation `name:0`.
fn without_output(name: &str) -> &str {
    name.rsplit_once(':').filter(|(_, output)| output.parse::<u32>().is_ok()).map_or(name, |(name, _)| name)
}

/// Elements and their type of a tensor such as `{"name": "x", "shape": [3, 4], "dtype": "float32"}`.
fn size(tensor: &Value) -> Option<(u64, String)> {
    let shape = tensor.get("shape")?.as_array()?;
    let elements = shape.iter().try_fold(1u64, |product, size| product.checked_mul(size.as_u64()?))?;
    Some((elements, element_type(tensor.get("dtype")?.as_str()?)))
}

/// The JSON of a file that need not be there.
fn json(file: &Path) -> Result<Value> {
    if !file.exists() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&contents::read(file)?.bytes)
        .map_err(|cause| Error::input(format!("is not JSON: {cause}")).file(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sizes_of_both_platforms_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, value: Value| std::fs::write(folder.path().join(name), value.to_string()).unwrap();
        write(NAMES, json!({"gradient_name_list": ["w", "b"], "model_name": "mlp"}));
        let output = json!([{"name": "w:0", "shape": [3, 4], "dtype": "float32"}, {"name": "b:0", "shape": [4], "dtype": "float32"}]);
        write(METADATA, json!({"gradients/mul": {"op": "Mul", "input": [], "output": output}}));
        let tensors = TensorTable::read(folder.path()).unwrap();
        assert_eq!(tensors.size(&["0".to_owned(), "1".to_owned()]), Some((16, "float".to_owned())));
        assert_eq!(
            (tensors.name("1"), tensors.timeline_name("b").as_str(), tensors.size(&["2".to_owned()])),
            ("b", "1", None)
        );
        std::fs::remove_file(folder.path().join(NAMES)).unwrap();
        write(METADATA, json!({"gradient_name_list": ["w;shape=(512, 1024);dtype=float16", "b"]}));
        let tensors = TensorTable::read(folder.path()).unwrap();
        assert_eq!(tensors.size(&["0".to_owned()]), Some((524_288, "half".to_owned())));
        std::fs::write(folder.path().join(METADATA), "{").unwrap();
        assert!(TensorTable::read(folder.path()).unwrap_err().to_string().contains("not JSON"));
    }
}
