//! Errors with their place, problem, expectation and remedy; one exit code per kind.

use crate::path_name::display_path;
use std::fmt;
use std::path::{Path, PathBuf};

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an error; decides the exit code of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// A command line that names something unknown or contradicts itself.
    Usage,
    /// A section, key or value in the configuration.
    Config,
    /// The content of an input file: a network, a CSV, a fingerprint.
    Input,
    /// A device that is missing, cannot run here, or failed as a whole.
    Device,
    /// A device that works, and is another kind than that of the other results.
    OtherKind,
    /// Reading or writing: missing files, permissions, a full disk.
    Io,
    /// Everything was done, and the answer is that a step may not fit.
    Unfit,
    /// A user's own command failed, with this exit code.
    Command(u8),
}

impl FailureKind {
    /// Exit code of the process, as `perf4sight --help` documents it.
    pub fn exit_code(self) -> u8 {
        match self {
            FailureKind::Usage => 2,
            FailureKind::Config => 3,
            FailureKind::Input => 4,
            FailureKind::Device | FailureKind::OtherKind => 5,
            FailureKind::Io => 6,
            FailureKind::Unfit => 7,
            FailureKind::Command(code) => code,
        }
    }
}

/// An error with its place, problem, expectation and remedy.
///
/// ```
/// use perf4sight_base::error::Error;
/// let error = Error::config("bs holds \"many\"")
///     .file("config.ini")
///     .line(12)
///     .expected("a list of batch sizes such as [1,8,32]")
///     .help("write bs = [1,8,32]");
/// assert_eq!(
///     error.to_string(),
///     "config.ini:12: bs holds \"many\"\n  expected: a list of batch sizes such as [1,8,32]\n  help: write bs = [1,8,32]"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    kind: FailureKind,
    problem: String,
    file: Option<PathBuf>,
    line: Option<usize>,
    expected: Option<String>,
    help: Option<String>,
}

impl Error {
    fn new(kind: FailureKind, problem: impl Into<String>) -> Self {
        Error { kind, problem: problem.into(), file: None, line: None, expected: None, help: None }
    }

    /// A contradiction or an unknown name on the command line.
    pub fn usage(problem: impl Into<String>) -> Self {
        Self::new(FailureKind::Usage, problem)
    }

    /// A bad section, key or value in the configuration.
    pub fn config(problem: impl Into<String>) -> Self {
        Self::new(FailureKind::Config, problem)
    }

    /// An input file with unusable content.
    pub fn input(problem: impl Into<String>) -> Self {
        Self::new(FailureKind::Input, problem)
    }

    /// A device that cannot do the requested work.
    pub fn device(problem: impl Into<String>) -> Self {
        Self::new(FailureKind::Device, problem)
    }

    /// A device of another kind than that of the results that its own would be compared with.
    pub fn other_kind(problem: impl Into<String>) -> Self {
        Self::new(FailureKind::OtherKind, problem)
    }

    /// A step that may not fit, where only one that fits was wanted.
    pub fn unfit(problem: impl Into<String>) -> Self {
        Self::new(FailureKind::Unfit, problem)
    }

    /// A user's own command that failed with this exit code, which becomes ours.
    pub fn command(code: u8, problem: impl Into<String>) -> Self {
        Self::new(FailureKind::Command(code), problem)
    }

    /// A failed read or write; the operating system's own words are kept.
    pub fn io(path: impl AsRef<Path>, doing: &str, cause: &std::io::Error) -> Self {
        Self::new(FailureKind::Io, format!("cannot {doing}: {cause}")).file(path)
    }

    /// The path that the message begins with.
    #[must_use]
    pub fn file(mut self, path: impl AsRef<Path>) -> Self {
        self.file = Some(path.as_ref().to_path_buf());
        self
    }

    /// The same error as one about `subject`, with the path that it began with inside the sentence.
    #[must_use]
    pub fn about(self, subject: &str) -> Self {
        let file = self.file.map_or(String::new(), |file| format!("{}: ", display_path(file)));
        let problem = match self.line {
            Some(line) => format!("{subject}: {file}line {line}: {}", self.problem),
            None => format!("{subject}: {file}{}", self.problem),
        };
        Error { problem, file: None, line: None, ..self }
    }

