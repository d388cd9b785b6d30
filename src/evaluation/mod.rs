//! How far a fingerprint can be trusted: splits, scores, tables.
