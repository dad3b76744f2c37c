//! tenbin-server
