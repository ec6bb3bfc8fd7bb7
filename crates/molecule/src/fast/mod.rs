//! Fast.
