//! One forward through a model, as data: which tokens at which positions see which keys, what is kept, and which rows are read.

use std::collections::HashMap;

use dlmrs_kernels::Sight;

use crate::error::{Error, Result};

/// One pass of R rows over a cache of which the first T = `base` entries count.
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    /// `[R]` token ids.
    pub tokens: Vec<u32>,
    /// `[R]` rotary positions; they need be neither increasing nor unique.
    pub positions: Vec<u32>,
    /// How many entries of the cache are valid for this pass. What lies beyond is dropped (rollback, refresh, optimistic extension).
    pub base: usize,
    /// Who sees whom.
    pub sees: Sees,
    /// Which rows' keys and values stay.
    pub keep: Keep,
    /// Which rows are read, in this order; a row may be read twice.
    pub read: Vec<u32>,
    /// Which attention comes back too. It costs nothing when it is off, and is slow when it is not.
    pub tap: Option<Tap>,
}

/// Asks for attention mass: the share of a row's attention that a key gets, mean over all layers and heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tap {
    /// Rows of the pass.
    pub queries: Vec<u32>,
    /// Below `base` an entry of the cache, else `base` + a row of the pass. A key that a row does not see gets nothing from it.
    pub keys: Vec<u32>,
}

/// Visibility. Keys are the T cached ones, then the R of this pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Sees {
    /// Every row sees every key.
    Full,
    /// Row i sees the cache and the rows 0..=i of the pass, whatever their positions.
    Causal,
    /// A row at position p sees the keys at positions q with q / B <= p / B, on an absolute grid, as SDAR's model code has it.
    Blocks(usize),
    /// One bit for each row and key, [R, T + R].
    Mask(Bits),
}

/// Which rows' keys and values stay in the cache after the pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Keep {
    /// None: the cache is as before (cut to `base`).
    Nothing,
    /// These rows go behind the `base` valid entries, in this order.
    Append(Vec<u32>),
    /// Row `rows[i]` takes the place of entry `slots[i]`. Entries that are overwritten are invisible to every row of the pass.
    Overwrite {
        /// Rows of the pass.
        rows: Vec<u32>,
        /// Entries of the cache, one for each row, each below `base`.
        slots: Vec<u32>,
    },
}

/// A dense matrix of bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits {
    rows: usize,
    columns: usize,
    words_a_row: usize,
    words: Vec<u64>,
}

impl Bits {
    /// All bits clear.
    pub fn new(rows: usize, columns: usize) -> Self {
        let words_a_row = columns.div_ceil(64);
        Self { rows, columns, words_a_row, words: vec![0; rows * words_a_row] }
    }

    /// The bits for which `f(row, column)` is true.
    pub fn from_fn(rows: usize, columns: usize, f: impl Fn(usize, usize) -> bool) -> Self {
        let mut bits = Self::new(rows, columns);
        for row in 0..rows {
            for column in 0..columns {
                if f(row, column) {
                    bits.set(row, column);
                }
            }
        }
        bits
    }

    /// Sets one bit. Row and column must lie inside.
    pub fn set(&mut self, row: usize, column: usize) {
        debug_assert!(row < self.rows && column < self.columns);
        self.words[row * self.words_a_row + column / 64] |= 1 << (column % 64);
    }

    /// One bit. Row and column must lie inside.
    pub fn get(&self, row: usize, column: usize) -> bool {
        debug_assert!(row < self.rows && column < self.columns);
        self.words[row * self.words_a_row + column / 64] >> (column % 64) & 1 == 1
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    fn row(&self, row: usize) -> &[u64] {
        &self.words[row * self.words_a_row..(row + 1) * self.words_a_row]
    }
}

impl Pass {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.tokens.len()
    }

    /// How many keys its rows may see together: those of the cache that are not overwritten, and its own.
    pub fn keys(&self) -> usize {
        let gone = match &self.keep {
            Keep::Overwrite { slots, .. } => slots.len(),
            Keep::Nothing | Keep::Append(_) => 0,
        };
        self.base - gone + self.rows()
    }

    /// How many entries the cache holds after this pass.
    pub fn kept_len(&self) -> usize {
        match &self.keep {
            Keep::Append(rows) => self.base + rows.len(),
            Keep::Nothing | Keep::Overwrite { .. } => self.base,
        }
    }

