//! `[create_network_dataset]`: prunes networks to many levels and writes each variant as a network file.

mod source;
mod tables;

use super::extents::NetworkExtents;
use super::{NETWORKS, images};
use crate::pruning::{FilterRanking, PrunedNetwork, Pruner, PruningGoal, RankingMode, generator};
use crate::records::Variant;
use perf4sight_base::error::{Error, Result};
use perf4sight_base::output_folder::{self, lock_folder};
use perf4sight_base::overwrite;
use perf4sight_base::units::{Percent, count_text};
use perf4sight_network::zoo::ImageDataset;
use perf4sight_onnx as onnx;
use perf4sight_report::{Progress, Table};
use perf4sight_verb::config::{self, Setting, SettingValues, flag, integer, path, text, word};
use perf4sight_verb::{Context, KeyedPath, Outline, PlannedFiles, Section, Spec, Summary, Verb};
use rayon::prelude::*;
use serde_json::json;
use source::{LoadedNetwork, NetworkSource};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The section.
pub static SPEC: Spec = Spec {
    table: config::SettingTable {
        section: "create_network_dataset",
        about: "prunes networks to many levels and writes each variant as a network file",
        groups: &[SETTINGS],
    },
    subject: NETWORKS,
    parse,
};

const SETTINGS: &[Setting] = &[
    text("networks").many_values().required()
        .help("Networks to prune: ONNX files in `model_desc_dir`, named without their ending, or names that `perf4sight networks` lists. A file takes precedence over a listed network of the same name."),
    text("dims").many_values().or_default("[]")
        .help("Sizes of dimensions that files leave open, by their names, such as 'tokens=197'. Each file uses those that it has."),
    integer("pruning_perc", 0, 99).many_values().or_default("[0,5,10,15,20,25,30,35,40,45,50,55,60,65,70,75,80,85,90]")
        .help("Levels: percentages of all parameters to remove."),
    word("mode", || RankingMode::ALL.map(RankingMode::name).to_vec()).or_default("random")
        .help("Which filters are removed first: at random, at random with late or early layers preferred, or those with the smallest mean magnitude (needs files with weights)."),
    integer("repeats", 1, 9999).or_default("1").help("Variants per level, only in mode random_weighted."),
    flag("write_unreached")
        .help("Also write networks that miss their level by more than two percentage points, under the name of that level, as the program of the perf4sight paper does. By default the run names them and ends with exit code 4."),
    path("model_desc_dir").or_default("models/{dataset}").help("Folder of the networks to prune."),
    path("model_path").or_default("models/pruned/{mode}_pruning")
        .help("Folder to write to; variants go to `{model_path}/{dataset}/{network}_{level}.onnx`."),
    integer("seed", 0, i64::MAX).or_default("0")
        .help("Seed: the same seed gives the same files. Every variant is drawn independently, so the channels removed at one level are not all removed at the next."),
    text("dataset").or_default("imagenet")
        .help("Dataset whose images and classes the listed networks have: imagenet, cifar10 or cifar100. It names a folder, and may be any name if input and classes are set. Files have images and classes of their own."),
    text("input")
        .help("Shape of one image, such as 3x320x320, if it differs from the dataset's. Files are read for that size if their graphs allow it. The folder is then called {dataset}-3x320x320, so that networks, rows and fingerprints of different sizes stay apart."),
    integer("classes", 1, i64::MAX)
        .help("Number of classes, if it differs from the dataset's or the file's. It, too, becomes part of the folder's name."),
    super::asking::OVERWRITE,
];

/// The file of the table of the written networks.
const VARIANTS: &str = "variants.csv";

/// The file of the table of layers that could not be pruned.
const UNPRUNABLE: &str = "unprunable.csv";

struct CreateNetworkDataset {
    sources: Vec<NetworkSource>,
    files: NetworkExtents,
    levels: Vec<u8>,
    mode: RankingMode,
    repeats: u32,
    write_unreached: bool,
    seed: u64,
    model_path: PathBuf,
    images: ImageDataset,
    overwrite: bool,
}

struct PrunedVariant {
    variant: Variant,
    pruned: PrunedNetwork,
}

impl PrunedVariant {
    /// Whether the network got as small as its level requires. A network further off, in either direction, is not of
    /// that level: its file would be mistaken for another network.
    fn is_small_enough(&self) -> bool {
        self.pruned.limit.is_none()
            || (f64::from(self.variant.level) - self.pruned.percent).abs() <= PruningGoal::TOLERANCE
    }
}

