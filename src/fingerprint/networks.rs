//! The networks that rows refer to, each read once from one flat folder.

use crate::error::Result;
use crate::network::Network;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Networks of one folder by the stem of their file.
#[derive(Debug)]
pub struct Networks {
    folder: PathBuf,
    read_file: fn(&Path) -> Result<Network>,
    /// What was asked for before; `None` where there is no such file.
    read: BTreeMap<String, Option<Arc<Network>>>,
}

impl Networks {
    /// The networks of `folder`, none of them read yet.
    pub fn new(folder: impl Into<PathBuf>, read_file: fn(&Path) -> Result<Network>) -> Self {
        Networks { folder: folder.into(), read_file, read: BTreeMap::new() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads what [`Networks::get`] shall find; files that do not exist are no error.
    ///
    /// # Errors
    /// A file that exists but holds no network.
    pub fn fetch<'a>(&mut self, stems: impl IntoIterator<Item = &'a str>) -> Result<()> {
        let mut wanted: Vec<&str> = stems.into_iter().filter(|stem| !self.read.contains_key(*stem)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let found: Vec<(String, Option<Arc<Network>>)> = wanted
            .into_par_iter()
            .map(|stem| {
                let file = self.folder.join(format!("{stem}.onnx"));
                let network = file.exists().then(|| (self.read_file)(&file)).transpose()?;
                Ok((stem.to_owned(), network.map(Arc::new)))
            })
            .collect::<Result<_>>()?;
        self.read.extend(found);
        Ok(())
    }

    /// The network in the file of that stem, if it was fetched and there is one.
    pub fn get(&self, stem: &str) -> Option<&Arc<Network>> {
        self.read.get(stem)?.as_ref()
    }
}
