//! A JSON scanner that works on bytes: it finds where values end, and builds only the values that are needed. The
//! content of a string is taken unchanged, including newlines and invalid UTF-8.

/// A type that a JSON value is read into; it may borrow from the text.
pub(crate) trait JsonShape {
    type Of<'a>: Default;

    /// Reads the value at the scanner's position and moves past it. The value is written in place, because events are
    /// large.
    fn read<'a>(scan: &mut JsonScan<'a, '_>, value: &mut Self::Of<'a>) -> Result<(), ScanStop>;
}

/// Why a value could not be read.
pub(crate) enum ScanStop {
    /// The text ends before the value.
    End,
    /// The value has another type or a syntax error at the scanner's position.
    Wrong,
}

pub(crate) struct JsonScan<'a, 'n> {
    text: &'a [u8],
    at: usize,
    /// The closing brackets of the lists and objects that are open. Borrowed, to avoid an allocation per event.
    nesting: &'n mut Vec<u8>,
}

impl<'a, 'n> JsonScan<'a, 'n> {
    pub fn new(text: &'a [u8], nesting: &'n mut Vec<u8>) -> Self {
        JsonScan { text, at: 0, nesting }
    }

    /// The number of bytes before the position.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The error for an unexpected byte at the position.
    pub fn wrong<T>(&self) -> Result<T, ScanStop> {
        Err(ScanStop::Wrong)
    }

    /// Skips white space and returns the next byte without moving past it.
    #[inline]
    pub fn peek(&mut self) -> Result<u8, ScanStop> {
        match self.text.get(self.at..) {
            Some(&[byte @ b'!'..=0xff, ..]) => Ok(byte),
            Some(&[b' ', byte @ b'!'..=0xff, ..]) => {
                self.at += 1;
                Ok(byte)
            }
            _ => self.behind_blanks(),
        }
    }

    /// The same for more white space than the one blank after a comma or a colon.
    #[inline(never)]
    fn behind_blanks(&mut self) -> Result<u8, ScanStop> {
        let mut next = self.pass_while(|word| not_zero(word ^ repeat_byte(b' ')) & not_zero(word ^ repeat_byte(b'\n')));
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = next {
            self.at += 1;
            next = self.next();
        }
        next.ok_or(ScanStop::End)
    }

    /// Moves to the first byte that `others` marks by its highest bit, eight bytes at a time, and returns that byte. It
    /// stops at the last seven bytes of the text.
    #[inline]
    fn pass_while(&mut self, others: impl Fn(u64) -> u64) -> Option<u8> {
        while let Some(word) = self.text.get(self.at..).and_then(<[u8]>::first_chunk) {
            let word = u64::from_le_bytes(*word);
            let others = others(word);
            let passed = others.trailing_zeros() & !7;
            self.at += passed as usize / 8;
            if others != 0 {
                return Some((word >> passed) as u8);
            }
        }
        self.next()
    }

    /// Moves past a byte, which may have white space before it.
    #[inline]
    fn pass(&mut self, byte: u8) -> Result<(), ScanStop> {
        match self.peek()? == byte {
            true => self.at += 1,
            false => return self.wrong(),
        }
        Ok(())
    }

    /// Calls `member` for each member of an object, with its key and the position at its value; `member` must move past
    /// the value.
    pub fn members(
        &mut self,
        mut member: impl FnMut(&mut Self, &'a [u8]) -> Result<(), ScanStop>,
    ) -> Result<(), ScanStop> {
        self.pass(b'{')?;
        if self.peek()? == b'}' {
            return self.pass(b'}');
        }
        loop {
            let key = self.key()?;
            member(self, key)?;
            match self.peek()? {
                b',' => self.at += 1,
                _ => return self.pass(b'}'),
            }
        }
    }

    fn key(&mut self) -> Result<&'a [u8], ScanStop> {
        let key = self.string()?;
        self.pass(b':')?;
        self.peek()?;
        Ok(key)
    }

