//! A short fingerprint of bytes, the same on every platform: FNV-1a with 64 bits (G. Fowler, L. C. Noll, K.-P. Vo).

/// The fingerprint of the bytes as a number, which, unlike a hash of the standard library, never changes.
pub fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let next = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, next)
}

/// The fingerprint of the bytes, as 16 hexadecimal digits.
pub fn checksum(bytes: impl IntoIterator<Item = u8>) -> String {
    format!("{:016x}", hash(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values_are_met() {
        // The authors' test vectors.
        assert_eq!(checksum(*b""), "cbf29ce484222325");
        assert_eq!(checksum(*b"foobar"), "85944171f73967e8");
    }
}
