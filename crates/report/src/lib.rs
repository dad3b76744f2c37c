//! tenbin-report
