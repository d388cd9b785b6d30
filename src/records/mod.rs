//! Rows of `profiling_csvs/`, read and written, and the names of variants.
