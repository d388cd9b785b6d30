//! The roles of colours, and their values on paper and on dark screens.

use std::fmt::Write;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ink {
    name: &'static str,
    light: u32,
    dark: u32,
}

/// The background of a picture outside of a page; a page follows its reader's setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// Dark on white, as on paper.
    Light,
    /// Light on black.
    Dark,
}

impl Ink {
    pub const PAPER: Ink = ink("paper", 0xffffff, 0x12161b);
    pub const TEXT: Ink = ink("ink", 0x1b1f24, 0xe8ebef);
    pub const MUTED: Ink = ink("muted", 0x59636e, 0xa3aeba);
    pub const GRID: Ink = ink("grid", 0xe3e7ec, 0x2b333c);
    /// The fill of cells with a number: the stronger the larger.
    pub const FILLED: Ink = ink("filled", 0x12756b, 0x2fa79a);
    pub const FAILED: Ink = ink("failed", 0x9f1d35, 0xff7a8f);
    pub const SKIPPED: Ink = ink("skipped", 0xf3d3d9, 0x4a2530);
    pub const SUBJECT: Ink = ink("subject", 0x22334a, 0xdfe7f2);
    pub const VARIATION: Ink = ink("variation", 0x5a739b, 0x7f9ccb);
    pub const RIVAL: Ink = ink("rival", 0x78736d, 0xa39d95);
    pub const TRUTH: Ink = ink("truth", 0x6b711a, 0xc3cb5a);

    /// Okabe and Ito's palette, which colour-blind readers can distinguish, darkened where it was too pale for paper.
    /// Their two blues became equal when darkened, so one of them is indigo.
    const MEMBERS: [Ink; 8] = [
        ink("series-0", 0x0072b2, 0x4aa8e0),
        ink("series-1", 0xbd5300, 0xff8c42),
        ink("series-2", 0x00805d, 0x2cc79a),
        ink("series-3", 0xa8478a, 0xe08cc4),
        ink("series-4", 0x8f6400, 0xf0b93a),
        ink("series-5", 0x4b3fc4, 0x9ad4f7),
        ink("series-6", 0x7a5195, 0xb79ae8),
        ink("series-7", 0x7a4a35, 0xc99a83),
    ];

    const OF_PAGES: [Ink; 6] = [
        ink("card", 0xf7f8fa, 0x1a2027),
        ink("line", 0xdfe3e8, 0x2d353f),
        ink("link", 0x0b5cad, 0x7cc0ff),
        ink("good", 0x0a7f5a, 0x4ccfa0),
        ink("caution", 0x8a5c00, 0xe3b341),
        ink("bad", 0xb3261e, 0xff8a80),
    ];

    const PLAIN: [Ink; 11] = [
        Self::PAPER,
        Self::TEXT,
        Self::MUTED,
        Self::GRID,
        Self::FILLED,
        Self::FAILED,
        Self::SKIPPED,
        Self::SUBJECT,
        Self::VARIATION,
        Self::RIVAL,
        Self::TRUTH,
    ];

    /// The colour of a group member by its index; the colours repeat after eight.
    pub fn member(place: usize) -> Ink {
        Self::MEMBERS[place % Self::MEMBERS.len()]
    }

    /// Red, green and blue.
    pub fn rgb(self, theme: Theme) -> [u8; 3] {
        let [_, rgb @ ..] = match theme {
            Theme::Light => self.light.to_be_bytes(),
            Theme::Dark => self.dark.to_be_bytes(),
        };
        rgb
    }

    /// The role with this colour on paper.
    pub fn of_light(rgb: [u8; 3]) -> Ink {
        all().find(|ink| ink.rgb(Theme::Light) == rgb).unwrap_or(Self::TEXT)
    }

    /// The value of an SVG attribute: a fixed colour, or the variable of the surrounding page.
    pub fn css(self, theme: Option<Theme>) -> String {
        match theme {
            Some(theme) => hex(self.rgb(theme)),
            None => format!("var(--{})", self.name),
        }
    }
}

fn all() -> impl Iterator<Item = Ink> {
    Ink::PLAIN.into_iter().chain(Ink::OF_PAGES).chain(Ink::MEMBERS)
}

/// All colours as CSS variables. Print is white even if the screen is dark.
pub(crate) fn variables() -> String {
    let root = |theme: Theme| {
        all().fold(String::new(), |mut out, ink| {
            let _ = write!(out, " --{}: {};", ink.name, hex(ink.rgb(theme)));
            out
        })
    };
    let (light, dark) = (root(Theme::Light), root(Theme::Dark));
    format!(":root {{{light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{{dark} }} }}\n")
}

const fn ink(name: &'static str, light: u32, dark: u32) -> Ink {
    Ink { name, light, dark }
}

fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests;
