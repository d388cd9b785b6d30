//! Extremely randomised regression trees: fit, predict, importance, save; knows no networks.
