//! tenbin-pgbench
