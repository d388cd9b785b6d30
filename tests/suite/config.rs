//! The configuration: the published file is read as published, everything wrong is reported with its place.

use crate::layering::sources_below;
use perf4sight::verbs::{SPECS, VERBS};
use perf4sight_base::error::Error;
use perf4sight_slurm::TABLE as SLURM;
use perf4sight_verb::config::{
    ConfigDocument, DefaultValue, Setting, SettingTable, SettingValues, Surface, Value, ValueKind, flag, integer,
    number, path, text, word,
};
use proc_macro2::{TokenStream, TokenTree};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Keys and values as the published config.ini has them, with its fold marks and spacing.
const PUBLISHED: &str = "\
[create_network_dataset]
#{{{
networks= ['alexnet', 'resnet18']
pruning_perc= [0,5,10,
               15,20]
mode= random
repeats= 5
model_desc_dir= models/imagenet
model_path= models/pruned/random_pruning
#}}}

[profile]
#{{{
create_config= True
dataset= imagenet
network= resnet18
bs= [2,8,16,32,64,128,256]
stage= ['training', 'inference']
gpu_id= 2
save= False
device= 2080ti
test_config= logs/test config.ini
#}}}
";

static MAKE: SettingTable = SettingTable {
    section: "make",
    about: "makes",
    groups: &[&[
        word("mode", || vec!["random", "l1"]).or_default("random").help("how"),
        path("folder").or_default("out/{mode}_made").help("where"),
        LEVELS.or_default("[0, 50]"),
    ]],
};
const LEVELS: Setting = integer("levels", 0, 99).many_values().help("which");

static READ: SettingTable = SettingTable {
    section: "read",
    about: "reads",
    groups: &[&[
        integer("bs", 1, i64::MAX).many_values().required().help("sizes"),
        text("device").or_default("cpu").help("device"),
        flag("save").or_default("True").help("keep"),
        number("limit", 0.5).help("limit"),
        path("logs").many_values().or_default("['{make.folder}/{device}']"),
        LEVELS.or_default("{make.levels}"),
    ]],
};

fn document(source: &str) -> ConfigDocument {
    ConfigDocument::parse(source, "config.ini").unwrap()
}

/// Asks for a value of the last section, which is either table's.
fn with_values<T>(source: &str, ask: impl Fn(&SettingValues) -> Result<T, Error>) -> Result<T, Error> {
    let document = document(source);
    let section = document.sections().last().unwrap();
    let table = if section.name == "make" { &MAKE } else { &READ };
    ask(&SettingValues::check(&document, section, table, &[&MAKE, &READ])?)
}

fn refusal(source: &str) -> String {
    with_values(source, |_| Ok(())).unwrap_err().to_string()
}

#[test]
fn the_published_file_is_read_as_published() {
    let document = document(PUBLISHED);
    let value = |section: &str, key: &str| document.section(section).unwrap().entry(key).unwrap().value.clone();
    assert_eq!(value("create_network_dataset", "networks"), ["alexnet", "resnet18"].into_iter().collect());
    assert_eq!(value("create_network_dataset", "pruning_perc"), [0, 5, 10, 15, 20].into_iter().collect());
    assert_eq!(value("create_network_dataset", "mode"), Value::from("random"));
    assert_eq!(value("profile", "device"), Value::from("2080ti"));
    assert_eq!(value("profile", "save"), Value::Flag(false));
    assert_eq!(value("profile", "gpu_id"), Value::Integer(2));
    assert_eq!(value("profile", "test_config"), Value::from("logs/test config.ini"));
}

#[test]
fn fold_marks_may_follow_a_header_on_its_line() {
    let folded = PUBLISHED.replace("]\n#{{{", "] #{{{");
    assert_eq!(document(&folded).to_string(), document(PUBLISHED).to_string());
}

#[test]
fn what_is_written_twice_is_refused_with_both_lines() {
    let refused = |source: &str| ConfigDocument::parse(source, "config.ini").unwrap_err().to_string();
    let section = refused("[a]\nx = 1\n[b]\n[a]\n");
    assert!(section.starts_with("config.ini:4: [a] occurs twice, first on line 1"), "{section}");
    let key = refused("[a]\n\nx = [1,\n 2]\nx = 3\n");
    assert!(key.starts_with("config.ini:5: x is set twice in [a], first on line 3"), "{key}");
}

