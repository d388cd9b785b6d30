//! `perf4sight networks`: lists the known networks, and writes the default ones to files.

use super::asking::{IMAGES_OF, OVERWRITE};
use perf4sight_base::error::Result;
use perf4sight_base::output_folder;
use perf4sight_network::Network;
use perf4sight_network::zoo;
use perf4sight_network::zoo::Dataset;
use perf4sight_onnx as onnx;
use perf4sight_report::{Table, TableBuilder};
use perf4sight_verb::config::{Setting, SettingTable as Settings, SettingValues, path};
use perf4sight_verb::{Context, Summary, Verb, VerbSpec};
use std::path::{Path, PathBuf};

/// The networks that are written by default: one of each family that the published pruner supports.
const EXPORTED: [&str; 7] = ["alexnet", "resnet18", "resnet50", "mobilenetv2", "squeezenet", "mnasnet", "googlenet"];

/// `perf4sight networks`.
pub static VERB: VerbSpec = VerbSpec {
    table: Settings {
        section: "networks",
        about: "lists the known networks; writes the usual ones as ONNX files",
        groups: &[&[EXPORT, OVERWRITE, IMAGES_OF]],
    },
    after_help: "",
    parse: |values| Ok(Box::new(NetworksVerb::parse(values)?)),
};

const EXPORT: Setting = path("export").value("DIR").help("Write them to this folder.");

#[derive(Debug, Clone, PartialEq, Eq)]
struct NetworksVerb {
    export: Option<PathBuf>,
    overwrite: bool,
    dataset: Dataset,
}

impl Verb for NetworksVerb {
    /// Lists all networks; writes the requested ones.
    fn run(&self, context: &mut Context) -> Result<Summary> {
        let table = self.list()?;
        let headline = match &self.export {
            Some(folder) => self.export(folder, context)?,
            None => String::new(),
        };
        Ok(Summary { headline, json: table.to_json(), tables: vec![table], ..Summary::default() })
    }
}

impl NetworksVerb {
    fn parse(values: &SettingValues<'_>) -> Result<Self> {
        Ok(NetworksVerb {
            export: values.get("export")?,
            overwrite: values.get("overwrite")?,
            dataset: values.parse_word("dataset", Dataset::parse)?,
        })
    }

    fn list(&self) -> Result<Table> {
        let networks: Vec<(&str, Option<Network>, usize)> = zoo::names()
            .map(|name| Ok((name, zoo::build(name, self.dataset).ok(), zoo::smallest_input(name)?)))
            .collect::<Result<_>>()?;
        let (classes, size) = (self.dataset.classes(), self.dataset.size());
        let count = |network: &Option<Network>, of: fn(&Network) -> u64| network.as_ref().map(of);
        Ok(TableBuilder::new(format!("Networks for {} ({classes} classes, 3x{size}x{size})", self.dataset), networks)
            .text("network", "network", |(name, ..)| *name)
            .number("parameters", "parameters", |(_, network, _)| count(network, Network::parameters))
            .number("macs", "MACs", |(_, network, _)| count(network, Network::macs))
            .number("activations", "activations", |(_, network, _)| count(network, Network::activations))
            .number("smallest_input", "smallest input", |(.., smallest)| *smallest)
            .table())
    }

    fn export(&self, folder: &Path, context: &mut Context) -> Result<String> {
        output_folder::make(folder)?;
        let file = |name: &str| folder.join(format!("{name}.onnx"));
        EXPORTED.iter().try_for_each(|name| onnx::check_replaced(&file(name), self.overwrite))?;
        let mut written = 0;
        for name in EXPORTED {
            match zoo::build(name, self.dataset) {
                Ok(network) => {
                    onnx::write_over(&network, file(name), self.overwrite)?;
                    written += 1;
                }
                Err(misfit) => context.warn(misfit),
            }
        }
        Ok(format!("{written} networks written to {}", folder.display()))
    }
}
