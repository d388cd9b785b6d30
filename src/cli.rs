//! Arguments to a plain struct to a run.
