//! Numbers of what chains are made of.

use crate::job::names::id;

id!(/// An operation of a chain that is not finished.
    NodeId);
id!(/// A chain's operations so far: a node of the trie of groups.
    PathId);
