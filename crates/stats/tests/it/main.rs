//! The decisions that a comparison makes, on trials whose truth is known because they are drawn here.

mod gate;
