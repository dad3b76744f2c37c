//! tenbin-stub