    /// The content of the string at the position.
    #[inline]
    pub fn string(&mut self) -> Result<&'a [u8], ScanStop> {
        self.pass(b'"')?;
        let begin = self.at;
        while self.quote_or_backslash()? == b'\\' {
            self.at += 2;
        }
        self.at += 1;
        Ok(&self.text[begin..self.at - 1])
    }

    /// Moves to the next quote or backslash and returns it. It checks eight bytes at a time: most strings are too short
    /// to pay for a call of a function that checks more.
    #[inline]
    fn quote_or_backslash(&mut self) -> Result<u8, ScanStop> {
        let mut next =
            self.pass_while(|word| lowest_zero(word ^ repeat_byte(b'"')) | lowest_zero(word ^ repeat_byte(b'\\')));
        loop {
            match next.ok_or(ScanStop::End)? {
                byte @ (b'"' | b'\\') => return Ok(byte),
                _ => self.at += 1,
            }
            next = self.next();
        }
    }

    /// The value at the position, of any type and depth.
    #[inline]
    pub fn value(&mut self) -> Result<&'a [u8], ScanStop> {
        let first = self.peek()?;
        let begin = self.at;
        match first {
            b'[' | b'{' => self.nested()?,
            _ => self.single(first)?,
        }
        Ok(&self.text[begin..self.at])
    }

    /// Moves past a value that is no list or object and begins with `first`.
    fn single(&mut self, first: u8) -> Result<(), ScanStop> {
        match first {
            b'"' => self.string().map(drop),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.wrong(),
        }
    }

    /// Moves past the list or object at the position.
    fn nested(&mut self) -> Result<(), ScanStop> {
        self.nesting.clear();
        loop {
            match self.peek()? {
                open @ (b'[' | b'{') => {
                    self.at += 1;
                    // In ASCII, a closing bracket is the opening one plus two.
                    self.nesting.push(open + 2);
                    if self.peek()? != open + 2 {
                        if open == b'{' {
                            self.key()?;
                        }
                        continue;
                    }
                }
                first => self.single(first)?,
            }
            if self.skip_closing()? {
                return Ok(());
            }
        }
    }

    /// Moves past closing brackets after a value, to the next value; returns whether there is none.
    fn skip_closing(&mut self) -> Result<bool, ScanStop> {
        while let Some(&close) = self.nesting.last() {
            match self.peek()? {
                b',' => {
                    self.at += 1;
                    if close == b'}' {
                        self.key()?;
                    }
                    return Ok(false);
                }
                byte if byte == close => self.at += 1,
                _ => return self.wrong(),
            }
            self.nesting.pop();
        }
        Ok(true)
    }

    fn word(&mut self, word: &[u8]) -> Result<(), ScanStop> {
        for letter in word {
            match self.text.get(self.at) {
                Some(byte) if byte == letter => self.at += 1,
                Some(_) => return self.wrong(),
                None => return Err(ScanStop::End),
            }
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), ScanStop> {
        self.at += usize::from(self.next() == Some(b'-'));
        match self.next() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.next() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.next(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.next(), Some(b'-' | b'+')));
            self.digits()?;
        }
        Ok(())
    }

    /// Moves past digits; at least one is required.
    #[inline]
    fn digits(&mut self) -> Result<(), ScanStop> {
        let begin = self.at;
        let mut next = self.pass_while(|word| not_below(word ^ repeat_byte(b'0'), 10));
        while let Some(b'0'..=b'9') = next {
            self.at += 1;
            next = self.next();
        }
        match next {
            _ if self.at > begin => Ok(()),
            Some(_) => self.wrong(),
            None => Err(ScanStop::End),
        }
    }

    fn next(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
}

/// A word of eight times this byte.
const fn repeat_byte(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// The highest bit of the lowest byte that is zero, and perhaps bits above it (Warren, Hacker's Delight, 6-1).
const fn lowest_zero(word: u64) -> u64 {
    word.wrapping_sub(repeat_byte(1)) & !word & repeat_byte(0x80)
}

/// Sets the highest bit of each byte that is at least `least`, which must be at most 128.
const fn not_below(word: u64, least: u8) -> u64 {
    // Seven bits plus 127 do not carry into the next byte.
    (((word & repeat_byte(0x7f)) + repeat_byte(0x80 - least)) | word) & repeat_byte(0x80)
}

/// Sets the highest bit of each byte that is not zero.
const fn not_zero(word: u64) -> u64 {
    not_below(word, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    /// The length in bytes of the value at the beginning of a text; an error without a position if the text ends first,
    /// or with the position of a syntax error.
    fn scanned(text: &[u8]) -> Result<usize, Option<usize>> {
        let mut nesting = Vec::new();
        let mut scan = JsonScan::new(text, &mut nesting);
        match scan.value() {
            Ok(_) => Ok(scan.position()),
            Err(ScanStop::End) => Err(None),
            Err(ScanStop::Wrong) => Err(Some(scan.position())),
        }
    }

    /// With any single byte replaced or removed, and cut off anywhere, the scanner accepts the same values as
    /// serde_json.
    #[test]
    fn what_is_a_value_and_where_it_ends_is_as_serde_json_says() {
        const TEXT: &str =
            r#" {"a": [1, -0.5e+10, {}, [], true, "x\"\\y"], "long enough for words": {"b" :null , "c":false}, "": 0}"#;
        let (mut values, mut wrong) = (0, 0);
        for (at, _) in TEXT.char_indices() {
            let others = br#" {}[],:"0159-+.eEtfnux"#.iter().map(|byte| vec![*byte]);
            for other in others.chain([vec![]]) {
                let text = [&TEXT.as_bytes()[..at], &other, &TEXT.as_bytes()[at + 1..]].concat();
                let expected = serde_json::from_slice::<&RawValue>(&text).is_ok();
                let scanned = scanned(&text);
                // The scanner does not check escapes in values that it skips.
                let escape = TEXT[at..].starts_with('\\') || TEXT[..at].ends_with('\\');
                assert!(escape || (scanned == Ok(text.len())) == expected, "{}", String::from_utf8_lossy(&text));
                match expected {
                    true => values += 1,
                    false => wrong += 1,
                }
            }
            assert_eq!(scanned(&TEXT.as_bytes()[..at]), Err(None), "{at}");
        }
        assert!(values > 500 && wrong > 500, "{values} {wrong}");
    }

    #[test]
    fn strings_end_at_the_first_quote_without_a_backslash_wherever_it_is() {
        for length in 0..40 {
            for plain in ["x", "\u{e9}", "\n", "!", "#", "]", "\u{7f}"] {
                let content: String = plain.repeat(length);
                let text = format!("\"{content}\", \"\\");
                let mut nesting = Vec::new();
                let mut scan = JsonScan::new(text.as_bytes(), &mut nesting);
                let string = scan.string().ok().unwrap();
                assert_eq!((string, scan.position()), (content.as_bytes(), content.len() + 2));
                let text = format!("\"{content}\\\"{content}\\\\\" \"");
                let string = JsonScan::new(text.as_bytes(), &mut nesting).string().ok().unwrap();
                assert_eq!(string, &text.as_bytes()[1..text.len() - 3]);
                assert!(scanned(&text.as_bytes()[..text.len() - 3]).is_err());
            }
        }
    }
}
