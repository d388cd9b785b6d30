//! The published test configuration: an INI section per network, its keys Python lists, every combination a test.
//!
//! ```text
//! [RESNET18]
//! test_var= ['memory', 'latency']
//! bs= [2, 8, 16]
//! dataset= ['imagenet']
//! net_name= ['resnet18']
//! exec_stage= ['training']
//! model= ['models/pruned/imagenet/resnet18_0.onnx',
//!         'models/pruned/imagenet/resnet18_30.onnx']
//! ```
//!
//! A step that is not the published one has the key `exec_step` with its changes:
//! `exec_step= ['optimizer=adamw; zero_grad=free']`.

use crate::plan::Sweep;
use crate::records::Variant;
use perf4sight_base::atomic_write;
use perf4sight_base::error::{Error, Result, suggestion};
use perf4sight_step::workload::{Stage, Step, Variable};
use perf4sight_verb::config::{ConfigDocument, FromValue, SectionText, Value};
use std::fs;
use std::path::{Path, PathBuf};

/// The keys of a section, in the published order.
const KEYS: [&str; 7] = ["test_var", "bs", "dataset", "net_name", "exec_stage", EXEC_STEP, "model"];

/// The only key that was not published; it is left out for the published step.
const EXEC_STEP: &str = "exec_step";

/// The measurements of one network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkTests {
    /// The network's name.
    pub network: String,
    /// The dataset it is for.
    pub dataset: String,
    /// Every combination of these is a test.
    pub sweep: Sweep,
    /// The files of the sweep's variants on the device, one each.
    pub files: Vec<PathBuf>,
}

/// The files that `path` refers to: the path itself if it is, or will be, a file; else one `{network}.ini` in it per
/// network.
pub fn files(path: &Path, networks: &[String]) -> Vec<PathBuf> {
    let file = path.is_file() || (!path.is_dir() && path.extension().is_some());
    match file {
        true => vec![path.to_owned()],
        false => networks.iter().map(|network| path.join(format!("{network}.ini"))).collect(),
    }
}

/// Writes the tests of each network to the files that `path` refers to.
///
/// # Errors
/// A file that cannot be written, or an existing file that is not a test configuration: other files are never
/// overwritten.
pub fn write(path: &Path, tests: &[NetworkTests]) -> Result<Vec<PathBuf>> {
    let networks: Vec<String> = tests.iter().map(|tests| tests.network.clone()).collect();
    let files = files(path, &networks);
    let texts: Vec<String> = tests.iter().map(text).collect();
    let texts = if files.len() == texts.len() { texts } else { vec![texts.join("\n")] };
    files.iter().try_for_each(|file| check_replaced(file))?;
    files.iter().zip(texts).try_for_each(|(file, text)| atomic_write::save(file, text))?;
    Ok(files)
}

/// Refuses to replace a file that is neither empty nor a test configuration.
///
/// # Errors
/// See [`read`].
pub fn check_replaced(file: &Path) -> Result<()> {
    match fs::metadata(file).is_ok_and(|about| about.len() > 0) {
        true => read(file).map(drop).map_err(|error| error.help("set test_config to a file that may be overwritten")),
        false => Ok(()),
    }
}

fn text(tests: &NetworkTests) -> String {
    let words = |words: Vec<&str>| words.into_iter().collect::<Value>();
    let batches: Value = tests.sweep.batches.iter().map(|&batch| batch as i64).collect();
    let models: Vec<String> =
        tests.files.iter().map(|file| Value::from(file.display().to_string().as_str()).to_string()).collect();
    // Steps differ only in their stage, and training has the most settings.
    let step = tests.sweep.steps.iter().min().filter(|step| step.settings().next().is_some());
    let step = step.map_or(String::new(), |step| format!("{EXEC_STEP}= {}\n", words(vec![&step.cell()])));
    format!(
        "[{}]\ntest_var= {}\nbs= {}\ndataset= {}\nnet_name= {}\nexec_stage= {}\n{step}model= [{}]\n",
        tests.network.to_uppercase(),
        words(tests.sweep.variables.iter().map(|variable| variable.name()).collect()),
        batches,
        words(vec![&tests.dataset]),
        words(vec![&tests.network]),
        words(tests.sweep.steps.iter().map(|step| step.stage.name()).collect()),
        models.join(",\n        "),
    )
}

