//! Capture, fits, healing and studies on a network that they do not know.

mod capture;
mod edits;
