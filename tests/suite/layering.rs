//! The house rules that the compiler does not know: which module may use which, and where effects live.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Every module with what it may use beside the base. A row names only modules of earlier rows, so there is no cycle. `machine`,
/// `report`, `traces`, `breakdown` and `sensitivity` are crates; `network`, `detection`, `protocol` and `sampling` lie in the crate `step`.
const MODULES: &[(&str, &[&str])] = &[
    ("config", &[]),
    ("report", &[]),
    ("frame", &["config", "report"]),
    ("pipeline", &["config", "frame", "report"]),
    ("machine", &[]),
    ("traces", &[]),
    ("breakdown", &["traces"]),
    ("sensitivity", &[]),
    ("network", &[]),
    ("detection", &[]),
    ("protocol", &[]),
    ("sampling", &[]),
    ("records", &["machine"]),
    ("trees", &[]),
    ("platform", &[]),
    ("pruning", &["network"]),
    ("features", &["network"]),
    ("memory", &["network", "platform"]),
    ("fingerprint", &["features", "machine", "memory", "network", "records", "platform", "trees"]),
    ("evaluation", &["fingerprint", "features", "memory", "network", "records", "platform", "trees"]),
    ("plan", &["fingerprint", "memory", "network", "records", "platform"]),
    ("device", &["machine", "memory", "network", "protocol", "records", "sampling", "platform"]),
    ("sections", EARLIER),
    ("cli", EARLIER),
    ("main", EARLIER),
];

/// The modules of all earlier rows.
const EARLIER: &[&str] = &["*"];

/// Every module may use these, which lie in crates of their own; among those the compiler keeps the order.
const BASE: &[&str] = &[
    "error",
    "units",
    "stats",
    "workload",
    "input_file",
    "whole_file",
    "private_folder",
    "held_folder",
    "checksum",
    "remembered",
];

/// What may only be written in the sources that start with one of these paths, below `src/` or `crates/`.
const EFFECTS: &[(&[&str], &[&str])] = &[
    (&["clap::", "clap_complete::"], &["cli.rs", "cli/", "main.rs", "worker/src/main.rs"]),
    (&["env::current_exe"], &["cli.rs", "pipeline/"]),
    // A user's own command gets our environment and our streams.
    (
        &["env::var", "env::vars", "env::var_os", "env::set_var"],
        &["cli.rs", "main.rs", "worker/", "machine/src/foreground.rs"],
    ),
    (&["print!", "println!", "eprint!", "eprintln!", "dbg!"], &["report/src/console.rs", "cli.rs", "main.rs"]),
    (
        &["io::stdout", "io::stderr"],
        &["report/src/console.rs", "cli.rs", "main.rs", "worker/src/main.rs", "machine/src/foreground.rs"],
    ),
    // Text that templates do not escape: the stylesheet alone.
    (&["PreEscaped"], &["report/src/html.rs"]),
    (&["process::exit", "process::abort"], &["main.rs"]),
    (&["SystemTime::now", "Instant::now"], &["machine/", "pipeline/", "worker/"]),
    (&["rand::rng", "rand::random", "thread_rng", "from_os_rng", "try_from_os_rng"], &[]),
];

/// One source file: its path below `src/` and its code without comments, literals and unit tests.
pub(crate) struct Source {
    pub path: String,
    pub code: TokenStream,
}

impl Source {
    fn read(root: &Path, file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap();
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let path = file.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        Source { path, code: without_tests(tokens) }
    }

    fn module(&self) -> &str {
        self.path.split(['/', '.']).next().unwrap()
    }

    /// How many modules up the crate's root is.
    fn depth(&self) -> usize {
        let folders = self.path.matches('/').count();
        if self.path.ends_with("/mod.rs") { folders } else { folders + 1 }
    }
}

fn sources() -> Vec<Source> {
    sources_below("src")
}

/// The sources in a folder of the repository.
pub(crate) fn sources_below(folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    files.iter().map(|file| Source::read(&root, file)).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.extension() {
            _ if path.is_dir() => collect(&path, files),
            Some(extension) if extension == "rs" => files.push(path),
            _ => {}
        }
    }
}

/// Drops every item behind a `#[cfg(test)]`.
fn without_tests(tokens: TokenStream) -> TokenStream {
    let mut kept = Vec::new();
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        if token.to_string().replace(' ', "") == "[cfg(test)]" {
            kept.pop();
            tokens.by_ref().find(ends_item);
        } else {
            kept.push(token);
        }
    }
    kept.into_iter().collect()
}

fn ends_item(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        token => token.to_string() == ";",
    }
}

/// Names, punctuation and brackets in a row; literals, and with them documentation, are left out.
fn words(tokens: TokenStream, words: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                words.push(open.to_string());
                self::words(group.stream(), words);
                words.push(close.to_string());
            }
            TokenTree::Literal(_) => {}
            token => words.push(token.to_string()),
        }
    }
}

fn words_of(source: &Source) -> Vec<String> {
    let mut all = Vec::new();
    words(source.code.clone(), &mut all);
    all
}

/// The modules that follow `crate::` (in `main`, `perf4sight::`) or a crate of several, also inside `crate::{a, b::c}`.
fn used_modules(words: &[String]) -> BTreeSet<String> {
    let roots = ["crate", "perf4sight", "perf4sight_conventions", "perf4sight_step"];
    roots.into_iter().flat_map(|root| following(words, &[root, ":", ":"])).collect()
}

