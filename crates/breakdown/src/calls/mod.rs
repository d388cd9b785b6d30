//! Calls by name and by caller.

pub(crate) mod callers;
pub(crate) mod costs;
pub(crate) mod stacks;

use std::collections::BTreeSet;

/// A function of a script in the name of an event: `train.py(17): train`, or `train.py: train` where its line is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScriptFunction<'a> {
    pub file: &'a str,
    /// Of its definition.
    pub line: Option<&'a str>,
    pub function: &'a str,
}

impl<'a> ScriptFunction<'a> {
    pub fn parse(name: &'a str) -> Option<Self> {
        if let Some((place, function)) = name.split_once("): ") {
            let (file, line) = place.rsplit_once('(')?;
            return Some(ScriptFunction { file, line: Some(line), function });
        }
        // Names of modules have a colon, too.
        let (file, function) = name.split_once(": ").filter(|(file, _)| *file != MODULE)?;
        Some(ScriptFunction { file, line: None, function })
    }

    /// `train.py:17 train`, without the folder.
    pub fn place(&self) -> String {
        let file = self.file.rsplit(['/', '\\']).next().unwrap_or(self.file);
        let line = self.line.map_or(String::new(), |line| format!(":{line}"));
        format!("{file}{line} {}", self.function)
    }

    /// The line of its definition, of those of functions of its name in its file, if its own line is where it was: the nearest one before that.
    pub fn defined_at(&self, lines: &BTreeSet<u64>) -> Option<u64> {
        let at: u64 = self.line?.parse().ok()?;
        lines.range(..=at).next_back().copied()
    }

    /// The name of an event of it.
    pub fn at_line(&self, line: u64) -> String {
        format!("{}({line}): {}", self.file, self.function)
    }

    pub fn without_line(&self) -> String {
        format!("{}: {}", self.file, self.function)
    }
}

/// `nn.Module: Linear_0`.
const MODULE: &str = "nn.Module";

/// Longer names are cut in output, in characters.
const LONGEST: usize = 200;

/// A name for output: without the addresses of objects, which differ from call to call, and cut if it is too long.
pub(crate) fn label(name: &str) -> String {
    let mut text: String = name.chars().take(LONGEST + 40).collect();
    while let Some(at) = text.find(" at 0x") {
        let digits = text[at + 6..].chars().take_while(char::is_ascii_hexdigit).count();
        text.replace_range(at..at + 6 + digits, "");
    }
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