/// Reads the tests of every network in a file.
///
/// # Errors
/// A file in another format than the published one: with file, line, key and expectation.
pub fn read(file: &Path) -> Result<Vec<NetworkTests>> {
    let document = ConfigDocument::load(file)?;
    if document.sections().is_empty() {
        return Err(Error::config("there is nothing to measure").file(file).expected("a section such as [RESNET18]"));
    }
    document.sections().iter().map(|section| SectionReader { file, section }.tests()).collect()
}

struct SectionReader<'a> {
    file: &'a Path,
    section: &'a SectionText,
}

impl SectionReader<'_> {
    fn tests(&self) -> Result<NetworkTests> {
        if let Some(entry) = self.section.entries.iter().find(|entry| !KEYS.contains(&entry.key.as_str())) {
            let error = self.error(&entry.key, "no such key in a test configuration");
            return Err(error.help(suggestion(&entry.key, KEYS)));
        }
        let network = self.single_word("net_name")?;
        let files: Vec<PathBuf> = self.list("model", "a list of network files")?;
        let variant = |file: &PathBuf| {
            let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            Variant::parse(stem, [network.as_str()]).map_err(|error| self.place("model", error))
        };
        let step = self.step()?;
        let sweep = Sweep {
            variables: self.parse_words("test_var", Variable::parse)?,
            batches: self.batches()?,
            steps: self
                .parse_words("exec_stage", Stage::parse)?
                .into_iter()
                .map(|stage| step.in_stage(stage))
                .collect(),
            variants: files.iter().map(variant).collect::<Result<_>>()?,
        };
        Ok(NetworkTests { dataset: self.single_word("dataset")?, network, sweep, files })
    }

    fn step(&self) -> Result<Step> {
        let published = Step::published(Stage::Training);
        if self.section.entry(EXEC_STEP).is_none() {
            return Ok(published);
        }
        let cell = self.single_word(EXEC_STEP)?;
        Step::from_cell(published.stage, &cell).map_err(|error| self.place(EXEC_STEP, error))
    }

    fn batches(&self) -> Result<Vec<u64>> {
        let batches: Vec<u64> = self.list("bs", "a list of batch sizes such as [1, 8, 32]")?;
        match batches.contains(&0) {
            true => Err(self.error("bs", "a batch size is 0").expected("batch sizes of 1 or more")),
            false => Ok(batches),
        }
    }

    fn parse_words<T>(&self, key: &str, parse: fn(&str) -> Result<T>) -> Result<Vec<T>> {
        let words: Vec<String> = self.list(key, "a list of words")?;
        words.iter().map(|word| parse(word).map_err(|error| self.place(key, error))).collect()
    }

    /// A section is for one network and one dataset, although the format has lists of them.
    fn single_word(&self, key: &str) -> Result<String> {
        let mut words: Vec<String> = self.list(key, "a list of one word")?;
        match (words.pop(), words.is_empty()) {
            (Some(word), true) => Ok(word),
            _ => Err(self.error(key, "more than one").expected("one a section").help("write a section for each")),
        }
    }

    fn list<T: FromValue>(&self, key: &str, expected: &str) -> Result<Vec<T>> {
        let entry = self.section.entry(key).ok_or_else(|| self.error(key, "this key is missing").expected(expected))?;
        let list = Vec::from_value(&entry.value).filter(|list| !list.is_empty());
        list.ok_or_else(|| self.error(key, format!("{} does not fit", entry.value)).expected(expected))
    }

    fn error(&self, key: &str, problem: impl std::fmt::Display) -> Error {
        self.place(key, Error::config(format!("[{}] {key}: {problem}", self.section.name)))
    }

    fn place(&self, key: &str, error: Error) -> Error {
        use perf4sight_verb::config::ValueOrigin;
        let line = match self.section.entry(key).map(|entry| &entry.origin) {
            Some(ValueOrigin::Line(line)) => *line,
            _ => self.section.line,
        };
        error.file(self.file).line(line)
    }
}
