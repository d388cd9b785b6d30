//! Tests that characters are escaped if a terminal would execute them.

use super::*;

#[test]
fn what_a_terminal_obeys_is_escaped_and_the_rest_is_as_it_was() {
    let harmless = "名前: résumé → 3 ± 1 ms\n\tnext";
    assert_eq!(printable(harmless), harmless);
    assert_eq!(printable("\r\u{7}\u{9b}0m\u{202e}cba\u{7f}"), "\\r\\u{7}\\u{9b}0m\\u{202e}cba\\u{7f}");
    assert_eq!(one_line("a\nb\tc\u{1b}"), "a\\nb c\\u{1b}");
}

#[test]
fn json_says_the_same_without_them() {
    let value = serde_json::json!({ "name": "\u{9b}0m \u{202e} \u{7f}\n" });
    let text = serde_json::to_string_pretty(&value).unwrap();
    let shown = printable_json(&text);
    assert!(shown.contains("\\u009b0m \\u202e \\u007f"), "{shown}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
}
