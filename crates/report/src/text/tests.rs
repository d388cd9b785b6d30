//! Tests of tables as text.

use super::*;
use crate::table::{Cell, TableColumn};

fn table() -> Table {
    let mut table = Table::new("", [TableColumn::text("reason", "reason"), TableColumn::number("n", "n")]);
    table.row(["no such file: a/rather/long/path".into(), 12_345u64.into()]);
    table.row(["網路".into(), Cell::Missing]);
    table
}

#[test]
fn words_are_cut_and_numbers_are_not() {
    let lines = table().lines(Some(20));
    assert_eq!(lines[2], "no such fil…  12,345");
    assert!(lines.iter().all(|line| line.width() <= 20), "{lines:?}");
    assert!(table().lines(Some(3))[2].ends_with("12,345"));
}

#[test]
fn wide_characters_count_twice() {
    let lines = table().lines(None);
    assert_eq!(lines[3].width(), lines[2].width());
    assert!(lines[3].starts_with("網路") && lines[3].ends_with('–'));
}
