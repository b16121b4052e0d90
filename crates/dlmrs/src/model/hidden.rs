//! The final hidden states of the rows that are read, and what the output head says of them.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{Device, Tensor};

use super::check_finite;
use crate::arithmetic::{Arithmetic, Product};
use crate::error::{Error, Result};
use crate::sample::{NoToken, RowRule, RowStat, RowState};

/// Columns of the output head that are computed at a time; a multiple of the kernels' panel width.
const TILE: usize = 4096;
/// Rows that share one read of the output head. With TILE it bounds what a scan allocates.
const ROWS: usize = 64;
/// The same where filters need whole rows.
const WHOLE_ROWS: usize = 8;

/// Hidden states of the read rows of all passes of a forward, in order.
pub struct Hidden {
    rows: Tensor, // [N, C]
    /// By pass, `[queries, keys]`; empty for a pass without a tap.
    tapped: Vec<Vec<Vec<f32>>>,
    offsets: Vec<usize>,
    head: Arc<dyn Product>,
    arithmetic: Arc<dyn Arithmetic>,
    vocab: usize,
}

/// One row to scan, by its number among all read rows.
#[derive(Clone, Debug)]
pub struct RowScan {
    /// See [`Hidden::row_of`].
    pub row: usize,
    /// The unconditional row of classifier-free guidance.
    pub guide: Option<Guide>,
    /// How the row is turned into a token.
    pub rule: RowRule,
}

/// Classifier-free guidance: logits = u + (scale + 1) * (c - u), u those of `row`.
#[derive(Clone, Copy, Debug)]
pub struct Guide {
    /// The unconditional row, by its number among all read rows.
    pub row: usize,
    /// LLaDA's `cfg_scale`.
    pub scale: f32,
}

impl Hidden {
    pub(crate) fn new(rows: Tensor, counts: Vec<usize>, head: Arc<dyn Product>, arithmetic: Arc<dyn Arithmetic>, vocab: usize) -> Self {
        let starts = counts.iter().scan(0, |sum, n| Some(std::mem::replace(sum, *sum + n)));
        let offsets = starts.chain([counts.iter().sum()]).collect();
        Self { rows, tapped: Vec::new(), offsets, head, arithmetic, vocab }
    }

    pub(crate) fn with_taps(self, tapped: Vec<Vec<Vec<f32>>>) -> Self {
        Self { tapped, ..self }
    }

    /// The attention mass that pass `pass` asked for, `[queries, keys]`; empty if it asked for none.
    pub fn tapped(&self, pass: usize) -> &[Vec<f32>] {
        self.tapped.get(pass).map_or(&[], Vec::as_slice)
    }

