//! The ranks of a job: their traces, and the steps of each.
