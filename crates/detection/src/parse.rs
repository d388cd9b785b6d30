//! Parses a configuration: `[detection]`, or `[training]` of a published TOML file.

use super::dataset::MakeDataset;
use super::settings::TABLE;
use super::{BoxSource, Detection, DetectionTask, SweepSetting};
use perf4sight_base::error::{Error, Result, suggestion};
use perf4sight_machine::remote::{SshHost, SshRoute};
use perf4sight_step::workload::{Optimizer, Precision};
use perf4sight_verb::Verb;
use perf4sight_verb::config::{ConfigDocument, ConfigEntry, SettingTable, SettingValues};
use std::path::{Path, PathBuf};

/// The table of a published file.
static TRAINING: SettingTable = SettingTable { section: "training", ..TABLE };

/// The verb of the command line: a detector is trained, or data made up.
pub(super) fn verb(values: &SettingValues<'_>) -> Result<Box<dyn Verb>> {
    if let Some(folder) = values.get("make_dataset")? {
        return Ok(Box::new(MakeDataset { folder, count: values.get("images")?, seed: values.get("seed")? }));
    }
    Ok(Box::new(match values.get::<Option<PathBuf>>("config")? {
        Some(file) => published(&file, values.entries())?,
        None => Detection::parse(values)?,
    }))
}

/// Parses table `[training]` of a published TOML file; arguments override its values.
///
/// # Errors
/// A file that cannot be read or is no TOML; other tables, unknown keys, values of another kind, each with its line.
fn published(file: &Path, arguments: &[ConfigEntry]) -> Result<Detection> {
    let document = ConfigDocument::load_toml(file)?;
    if let Some(other) = document.sections().iter().find(|section| section.name != TRAINING.section) {
        let error = Error::config(format!("no such table: [{}]", other.name)).file(file).line(other.line);
        return Err(error.expected("[training]").help(suggestion(&other.name, [TRAINING.section])));
    }
    let said: Vec<ConfigEntry> = arguments.iter().filter(|entry| entry.key != "config").cloned().collect();
    let document = document.overlaid(&said);
    let Some(section) = document.section(TRAINING.section) else {
        return Err(Error::config("there is no table [training]")
            .file(file)
            .expected("[training] with batch_size, for example"));
    };
    Detection::parse(&SettingValues::check(&document, section, &TRAINING, &[])?)
}

impl Detection {
    pub(super) fn parse(values: &SettingValues<'_>) -> Result<Self> {
        let patience = values.seconds("reconnect")?;
        let host = values.named_if_set("host", SshHost::parse)?;
        let config = values.get("ssh_config")?;
        Ok(Detection {
            out: values.get("out")?,
            overwrite: values.get("overwrite")?,
            epochs: values.get("num_epochs")?,
            place: values.get("device")?,
            threads: values.get("threads")?,
            mem_limit: values.get("mem_limit")?,
            python: values.get("python")?,
            timeout: values.get("timeout")?,
            seed: values.get("seed")?,
            trace: values.get("trace")?,
            route: host.map(|host| SshRoute { host, config, patience }),
            predict: values.get("predict")?,
            task: task(values)?,
            settings: SweepSetting::all(
                &values.get::<Vec<u64>>("batch_size")?,
                &values.get::<Vec<u64>>("num_workers")?,
                &values.get::<Vec<u64>>("prefetch_factor")?,
            ),
        })
    }
}

/// The values common to all settings.
fn task(values: &SettingValues<'_>) -> Result<DetectionTask> {
    Ok(DetectionTask {
        network: values.get("network")?,
        weights: values.get("weights")?,
        data: values.get::<Option<_>>("data")?.unwrap_or_default(),
        boxes: values.parse_word("boxes", BoxSource::parse)?,
        batch: 0,
        num_workers: 0,
        prefetch_factor: 1,
        size: values.get("size")?,
        precision: values.parse_word("precision", Precision::parse)?,
        channels_last: values.get("channels_last")?,
        pin_memory: values.get("pin_memory")?,
        optimizer: values.parse_word("optimizer", Optimizer::parse)?,
        learning_rate: values.get("learning_rate")?,
        clip: values.get("clip")?,
        warm_up: values.get("warm_up")?,
        steps: values.get("steps")?,
        trace: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::TempDir;

    fn published(text: &str) -> Result<Detection> {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("train.toml");
        fs::write(&file, text).unwrap();
        super::published(&file, &[])
    }

    /// The file of the published profiler, with the values that are not in it set as in the original.
    #[test]
    fn the_published_file_works() {
        let text =
            "[training]\nnum_epochs = 3\nbatch_size = 4\nprefetch_factor = 2\nnum_workers = 2\ndevice = \"cuda:0\"\n";
        let asked = published(text).unwrap();
        assert_eq!((asked.epochs, asked.place.as_deref()), (3, Some("cuda:0")));
        assert_eq!(asked.settings, [SweepSetting { batch: 4, num_workers: 2, prefetch_factor: 2 }]);
        let usual = published("[training]\n").unwrap();
        assert_eq!(
            (usual.epochs, usual.settings[0]),
            (10, SweepSetting { batch: 8, num_workers: 4, prefetch_factor: 2 })
        );
        assert_eq!(usual.task.network, "fasterrcnn_resnet50_fpn");
        let document = ConfigDocument::of_arguments("detection", Vec::new());
        assert_eq!(usual, Detection::parse(&SettingValues::of_arguments(&document, &TABLE).unwrap()).unwrap());
        assert_eq!(published("[training]\nbatch_size = [2, 4]\nnum_workers = 0\n").unwrap().settings.len(), 2);
    }

    #[test]
    fn what_it_does_not_know_is_named() {
        for (text, expected) in [
            ("[training]\nbatch_sise = 4\n", "train.toml:2: [training] batch_sise"),
            ("[training]\nbatch_size = \"many\"\n", "train.toml:2: [training] batch_size"),
            ("[training]\nnum_epochs = 0\n", "train.toml:2: [training] num_epochs"),
            ("[training]\nnum_workers = -1\n", "train.toml:2: [training] num_workers"),
            ("[training]\nnum_workers = 1.5\n", "train.toml:2: [training] num_workers"),
            ("[trainig]\nbatch_size = 4\n", "no such table: [trainig]"),
            ("", "there is no table [training]"),
        ] {
            let error = published(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
