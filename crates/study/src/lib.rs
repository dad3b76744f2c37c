//! Comparisons of runs: what may be said of a difference, and how surely.

mod stats;
