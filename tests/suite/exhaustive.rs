//! No silent defaults: a `match` over enums of the product names every variant, so that a new one is
//! thought of everywhere.

use crate::layering::{Source, sources_below};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeSet;

/// Enums that a match may take the rest of, with whatever stands beside them: what a file holds, where all but what was expected is refused.
const OPEN: [&str; 1] = ["Value"];

#[test]
fn no_match_over_own_enums_has_a_wildcard() {
    let sources: Vec<Source> = ["src", "crates"].into_iter().flat_map(sources_below).collect();
    let enums: BTreeSet<String> = sources.iter().flat_map(|source| declared(source.code.clone())).collect();
    let sources = sources.iter().filter(|source| !source.path.contains("/tests/"));
    let found: Vec<String> = sources.flat_map(|source| silent(source, &enums)).collect();
    assert!(
        found.is_empty(),
        "name what is left, or ask for one of them with `matches!` or `if let`:\n{}",
        found.join("\n")
    );
}

/// The names of the enums that a source declares.
fn declared(code: TokenStream) -> Vec<String> {
    let (mut names, mut follows) = (Vec::new(), false);
    for token in code {
        match &token {
            TokenTree::Ident(name) if follows => names.push(name.to_string()),
            TokenTree::Group(group) => names.extend(declared(group.stream())),
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        follows = matches!(&token, TokenTree::Ident(word) if word == "enum");
    }
    names
}

/// The arms of a source that take whatever is left of an enum.
fn silent(source: &Source, enums: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    visit(source.code.clone(), &mut |arms| {
        let open = BTreeSet::from(OPEN.map(String::from));
        if arms.iter().any(|arm| named_enum(arm, &open).is_some()) {
            return;
        }
        let Some(name) = arms.iter().find_map(|arm| named_enum(arm, enums)) else { return };
        let silent = arms.iter().filter(|arm| takes_all(arm));
        let answer =
            |arm: &Pattern| format!("{}: {name}: {} =>", source.path, arm.iter().cloned().collect::<TokenStream>());
        found.extend(silent.map(answer));
    });
    found
}

/// A pattern, with its guard.
type Pattern = Vec<TokenTree>;

/// Shows the arms of every `match`.
fn visit(tokens: TokenStream, see: &mut impl FnMut(&[Pattern])) {
    let mut matching = false;
    for token in tokens {
        match &token {
            TokenTree::Ident(word) if word == "match" => matching = true,
            TokenTree::Group(group) => {
                if matching && group.delimiter() == Delimiter::Brace {
                    see(&arms(group.stream()));
                    matching = false;
                }
                visit(group.stream(), see);
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// The patterns between the braces of a `match`: up to `=>`; what an arm does ends at a comma or with a block.
fn arms(body: TokenStream) -> Vec<Pattern> {
    let (mut arms, mut pattern) = (Vec::new(), Pattern::new());
    let mut tokens = body.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let arrow = is(&token, '=') && tokens.next_if(|next| is(next, '>')).is_some();
        if !arrow {
            pattern.push(token);
            continue;
        }
        arms.push(std::mem::take(&mut pattern));
        let block = tokens.peek().is_some_and(is_block);
        if !block {
            tokens.by_ref().find(|token| is(token, ','));
            continue;
        }
        tokens.next();
        tokens.next_if(|token| is(token, ','));
    }
    arms
}

fn is(token: &TokenTree, punctuation: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == punctuation)
}

fn is_block(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

/// The first of the enums that a pattern names, were it within a tuple.
fn named_enum(pattern: &Pattern, enums: &BTreeSet<String>) -> Option<String> {
    let start = |pair: &[TokenTree]| Some(pair[0].to_string()).filter(|name| is(&pair[1], ':') && enums.contains(name));
    let within = |token: &TokenTree| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => {
            named_enum(&group.stream().into_iter().collect(), enums)
        }
        TokenTree::Group(_) | TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => None,
    };
    pattern.windows(2).find_map(start).or_else(|| within(pattern.first()?))
}

/// Whether a pattern refuses nothing: `_`, a name, or a tuple of such.
fn takes_all(pattern: &Pattern) -> bool {
    pattern.iter().all(|token| match token {
        TokenTree::Ident(word) => {
            let refuses = ["if", "true", "false"].iter().any(|known| word == known);
            !refuses && word.to_string().starts_with(|first: char| !first.is_uppercase())
        }
        TokenTree::Group(group) => takes_all(&group.stream().into_iter().collect()),
        TokenTree::Punct(punct) => [',', '.', '_', '&'].contains(&punct.as_char()),
        TokenTree::Literal(_) => false,
    })
}

#[test]
fn what_is_silent_is_found_however_it_is_written() {
    let found = |code: &str| {
        silent(&Source { path: "here".into(), code: code.parse().unwrap() }, &BTreeSet::from(["Op".into()])).len()
    };
    assert_eq!(found("fn f() { match op { Op::Conv(c) => { 1 } Op::Flatten => 2, _ => 3 } }"), 1);
    assert_eq!(found("fn f() { let x = match &node.op { Op::Conv(c) | Op::Linear(c) => g(1, 2), other => 3 }; }"), 1);
    assert_eq!(found("fn f() { match (op, x) { (Op::Input(_), _) => 1, (_, None) => 2, (op, _) => 3 } }"), 1);
    assert_eq!(found("fn f() { match op { Op::Conv(_) => match x { 1 => 2, _ => 3 }, Op::Flatten => 4 } }"), 0);
    assert_eq!(
        found("fn f() { matches!(op, Op::Conv(_)); if let Op::Conv(_) = op {} match x { _ => Op::Flatten } }"),
        0
    );
}