/// What follows a path, such as `crate ::`, also inside braces.
fn following(words: &[String], path: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for rest in (0..words.len()).map(|at| &words[at..]).filter(|rest| rest.iter().zip(path).all(|(a, b)| a == b)) {
        match rest.get(path.len()).map(String::as_str) {
            Some("{") => found.extend(heads(&rest[path.len() + 1..])),
            Some(name) => drop(found.insert(name.to_string())),
            None => {}
        }
    }
    found
}

fn is_path(words: &[String], first: &str) -> bool {
    words.iter().map(String::as_str).take(3).eq([first, ":", ":"])
}

/// The first word of each part of a braced list that starts here.
fn heads(words: &[String]) -> Vec<String> {
    let (mut depth, mut heads, mut fresh) = (1, Vec::new(), true);
    for word in words {
        match word.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 1 => fresh = true,
            word if fresh => {
                heads.push(word.to_string());
                fresh = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    heads
}

fn may_use(module: &str, used: &str) -> bool {
    let allowed = row(module).zip(row(used)).is_some_and(|(module, row)| {
        row < module && (MODULES[module].1 == EARLIER || MODULES[module].1.contains(&used))
    });
    module == used || BASE.contains(&used) || allowed
}

fn row(module: &str) -> Option<usize> {
    MODULES.iter().position(|(name, _)| *name == module)
}

#[test]
fn modules_use_only_what_their_row_allows() {
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| source.path != "lib.rs") {
        let module = source.module();
        for used in used_modules(&words_of(source)).iter().filter(|used| !may_use(module, used)) {
            broken.push(format!("src/{}: {module} may not use {used}", source.path));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// What sections and verbs share; beyond it they know nothing of each other.
const SHARED_BY_SECTIONS: &[&str] = &[
    "asking_keys",
    "course",
    "extents",
    "held",
    "images",
    "named",
    "python",
    "source",
    "step",
    "temporary",
    "time",
    "verdict",
    "SPECS",
    "NETWORKS",
];

#[test]
fn sections_do_not_name_each_other() {
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| source.module() == "sections" && source.path != "sections/mod.rs") {
        let own = source.path.split(['/', '.']).nth(1).unwrap_or_default();
        let words = words_of(source);
        let mut used = following(&words, &["crate", ":", ":", "sections", ":", ":"]);
        // There `super` is the folder of all sections.
        if source.depth() == 2 {
            used.extend(following(&words, &["super", ":", ":"]));
        }
        let others = used.iter().filter(|used| *used != own && !SHARED_BY_SECTIONS.contains(&used.as_str()));
        broken.extend(others.map(|other| format!("src/{} names {other}", source.path)));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn nothing_reaches_other_modules_through_super() {
    for source in &sources() {
        let words = words_of(source);
        let longest = (0..words.len()).map(|at| supers(&words[at..])).max().unwrap_or(0);
        assert!(longest < source.depth(), "src/{} leaves its module through super; write crate::", source.path);
    }
}

fn supers(words: &[String]) -> usize {
    if is_path(words, "super") { 1 + supers(&words[3..]) } else { 0 }
}

#[test]
fn the_table_has_no_cycle_and_every_module_its_row() {
    for (row, (module, may)) in MODULES.iter().enumerate() {
        let earlier = |name: &&str| MODULES[..row].iter().any(|(module, _)| module == name);
        assert!(*may == EARLIER || may.iter().all(earlier), "the row of {module} names a module of a later row");
    }
    for source in sources().iter().filter(|source| source.path != "lib.rs") {
        let module = source.module();
        assert!(row(module).is_some(), "src/{} belongs to no row of the table of modules", source.path);
    }
}

#[test]
fn effects_stay_where_they_belong() {
    let mut broken = Vec::new();
    let crates = sources_below("crates").into_iter().filter(|source| source.path.contains("/src/"));
    for source in &sources().into_iter().chain(crates).collect::<Vec<_>>() {
        let words = words_of(source);
        for (effects, places) in
            EFFECTS.iter().filter(|(_, places)| !places.iter().any(|at| source.path.starts_with(at)))
        {
            let found = effects.iter().filter(|effect| contains(&words, effect));
            broken.extend(found.map(|effect| format!("{}: {effect} belongs in {places:?}", source.path)));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Whether the words of `wanted`, such as `env::var`, stand in a row.
fn contains(words: &[String], wanted: &str) -> bool {
    let mut parts = Vec::new();
    self::words(wanted.parse().unwrap(), &mut parts);
    words.windows(parts.len()).any(|window| window == parts)
}

#[test]
fn the_first_line_of_every_source_says_what_it_is_for() {
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    ["src", "tests", "benches", "crates"].iter().for_each(|folder| collect(&root.join(folder), &mut files));
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("//! ") && first.len() > 10, "{} starts with {first:?}", file.display());
    }
}

#[test]
fn the_reader_of_sources_sees_what_it_should() {
    let read = |code: &str| {
        let mut all = Vec::new();
        words(without_tests(code.parse().unwrap()), &mut all);
        all
    };
    let code =
        "use crate::{error::{A, B}, units}; use crate::stats::median; #[cfg(test)] mod tests { use crate::cli; }";
    assert_eq!(used_modules(&read(code)).into_iter().collect::<Vec<_>>(), ["error", "stats", "units"]);
    assert!(contains(&read("fn f() { std::env::var(\"A\") }"), "env::var"));
    assert!(!contains(&read("// env::var\nfn f() { \"env::var\" }"), "env::var"));
    assert!(!contains(&read("eprintln!(\"a\")"), "println!"));
}