#[test]
fn defaults_follow_the_values_of_other_keys_and_sections() {
    let logs = |source: &str| with_values(source, |values| values.get::<Vec<String>>("logs")).unwrap();
    assert_eq!(logs("[read]\nbs = 1"), ["out/random_made/cpu"]);
    assert_eq!(logs("[make]\nmode = l1\n[read]\nbs = 1\ndevice = tx2"), ["out/l1_made/tx2"]);
    assert_eq!(logs("[make]\nfolder = here\n[read]\nbs = 1\nlogs = None"), ["here/cpu"]);
    let levels = |source: &str| with_values(source, |values| values.get::<Vec<u8>>("levels")).unwrap();
    assert_eq!(levels("[make]\nlevels = [7]\n[read]\nbs = 1"), [7]);
}

#[test]
fn values_come_as_rust_types() {
    let source = "[read]\nbs = 8\ndevice = 2080\nsave = False\nlimit = 2";
    assert_eq!(with_values(source, |values| values.get::<Vec<u64>>("bs")).unwrap(), [8]);
    assert_eq!(with_values(source, |values| values.get::<String>("device")).unwrap(), "2080");
    assert_eq!(with_values(source, |values| values.get::<Option<f64>>("limit")).unwrap(), Some(2.0));
    assert!(!with_values(source, |values| values.get::<bool>("save")).unwrap());
    assert_eq!(with_values("[read]\nbs = 8", |values| values.get::<Option<f64>>("limit")).unwrap(), None);
}

#[test]
fn a_wrong_value_is_told_with_place_expectation_and_remedy() {
    for (source, messages) in [
        ("[read]\nbs = 8\nsav = True", ["config.ini:3: [read] sav: no such key", "did you mean \"save\"?"]),
        ("[read]\nbs = [1,\n'many']", ["config.ini:2: [read] bs: 'many' does not fit", "a whole number, 1 or more"]),
        ("[read]\nbs = [0]", ["config.ini:2: [read] bs", "1 or more"]),
        ("[read]\nbs = 8\nsave = true", ["config.ini:3: [read] save", "did you mean True?"]),
        (
            "[read]\nbs = 8\ndevice = ['tx2']",
            ["config.ini:3: [read] device: ['tx2'] is a list", "one value such as 'tx2'"],
        ),
        ("[read]\nbs = 8\nlimit = 0.2", ["config.ini:3: [read] limit", "a number, 0.5 or more"]),
        ("[read]\nbs = 8\nlogs = ['~/logs']", ["config.ini:3: [read] logs", "write the folder in full"]),
        ("[make]\nmode = randm", ["config.ini:2: [make] mode", "did you mean random?"]),
        ("[make]\nlevels = [0, 100]", ["config.ini:2: [make] levels", "from 0 to 99"]),
        ("#\n\n[read]\n", ["config.ini:3: [read] bs: this key is required", "bs: sizes"]),
    ] {
        let refused = refusal(source);
        assert!(messages.iter().all(|message| refused.contains(message)), "{source:?} was refused with {refused}");
    }
}

#[test]
fn the_command_line_overrides_and_is_named_in_errors() {
    let mut document = document("[read]\nbs = 8\n");
    document.set("read.bs=[1, 2]").unwrap();
    document.set("read.limit=oops").unwrap();
    assert_eq!(document.to_string(), "[read]\nbs = [1, 2]\nlimit = 'oops'\n");
    let refused = SettingValues::check(&document, &document.sections()[0], &READ, &[]).unwrap_err().to_string();
    assert!(refused.starts_with("--set read.limit=oops: [read] limit: 'oops' does not fit"), "{refused}");
    for (wrong, message) in [("read", "section.key=value"), ("bs=1", "section.key=value"), ("raed.bs=1", "\"read\"")] {
        let refused = document.set(wrong).unwrap_err().to_string();
        assert!(refused.contains(message), "{wrong} was refused with {refused}");
    }
}

#[test]
fn an_error_of_a_domain_type_gets_the_place_of_its_key() {
    let parse = |word: &str| -> Result<(), Error> { Err(Error::config(format!("unknown device \"{word}\""))) };
    let refused =
        with_values("[read]\nbs = 8\ndevice = abacus", |values| values.parse_word("device", parse)).unwrap_err();
    assert_eq!(refused.to_string(), "config.ini:3: unknown device \"abacus\"");
}

