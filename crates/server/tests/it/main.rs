//! Real servers on this machine.

mod life;
