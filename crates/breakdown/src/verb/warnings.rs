//! Merges equal warnings of several ranks or runs.

use std::fmt;

/// A warning and the ranks or runs that it is about.
struct MergedWarning<W> {
    words: Vec<WarningWord>,
    of: Vec<W>,
}

#[derive(Clone)]
struct WarningWord {
    before: String,
    /// The lowest and the highest number of the merged warnings, if the word is a number.
    range: Option<[WarningNumber; 2]>,
    after: String,
}

#[derive(Clone)]
struct WarningNumber {
    value: f64,
    text: String,
}

/// The text between the lowest and the highest number.
const TO: &str = "…";

impl WarningNumber {
    fn parse(text: &str) -> Option<Self> {
        let value = text.parse().ok().filter(|_| text.ends_with(|last: char| last.is_ascii_digit()))?;
        Some(WarningNumber { value, text: text.to_owned() })
    }
}

fn alike<W>(all: impl IntoIterator<Item = (W, String)>) -> Vec<MergedWarning<W>> {
    let mut merged: Vec<MergedWarning<W>> = Vec::new();
    for (whom, sentence) in all {
        let words = split_words(&sentence);
        match merged.iter_mut().find(|known| is_shaped_as(&known.words, &words)) {
            Some(known) => {
                known.words.iter_mut().zip(words).for_each(|(known, word)| known.extend_range(word));
                known.of.push(whom);
            }
            None => merged.push(MergedWarning { words, of: vec![whom] }),
        }
    }
    merged
}

/// The words of a sentence. Numbers after "rank" or "ranks" are names of ranks ("ranks 0 to 2, 5 and 6 of 8") and not
/// measurements.
fn split_words(sentence: &str) -> Vec<WarningWord> {
    let mut naming = false;
    let word = |text: &str| {
        let word = WarningWord::parse(text);
        let goes_on = word.range.is_some() || matches!(text, "from" | "to" | "and" | "of");
        let names = naming && goes_on;
        naming = matches!(text, "rank" | "ranks") || names && !text.ends_with([':', ';']);
        if names { WarningWord::without_range(text) } else { word }
    };
    sentence.split(' ').map(word).collect()
}

fn is_shaped_as(known: &[WarningWord], words: &[WarningWord]) -> bool {
    known.len() == words.len() && known.iter().zip(words).all(|(known, word)| known.is_shaped_as(word))
}

impl WarningWord {
    /// Parses a word. A number or a range may have brackets and punctuation around it; digits in a name are not a
    /// number.
    fn parse(word: &str) -> Self {
        let inner = word.trim_start_matches('(');
        let core = inner.trim_end_matches([',', ';', ':', ')', '.']);
        let (low, high) = core.split_once(TO).unwrap_or((core, core));
        match WarningNumber::parse(low).zip(WarningNumber::parse(high)) {
            Some((low, high)) => WarningWord {
                before: word[..word.len() - inner.len()].to_owned(),
                range: Some([low, high]),
                after: inner[core.len()..].to_owned(),
            },
            None => WarningWord::without_range(word),
        }
    }

    fn without_range(word: &str) -> Self {
        WarningWord { before: word.to_owned(), range: None, after: String::new() }
    }

    fn is_shaped_as(&self, other: &WarningWord) -> bool {
        self.before == other.before && self.after == other.after && self.range.is_some() == other.range.is_some()
    }

    fn extend_range(&mut self, other: WarningWord) {
        if let (Some([low, high]), Some([other_low, other_high])) = (&mut self.range, other.range) {
            if other_low.value < low.value {
                *low = other_low;
            }
            if other_high.value > high.value {
                *high = other_high;
            }
        }
    }
}

impl fmt::Display for WarningWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.before)?;
        match &self.range {
            Some([low, high]) if low.text != high.text => write!(f, "{}{TO}{}", low.text, high.text)?,
            Some([number, _]) => f.write_str(&number.text)?,
            None => {}
        }
        f.write_str(&self.after)
    }
}

