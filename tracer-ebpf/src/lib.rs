//! The kernel half of dmscope.
