//! Contrast and distance of the colours.

use super::*;
use crate::chart::heatmap;
use crate::drawing::{MARKER_ALPHA, TEXTURE_ALPHA};

/// Contrast as defined by WCAG 2.2.
fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let luminance = |rgb: [f64; 3]| {
        let linear = rgb
            .map(|part| part / 255.0)
            .map(|part| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    };
    let [one, other] = [one, other].map(|rgb| luminance(rgb) + 0.05);
    f64::max(one / other, other / one)
}

fn seen(ink: Ink, theme: Theme) -> [f64; 3] {
    ink.rgb(theme).map(f64::from)
}

/// A partly transparent colour over another one.
fn over(above: [f64; 3], alpha: f64, below: [f64; 3]) -> [f64; 3] {
    std::array::from_fn(|part| alpha * above[part] + (1.0 - alpha) * below[part])
}

fn holds(what: &str, theme: Theme, found: f64, least: f64) {
    assert!(found >= least, "{what} in {theme:?}: {found:.2}, at least {least}");
}

#[test]
fn contrast_is_that_of_the_standard() {
    // WCAG 2.2: black on white 21:1; #777777 on white 4.48:1 (the usual example of a colour that just fails).
    assert!((contrast([0.0; 3], [255.0; 3]) - 21.0).abs() < 1e-9);
    assert!((contrast([119.0; 3], [255.0; 3]) - 4.48).abs() < 0.005);
}

#[test]
fn words_can_be_read_wherever_they_stand() {
    for theme in [Theme::Light, Theme::Dark] {
        let [card, line, words @ ..] = Ink::OF_PAGES;
        assert_eq!((card.name, line.name), ("card", "line"));
        for ink in words.into_iter().chain([Ink::TEXT, Ink::MUTED]) {
            for ground in [Ink::PAPER, card] {
                holds(ink.name, theme, contrast(seen(ink, theme), seen(ground, theme)), 4.5);
            }
        }
        // Numbers and names on bars and spans have the colour of the paper.
        let bars = [Ink::FAILED, Ink::SUBJECT, Ink::VARIATION, Ink::RIVAL, Ink::TRUTH];
        for ink in Ink::MEMBERS.into_iter().chain(bars) {
            holds(ink.name, theme, contrast(seen(ink, theme), seen(Ink::PAPER, theme)), 4.5);
        }
        for share in (0..=100).map(|share| f64::from(share) / 100.0) {
            let ground = over(seen(Ink::FILLED, theme), heatmap::strength(share, true), seen(Ink::PAPER, theme));
            holds("a number of a heat map", theme, contrast(seen(Ink::TEXT, theme), ground), 4.5);
        }
    }
}

#[test]
fn marks_stand_out_from_the_paper() {
    for theme in [Theme::Light, Theme::Dark] {
        let paper = seen(Ink::PAPER, theme);
        // WCAG requires 3:1 for graphics.
        for ink in Ink::MEMBERS.into_iter().chain([Ink::SUBJECT, Ink::VARIATION, Ink::RIVAL, Ink::TRUTH]) {
            let marker = over(seen(ink, theme), MARKER_ALPHA, paper);
            holds(ink.name, theme, contrast(marker, paper), 3.0);
            // Textures must be visible, too; they repeat information from positions or text, so they may be fainter.
            let stripe = over(paper, TEXTURE_ALPHA, seen(ink, theme));
            holds(ink.name, theme, contrast(stripe, seen(ink, theme)), 1.4);
        }
        holds("filled", theme, contrast(seen(Ink::FILLED, theme), paper), 3.0);
        holds("a dot", theme, contrast(seen(Ink::FAILED, theme), seen(Ink::SKIPPED, theme)), 3.0);
    }
}

/// Distance in CIELAB under D65 (CIE 15), where 2.3 is just noticeable. Legends name colours, so they must be much
/// further apart.
#[test]
fn members_are_told_apart() {
    for theme in [Theme::Light, Theme::Dark] {
        for (place, one) in Ink::MEMBERS.iter().enumerate() {
            for other in &Ink::MEMBERS[..place] {
                let [one_lab, other_lab] = [one, other].map(|ink| lab(seen(*ink, theme)));
                let squares = one_lab.iter().zip(other_lab).map(|(one, other)| (one - other).powi(2));
                holds(&format!("{} and {}", one.name, other.name), theme, squares.sum::<f64>().sqrt(), 20.0);
            }
        }
    }
}

fn lab(rgb: [f64; 3]) -> [f64; 3] {
    let linear = rgb
        .map(|part| part / 255.0)
        .map(|part| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) });
    let part = |weights: [f64; 3], white: f64| {
        let sum: f64 = weights.iter().zip(linear).map(|(weight, part)| weight * part).sum();
        let share = sum / white;
        if share > 0.008_856 { share.cbrt() } else { 7.787 * share + 16.0 / 116.0 }
    };
    let x = part([0.4124, 0.3576, 0.1805], 0.9505);
    let y = part([0.2126, 0.7152, 0.0722], 1.0);
    let z = part([0.0193, 0.1192, 0.9505], 1.089);
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

#[test]
fn paper_stays_white_when_a_dark_page_is_printed() {
    let css = variables();
    assert_eq!(css.matches("@media").count(), 1);
    assert!(css.contains("@media screen and (prefers-color-scheme: dark)"));
    assert!(css.starts_with(":root { --paper: #ffffff;"), "{css}");
}
