//! The `linwright` command from outside: what it prints, writes and exits with.

mod bad_input;
mod bench;
mod bits;
mod compress;
mod cuts;
mod data;
mod encoders;
mod eval;
mod export;
mod failures;
mod families;
mod flags;
mod generate;
mod harness;
mod hub;
mod inspect;
mod interruption;
mod laser;
mod rotor;
mod select;
mod serve;
mod serve_errors;
mod small_verbs;
mod study;
mod tasks;
mod workshop;
