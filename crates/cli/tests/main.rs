//! The `linwright` command from outside: what it prints, writes and exits with.

mod bad_input;
mod bits;
mod compress;
mod eval;
mod flags;
mod interruption;
mod small_verbs;
mod study;
mod workshop;
