//! Reading what may be gzipped, which its first bytes tell, whatever its name.

use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, Read};

/// The first bytes of every gzipped file (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Whether a source that nothing was read of is gzipped.
///
/// # Errors
/// A source that cannot be read.
pub fn is_gzipped(source: &mut impl BufRead) -> io::Result<bool> {
    Ok(source.fill_buf()?.starts_with(&GZIP))
}

/// The contents of a source that nothing was read of, unzipped if it is gzipped.
///
/// # Errors
/// A source that cannot be read.
pub fn unzipped<'a>(mut source: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match is_gzipped(&mut source)? {
        true => Box::new(MultiGzDecoder::new(source)),
        false => Box::new(source),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    #[test]
    fn plain_and_gzipped_contents_are_the_same() {
        let mut gzipped = GzEncoder::new(Vec::new(), Compression::fast());
        gzipped.write_all(b"text").unwrap();
        for source in [b"text".to_vec(), gzipped.finish().unwrap()] {
            let mut text = String::new();
            unzipped(source.as_slice()).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "text");
        }
        assert_eq!(unzipped(&b""[..]).unwrap().read(&mut [0]).unwrap(), 0);
    }
}
