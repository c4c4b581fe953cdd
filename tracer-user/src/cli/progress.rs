//! How far long work has come.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar on the terminal, if standard error is one; it is gone when this is dropped.
pub(super) struct ReadingBar(ProgressBar);

impl ReadingBar {
    /// Of reading files to their ends.
    pub(super) fn of_files<'p>(paths: impl Iterator<Item = &'p Path>) -> Self {
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.len());
        let bar = ProgressBar::new(paths.map(size).sum());
        let style = ProgressStyle::with_template("{bar:40} {percent}%  {bytes} of {total_bytes}, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(500));
        Self(bar)
    }

    /// Of nothing.
    pub(super) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Counts what is read.
    pub(super) fn counted<R: Read>(&self, reader: R) -> impl Read + use<R> {
        self.0.wrap_read(reader)
    }
}

impl Drop for ReadingBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
