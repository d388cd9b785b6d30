//! Warnings as people read them: those that say the same of several ranks or runs once.

/// What is said of some ranks or runs.
struct Told<W> {
    /// As it is said of the first.
    words: String,
    /// Whether it is said of the others in the same words, numbers included.
    equally: bool,
    of: Vec<W>,
}

/// Warnings with whom they are of; those that differ in numbers alone are one.
fn alike<W>(all: impl IntoIterator<Item = (W, String)>) -> Vec<Told<W>> {
    let mut told: Vec<(String, Told<W>)> = Vec::new();
    for (whom, words) in all {
        let shape = without_numbers(&words);
        match told.iter_mut().find(|(known, _)| *known == shape) {
            Some((_, known)) => {
                known.equally &= known.words == words;
                known.of.push(whom);
            }
            None => told.push((shape, Told { words, equally: true, of: vec![whom] })),
        }
    }
    told.into_iter().map(|(_, told)| told).collect()
}

fn without_numbers(words: &str) -> String {
    words
        .split(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("#")
}

/// Warnings of ranks, where there are so many.
pub(super) fn of_ranks(all: impl IntoIterator<Item = (u32, String)>, count: usize) -> Vec<String> {
    let sentence = |Told { words, equally, of }: Told<u32>| {
        let whom = match of.as_slice() {
            _ if count == 1 => return words,
            all if all.len() == count => "all ranks".to_owned(),
            [rank] => format!("rank {rank}"),
            [first, .., last] => format!("{} ranks from {first} to {last}", of.len()),
            [] => return words,
        };
        if equally { format!("{whom}: {words}") } else { format!("{whom}: {words} (in numbers of rank {})", of[0]) }
    };
    alike(all).into_iter().map(sentence).collect()
}

/// Warnings of recordings before and after a change.
pub(super) fn of_runs(all: impl IntoIterator<Item = (&'static str, String)>) -> Vec<String> {
    let sentence = |Told { words, equally, of }: Told<&'static str>| {
        let first = of[0];
        match of.iter().all(|name| *name == first) {
            true => format!("{first}: {words}"),
            false if equally => format!("before and after: {words}"),
            false => format!("before and after: {words} (in numbers of {first})"),
        }
    };
    alike(all).into_iter().map(sentence).collect()
}
