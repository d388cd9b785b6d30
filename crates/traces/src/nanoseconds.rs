//! Converts times in traces, decimal microseconds, to whole nanoseconds without rounding through a float.

use crate::raw::unquoted;

/// Nanoseconds from a number of microseconds, such as `123.456`, `-1`, `1.5e3`, also in quotes. Decimals below
/// nanoseconds are cut off. None if it is no number or does not fit in 64 bits.
pub(crate) fn from_microseconds(text: &[u8]) -> Option<i64> {
    with_three_decimals(text).or_else(|| in_any_form(text))
}

/// The fast path for the usual format, digits with three decimals; none for any other.
fn with_three_decimals(text: &[u8]) -> Option<i64> {
    let (&[.., b'.', _, _, _], 5..=19) = (text, text.len()) else { return None };
    let (whole, decimals) = text.split_at(text.len() - 4);
    let digit = |value: i64, byte: &u8| {
        Some(10 * value + i64::from(Some(byte.wrapping_sub(b'0')).filter(|digit| *digit < 10)?))
    };
    whole.iter().chain(&decimals[1..]).try_fold(0, digit)
}

fn in_any_form(text: &[u8]) -> Option<i64> {
    let text = unquoted(text);
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (mantissa, exponent) = match digits.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&digits[..at], std::str::from_utf8(&digits[at + 1..]).ok()?.parse::<i32>().ok()?),
        None => (digits, 0),
    };
    let whole = mantissa.iter().position(|&byte| byte == b'.').unwrap_or(mantissa.len());
    if whole == 0 && mantissa.len() < 2 {
        return None;
    }
    // The decimal places that count: three of a microsecond, shifted by the exponent.
    let kept = exponent.saturating_add(3);
    let mut value: i64 = 0;
    let mut places = 0i32;
    for (at, &byte) in mantissa.iter().enumerate() {
        match byte {
            b'.' if at == whole => {}
            b'0'..=b'9' if places < kept || at < whole => {
                // A negative exponent also cuts whole digits, which are divided off below.
                value = value.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
                places += i32::from(at > whole);
            }
            b'0'..=b'9' => {}
            _ => return None,
        }
    }
    let value = match kept - places {
        0 => value,
        missing @ 1..=18 => value.checked_mul(10i64.pow(missing as u32))?,
        missing if missing > 0 => (value == 0).then_some(0)?,
        surplus @ -18..=-1 => value / 10i64.pow(surplus.unsigned_abs()),
        _ => 0,
    };
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_to_the_nanosecond() {
        let cases: [(&str, Option<i64>); 14] = [
            ("4355362225658.328", Some(4_355_362_225_658_328)),
            ("1665536373729077", Some(1_665_536_373_729_077_000)),
            ("0.001", Some(1)),
            ("7.0099", Some(7_009)),
            ("-3.5", Some(-3_500)),
            ("1.5e3", Some(1_500_000)),
            ("15e-1", Some(1_500)),
            ("12345e-5", Some(123)),
            ("\"12.5\"", Some(12_500)),
            (".5", Some(500)),
            ("", None),
            (".", None),
            ("twelve", None),
            ("99999999999999999999", None),
        ];
        for (text, expected) in cases {
            assert_eq!(from_microseconds(text.as_bytes()), expected, "{text}");
        }
    }
}
