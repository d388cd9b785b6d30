//! Common typing mistakes, and suggestions for them.

use crate::verbs::VERBS;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use perf4sight_base::error::{Error, nearest};
use perf4sight_verb::VerbSpec;
use perf4sight_verb::config::{Form, Setting, Surface};
use std::path::Path;

/// The intended input, where clap reports a different error.
pub(super) fn meant(error: &clap::Error, typed: &[String]) -> Option<Error> {
    let first = typed.first().filter(|word| !word.starts_with('-'))?;
    let Some(spec) = VERBS.iter().find(|spec| spec.table.section == first) else { return mistyped_verb(first) };
    if error.kind() == ErrorKind::MissingRequiredArgument {
        return needs_another(spec, typed);
    }
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return None };
    without_dashes(spec, typed, unknown).or_else(|| unknown_flag(spec, unknown))
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
    settings(spec).find(|setting| setting.argument.form == Form::Command)?;
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
        Error::usage(format!("\"{}\" is no argument of {}", command[0], spec.table.section))
            .expected("the command behind two dashes")
            .help(format!("perf4sight {} -- {python}{}", own.join(" "), command.join(" "))),
    )
}

/// A flag that this verb does not have: the one it has for the same setting, or the nearest one.
fn unknown_flag(spec: &VerbSpec, unknown: &str) -> Option<Error> {
    let word = unknown.strip_prefix("--")?.split('=').next()?;
    let flags: Vec<String> = settings(spec).filter_map(Setting::flag).collect();
    let same = |word: &str| {
        let elsewhere = VERBS.iter().flat_map(|spec| settings(spec)).find(|setting| is_spelled(setting, word));
        elsewhere.and_then(|other| settings(spec).find(|own| own.key == other.key)?.flag())
    };
    let near = || nearest(word, flags.iter().map(String::as_str).chain(["quiet", "json", "help"])).map(str::to_owned);
    // `--batch-size` where another verb calls it `--batch`.
    let meant = same(word).or_else(near).or_else(|| same(word.split('-').next()?));
    let error = Error::usage(format!("{} has no --{word}", spec.table.section));
    Some(match meant {
        Some(flag) => error.help(format!("did you mean --{flag}?")),
        None => error.help(format!("perf4sight {} --help lists its options", spec.table.section)),
    })
}

fn is_spelled(setting: &Setting, word: &str) -> bool {
    setting.flag().as_deref() == Some(word) || setting.argument.alias == Some(word)
}

fn settings(spec: &VerbSpec) -> impl Iterator<Item = &'static Setting> {
    spec.table.on(Surface::CommandLine)
}
