//! The grammar of changes: a subject that is scaled by a factor or set to a value, or a sentence.

use perf4sight_base::error::{Error, Result};

/// A change as it is written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum WhatIfClause {
    /// `SUBJECT x FACTOR`
    Scale(String, String),
    /// `SUBJECT = VALUE`
    Set(String, String),
    /// Anything else.
    Sentence(String),
}

impl WhatIfClause {
    pub fn read(text: &str) -> Self {
        let text = text.trim();
        let parts = |(subject, value): (&str, &str)| (subject.trim().to_owned(), value.trim().to_owned());
        // The name of an operation may contain these letters; the last ones count.
        if let Some((subject, factor)) = text.rsplit_once(" x ").or_else(|| text.rsplit_once(" * ")).map(parts) {
            return WhatIfClause::Scale(subject, factor);
        }
        match text.rsplit_once('=').map(parts) {
            Some((subject, value)) => WhatIfClause::Set(subject, value),
            None => WhatIfClause::Sentence(text.split_whitespace().collect::<Vec<_>>().join(" ")),
        }
    }

    /// The factor by which a subject is scaled; none for other clauses.
    pub fn factor_of(&self, subject: &str) -> Option<Result<f64>> {
        match self {
            WhatIfClause::Scale(own, factor) if own == subject => Some(positive(factor)),
            WhatIfClause::Scale(..) | WhatIfClause::Set(..) | WhatIfClause::Sentence(_) => None,
        }
    }

    /// The value that a subject is set to; none for other clauses.
    pub fn value_of(&self, subject: &str) -> Option<&str> {
        match self {
            WhatIfClause::Set(own, value) if own == subject => Some(value),
            WhatIfClause::Scale(..) | WhatIfClause::Set(..) | WhatIfClause::Sentence(_) => None,
        }
    }

    /// The rest of a sentence that begins with a word.
    pub fn strip_word(&self, word: &str) -> Option<&str> {
        match self {
            WhatIfClause::Sentence(sentence) => sentence.strip_prefix(word).map(str::trim),
            WhatIfClause::Scale(..) | WhatIfClause::Set(..) => None,
        }
    }
}

/// Factors and sizes beyond these are no question about a training step.
const ACCEPTED: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

/// A factor or size.
pub(super) fn positive(text: &str) -> Result<f64> {
    match text.parse::<f64>() {
        Ok(number) if ACCEPTED.contains(&number) => Ok(number),
        Ok(_) | Err(_) => Err(Error::usage(format!("\"{text}\" is not a factor or size that makes sense"))
            .expected(format!("a number from {} to {}", ACCEPTED.start(), ACCEPTED.end()))),
    }
}

/// The pattern in `operations 'PATTERN'`.
pub(super) fn pattern(text: &str) -> Option<&str> {
    let quoted = text.strip_prefix("operations")?.trim();
    let inner = |quote| quoted.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inner('\'').or_else(|| inner('"')).or(Some(quoted)).filter(|pattern| !pattern.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clauses_are_read_with_any_spaces() {
        let scale = |subject: &str, factor: &str| WhatIfClause::Scale(subject.to_owned(), factor.to_owned());
        assert_eq!(WhatIfClause::read(" bandwidth x  0.5 "), scale("bandwidth", "0.5"));
        assert_eq!(WhatIfClause::read("operations 'a x b' * 2"), scale("operations 'a", "b' * 2"));
        assert_eq!(
            WhatIfClause::read("bucket_cap_mb=8"),
            WhatIfClause::Set("bucket_cap_mb".to_owned(), "8".to_owned())
        );
        assert_eq!(WhatIfClause::read("rank  3 as the others").strip_word("rank"), Some("3 as the others"));
        assert_eq!(pattern("operations 'gelu*'"), Some("gelu*"));
        assert_eq!((pattern("operations"), pattern("rank 3")), (None, None));
    }
}
