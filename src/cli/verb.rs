//! Converts a verb's settings into arguments of clap, and the parsed arguments into the values of the verb.

use super::words::Words;
use clap::builder::{FalseyValueParser, OsStringValueParser, StringValueParser, TypedValueParser, ValueParser};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use perf4sight_base::error::Result;
use perf4sight_verb::config::{
    ArgumentForm, ConfigDocument, ConfigEntry, DefaultValue, Setting, SettingTable, SettingValues, Surface, Value,
    ValueKind, ValueOrigin,
};
use perf4sight_verb::{Verb, VerbSpec};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

pub(super) fn subcommand(spec: &VerbSpec) -> Command {
    let command = Command::new(spec.table.section).about(capitalised(spec.table.about)).args(arguments(&spec.table));
    let groups: BTreeSet<&str> = settings(&spec.table).filter_map(|setting| setting.argument.one_of).collect();
    let groups = groups.into_iter().map(|group| {
        let members = settings(&spec.table).filter(|setting| setting.argument.one_of == Some(group));
        ArgGroup::new(group).args(members.map(|setting| setting.key)).required(true)
    });
    let command = command.groups(groups);
    if spec.after_help.is_empty() { command } else { command.after_help(spec.after_help) }
}

/// The arguments of a verb, checked and ready to run.
///
/// # Errors
/// Errors of the verb, with their argument.
pub(super) fn parse(spec: &VerbSpec, typed: &ArgMatches) -> Result<Box<dyn Verb>> {
    let document = ConfigDocument::of_arguments(spec.table.section, entries(&spec.table, typed));
    (spec.parse)(&SettingValues::of_arguments(&document, &spec.table)?)
}

fn capitalised(text: &str) -> String {
    let (initial, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    initial.to_uppercase() + rest
}

fn settings(table: &SettingTable) -> impl Iterator<Item = &'static Setting> {
    table.for_surface(Surface::CommandLine)
}

fn arguments(table: &SettingTable) -> impl Iterator<Item = Arg> {
    settings(table).map(|setting| {
        let conflicts = settings(table).filter(|other| setting.contradicts(other)).map(|other| other.key);
        argument(setting).conflicts_with_all(conflicts.collect::<Vec<_>>())
    })
}

fn argument(setting: &Setting) -> Arg {
    let help = setting.help.strip_suffix('.').unwrap_or(setting.help);
    let help = if let ValueKind::Word(words) = setting.kind
        && setting.many
    {
        // clap lists the words of single values by itself.
        format!("{help} [possible values: {}]", words().join(", "))
    } else {
        help.to_owned()
    };
    let argument = spelled(Arg::new(setting.key).help(help), setting);
    let argument = setting.argument.requires.into_iter().fold(argument, Arg::requires);
    let argument = argument.required(setting.missing(Surface::CommandLine) == DefaultValue::Required);
    let argument = setting.argument.environment.into_iter().fold(argument, Arg::env).hide_env_values(true);
    if let ValueKind::Flag = setting.kind {
        // A variable turns it on by being set, but to nothing, 0, no, off or false.
        return argument.action(ArgAction::SetTrue).value_parser(FalseyValueParser::new());
    }
    let argument = argument
        .action(if setting.many { ArgAction::Append } else { ArgAction::Set })
        .value_parser(value_parser(setting))
        .hide_possible_values(setting.argument.known.is_some())
        .ignore_case(matches!(setting.kind, ValueKind::Word(_)))
        .allow_negative_numbers(setting.flag().is_some());
    let shown = default(setting).into_iter();
    shown.fold(argument, Arg::default_value)
}

/// The argument with its names, and how many words it takes.
fn spelled(argument: Arg, setting: &Setting) -> Arg {
    let how = &setting.argument;
    let argument = setting.flag().into_iter().fold(argument, Arg::long);
    let argument = how.short.into_iter().fold(argument, Arg::short);
    let argument = how.alias.into_iter().fold(argument, Arg::visible_alias);
    let argument = match how.value {
        "" => argument.value_name(setting.key.to_uppercase()),
        value => argument.value_name(value),
    };
    let argument = match how.alone {
        Some(value) => argument.num_args(0..=1).require_equals(true).default_missing_value(value),
        None if how.several || (setting.many && setting.flag().is_none()) => argument.num_args(1..),
        None => argument,
    };
    argument.last(how.form == ArgumentForm::Command)
}

/// The default that the help shows: the value that the program will fill in.
fn default(setting: &Setting) -> Option<&'static str> {
    match setting.missing(Surface::CommandLine) {
        DefaultValue::Literal("[]") | DefaultValue::Required | DefaultValue::Unset => None,
        DefaultValue::Literal(literal) => Some(literal.trim_matches(['[', ']'])),
    }
}

/// Reads each word as a [`Value`].
fn value_parser(setting: &Setting) -> ValueParser {
    let setting = *setting;
    match (setting.kind, setting.argument.known) {
        (ValueKind::Word(words), _) if !setting.many => Words(words()).try_map(move |word| setting.read(&word)).into(),
        (ValueKind::Path, _) => OsStringValueParser::new().try_map(move |word| path(&setting, word)).into(),
        (_, Some(known)) => Words(known()).try_map(move |word| setting.read(&word)).into(),
        (_, None) => StringValueParser::new().try_map(move |word| setting.read(&word)).into(),
    }
}

/// Paths need not be text.
fn path(setting: &Setting, word: OsString) -> std::result::Result<Value, String> {
    match word.into_string() {
        Ok(word) => setting.read(&word),
        Err(word) => Ok(Value::Path(PathBuf::from(word))),
    }
}

/// The written arguments, in the order of the settings; the program fills in defaults.
fn entries(table: &SettingTable, typed: &ArgMatches) -> Vec<ConfigEntry> {
    let is_written = |one: &&Setting| {
        let source = typed.value_source(one.key);
        matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    };
    let typed_ones = settings(table).filter(is_written);
    let entry = |setting: &Setting| ConfigEntry {
        key: setting.key.to_owned(),
        value: value(setting, typed),
        origin: ValueOrigin::Argument(setting.spelling()),
    };
    typed_ones.map(entry).collect()
}

fn value(setting: &Setting, typed: &ArgMatches) -> Value {
    if let ValueKind::Flag = setting.kind {
        return Value::Flag(typed.get_flag(setting.key));
    }
    let mut values: Vec<Value> = Vec::new();
    for value in typed.get_many::<Value>(setting.key).into_iter().flatten() {
        match value {
            Value::List(items) => values.extend(items.iter().cloned()),
            value => values.push(value.clone()),
        }
    }
    match values.pop() {
        Some(value) if !setting.many => value,
        last => Value::List(values.into_iter().chain(last).collect()),
    }
}
