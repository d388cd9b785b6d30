//! Medians, percentiles, MAPE, Spearman over slices.
