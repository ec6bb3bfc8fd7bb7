//! The `linwright` command from outside: what it prints, writes and exits with.

mod bad_input;
mod bench;
mod bits;
#[allow(dead_code, reason = "a program, of which parts are tried")]
#[path = "../build.rs"]
mod build_script;
mod built_in;
mod cache;
mod compress;
mod cuts;
mod data;
mod doctor;
mod encoders;
mod eval;
mod examples;
mod export;
mod failures;
mod families;
mod flags;
mod generate;
mod harness;
mod hub;
mod image_study;
mod inspect;
mod installed;
mod interruption;
mod kept;
mod killed;
mod laser;
mod long_values;
mod offload;
mod outputs;
mod recipes;
mod rotor;
mod select;
mod serve;
mod serve_errors;
mod shards;
mod small_verbs;
mod study;
mod tasks;
mod texts;
mod train_net;
mod train_text;
mod transcript;
mod workshop;
