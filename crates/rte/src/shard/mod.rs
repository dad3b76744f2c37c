//! One thread's share of terminals and connections.
