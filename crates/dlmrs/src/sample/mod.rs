//! From logits to a decided token: rules, keyed noise, and the statistics of one row.

mod distribution;
pub mod noise;
mod row;
mod rule;

pub(crate) use distribution::distribution;
pub use row::RowStat;
pub(crate) use row::{NoToken, RowState};
pub use rule::{Confidence, Edit, FilterOrder, RowRule};
