//! Capture, fits, healing, and comparisons on a network that they do not know.

mod capture;
mod compare;
mod edits;