    /// The line in that file, counted from 1.
    #[must_use]
    pub fn line(mut self, line: usize) -> Self {
        self.line = Some(line);
        self
    }

    /// Sets the correct form.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// Sets the remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Expects one of the known names, and suggests the nearest where `word` is close to one.
    ///
    /// ```
    /// use perf4sight_base::error::Error;
    /// let error = |word| Error::config("unknown").one_of(word, ["resnet18", "vgg16"]).to_string();
    /// assert_eq!(error("resnet81"), "unknown\n  expected: one of resnet18, vgg16\n  help: did you mean \"resnet18\"?");
    /// assert_eq!(error("banana"), "unknown\n  expected: one of resnet18, vgg16");
    /// ```
    #[must_use]
    pub fn one_of<'a>(self, word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Self {
        let names: Vec<&str> = known.clone().into_iter().collect();
        let error = self.expected(format!("one of {}", names.join(", ")));
        match nearest(word, known) {
            Some(name) => error.help(format!("did you mean \"{name}\"?")),
            None => error,
        }
    }

    /// The same error found in a configuration: wrong usage on a command line is a wrong value there.
    #[must_use]
    pub fn as_config_error(self) -> Self {
        let kind = if self.kind == FailureKind::Usage { FailureKind::Config } else { self.kind };
        Error { kind, ..self }
    }

    /// The same error found on the command line: a wrong value in a configuration is wrong usage there.
    #[must_use]
    pub fn as_usage_error(self) -> Self {
        let kind = if self.kind == FailureKind::Config { FailureKind::Usage } else { self.kind };
        Error { kind, ..self }
    }

    /// Whether the message begins with a path.
    pub fn has_place(&self) -> bool {
        self.file.is_some()
    }

    /// Whether the message begins with a line of a file.
    pub fn has_line(&self) -> bool {
        self.line.is_some()
    }

    /// What is wrong, without place, expectation and help.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// What [`Error::help`] set.
    pub fn remedy(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// The message in one line, as part of a sentence.
    pub fn in_one_line(&self) -> String {
        self.to_string().replace("\n  ", "; ")
    }

    /// The sort of failure.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}:", display_path(file))?;
            if let Some(line) = self.line {
                write!(f, "{line}:")?;
            }
            write!(f, " ")?;
        }
        write!(f, "{}", self.problem)?;
        if let Some(expected) = &self.expected {
            write!(f, "\n  expected: {expected}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

/// Names up to this length are not suggested for a word that begins otherwise.
const SHORT: usize = 4;

/// The known name nearest to a mistyped one, where it is close enough to be meant.
///
/// ```
/// use perf4sight_base::error::nearest;
/// assert_eq!(nearest("resnet81", ["resnet18", "vgg16"]), Some("resnet18"));
/// assert_eq!(nearest("banana", ["resnet18", "vgg16"]), None);
/// // Of a short word every letter counts, the first one most.
/// assert_eq!(nearest("gpu", ["cpu", "cuda"]), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&word, &name.to_lowercase()), name))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, name)| *distance <= 1 + name.len() / 3 && *distance < name.len())
        .filter(|(_, name)| {
            name.len() > SHORT || word.chars().next().is_some_and(|first| name.to_lowercase().starts_with(first))
        })
        .map(|(_, name)| name)
}

/// "did you mean `x`?", or the whole list where nothing is near.
///
/// ```
/// use perf4sight_base::error::suggestion;
/// assert_eq!(suggestion("resnet81", ["resnet18", "vgg16"]), "did you mean \"resnet18\"?");
/// assert_eq!(suggestion("banana", ["resnet18", "vgg16"]), "known names: resnet18, vgg16");
/// ```
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(word, known.clone()) {
        Some(name) => format!("did you mean \"{name}\"?"),
        None => format!("known names: {}", known.into_iter().collect::<Vec<_>>().join(", ")),
    }
}
