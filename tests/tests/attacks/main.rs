//! What a hostile process, binary, file, name or tape tries against a dmscope that runs as root, and what becomes of it.
//!
//! One test is one attack. The table in docs/security.md has one row for each of them.

mod binaries;
mod files;
mod output;
mod processes;
