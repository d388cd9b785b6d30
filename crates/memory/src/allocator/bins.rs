//! Free pieces by size, so that the smallest sufficient one is found at once: bins of similar sizes, eight for every
//! power of two (M. Masmano and others, TLSF, 2004), each in order, since best fit is exact here.

use super::BlockId;

/// A free piece: its size, where it starts, its number.
pub(super) type FreePiece = (u64, u64, BlockId);

/// Bins for every power of two, as bits of a size after its first one.
const FINE: u32 = 3;

/// A bin for every size that a number holds.
const BINS: usize = (u64::BITS as usize) << FINE;

/// Bits of a word; each is set where its bin is not empty.
const WORD: usize = u64::BITS as usize;

/// Free pieces of one pool.
#[derive(Debug)]
pub(super) struct FreePieces {
    /// In each from the largest piece to the smallest, of equal ones from the highest address to the lowest.
    bins: Vec<Vec<FreePiece>>,
    filled: [u64; BINS / WORD],
}

impl FreePieces {
    /// Nothing is free.
    pub fn new() -> Self {
        FreePieces { bins: vec![Vec::new(); BINS], filled: [0; _] }
    }

    /// Puts a piece where it is found.
    pub fn insert(&mut self, fit: FreePiece) {
        let bin = bin(fit.0);
        let fits = &mut self.bins[bin];
        fits.insert(position(fits, fit), fit);
        self.filled[bin / WORD] |= 1 << (bin % WORD);
    }

    /// Removes an existing piece.
    pub fn remove(&mut self, fit: FreePiece) {
        let bin = bin(fit.0);
        let place = position(&self.bins[bin], fit);
        self.take(bin, place);
    }

    /// Takes out the smallest piece of at least this size, the lowest of equal ones.
    pub fn best_fit(&mut self, size: u64) -> Option<BlockId> {
        let own = bin(size);
        // Its own bin may hold smaller ones, too.
        if let Some(place) = self.bins[own].partition_point(|fit| fit.0 >= size).checked_sub(1) {
            return Some(self.take(own, place));
        }
        let larger = self.filled_from(own + 1)?;
        Some(self.take(larger, self.bins[larger].len() - 1))
    }

    /// Keeps the pieces for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&FreePiece) -> bool) {
        for (bin, fits) in self.bins.iter_mut().enumerate() {
            fits.retain(&mut keep);
            if fits.is_empty() {
                empty(&mut self.filled, bin);
            }
        }
    }

    fn take(&mut self, bin: usize, place: usize) -> BlockId {
        let fits = &mut self.bins[bin];
        let (_, _, block) = fits.remove(place);
        if fits.is_empty() {
            empty(&mut self.filled, bin);
        }
        block
    }

    /// The first bin from this one on that holds something.
    fn filled_from(&self, bin: usize) -> Option<usize> {
        let first = bin / WORD;
        (first..self.filled.len()).find_map(|word| {
            let bits = if word == first { self.filled[word] & (u64::MAX << (bin % WORD)) } else { self.filled[word] };
            (bits != 0).then(|| word * WORD + bits.trailing_zeros() as usize)
        })
    }
}

/// Notes that a bin holds nothing any more.
fn empty(filled: &mut [u64], bin: usize) {
    filled[bin / WORD] &= !(1 << (bin % WORD));
}

/// The bin of a size: its power of two, and the bits after that; sizes of fewer bits have a bin each.
fn bin(size: u64) -> usize {
    match size.checked_ilog2() {
        Some(power) if power >= FINE => {
            ((power << FINE) + ((size >> (power - FINE)) & ((1 << FINE) - 1)) as u32) as usize
        }
        _ => size as usize,
    }
}

/// The index of a piece in its bin, or its place of insertion. Deep networks leave hundreds of equal size.
fn position(fits: &[FreePiece], (size, start, _): FreePiece) -> usize {
    // No short circuit: its branch would be unpredictable.
    fits.partition_point(|fit| (fit.0 > size) | ((fit.0 == size) & (fit.1 > start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use std::collections::BTreeSet;

    #[test]
    fn the_smallest_that_is_large_enough_is_found_whatever_else_lies_there() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let (mut bins, mut tree) = (FreePieces::new(), BTreeSet::new());
        for block in 0..20_000 {
            // From a few bytes to terabytes, many of them equal.
            let size = (1u64 << random.random_range(0..42)) * random.random_range(1..12);
            let fit = (size, random.random_range(0..1 << 40), block);
            bins.insert(fit);
            tree.insert(fit);
            if random.random_bool(0.4) {
                let gone = *tree.iter().nth(random.random_range(0..tree.len())).unwrap();
                bins.remove(gone);
                tree.remove(&gone);
            }
            if random.random_bool(0.5) {
                continue;
            }
            let wanted = (1u64 << random.random_range(0..46)) * random.random_range(1..12);
            let expected = tree.range((wanted, 0, 0)..).next().copied();
            assert_eq!(bins.best_fit(wanted), expected.map(|(_, _, block)| block), "{wanted} bytes");
            expected.inspect(|fit| assert!(tree.remove(fit)));
        }
        bins.retain(|fit| fit.2 % 2 == 0);
        tree.retain(|fit| fit.2 % 2 == 0);
        assert!(tree.len() > 100, "{} pieces are left", tree.len());
        while let Some(first) = tree.pop_first() {
            assert_eq!(bins.best_fit(0), Some(first.2));
        }
        assert_eq!(bins.best_fit(0), None);
    }
}
