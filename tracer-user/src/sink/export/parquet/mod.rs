//! JobTables for DuckDB, pandas and whatever else reads Parquet.

mod schemas;
mod table;
mod tables;

pub use tables::TablesExport;