#[test]
fn every_default_of_every_section_is_of_its_kind() {
    let tables: Vec<&SettingTable> = SPECS.iter().map(|spec| &spec.table).collect();
    for table in &tables {
        let document = document(&format!("[{}]\n{}", table.section, required(table)));
        let values = SettingValues::check(&document, &document.sections()[0], table, &tables).unwrap();
        for setting in table.for_surface(Surface::Configuration) {
            let value: Value = values.get(setting.key).unwrap();
            let unset = is_unset(&setting.default, &tables) && value == Value::None;
            assert!(unset || setting.admits(&value), "[{}] {} defaults to {value}", table.section, setting.key);
        }
    }
}

/// Whether nothing stands for a key that is left out, or what stands for another that is so.
fn is_unset(default: &DefaultValue, tables: &[&SettingTable]) -> bool {
    let mut unset = tables.iter().flat_map(|table| {
        table.settings().filter(|one| one.default == DefaultValue::Unset).map(|one| (table.section, one.key))
    });
    match default {
        DefaultValue::Unset => true,
        DefaultValue::Literal(text) => unset.any(|(section, key)| *text == format!("{{{section}.{key}}}")),
        DefaultValue::Required => false,
    }
}

/// The keys that must be written, each with some value that it takes.
fn required(table: &SettingTable) -> String {
    let some = |kind: ValueKind| match kind {
        ValueKind::Flag => true.into(),
        ValueKind::Integer(low, _) => low.into(),
        ValueKind::Number(low) => Value::Number(low),
        ValueKind::Memory(_) | ValueKind::Time | ValueKind::Text | ValueKind::Path => "some".into(),
        ValueKind::Word(words) => words()[0].into(),
    };
    let settings = table.settings().filter(|one| one.default == DefaultValue::Required);
    settings.map(|one| format!("{} = {}\n", one.key, some(one.kind))).collect()
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::None),
        any::<bool>().prop_map(Value::Flag),
        any::<i64>().prop_map(Value::Integer),
        prop::num::f64::NORMAL.prop_map(Value::Number),
        "[^\r\u{feff}]{0,12}".prop_map(Value::Text),
    ];
    scalar.prop_recursive(3, 20, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Value::List))
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(values in prop::collection::vec(value(), 1..5)) {
        let entries: String = values.iter().enumerate().map(|(i, value)| format!("key{i} = {value}\n")).collect();
        let document = document(&format!("[section]\n{entries}"));
        let read: Vec<Value> = document.sections()[0].entries.iter().map(|entry| entry.value.clone()).collect();
        prop_assert_eq!(read, values);
    }

    #[test]
    fn no_text_panics(text in "([\\[\\]=:#;'\"\\\\,\r\n\t a1({~]|\\PC){0,60}") {
        let _ = ConfigDocument::parse(&text, "config.ini");
    }
}

/// A key that is declared and never read would be accepted, explained by the help, and ignored.
#[test]
fn every_key_that_is_declared_is_read() {
    let mut read = BTreeSet::new();
    for source in ["src", "crates"].into_iter().flat_map(sources_below) {
        collect_read(source.code, &mut read);
    }
    let tables = SPECS.iter().map(|spec| &spec.table).chain(VERBS.iter().map(|spec| &spec.table)).chain([&SLURM]);
    let unread: Vec<String> = tables
        .flat_map(|table| table.settings().map(|one| (table.section, one.key)))
        .filter(|(_, key)| !read.contains(*key) && !UNREAD.contains(key))
        .map(|(section, key)| format!("[{section}] {key}"))
        .collect();
    assert!(unread.is_empty(), "no code reads {}", unread.join(", "));
}

/// What is declared to be accepted: the word that chooses a verb, and published arguments that have nothing left to change.
const UNREAD: [&str; 4] = ["check_noise", "pretty", "clean", "progress"];

/// Texts in code, without those by which settings are declared.
fn collect_read(code: TokenStream, read: &mut BTreeSet<String>) {
    let mut before = [String::new(), String::new()];
    for token in code {
        let word = token.to_string();
        match token {
            TokenTree::Group(group) => {
                let skipped = match (before[0].as_str(), before[1].as_str()) {
                    (".", "requires" | "conflicts" | "one_of") => usize::MAX,
                    (mark, name) => usize::from(mark != "." && DECLARING.contains(&name)),
                };
                collect_read(group.stream().into_iter().skip(skipped).collect(), read);
            }
            TokenTree::Literal(_) => drop(read.insert(word.trim_matches('"').to_owned())),
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
        before.rotate_left(1);
        before[1] = word;
    }
}

/// The functions that declare a setting by its key (`crates/verb/src/config/declare.rs`).
const DECLARING: [&str; 8] = ["flag", "integer", "number", "memory", "time", "text", "word", "path"];
