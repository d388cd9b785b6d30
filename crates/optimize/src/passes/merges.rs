//! How operations or tensors join, in the published form of a strategy.

use serde_json::{Value, json};

/// Of so many each joins all those before it. The published form names what joined by all its names, so that with each of n one by one
/// there would be n² / 2 names; halves of more join instead, which makes `n log n`.
const ONE_BY_ONE: usize = 16;

/// Operations (`+`) or tensors (`++`) that join: what joined before, and what joins it.
pub(super) fn merges(sign: &str, names: &[&str]) -> Vec<[Value; 3]> {
    let join = |first: &[&str], second: &[&str]| [json!(sign), json!(first.join("+")), json!(second.join("+"))];
    if names.len() <= ONE_BY_ONE {
        return (1..names.len()).map(|next| join(&names[..next], &names[next..=next])).collect();
    }
    let (first, second) = names.split_at(names.len() / 2);
    [merges(sign, first), merges(sign, second), vec![join(first, second)]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_join_one_by_one() {
        let expected = [["++", "0", "1"], ["++", "0+1", "2"]].map(|merge| merge.map(Value::from));
        assert_eq!(merges("++", &["0", "1", "2"]), expected);
        assert!(merges("+", &["aten::add"]).is_empty());
    }

    /// Whoever follows the merges finds each part that they name, and in the end all in one. One by one 10,000 operations would be
    /// named 50 million times, in half a gigabyte.
    #[test]
    fn many_join_in_a_text_that_stays_short() {
        let names: Vec<String> = (0..10_000).map(|place| format!("aten::add.{place}")).collect();
        let mut parts: std::collections::BTreeSet<String> = names.iter().cloned().collect();
        let merges = merges("+", &names.iter().map(String::as_str).collect::<Vec<_>>());
        let mut bytes = 0;
        for [sign, first, second] in merges.iter().map(|merge| merge.each_ref().map(|part| part.as_str().unwrap())) {
            assert!(sign == "+" && parts.remove(first) && parts.remove(second), "{first} or {second} is not there");
            parts.insert(format!("{first}+{second}"));
            bytes += first.len() + second.len();
        }
        assert_eq!(parts, [names.join("+")].into());
        assert!(bytes < 4_000_000, "{bytes}");
    }
}
