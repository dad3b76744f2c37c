//! tenbin-rte