    /// Checks everything that can be checked before any arithmetic, against a cache of `cached` entries and a vocabulary of `vocab` ids.
    pub fn validate(&self, cached: usize, vocab: usize) -> Result<()> {
        let rows = self.rows();
        if rows == 0 {
            return refuse("tokens", "is empty; a pass has at least one row".into());
        }
        if self.positions.len() != rows {
            return refuse(
                "positions",
                format!("has {} entries for {rows} tokens; one position for each token is needed", self.positions.len()),
            );
        }
        if let Some(&id) = self.tokens.iter().find(|&&id| id as usize >= vocab) {
            return refuse(
                "tokens",
                format!("holds the id {id}, but the vocabulary has {vocab} entries (0 to {})", vocab.saturating_sub(1)),
            );
        }
        if self.base > cached {
            return refuse("base", format!("is {}, but the cache holds {cached} entries", self.base));
        }
        if let Some(row) = self.read.iter().find(|&&row| row as usize >= rows) {
            return refuse("read", format!("names row {row} of a pass of {rows} rows"));
        }
        if let Some(tap) = &self.tap {
            let keys = self.base + rows;
            if let Some(row) = tap.queries.iter().find(|&&row| row as usize >= rows) {
                return refuse("tap", format!("asks for row {row} of a pass of {rows} rows"));
            }
            if let Some(key) = tap.keys.iter().find(|&&key| key as usize >= keys) {
                return refuse("tap", format!("asks for key {key}, but there are {keys} (base + rows)"));
            }
        }
        self.validate_sees(rows)?;
        self.validate_keep(rows)
    }

    fn validate_sees(&self, rows: usize) -> Result<()> {
        match &self.sees {
            Sees::Full | Sees::Causal => Ok(()),
            Sees::Blocks(0) => refuse("sees", "has block length 0; a block holds at least one token".into()),
            Sees::Blocks(_) => Ok(()),
            Sees::Mask(bits) => {
                let (found, wanted) = (bits.shape(), (rows, self.base + rows));
                if found != wanted {
                    return refuse("sees", format!("is a mask of shape {found:?}; rows x (base + rows) = {wanted:?} is needed"));
                }
                match (0..rows).find(|&row| bits.row(row).iter().all(|&word| word == 0)) {
                    Some(row) => refuse("sees", format!("lets row {row} see no key at all; a row sees at least itself")),
                    None => Ok(()),
                }
            }
        }
    }

    fn validate_keep(&self, rows: usize) -> Result<()> {
        match &self.keep {
            Keep::Nothing => Ok(()),
            Keep::Append(kept) => unique("keep", "row", kept, rows),
            Keep::Overwrite { rows: kept, slots } => {
                if kept.len() != slots.len() {
                    return refuse(
                        "keep",
                        format!("overwrites {} entries with {} rows; one row for each entry is needed", slots.len(), kept.len()),
                    );
                }
                unique("keep", "row", kept, rows)?;
                unique("keep", "entry", slots, self.base)
            }
        }
    }

    /// Who sees whom, as lists of visible keys in order of position; `cached` are the positions of the cache's entries, `base` at least.
    pub(crate) fn sight(&self, cached: &[u32]) -> Sight {
        let position = |key: u32| match (key as usize).checked_sub(self.base) {
            None => cached[key as usize],
            Some(row) => self.positions[row],
        };
        let mut order: Vec<u32> = (0..(self.base + self.rows()) as u32).collect();
        if let Keep::Overwrite { slots, .. } = &self.keep {
            order.retain(|key| !slots.contains(key));
        }
        order.sort_by_key(|&key| (position(key), key)); // stable and nearly sorted already
        match &self.sees {
            Sees::Full => Sight { class_of_row: vec![0; self.rows()], classes: vec![order] },
            Sees::Causal => {
                let visible = |row: usize| order.iter().copied().filter(|&key| key as usize <= self.base + row).collect();
                Sight { class_of_row: (0..self.rows() as u32).collect(), classes: (0..self.rows()).map(visible).collect() }
            }
            Sees::Blocks(length) => {
                let block = |key: u32| position(key) as usize / length;
                self.classes(
                    |row| self.positions[row] as usize / length,
                    |row| {
                        let own = self.positions[row] as usize / length;
                        order[..order.partition_point(|&key| block(key) <= own)].to_vec()
                    },
                )
            }
            Sees::Mask(bits) => {
                self.classes(|row| bits.row(row).to_vec(), |row| order.iter().copied().filter(|&key| bits.get(row, key as usize)).collect())
            }
        }
    }