fn parse(values: &SettingValues) -> Result<Box<dyn Section>> {
    let (input, images) = (images::input(values)?, images::images_from_values(values)?);
    let folder: PathBuf = values.get("model_desc_dir")?;
    let mode = values.parse_word("mode", RankingMode::parse)?;
    let levels: BTreeSet<u8> = values.get::<Vec<u8>>("pruning_perc")?.into_iter().collect();
    let sources =
        values.parse_words("networks", |name| NetworkSource::find(name, &folder, &images, mode == RankingMode::L1))?;
    let dims =
        onnx::dims(values.parse_words("dims", onnx::parse_dim)?).map_err(|error| values.with_place("dims", error))?;
    source::check_dims(&sources, &dims).map_err(|error| values.with_place("dims", error))?;
    let files = NetworkExtents { dims, input, classes: images::classes(values)? };
    source::check_input(&sources, &files).map_err(|error| values.with_place("input", error))?;
    source::check_classes(&sources, &files).map_err(|error| values.with_place("classes", error))?;
    Ok(Box::new(CreateNetworkDataset {
        sources,
        files,
        levels: levels.into_iter().collect(),
        mode,
        repeats: values.get("repeats")?,
        write_unreached: values.get("write_unreached")?,
        seed: values.get("seed")?,
        model_path: values.get("model_path")?,
        images,
        overwrite: values.get("overwrite")?,
    }))
}

impl Section for CreateNetworkDataset {
    fn outline(&self, _: &PlannedFiles, _: &Context) -> Result<Outline<'_>> {
        let variants = self.sources.iter().flat_map(|source| self.variants(source.name()));
        let tables = [VARIANTS, UNPRUNABLE].map(|name| self.folder().join(name));
        let writes = variants.map(|variant| self.file(&variant)).chain(tables);
        let writes = writes.map(|path| KeyedPath::new("model_path", path)).collect();
        let files = || self.sources.iter().filter_map(NetworkSource::file);
        let reads = files().map(|file| KeyedPath::new("networks", file)).collect();
        let levels = count_text(self.levels.len() as u64, "level");
        let step = |source: &NetworkSource| format!("prune {source} to {levels} into {}", self.folder().display());
        let steps = self.sources.iter().map(step).collect();
        let outline = Outline { steps, reads, writes, ..Outline::default() };
        Ok(outline
            .check_value("model_path", || self.check_replaced())
            .check("networks", files(), |context| self.load(context).map(drop)))
    }
}

impl Verb for CreateNetworkDataset {
    fn run(&self, context: &mut Context) -> Result<Summary> {
        if self.repeats > 1 && self.mode != RankingMode::RandomWeighted {
            context.warn("repeats counts only in mode random_weighted: one variant per level is written");
        }
        self.check_replaced()?;
        let (networks, unread) = self.load(context)?;
        networks.iter().flat_map(|loaded| &loaded.warnings).for_each(|warning| context.warn(warning));
        output_folder::make(&self.folder())?;
        let _held = lock_folder(&self.folder(), Duration::ZERO, "wait for it to finish, or set another model_path")?;
        let made = self.make_all(&networks, context)?;
        let summary = self.summarise(&networks, &made)?;
        let Some(not_read) = self.not_read(&unread) else { return Ok(summary) };
        // A file that could not be read is reported as the error; a level that could not be reached is then a warning.
        summary.failure.iter().for_each(|not_reached| context.warn(not_reached));
        Ok(Summary { failure: Some(not_read), ..summary })
    }
}

impl CreateNetworkDataset {
    fn folder(&self) -> PathBuf {
        self.model_path.join(self.images.word())
    }

    fn file(&self, variant: &Variant) -> PathBuf {
        self.folder().join(format!("{variant}.onnx"))
    }

    /// Refuses to replace files of others.
    fn check_replaced(&self) -> Result<()> {
        let variants = self.sources.iter().flat_map(|source| self.variants(source.name()));
        variants.map(|variant| self.file(&variant)).try_for_each(|file| onnx::check_replaced(&file, self.overwrite))?;
        let tables = [(VARIANTS, tables::variants(&[])), (UNPRUNABLE, tables::unprunable(&[]))];
        let check = |(name, table): (&str, Table)| {
            overwrite::check_contents(&self.folder().join(name), table.to_csv(), self.overwrite)
        };
        tables.into_iter().try_for_each(check)
    }

    fn variants(&self, network: &str) -> Vec<Variant> {
        let repeats = match self.mode {
            RankingMode::RandomWeighted => (0..self.repeats).map(Some).collect(),
            RankingMode::Random | RankingMode::L1 => vec![None],
        };
        let at = |level: u8| repeats.iter().map(move |&repeat| Variant { repeat, ..Variant::new(network, level) });
        self.levels.iter().flat_map(|&level| at(level)).collect()
    }

