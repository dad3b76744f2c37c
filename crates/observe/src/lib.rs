//! tenbin-observe
