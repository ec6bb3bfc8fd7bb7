//! Capture, fits, healing, comparisons and studies on a network that they do not know.

mod capture;
mod compare;
mod edits;
