//! Which channels must go together, which go, and the smaller network.