    /// Rows with equal keys `of` form a class.
    fn classes<K: std::hash::Hash + Eq>(&self, of: impl Fn(usize) -> K, visible: impl Fn(usize) -> Vec<u32>) -> Sight {
        let mut known: HashMap<K, u32> = HashMap::new();
        let mut sight = Sight { class_of_row: Vec::with_capacity(self.rows()), classes: Vec::new() };
        for row in 0..self.rows() {
            let class = *known.entry(of(row)).or_insert_with(|| {
                sight.classes.push(visible(row));
                sight.classes.len() as u32 - 1
            });
            sight.class_of_row.push(class);
        }
        sight
    }
}

fn refuse<T>(field: &'static str, message: String) -> Result<T> {
    Err(Error::Pass { field, message })
}

fn unique(field: &'static str, what: &str, indices: &[u32], below: usize) -> Result<()> {
    let mut seen = vec![false; below];
    for &index in indices {
        match seen.get_mut(index as usize) {
            None => return refuse(field, format!("names {what} {index}, but there are only {below}")),
            Some(true) => return refuse(field, format!("names {what} {index} twice")),
            Some(seen) => *seen = true,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(rows: usize, base: usize, sees: Sees) -> Pass {
        let positions = (base as u32..(base + rows) as u32).collect();
        Pass { tokens: vec![1; rows], positions, base, sees, keep: Keep::Nothing, read: vec![], tap: None }
    }

    #[test]
    fn blocks_go_by_position() {
        let sight = pass(4, 3, Sees::Blocks(4)).sight(&[0, 1, 2]);
        // positions 3 | 4 5 6: the first row closes block 0, the others form block 1.
        assert_eq!(sight.class_of_row, [0, 1, 1, 1]);
        assert_eq!(sight.classes, [vec![0, 1, 2, 3], vec![0, 1, 2, 3, 4, 5, 6]]);
    }

    #[test]
    fn causal_goes_by_row() {
        let sight = pass(3, 1, Sees::Causal).sight(&[0]);
        assert_eq!(sight.classes, [vec![0, 1], vec![0, 1, 2], vec![0, 1, 2, 3]]);
    }

    #[test]
    fn keys_are_summed_in_order_of_position() {
        let mut p = pass(2, 3, Sees::Full);
        p.positions = vec![1, 9];
        assert_eq!(p.sight(&[5, 0, 7]).classes, [vec![1, 3, 0, 2, 4]]);
    }

    #[test]
    fn overwritten_entries_are_invisible() {
        let mut p = pass(2, 4, Sees::Full);
        p.positions = vec![1, 2];
        p.keep = Keep::Overwrite { rows: vec![0, 1], slots: vec![1, 2] };
        assert_eq!(p.sight(&[0, 1, 2, 3]).classes, [vec![0, 4, 5, 3]]);
    }

    #[test]
    fn bad_passes_are_refused_by_field() {
        let field = |p: &Pass| match p.validate(4, 10) {
            Err(Error::Pass { field, .. }) => field,
            other => panic!("{other:?}"),
        };
        let good = pass(2, 4, Sees::Full);
        good.validate(4, 10).unwrap();
        assert_eq!(field(&Pass { tokens: vec![], positions: vec![], ..good.clone() }), "tokens");
        assert_eq!(field(&Pass { tokens: vec![1, 10], ..good.clone() }), "tokens");
        assert_eq!(field(&Pass { positions: vec![1], ..good.clone() }), "positions");
        assert_eq!(field(&Pass { base: 5, ..good.clone() }), "base");
        assert_eq!(field(&Pass { read: vec![2], ..good.clone() }), "read");
        assert_eq!(field(&Pass { sees: Sees::Blocks(0), ..good.clone() }), "sees");
        assert_eq!(field(&Pass { sees: Sees::Mask(Bits::new(2, 5)), ..good.clone() }), "sees");
        assert_eq!(field(&Pass { sees: Sees::Mask(Bits::new(2, 6)), ..good.clone() }), "sees");
        let tap = |queries, keys| Pass { tap: Some(Tap { queries, keys }), ..good.clone() };
        tap(vec![1], vec![5]).validate(4, 10).unwrap();
        assert_eq!(field(&tap(vec![2], vec![0])), "tap");
        assert_eq!(field(&tap(vec![0], vec![6])), "tap");
        assert_eq!(field(&Pass { keep: Keep::Append(vec![2]), ..good.clone() }), "keep");
        assert_eq!(field(&Pass { keep: Keep::Append(vec![1, 1]), ..good.clone() }), "keep");
        assert_eq!(field(&Pass { keep: Keep::Overwrite { rows: vec![0], slots: vec![4] }, ..good.clone() }), "keep");
        assert_eq!(field(&Pass { keep: Keep::Overwrite { rows: vec![0, 1], slots: vec![3] }, ..good }), "keep");
    }
}
