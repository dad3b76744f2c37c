//! The board on which threads chalk up their seconds.
