//! The house rules that the compiler does not know: which module may use which, and where effects live.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of `crates/cost` with what each may use of the others; between crates the compiler keeps the order. A row names only modules
/// of earlier rows, so there is no cycle.
const MODULES: &[(&str, &[&str])] = &[
    ("records", &[]),
    ("trees", &[]),
    ("pruning", &[]),
    ("features", &[]),
    ("fingerprint", &["features", "records", "trees"]),
    ("evaluation", &["fingerprint", "features", "records", "trees"]),
    ("plan", &["fingerprint", "records"]),
    ("device", &["records"]),
    ("verbs", EARLIER),
];

/// The modules of all earlier rows.
const EARLIER: &[&str] = &["*"];

/// What may only be written in the sources that start with one of these paths, below `src/` or `crates/`.
const EFFECTS: &[(&[&str], &[&str])] = &[
    (&["clap::", "clap_complete::"], &["cli.rs", "cli/", "main.rs", "worker/src/main.rs"]),
    (&["env::current_exe"], &["cli.rs", "pipeline/"]),
    // A user's own command gets our environment and our streams.
    (
        &["env::var", "env::vars", "env::vars_os", "env::var_os", "env::set_var"],
        &["cli.rs", "main.rs", "worker/", "machine/src/foreground.rs", "slurm/src/cluster.rs"],
    ),
    (&["print!", "println!", "eprint!", "eprintln!", "dbg!"], &["report/src/console.rs", "cli.rs", "main.rs"]),
    (
        &["io::stdout", "io::stderr"],
        &["report/src/console.rs", "cli.rs", "main.rs", "worker/src/main.rs", "machine/src/foreground.rs"],
    ),
    // Text that templates do not escape: the stylesheet alone.
    (&["PreEscaped"], &["report/src/html.rs"]),
    (&["process::exit", "process::abort"], &["main.rs"]),
    (&["SystemTime::now", "Instant::now"], &["machine/", "limit/", "pipeline/", "worker/"]),
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
}

fn sources() -> Vec<Source> {
    sources_below("crates/cost/src")
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

/// The modules that follow `crate::`, also inside `crate::{a, b::c}`.
fn used_modules(words: &[String]) -> BTreeSet<String> {
    following(words, &["crate", ":", ":"])
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
    module == used || allowed
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
            broken.push(format!("crates/cost/src/{}: {module} may not use {used}", source.path));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// What the verbs of `crates/cost` share; beyond it they know nothing of each other.
const SHARED_BY_VERBS: &[&str] = &[
    "asked",
    "asking",
    "assumed_threads",
    "exporting",
    "extents",
    "images",
    "named",
    "shared_memory",
    "source",
    "step",
    "temporary",
    "timeline",
    "verdict",
    "wanted_step",
    "NETWORKS",
];

#[test]
fn verbs_do_not_name_each_other() {
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| source.module() == "verbs" && source.path != "verbs/mod.rs") {
        let own = source.path.split(['/', '.']).nth(1).unwrap_or_default();
        let words = words_of(source);
        let mut used = following(&words, &["crate", ":", ":", "verbs", ":", ":"]);
        // There `super` is the folder of all verbs.
        if source.path.strip_suffix("/mod.rs").unwrap_or(&source.path).matches('/').count() == 1 {
            used.extend(following(&words, &["super", ":", ":"]));
        }
        let others = used.iter().filter(|used| *used != own && !SHARED_BY_VERBS.contains(&used.as_str()));
        broken.extend(others.map(|other| format!("crates/cost/src/{} names {other}", source.path)));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_table_has_no_cycle_and_every_module_its_row() {
    for (row, (module, may)) in MODULES.iter().enumerate() {
        let earlier = |name: &&str| MODULES[..row].iter().any(|(module, _)| module == name);
        assert!(*may == EARLIER || may.iter().all(earlier), "the row of {module} names a module of a later row");
    }
    for source in sources().iter().filter(|source| source.path != "lib.rs") {
        let module = source.module();
        assert!(row(module).is_some(), "crates/cost/src/{} belongs to no row of the table of modules", source.path);
    }
}

#[test]
fn effects_stay_where_they_belong() {
    let mut broken = Vec::new();
    let crates = sources_below("crates").into_iter().filter(|source| source.path.contains("/src/"));
    for source in &sources_below("src").into_iter().chain(crates).collect::<Vec<_>>() {
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
