//! tenbin-study
