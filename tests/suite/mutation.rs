//! Inputs changed at random, always in the same way: a seeded mutator for bytes, for text and for JSON.

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// Words that programs stumble over.
const WORDS: [&str; 24] = [
    "",
    "\0",
    "\n",
    "\r\n",
    "|",
    ",",
    "=",
    "[",
    "]",
    "'",
    "\"",
    "\u{1b}[2J",
    "\u{202e}",
    "é",
    "-1",
    "0",
    "1e308",
    "-1e308",
    "9223372036854775808",
    "18446744073709551615",
    "NaN",
    "None",
    "../../etc/passwd",
    "%s%n",
];

/// Longer than anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Changes inputs; equal seeds give equal changes.
pub struct Mutator(Xoshiro256PlusPlus);

impl Mutator {
    pub fn new(seed: u64) -> Self {
        Mutator(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// The bytes with up to four changes.
    pub fn bytes(&mut self, base: &[u8]) -> Vec<u8> {
        let mut bytes = base.to_vec();
        for _ in 0..self.0.random_range(1..=4) {
            self.change(&mut bytes);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.0.random_range(0..=bytes.len());
        let behind = (at + self.0.random_range(1..=16)).min(bytes.len());
        match self.0.random_range(0..7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.0.random_range(0..8),
            1 if at < bytes.len() => bytes[at] = self.0.random(),
            2 => drop(bytes.drain(at..behind)),
            3 => {
                let copy = bytes[at..behind].to_vec();
                let to = self.0.random_range(0..=bytes.len());
                drop(bytes.splice(to..to, copy));
            }
            4 if self.0.random_ratio(1, 4) => bytes.truncate(at),
            _ => {
                let word = WORDS.choose(&mut self.0).expect("there are some");
                drop(bytes.splice(at..behind.min(at + self.0.random_range(0..=4)), word.bytes()));
            }
        }
    }

    /// The value with one to three of its parts replaced or removed.
    pub fn json(&mut self, base: &Value) -> Value {
        let mut value = base.clone();
        for _ in 0..self.0.random_range(1..=3) {
            self.descend(&mut value);
        }
        value
    }

    /// Goes down to some part and replaces it; deeper parts are met as often as shallow ones.
    fn descend(&mut self, value: &mut Value) {
        let children = match value {
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        };
        if children == 0 || self.0.random_ratio(1, 12) {
            *value = self.other(value);
            return;
        }
        let chosen = self.0.random_range(0..children);
        let removes = self.0.random_ratio(1, 20);
        match value {
            Value::Array(items) if removes => drop(items.remove(chosen)),
            Value::Array(items) => self.descend(&mut items[chosen]),
            Value::Object(fields) => {
                let key = fields.keys().nth(chosen).expect("there are so many").clone();
                match fields.get_mut(&key) {
                    Some(field) if !removes => self.descend(field),
                    _ => drop(fields.remove(&key)),
                }
            }
            _ => {}
        }
    }

    fn other(&mut self, value: &Value) -> Value {
        let number = value.as_f64().unwrap_or(1.0);
        let others = [
            json!(0),
            json!(-1),
            json!(1e308),
            json!(-100.0),
            json!(1e-300),
            json!(u64::MAX),
            json!(1u64 << 63),
            json!(-number),
            json!(number * 1e6),
            json!(number * 1e-6),
            json!((number as i64).wrapping_add(1)),
            json!((number as i64).wrapping_sub(1)),
            Value::Null,
            json!(""),
            json!([]),
            json!({}),
            json!(true),
            json!("\u{1b}[31m|\n"),
        ];
        // Another number where there was one: what has another type is refused before it is looked at.
        let numbers = if value.is_number() && self.0.random_ratio(3, 4) { 12 } else { others.len() };
        others[..numbers].choose(&mut self.0).expect("there are some").clone()
    }
}

/// Does something with every mutated input; none of them may panic or take long.
#[track_caller]
pub fn survives<I: AsRef<[u8]>>(count: usize, mut input: impl FnMut(usize) -> I, attempt: impl Fn(&[u8])) {
    for number in 0..count {
        let input = input(number);
        let began = Instant::now();
        let survived = catch_unwind(AssertUnwindSafe(|| attempt(input.as_ref())));
        let shown = || String::from_utf8_lossy(input.as_ref()).chars().take(4000).collect::<String>();
        assert!(survived.is_ok(), "input {number} panics: {}", shown());
        assert!(began.elapsed() < PATIENCE, "input {number} takes {:?}: {}", began.elapsed(), shown());
    }
}
