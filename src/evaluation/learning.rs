//! Error against rows profiled: what more measurements would buy.

use super::Evaluation;
use super::left_out::Protocol;
use crate::error::Result;
use crate::fingerprint::{Attempt, FEWEST_ROWS, Fingerprint, Observations, Row};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

/// Parts of the profile that are fitted, the last one all of it.
const PARTS: [f64; 5] = [0.0625, 0.125, 0.25, 0.5, 1.0];

/// One point of a learning curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Learned {
    /// Rows fitted on.
    pub rows: usize,
    /// Mean absolute percentage error on the rows tested, mean over networks.
    pub mape: f64,
}

impl Protocol {
    /// Fits ever larger random parts of what was profiled and tests each on the same rows; parts too small to fit are left out.
    ///
    /// # Errors
    /// When a fit fails.
    pub fn learning_curve(&self, observations: &Observations, tested: &[Row]) -> Result<Vec<Learned>> {
        let mut generator = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let (mut rows, mut failed) = (observations.rows.to_vec(), observations.failed.to_vec());
        rows.shuffle(&mut generator);
        failed.shuffle(&mut generator);
        let mut curve = Vec::new();
        for part in PARTS {
            let (rows, failed): (&[Row], &[Attempt]) = (first(&rows, part), first(&failed, part));
            if rows.len() < FEWEST_ROWS {
                continue;
            }
            let part = Observations { rows, failed, ..*observations };
            let fingerprint = Fingerprint::fit(self.subject.clone(), self.method, self.seed, &part)?;
            let error = Evaluation::of(&fingerprint, tested).mean_over_networks();
            curve.extend(error.map(|mape| Learned { rows: rows.len(), mape }));
        }
        Ok(curve)
    }
}

fn first<T>(all: &[T], part: f64) -> &[T] {
    &all[..(part * all.len() as f64).ceil() as usize]
}
