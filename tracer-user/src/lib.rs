//! The user-space half of dmscope.
