//! TPC-C (revision 5.11).
