//! Output formats of a report, for people and programs. Each is a function of the report alone.

mod chart;
mod csv;
mod figures;
mod fio;
mod grid;
mod html;
mod pictures;
mod rows;
mod text;
mod ways;

pub use csv::csv;
pub use fio::fio;
pub use html::html;
pub use pictures::pictures;
pub use text::{markdown, text};