    /// The networks, and the names of those that could not be read, with a warning each. An error if none could be
    /// read.
    fn load(&self, context: &mut Context) -> Result<(Vec<LoadedNetwork>, Vec<&str>)> {
        let (mut networks, mut unread) = (Vec::new(), Vec::new());
        for source in &self.sources {
            match source.load(&self.files) {
                Ok(loaded) => networks.push(loaded),
                Err(error) => unread.push((source.name(), error)),
            }
        }
        let last = if networks.is_empty() { unread.pop() } else { None };
        unread.iter().for_each(|(_, error)| context.warn(error));
        if let Some((_, error)) = last {
            return Err(error);
        }
        Ok((networks, unread.into_iter().map(|(name, _)| name).collect()))
    }

    fn not_read(&self, unread: &[&str]) -> Option<Error> {
        let (count, all, names) = (unread.len(), self.sources.len(), unread.join(", "));
        (!unread.is_empty()).then(|| {
            Error::input(format!("{count} of {all} networks could not be read and were not pruned: {names}"))
                .help("the reasons are in the warnings above; leave them out of networks, or repair their files and run again")
        })
    }

    /// All variants, computed in parallel, in the order of the configuration.
    fn make_all(&self, networks: &[LoadedNetwork], context: &Context) -> Result<Vec<PrunedVariant>> {
        let pruners: Vec<(Pruner, &LoadedNetwork)> =
            networks.par_iter().map(|loaded| (Pruner::new(&loaded.network), loaded)).collect();
        let work: Vec<(&(Pruner, &LoadedNetwork), Variant)> = pruners
            .iter()
            .flat_map(|pruner| self.variants(pruner.1.network.name()).into_iter().map(move |variant| (pruner, variant)))
            .collect();
        let progress = context.console.progress(work.len() as u64, "pruning");
        let made = work.into_par_iter().filter(|_| !context.cancelled());
        made.map(|((pruner, loaded), variant)| self.make(pruner, loaded, variant, &progress)).collect()
    }

    fn make(
        &self,
        pruner: &Pruner,
        loaded: &LoadedNetwork,
        variant: Variant,
        progress: &Progress,
    ) -> Result<PrunedVariant> {
        let draws = &mut generator(self.seed, &variant.network, variant.level, variant.repeat.unwrap_or(0));
        let ranking = FilterRanking::by(self.mode, pruner, draws, &loaded.magnitudes)?;
        let goal = PruningGoal::percent(&loaded.network, f64::from(variant.level));
        let pruned = pruner.prune(&ranking, goal)?;
        let network = pruned.network.renamed(variant.to_string());
        let made = PrunedVariant { variant, pruned: PrunedNetwork { network, ..pruned } };
        let file = self.file(&made.variant);
        match self.is_written(&made) {
            true => onnx::write_over(&made.pruned.network, file, self.overwrite)?,
            // A file of an earlier run is not a network of that level either.
            false if file.is_file() => {
                onnx::check_replaced(&file, self.overwrite)?;
                fs::remove_file(&file).map_err(|cause| Error::io(&file, "remove this file", &cause))?
            }
            false => {}
        }
        progress.advance(1);
        Ok(made)
    }

    fn summarise(&self, networks: &[LoadedNetwork], made: &[PrunedVariant]) -> Result<Summary> {
        let (written, missed): (Vec<&PrunedVariant>, Vec<&PrunedVariant>) =
            made.iter().partition(|made| self.is_written(made));
        let (variants, unprunable) = (tables::variants(&written), tables::unprunable(networks));
        let csv = self.folder().join(VARIANTS);
        overwrite::save(&csv, variants.to_csv(), self.overwrite)?;
        overwrite::save(&self.folder().join(UNPRUNABLE), unprunable.to_csv(), self.overwrite)?;
        Ok(Summary {
            headline: format!("{} networks written to {}", written.len(), self.folder().display()),
            json: json!({ "variants": variants.to_json(), "unprunable": unprunable.to_json() }),
            tables: vec![variants, tables::reasons(&unprunable)],
            files: vec![("pruned networks", csv)],
            failure: missed.first().map(|first| self.not_reached(first, missed.len() - 1)),
            ..Summary::default()
        })
    }

    fn is_written(&self, made: &PrunedVariant) -> bool {
        self.write_unreached || made.is_small_enough()
    }

    fn not_reached(&self, first: &PrunedVariant, more: usize) -> Error {
        let PrunedVariant { variant, pruned } = first;
        let others = match more {
            0 => String::new(),
            more => format!(", nor {more} more of other levels or networks"),
        };
        let why = pruned.limit.map_or(String::new(), |limit| format!(": {limit}"));
        let percent = Percent(pruned.percent);
        let gone = match pruned.percent < f64::from(variant.level) {
            true => format!("only {percent} of its parameters could go"),
            false => format!("{percent} of its parameters would go"),
        };
        Error::input(format!("{variant} was not written{others}: {gone}{why}"))
            .expected(format!("networks that come within {} percentage points of their level", PruningGoal::TOLERANCE))
            .help(format!("leave that level out of pruning_perc; {UNPRUNABLE} names the channels that stay, and why"))
    }
}
