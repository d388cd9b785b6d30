//! Enums whose variants have one text name each, in configurations, files and output.

use crate::error::{Error, Result};

/// Declares such an enum, with the array `ALL` of its variants, `index`, `name`, and, where the enum is followed by the noun for
/// errors, `parse`:
///
/// ```
/// perf4sight_base::words! {
///     /// The direction of a step.
///     pub enum Direction: "direction" {
///         /// Up.
///         Up = "up",
///         /// Down.
///         Down = "down",
///     }
/// }
///
/// assert_eq!(Direction::ALL.map(Direction::name), ["up", "down"]);
/// assert_eq!(Direction::parse("down")?, Direction::Down);
/// assert!(Direction::parse("dwn").unwrap_err().to_string().starts_with("unknown direction \"dwn\""));
/// # Ok::<(), perf4sight_base::error::Error>(())
/// ```
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* $vis:vis enum $Words:ident $(: $noun:literal)? { $($(#[$of:meta])* $Word:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs)] // where the word of a variant says it all, it needs no documentation
        $vis enum $Words {
            $($(#[$of])* $Word,)+
        }

        impl $Words {
            /// All of them, in the order they are listed to people.
            pub const ALL: [$Words; [$($name),+].len()] = [$($Words::$Word),+];

            /// The word in configurations, files and output.
            pub const fn name(self) -> &'static str {
                match self {
                    $($Words::$Word => $name,)+
                }
            }

            /// Its index in `ALL`, for arrays with a value for each.
            pub const fn index(self) -> usize {
                self as usize
            }

            $(
            /// The value of that name.
            ///
            /// # Errors
            /// An unknown word, with the nearest known one.
            pub fn parse(word: &str) -> $crate::error::Result<Self> {
                $crate::words::parse($noun, word, &Self::ALL, Self::name)
            }
            )?
        }

        impl std::fmt::Display for $Words {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

/// The one of several values that has this name.
///
/// # Errors
/// An unknown word, with the nearest known one.
pub fn parse<T: Copy>(noun: &str, word: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T> {
    all.iter().copied().find(|&known| name(known) == word).ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|&known| name(known)).collect();
        Error::config(format!("unknown {noun} \"{word}\"")).one_of(word, known)
    })
}
