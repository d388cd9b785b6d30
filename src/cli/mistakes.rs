//! Common typing mistakes, and suggestions for them.

use crate::verbs::VERBS;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use perf4sight_base::error::{Error, nearest};
use perf4sight_base::shell::command_text;
use perf4sight_verb::VerbSpec;
use perf4sight_verb::config::{ArgumentForm, Setting, Surface};
use std::path::Path;

/// The intended input, where clap reports a different error.
pub(super) fn meant(error: &clap::Error, typed: &[String]) -> Option<Error> {
    let verb = typed.iter().find(|word| !is_global(word)).filter(|word| !word.starts_with('-'));
    let spec = verb.and_then(|verb| VERBS.iter().copied().find(|spec| spec.table.section == verb));
    if let (Some(verb), None) = (verb, spec) {
        return mistyped_verb(verb);
    }
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::InvalidUtf8, _) => no_text(typed),
        (ErrorKind::MissingRequiredArgument, _) => needs_another(spec?, typed),
        (ErrorKind::UnknownArgument, Some(ContextValue::String(unknown))) => {
            spec.and_then(|spec| without_dashes(spec, typed, unknown)).or_else(|| unknown_flag(spec, unknown))
        }
        _ => None,
    }
}

/// Whether a word is one of the flags that may stand before a verb.
fn is_global(word: &str) -> bool {
    ["--quiet", "--json"].contains(&word)
}

/// A word that is no text, where it has to be; of its bytes those that are none were replaced.
fn no_text(typed: &[String]) -> Option<Error> {
    let word = typed.iter().find(|word| word.contains(char::REPLACEMENT_CHARACTER))?;
    Some(
        Error::usage(format!("\"{word}\" is not text in UTF-8"))
            .help("rename the file, or name it by a link (ln -s) whose name is text"),
    )
}

/// clap would report the word after a mistyped verb, not the verb.
fn mistyped_verb(word: &str) -> Option<Error> {
    let is_other =
        ["help", "completions", "worker"].contains(&word) || word.ends_with(".ini") || Path::new(word).exists();
    (!is_other).then(|| Error::usage(super::no_such_subcommand(word)))
}

/// A flag that has a meaning beside another one only, which clap reports as missing arguments of the other.
fn needs_another(spec: &VerbSpec, typed: &[String]) -> Option<Error> {
    let own =
        typed.iter().take_while(|word| *word != "--").filter_map(|word| word.strip_prefix("--")?.split('=').next());
    let own: Vec<&str> = own.collect();
    let is_typed = |setting: &Setting| own.iter().any(|word| is_spelled(setting, word));
    let (alone, other) = settings(spec).filter(|setting| is_typed(setting)).find_map(|setting| {
        let key = setting.argument.requires?;
        let other = settings(spec).find(|other| other.key == key && !is_typed(other))?;
        Some((setting.flag()?, other.flag()?))
    })?;
    let error = Error::usage(format!("--{alone} is about --{other}, which is not given"));
    Some(error.help(format!("leave out --{alone}, or see perf4sight {} --help for --{other}", spec.table.section)))
}

/// What people start scripts of several processes with.
const LAUNCHERS: [&str; 6] = ["torchrun", "accelerate", "deepspeed", "horovodrun", "mpirun", "srun"];

/// A command without its two dashes: its first word is in a place where the verb takes no word.
fn without_dashes(spec: &VerbSpec, typed: &[String], unknown: &str) -> Option<Error> {
    settings(spec).find(|setting| setting.argument.form == ArgumentForm::Command)?;
    if typed.iter().any(|word| word == "--") {
        return None;
    }
    let starts = |word: &String| word.starts_with("python") || LAUNCHERS.contains(&word.as_str());
    let is_program =
        |word: &String| !word.starts_with('-') && (*word == unknown || word.ends_with(".py") || starts(word));
    let at = typed.iter().position(is_program).filter(|at| *at > 0)?;
    let (own, command) = typed.split_at(at);
    let python = if command[0].ends_with(".py") && !command[0].contains('/') { "python3 " } else { "" };
    Some(
        Error::usage(format!("\"{}\" is not an argument of {}", command[0], spec.table.section))
            .expected("the command behind two dashes")
            .help(format!("perf4sight {} -- {python}{}", command_text(own), command_text(command))),
    )
}

/// A flag that this verb, or the program where there is no verb, does not have: the one it has for the same setting, or the nearest one.
fn unknown_flag(spec: Option<&VerbSpec>, unknown: &str) -> Option<Error> {
    let flag = unknown.split('=').next().filter(|word| word.starts_with('-'))?;
    let word = flag.trim_start_matches('-');
    if word.starts_with(|first: char| first.is_ascii_digit()) {
        let error = Error::usage(format!("{flag} is read as an option, and no setting is a number below 0"));
        return Some(error.help("give an amount without a dash"));
    }
    let own = || spec.into_iter().flat_map(settings);
    let flags: Vec<String> = match spec {
        Some(_) => own().filter_map(Setting::flag).chain(["quiet", "json", "help"].map(str::to_owned)).collect(),
        None => super::command().get_arguments().filter_map(|one| one.get_long().map(str::to_owned)).collect(),
    };
    let same = |word: &str| {
        let mut elsewhere = VERBS.iter().flat_map(|spec| settings(spec)).filter(|setting| is_spelled(setting, word));
        elsewhere.find_map(|other| own().find(|own| own.key == other.key)?.flag())
    };
    let near = || nearest(word, flags.iter().map(String::as_str).filter(|_| word.len() > 1)).map(str::to_owned);
    let alike = || flags.iter().find(|flag| is_alike(flag, word)).cloned();
    // `--batch-size` where another verb calls it `--batch`.
    let meant = same(word).or_else(alike).or_else(near).or_else(|| same(word.split('-').next()?));
    let program = spec.map_or("perf4sight".to_owned(), |spec| format!("perf4sight {}", spec.table.section));
    let error = Error::usage(format!("{} has no {flag}", spec.map_or("perf4sight", |spec| spec.table.section)));
    Some(match meant {
        Some(flag) => error.help(format!("did you mean --{flag}?")),
        None => error.help(format!("{program} --help lists its options")),
    })
}

fn is_spelled(setting: &Setting, word: &str) -> bool {
    let short = setting.argument.short.map(String::from);
    [setting.flag().as_deref(), setting.argument.alias, short.as_deref()].contains(&Some(word))
}

/// Whether a word begins a flag, or begins as one does: `mem` and `memory` are `mem-limit`.
fn is_alike(flag: &str, word: &str) -> bool {
    let begins = flag.split('-').next().is_some_and(|first| first.len() > 2 && word.starts_with(first));
    flag.starts_with(word) || begins
}

fn settings(spec: &VerbSpec) -> impl Iterator<Item = &'static Setting> {
    spec.table.for_surface(Surface::CommandLine)
}