impl<W> MergedWarning<W> {
    fn sentence(&self) -> String {
        self.words.iter().map(WarningWord::to_string).collect::<Vec<_>>().join(" ")
    }
}

pub(super) fn of_ranks(all: impl IntoIterator<Item = (u32, String)>, count: usize) -> Vec<String> {
    let sentence = |warning: MergedWarning<u32>| {
        let words = warning.sentence();
        match warning.of.as_slice() {
            _ if count == 1 => words,
            all if all.len() == count => format!("all ranks: {words}"),
            [rank] => format!("rank {rank}: {words}"),
            [first, .., last] => format!("{} ranks from {first} to {last}: {words}", warning.of.len()),
            [] => words,
        }
    };
    alike(all).into_iter().map(sentence).collect()
}

pub(super) fn of_runs(all: impl IntoIterator<Item = (&'static str, String)>) -> Vec<String> {
    let sentence = |warning: MergedWarning<&'static str>| {
        let (words, first) = (warning.sentence(), warning.of[0]);
        match warning.of.iter().all(|name| *name == first) {
            true => format!("{first}: {words}"),
            false => format!("before and after: {words}"),
        }
    };
    alike(all).into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranges show the extreme values, signs included; names that differ in digits stay separate.
    #[test]
    fn numbers_of_several_are_shown_as_their_range() {
        let warning = [
            "recorded iterations are +5 % off, with a certainty of 53.5 % (byte 7)",
            "recorded iterations are -12 % off, with a certainty of 80 % (byte 7)",
            "recorded iterations are +8 % off, with a certainty of 61 % (byte 7)",
            "conv_1 is missing",
            "conv_2 is missing",
        ];
        let warning = of_ranks((0..).zip(warning.map(str::to_owned)), 4);
        assert_eq!(
            warning,
            [
                "3 ranks from 0 to 2: recorded iterations are -12…+8 % off, with a certainty of 53.5…80 % (byte 7)",
                "rank 3: conv_1 is missing",
                "rank 4: conv_2 is missing"
            ]
        );
        // Merged warnings of ranks can be merged again for runs.
        let of_both = [("before", "all ranks: 1…2 are lost"), ("after", "all ranks: 2…3 are lost")];
        let warning = of_runs(of_both.map(|(name, warning)| (name, warning.to_owned())));
        assert_eq!(warning, ["before and after: all ranks: 1…3 are lost"]);
    }
    /// Rank numbers are not measurements: a merged range would include ranks that are not meant.
    #[test]
    fn numbers_of_ranks_tell_sentences_apart() {
        let absent = [
            "ranks 0 and 3 of 8 are given: what the other 6 do is not known",
            "ranks 1 and 5 of 8 are given: what the other 6 do is not known",
        ];
        let warning = of_runs(["before", "after"].into_iter().zip(absent.map(str::to_owned)));
        assert_eq!(warning, [format!("before: {}", absent[0]), format!("after: {}", absent[1])]);
        let uneven = [
            "the run's figures are of 3 of the 10 iterations of rank 0",
            "the run's figures are of 4 of the 9 iterations of rank 0",
        ];
        let warning = of_runs(["before", "after"].into_iter().zip(uneven.map(str::to_owned)));
        assert_eq!(warning, ["before and after: the run's figures are of 3…4 of the 9…10 iterations of rank 0"]);
        let of_ranks = [
            "2 ranks from 0 to 3: 5 events are lost",
            "2 ranks from 0 to 3: 7 events are lost",
            "rank 1: 7 events are lost",
        ];
        let warning = of_runs(["before", "after", "after"].into_iter().zip(of_ranks.map(str::to_owned)));
        assert_eq!(
            warning,
            ["before and after: 2 ranks from 0 to 3: 5…7 events are lost", "after: rank 1: 7 events are lost"]
        );
    }
}
