//! What is frequent, and what is not like it: chains, ranks, and runs known to be good.

pub(crate) mod chain_analysis;
pub(crate) mod frequent_chains;
pub mod knn_outliers;
pub(crate) mod rank_mix;
pub(crate) mod reference;
pub(crate) mod scores;
