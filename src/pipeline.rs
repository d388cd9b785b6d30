//! Parses all sections, refuses what is wrong, then runs the stages in order.
