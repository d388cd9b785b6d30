//! What fits tell of themselves by leaving out rows: how far off they are for what they did not see, and how wide intervals must be.

mod folds;
mod leave_out;
mod spread;

pub(super) use folds::Folds;
pub(super) use leave_out::leave_out;
pub(super) use spread::{Residuals, Spread, WIDEST, widths};
