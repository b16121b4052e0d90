//! From logits to a decided token: rules, keyed noise, and the statistics of one row.

pub mod noise;
mod row;
mod rule;

pub use row::RowStat;
pub(crate) use row::{NoToken, RowState};
pub use rule::{Confidence, Edit, FilterOrder, RowRule};
