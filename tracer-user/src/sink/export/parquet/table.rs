//! A table of Parquet, written row by row: so many rows are gathered, and then written column by column.

use std::fs::File;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use parquet::basic::{Compression, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use rustc_hash::FxHashMap;

/// Rows that are gathered. Memory is bounded by this, whatever the table's length.
const ROWS_OF_A_GROUP: usize = 1 << 17;

/// The value of a column in a row. Those of columns that always have one are never `None`.
#[derive(Clone, Copy, Debug)]
pub(super) enum CellValue<'a> {
    Int32(Option<i32>),
    Int64(Option<i64>),
    Text(Option<&'a str>),
    /// A list, which may be empty.
    Numbers(&'a [i32]),
}

#[derive(Debug)]
enum ColumnValues {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Text(TextValues),
}

/// Texts come again and again.
#[derive(Debug, Default)]
struct TextValues {
    values: Vec<ByteArray>,
    known: FxHashMap<Box<str>, ByteArray>,
}

impl TextValues {
    fn push(&mut self, text: &str) {
        let value = match self.known.get(text) {
            Some(value) => value.clone(),
            None => {
                let value = ByteArray::from(text.as_bytes().to_vec());
                self.known.insert(text.into(), value.clone());
                value
            }
        };
        self.values.push(value);
    }
}

/// A column's values that are not written yet.
#[derive(Debug)]
struct TableColumn {
    values: ColumnValues,
    /// Whether each is there; for columns that may lack values or have several.
    definition: Option<Vec<i16>>,
    /// Whether each belongs to the row of the one before it; for columns that may have several.
    repetition: Option<Vec<i16>>,
}

impl TableColumn {
    fn push(&mut self, value: CellValue<'_>) -> Result<()> {
        match (&mut self.values, value) {
            (ColumnValues::Int32(values), CellValue::Int32(value)) => values.extend(value),
            (ColumnValues::Int64(values), CellValue::Int64(value)) => values.extend(value),
            (ColumnValues::Text(texts), CellValue::Text(value)) => {
                value.into_iter().for_each(|text| texts.push(text))
            }
            (ColumnValues::Int32(values), CellValue::Numbers(numbers)) => {
                values.extend(numbers);
                return self.push_levels_of(numbers.len());
            }
            (_, value) => bail!("a column of another type than {value:?}"),
        }
        let is_there =
            !matches!(value, CellValue::Int32(None) | CellValue::Int64(None) | CellValue::Text(None));
        match &mut self.definition {
            Some(levels) => levels.push(i16::from(is_there)),
            None if is_there => {}
            None => bail!("a column lacks a value that it must have"),
        }
        Ok(())
    }

    /// A list of so many.
    fn push_levels_of(&mut self, numbers: usize) -> Result<()> {
        let (Some(definition), Some(repetition)) = (&mut self.definition, &mut self.repetition) else {
            bail!("a column has several values where it can have one")
        };
        definition.extend(std::iter::repeat_n(i16::from(numbers > 0), numbers.max(1)));
        repetition.extend((0..numbers.max(1)).map(|at| i16::from(at > 0)));
        Ok(())
    }

    fn write(&mut self, mut writer: SerializedColumnWriter<'_>) -> parquet::errors::Result<()> {
        let Self { values, definition, repetition } = self;
        let (levels, rows) = (definition.as_deref(), repetition.as_deref());
        match values {
            ColumnValues::Int32(values) => writer.typed::<Int32Type>().write_batch(values, levels, rows)?,
            ColumnValues::Int64(values) => writer.typed::<Int64Type>().write_batch(values, levels, rows)?,
            ColumnValues::Text(texts) => {
                writer.typed::<ByteArrayType>().write_batch(&texts.values, levels, rows)?
            }
        };
        writer.close()?;
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        match &mut self.values {
            ColumnValues::Int32(values) => values.clear(),
            ColumnValues::Int64(values) => values.clear(),
            ColumnValues::Text(texts) => {
                texts.values.clear();
                texts.known.clear();
            }
        }
        self.definition.iter_mut().chain(&mut self.repetition).for_each(Vec::clear);
    }
}

/// See the [module](self).
pub(super) struct ColumnTable {
    /// None: it is closed.
    writer: Option<SerializedFileWriter<File>>,
    columns: Vec<TableColumn>,
    /// Rows that are not written yet.
    waiting: usize,
    rows: u64,
}

impl ColumnTable {
    /// `schema`: as text, see [`parse_message_type`]. `about`: what is said of the file as a whole.
    pub(super) fn create(file: File, schema: &str, about: &[(String, String)]) -> Result<Self> {
        let about = about.iter().map(|(name, value)| KeyValue::new(name.clone(), value.clone())).collect();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_created_by(format!("dmscope {}", env!("CARGO_PKG_VERSION")))
            .set_max_row_group_row_count(Some(ROWS_OF_A_GROUP))
            .set_key_value_metadata(Some(about));
        let schema = Arc::new(parse_message_type(schema)?);
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build()))?;
        let columns = writer.schema_descr().columns().iter().map(|column| {
            Ok(TableColumn {
                values: match column.physical_type() {
                    PhysicalType::INT32 => ColumnValues::Int32(Vec::new()),
                    PhysicalType::INT64 => ColumnValues::Int64(Vec::new()),
                    PhysicalType::BYTE_ARRAY => ColumnValues::Text(TextValues::default()),
                    other => bail!("no column has values of type {other}"),
                },
                definition: (column.max_def_level() > 0).then(Vec::new),
                repetition: (column.max_rep_level() > 0).then(Vec::new),
            })
        });
        let columns = columns.collect::<Result<_>>()?;
        Ok(Self { writer: Some(writer), columns, waiting: 0, rows: 0 })
    }

    /// One row more: a value for each column, in order.
    pub(super) fn row(&mut self, values: &[CellValue<'_>]) -> Result<()> {
        if values.len() != self.columns.len() {
            bail!("{} values for {} columns", values.len(), self.columns.len());
        }
        self.columns.iter_mut().zip(values).try_for_each(|(column, value)| column.push(*value))?;
        self.rows += 1;
        self.waiting += 1;
        if self.waiting >= ROWS_OF_A_GROUP { self.write_group() } else { Ok(()) }
    }

    /// Rows so far.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    fn write_group(&mut self) -> Result<()> {
        self.waiting = 0;
        let writer = self.writer.as_mut().context("the table is closed")?;
        let mut group = writer.next_row_group()?;
        for column in &mut self.columns {
            let writer = group.next_column()?.context("a column is missing")?;
            column.write(writer)?;
        }
        group.close()?;
        Ok(())
    }

    /// All rows were told.
    pub(super) fn close(&mut self) -> Result<()> {
        if self.waiting > 0 {
            self.write_group()?;
        }
        if let Some(writer) = self.writer.take() {
            writer.close()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    const SCHEMA: &str =
        "message x { required int32 rank; optional int64 end_ns; optional binary at (string);
        required group ranks (list) { repeated group list { required int32 element; } } }";

    fn table(file: &File) -> ColumnTable {
        let file = file.try_clone().expect("a file");
        ColumnTable::create(file, SCHEMA, &[("job".to_owned(), "solver".to_owned())]).expect("a table")
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let file = tempfile::tempfile().expect("a file");
        let mut table = table(&file);
        for rank in 0..3 {
            let (end_ns, at) = (Some(7).filter(|_| rank > 0), Some("main").filter(|_| rank > 1));
            let ranks = &[0, 1][..rank as usize % 3];
            let row = [
                CellValue::Int32(Some(rank)),
                CellValue::Int64(end_ns),
                CellValue::Text(at),
                CellValue::Numbers(ranks),
            ];
            table.row(&row).expect("there is room");
        }
        table.close().expect("there is room");
        let reader = SerializedFileReader::new(file).expect("a table");
        let rows: Vec<String> =
            reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row").to_string()).collect();
        assert_eq!(
            rows,
            [
                "{rank: 0, end_ns: null, at: null, ranks: []}",
                "{rank: 1, end_ns: 7, at: null, ranks: [0]}",
                "{rank: 2, end_ns: 7, at: \"main\", ranks: [0, 1]}"
            ]
        );
        let about = reader.metadata().file_metadata().key_value_metadata().expect("about");
        assert_eq!((about[0].key.as_str(), about[0].value.as_deref()), ("job", Some("solver")));
    }

    #[test]
    fn rows_are_written_in_groups_of_a_bounded_size() {
        let file = tempfile::tempfile().expect("a file");
        let mut table = table(&file);
        let row = [
            CellValue::Int32(Some(1)),
            CellValue::Int64(None),
            CellValue::Text(Some("main")),
            CellValue::Numbers(&[]),
        ];
        (0..ROWS_OF_A_GROUP + 1).for_each(|_| table.row(&row).expect("there is room"));
        table.close().expect("there is room");
        let reader = SerializedFileReader::new(file).expect("a table");
        let groups = reader.metadata().row_groups().iter().map(|group| group.num_rows() as usize);
        assert_eq!(groups.collect::<Vec<_>>(), [ROWS_OF_A_GROUP, 1]);
    }

    #[test]
    fn a_row_that_does_not_fit_the_table_is_refused() {
        let file = tempfile::tempfile().expect("a file");
        assert!(table(&file).row(&[CellValue::Int32(Some(1))]).is_err());
        let lacking =
            [CellValue::Int32(None), CellValue::Int64(None), CellValue::Text(None), CellValue::Numbers(&[])];
        assert!(table(&file).row(&lacking).is_err());
        let other =
            [CellValue::Text(None), CellValue::Int64(None), CellValue::Text(None), CellValue::Numbers(&[])];
        assert!(table(&file).row(&other).is_err());
    }
}
