//! Where a session's words go: text for people, JSON lines for programs, a view on a terminal, a page.

pub mod export;
mod hits;
mod json;
mod live;
mod page;
mod text;

pub use hits::HitSink;
pub use json::JsonSink;
pub use live::LiveSink;
pub use page::PageSink;
pub use text::TextSink;
