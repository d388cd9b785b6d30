//! README and docs tell what the program does: the reference of the configuration is what the sections say of themselves, commands that
//! are shown are understood, links lead somewhere.

use perf4sight::cli;
use perf4sight::verbs::{SPECS, VERBS};
use perf4sight_verb::config::{DefaultValue, Setting, SettingTable, Surface, ValueKind};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const BEGIN: &str = "<!-- config reference: written by `UPDATE_DOCS=1 cargo test --test suite docs`, do not edit -->\n";
const END: &str = "<!-- config reference: end -->";

fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(file)
}

/// README and every page of `docs/`, accuracy included.
fn pages() -> Vec<PathBuf> {
    let pattern = path("docs/**/*.md");
    let pages = glob::glob(pattern.to_str().unwrap()).unwrap().map(Result::unwrap);
    [path("README.md")].into_iter().chain(pages).collect()
}

fn reference() -> String {
    SPECS.iter().map(|spec| &spec.table).chain([&perf4sight_slurm::TABLE]).map(section).collect()
}

fn section(table: &SettingTable) -> String {
    let rows: String = table.for_surface(Surface::Configuration).map(row).collect();
    let (initial, rest) = table.about.split_at(1);
    let about = format!("{}{rest}", initial.to_uppercase());
    format!("\n### [{}]\n\n{about}.\n\n| key | value | default | meaning |\n|---|---|---|---|\n{rows}\n", table.section)
}

fn row(setting: &Setting) -> String {
    let default = match setting.default {
        DefaultValue::Required => "required".to_string(),
        DefaultValue::Unset => "none".to_string(),
        DefaultValue::Literal(literal) => format!("`{literal}`"),
    };
    format!("| `{}` | {} | {default} | {} |\n", setting.key, value(setting), setting.help)
}

/// What a setting takes, without the limits that a machine's number types have anyway.
fn value(setting: &Setting) -> String {
    let one = match setting.kind {
        ValueKind::Word(words) => words().iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" "),
        kind => kind.expected(),
    };
    if setting.many { format!("list of: {one}") } else { one }
}

#[test]
fn the_reference_of_the_configuration_is_what_the_sections_say() {
    let page = path("docs/configuration.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the mark before the reference");
    let (written, after) = rest.split_once(END).expect("the mark after the reference");
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(page, format!("{before}{BEGIN}{}{END}{after}", reference())).unwrap();
        return;
    }
    assert!(
        written == reference(),
        "docs/configuration.md is out of date; run UPDATE_DOCS=1 cargo test --test suite docs"
    );
}

#[test]
fn every_key_says_what_it_means_and_no_cell_breaks_the_table() {
    let tables = SPECS.iter().map(|spec| &spec.table).chain(VERBS.iter().map(|spec| &spec.table));
    for setting in tables.flat_map(|table| table.settings()) {
        assert!(setting.help.len() > 10, "{} has no meaning", setting.key);
        assert_eq!(row(setting).matches('|').count(), 5, "a | in {}", setting.key);
    }
}

#[test]
fn exit_codes_are_those_of_the_help() {
    let page = fs::read_to_string(path("docs/configuration.md")).unwrap();
    let help = crate::fixtures::Scene::new().run("--help").succeeds();
    let codes = help.stdout().split("Exit codes:\n").nth(1).unwrap();
    for line in codes.lines() {
        let (code, meaning) = line.trim().split_once(' ').unwrap();
        let row = format!("| {code} | {} |", meaning.trim());
        assert!(page.contains(&row), "docs/configuration.md lacks {row}");
    }
}

/// What these commands say depends on the machine that they run on.
const MEASURING: [&str; 4] = ["detection", "sensitivity", "record", "profile"];

/// The commands that a page shows with their output, and the lines of that but `...`.
fn examples(page: &str) -> Vec<(&str, Vec<&str>)> {
    let blocks = page.split("```").skip(1).step_by(2);
    let shown = blocks.filter_map(|block| block.split_once("\n$ perf4sight ")?.1.split_once('\n'));
    shown
        .filter(|(command, _)| !MEASURING.iter().any(|measuring| command.starts_with(measuring)))
        .map(|(command, output)| (command, output.lines().filter(|line| !["", "..."].contains(&line.trim())).collect()))
        .collect()
}

#[test]
fn examples_show_what_the_program_says() {
    let scene = crate::fixtures::Scene::new();
    for folder in ["examples", "crates", "fingerprinting", "models"] {
        std::os::unix::fs::symlink(path(folder), scene.path(folder)).unwrap();
    }
    let (mut seen, pages) = (0, pages().into_iter().map(|page| fs::read_to_string(page).unwrap()).collect::<Vec<_>>());
    for (command, shown) in pages.iter().flat_map(|page| examples(page)) {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("\"$0\" {command}")).arg(crate::program()).current_dir(scene.folder());
        let output = shell.output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let said: BTreeSet<&str> = said.lines().map(str::trim_end).collect();
        let missing: Vec<&&str> = shown.iter().filter(|line| !said.contains(line.trim_end())).collect();
        assert!(missing.is_empty(), "perf4sight {command} does not say {missing:#?}");
        seen += 1;
    }
    assert!(seen >= 8, "{seen} examples");
}

#[test]
fn every_command_they_show_is_understood() {
    let pages = pages().into_iter().map(|page| fs::read_to_string(page).unwrap()).collect::<Vec<_>>();
    let starts = ["    perf4sight ", "$ perf4sight ", "    ./main --"];
    let shown =
        pages.iter().flat_map(|page| page.lines()).filter(|line| starts.iter().any(|start| line.starts_with(start)));
    let shown = shown.map(|line| line.trim().trim_start_matches("$ "));
    // What a command does stands behind two blanks; where its output goes is the shell's business.
    let commands: Vec<&str> = shown.map(|line| line.split("  ").next().unwrap().split(" >").next().unwrap()).collect();
    assert!(commands.len() >= 10, "{commands:?}");
    for command in commands {
        let parsed = cli::command().try_get_matches_from(command.split_whitespace());
        assert!(parsed.is_ok(), "{command}: {}", parsed.unwrap_err());
    }
}

#[test]
fn links_lead_to_files_and_readme_stays_short() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for link in links.filter(|link| !link.is_empty() && !link.contains("://")) {
            assert!(page.parent().unwrap().join(link).exists(), "{} links to {link}", page.display());
        }
    }
    assert!(
        fs::read_to_string(path("README.md")).unwrap().lines().count() <= 200,
        "README.md is the way in, docs/ the house"
    );
}
