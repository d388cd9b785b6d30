//! Which configurations to measure, and in which order.
