//! A report in the forms that people and other programs read. Each is a function of the report and nothing else.

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
