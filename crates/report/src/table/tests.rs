//! Cells and tables for people and programs.

use super::*;

#[test]
fn floats_keep_three_significant_digits() {
    let written = [0.0, 0.001234, 1.2345, -12.345, 999.4, 999.6, -12_345.6, f64::NAN].map(significant);
    assert_eq!(written, ["0.00", "0.00123", "1.23", "-12.3", "999", "1,000", "-12,346", "–"]);
    // 309 digits, or those of the largest whole number, would say nothing.
    assert_eq!([1e308, -1e15, 999_999_999_999_999.0].map(significant), ["1.00e308", "-1.00e15", "999,999,999,999,999"]);
    // In a headline, ten zeros would not fit in the box.
    assert_eq!([3.2e-11, -3.2e-11, 1.26e-6].map(significant), ["< 0.000001", "> -0.000001", "0.000001"]);
}

#[test]
fn words_are_no_formulas_in_csv() {
    let mut table = Table::new("t", [TableColumn::text("name", "name"), TableColumn::number("change", "change")]);
    table.row(["=HYPERLINK(\"http://example.org\")".into(), (-2.5).into()]);
    let mut lines = Table::new("t", [TableColumn::text("name", "name")]);
    lines.row(["a\n\u{1b}b".into()]);
    assert_eq!(lines.to_csv(), "name\na\\n\\u{1b}b\n");
    assert_eq!(table.to_csv(), "name,change\n\"'=HYPERLINK(\"\"http://example.org\"\")\",-2.5\n");
    assert_eq!(table.to_json()[0]["name"], "=HYPERLINK(\"http://example.org\")");
}

#[test]
fn a_missing_value_is_empty_in_csv_and_null_in_json() {
    let mut table = Table::new("t", [TableColumn::text("name", "name"), TableColumn::number("latency_ms", "latency")]);
    table.row(["a,b".into(), None::<Milliseconds>.into()]);
    table.row(["c".into(), Milliseconds(0.1 + 0.2).into()]);
    assert_eq!(table.to_csv(), "name,latency_ms\n\"a,b\",\nc,0.30000000000000004\n");
    let json = serde_json::json!([
        { "name": "a,b", "latency_ms": null },
        { "name": "c", "latency_ms": 0.30000000000000004 },
    ]);
    assert_eq!(table.to_json(), json);
}