    /// Number of rows that were read, over all passes.
    pub fn len(&self) -> usize {
        *self.offsets.last().unwrap_or(&0)
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of the `read`-th read row of pass `pass`.
    pub fn row_of(&self, pass: usize, read: usize) -> usize {
        self.offsets[pass] + read
    }

    /// The whole row of logits `[V]`.
    pub fn row(&self, row: usize) -> Result<Vec<f32>> {
        self.check_row(row)?;
        let x = self.rows.narrow(0, row, 1)?.contiguous()?;
        let mut logits = Vec::with_capacity(self.vocab);
        for (from, to) in tiles(self.vocab) {
            logits.extend(self.head.columns(&x, from, to)?);
        }
        check_finite(&logits, || "a row of logits".into())?;
        Ok(logits)
    }

    /// All rows of logits, `[V]` each. The head is read once for up to 64 of them.
    pub fn rows(&self) -> Result<Vec<Vec<f32>>> {
        self.some_rows(&(0..self.len()).collect::<Vec<_>>())
    }

    /// These rows of logits, `[V]` each. The head is read once for up to 64 of them.
    pub fn some_rows(&self, rows: &[usize]) -> Result<Vec<Vec<f32>>> {
        rows.iter().try_for_each(|&row| self.check_row(row))?;
        let mut all: Vec<Vec<f32>> = vec![Vec::with_capacity(self.vocab); rows.len()];
        for (chunk, from) in rows.chunks(ROWS).zip((0..).step_by(ROWS)) {
            let n = chunk.len();
            let x = self.gather(chunk)?; // [n, C]
            for (start, end) in tiles(self.vocab) {
                let logits = self.head.columns(&x, start, end)?; // [n, end - start]
                for (row, logits) in all[from..from + n].iter_mut().zip(logits.chunks(end - start)) {
                    row.extend_from_slice(logits);
                }
            }
        }
        all.iter().try_for_each(|row| check_finite(row, || "a row of logits".into()))?;
        Ok(all)
    }

    /// The statistics of some rows, in the order of `scans`. The head is read once for up to 64 rows, a tile of the vocabulary at a time;
    /// no tensor of size [rows, V] is made.
    pub fn scan(&self, scans: &[RowScan]) -> Result<Vec<RowStat>> {
        for scan in scans {
            self.check_row(scan.row)?;
            scan.guide.map_or(Ok(()), |guide| self.check_row(guide.row))?;
        }
        let mut stats = Vec::with_capacity(scans.len());
        let mut rest = scans;
        while !rest.is_empty() {
            let n = if rest.iter().take(ROWS).any(|s| s.rule.needs_whole_row()) { WHOLE_ROWS } else { ROWS };
            let (chunk, after) = rest.split_at(n.min(rest.len()));
            stats.extend(self.scan_chunk(chunk)?);
            rest = after;
        }
        Ok(stats)
    }

    fn scan_chunk(&self, scans: &[RowScan]) -> Result<Vec<RowStat>> {
        let guided: Vec<(usize, Guide)> = scans.iter().enumerate().filter_map(|(i, s)| s.guide.map(|g| (i, g))).collect();
        let rows: Vec<usize> = scans.iter().map(|s| s.row).chain(guided.iter().map(|(_, g)| g.row)).collect();
        let x = self.gather(&rows)?; // [scans + guides, C]
        let isa = self.arithmetic.team().isa();
        let states: Vec<_> = scans.iter().map(|s| Mutex::new(RowState::new(&s.rule, isa))).collect();
        for (from, to) in tiles(self.vocab) {
            let width = to - from;
            let mut logits = self.head.columns(&x, from, to)?; // [scans + guides, width]
            let (conditional, unconditional) = logits.split_at_mut(scans.len() * width);
            for ((scan, guide), u) in guided.iter().zip(unconditional.chunks(width)) {
                let c = &mut conditional[scan * width..(scan + 1) * width];
                c.iter_mut().zip(u).for_each(|(c, u)| *c = u + (guide.scale + 1.0) * (*c - u));
            }
            let rows: Vec<_> = conditional.chunks_mut(width).map(Mutex::new).collect();
            self.arithmetic.team().run(scans.len(), |i| {
                // Each task has its own row; a lock is never waited for.
                let mut row = rows[i].lock().unwrap_or_else(PoisonError::into_inner);
                states[i].lock().unwrap_or_else(PoisonError::into_inner).feed(from as u32, &mut row);
            });
        }
        let stat = |(state, scan): (Mutex<RowState<'_>>, &RowScan)| {
            let found = state.into_inner().unwrap_or_else(PoisonError::into_inner).finish();
            found.map_err(|reason| no_token(reason, scan.rule.position))
        };
        states.into_iter().zip(scans).map(stat).collect()
    }

    /// Some hidden states, [n, C]; rows that follow each other, as they mostly do, are not copied.
    fn gather(&self, rows: &[usize]) -> Result<Tensor> {
        if let Some(&first) = rows.first().filter(|_| rows.windows(2).all(|pair| pair[1] == pair[0] + 1)) {
            return Ok(self.rows.narrow(0, first, rows.len())?.contiguous()?);
        }
        let chosen = Tensor::from_iter(rows.iter().map(|&row| row as u32), &Device::Cpu)?.to_device(self.rows.device())?;
        Ok(self.rows.index_select(&chosen, 0)?)
    }

    fn check_row(&self, row: usize) -> Result<()> {
        if row < self.len() {
            return Ok(());
        }
        Err(Error::input("row", format!("{row} is not among the {} rows that were read", self.len())))
    }
}

/// Says why the row for a slot gave no token.
pub(crate) fn no_token(reason: NoToken, position: u32) -> Error {
    match reason {
        NoToken::NotFinite => {
            Error::NotFinite { place: format!("the row of logits for position {position}"), found: "NaN or an infinite value" }
        }
        NoToken::AllBanned => {
            let message = format!("together with logit_bias and min_tokens leaves no token that could be drawn at position {position}");
            Error::input("banned_token_ids", message)
        }
    }
}

fn tiles(vocab: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..vocab).step_by(TILE).map(move |from| (from, (from + TILE).min(vocab)))
}
