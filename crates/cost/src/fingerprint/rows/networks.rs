//! The networks that rows refer to, each read once from one flat folder.

use perf4sight_base::error::Result;
use perf4sight_network::Network;
use perf4sight_onnx as onnx;
use perf4sight_onnx::LoadedOnnx;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Networks of one folder by the stem of their file.
#[derive(Debug)]
pub struct NetworkFolder {
    folder: PathBuf,
    /// Networks fetched before; `None` where the file does not exist.
    read: BTreeMap<String, Option<Arc<Network>>>,
}

impl NetworkFolder {
    /// The networks of `folder`, none of them read yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        NetworkFolder { folder: folder.into(), read: BTreeMap::new() }
    }

    /// Where the network files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads the networks for [`NetworkFolder::get`], and returns the warnings of the reader; a missing file is no error.
    ///
    /// # Errors
    /// A file exists but contains no network.
    pub fn fetch<'a>(&mut self, stems: impl IntoIterator<Item = &'a str>) -> Result<Vec<String>> {
        let wanted: BTreeSet<&str> = stems.into_iter().filter(|stem| !self.read.contains_key(*stem)).collect();
        let wanted: Vec<&str> = wanted.into_iter().collect();
        let files = wanted.par_iter().map(|stem| self.folder.join(format!("{stem}.onnx")));
        let loaded = files.map(|file| file.exists().then(|| onnx::read(&file)).transpose());
        let mut warnings = Vec::new();
        for (stem, loaded) in wanted.iter().zip(loaded.collect::<Result<Vec<_>>>()?) {
            let network = loaded.map(|LoadedOnnx { network, warnings: found }| {
                warnings.extend(found.iter().map(|warning| format!("{stem}.onnx: {warning}")));
                Arc::new(network)
            });
            self.read.insert((*stem).to_owned(), network);
        }
        Ok(warnings)
    }

    /// The network in the file of that stem, if it was fetched and there is one.
    pub fn get(&self, stem: &str) -> Option<&Arc<Network>> {
        self.read.get(stem)?.as_ref()
    }
}
