//! What is counted on one node, told in bytes, and taken in where all nodes are.
//!
//! An agent's counts are taken since they were told last ([`DigestWriter`]), and added to those of all
//! ([`DigestReader`]), so that whoever compares chains and ranks does not know where they were counted. Names are told once:
//! a site, buffer, group and so on has a number in its sort from then on, in the order in which they were told. What is not
//! known because a digest is missing has no name until all is named anew; chains of such groups are not counted, and it is
//! known how many they are.
//!
//! Each file has both sides of one part, so that they are read together.

mod counts;
mod digest_reader;
mod digest_writer;
pub(crate) mod letter;
mod lists;
pub(crate) mod names_reader;
pub(crate) mod names_writer;
mod totals;

pub(crate) use digest_reader::{DigestReader, DigestSink};
pub(crate) use digest_writer::{DigestSource, DigestWriter};
