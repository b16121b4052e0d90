//! The canvas of a block-causal model: blocks of B slots on an absolute grid, decided from left to right.

use super::method::{BlockDiffusion, Task};
use super::{Counts, PassKind, Role, Scan, Wish};
use crate::pass::{Keep, Pass, Sees};
use crate::sample::RowRule;

/// Rows that are prefilled at a time.
const CHUNK: usize = 512;

/// All tokens of a request, in blocks.
pub(crate) struct Grid {
    /// Prompt and answer; undecided slots hold the mask.
    pub(crate) canvas: Vec<u32>,
    pub(crate) mask_token_id: u32,
    /// B
    pub(crate) length: usize,
    /// Start of the current block: the first that has masks, or the end.
    pub(crate) block: usize,
    /// Which blocks had no mask from the start: their rows are prefill, those of others commits.
    given: Vec<bool>,
}

impl Grid {
    /// Settings and task must have been validated; B is the settings' or the task's, or else the whole canvas.
    pub(crate) fn new(settings: &BlockDiffusion, task: &Task) -> Self {
        let mut canvas = task.prompt.clone();
        let wanted = canvas.len() + task.params.max_tokens;
        let length = settings.block_length.or(task.block_length).unwrap_or(wanted).max(1);
        let has_slots = task.params.max_tokens > 0 || canvas.contains(&task.mask_token_id);
        if has_slots {
            canvas.resize(wanted.div_ceil(length) * length, task.mask_token_id);
        }
        let given = canvas.chunks(length).map(|block| !block.contains(&task.mask_token_id)).collect();
        let mut grid = Self { canvas, mask_token_id: task.mask_token_id, length, block: 0, given };
        grid.advance();
        grid
    }

    /// Goes to the first block that has masks; true if that is another than before.
    pub(crate) fn advance(&mut self) -> bool {
        let first = self.canvas[self.block..].iter().position(|&id| id == self.mask_token_id);
        let open = first.map_or(self.canvas.len(), |i| (self.block + i) / self.length * self.length);
        std::mem::replace(&mut self.block, open) != open
    }

    /// Whether every slot is decided.
    pub(crate) fn finished(&self) -> bool {
        self.block == self.canvas.len()
    }

    /// The tokens of the block that starts at `start`, if there is one.
    pub(crate) fn tokens(&self, start: usize) -> Option<&[u32]> {
        self.canvas.get(start..start + self.length)
    }

    /// The masked slots of the block at `start`.
    pub(crate) fn masked(&self, start: usize) -> Vec<usize> {
        (start..start + self.length).filter(|&p| self.canvas[p] == self.mask_token_id).collect()
    }

    /// How many rows go into a cache of `cached` entries in a pass of their own before the block at `block` can be worked on.
    pub(crate) fn prefill(&self, cached: usize, block: usize) -> Option<usize> {
        let chunk = CHUNK.max(self.length) / self.length * self.length;
        (block - cached > chunk).then_some(chunk)
    }

    /// The target's pass that puts the next `chunk` rows into a cache of `from` entries, block-causal with blocks of `block_length`.
    pub(crate) fn prefill_wish(&self, from: usize, chunk: usize, block_length: usize) -> Wish {
        let to = from + chunk;
        let pass = Pass {
            tokens: self.canvas[from..to].to_vec(),
            positions: (from as u32..to as u32).collect(),
            base: from,
            sees: Sees::Blocks(block_length),
            keep: Keep::Append((0..chunk as u32).collect()),
            read: Vec::new(),
            tap: None,
        };
        let rows = self.kept_rows(from, to);
        Wish { model: Role::Target, cache: 0, pass, scans: Vec::new(), kind: PassKind::Prefill, rows }
    }

    /// How many rows the next pass feeds over a cache of `cached` entries: a prefill's, or what [`Self::denoise_wish`] asks for.
    pub(crate) fn next_rows(&self, cached: usize) -> usize {
        match self.finished() {
            true => 0,
            false => self.prefill(cached, self.block).unwrap_or(self.block - cached + self.length),
        }
    }

    /// The target's pass that works on the current block, over a cache of `cached` entries: what is finished and not cached yet rides along
    /// and is kept; of the block the slots `reading` are read, each by its rule.
    pub(crate) fn denoise_wish(&self, cached: usize, reading: &[usize], rules: Vec<RowRule>) -> Wish {
        let (block, end) = (self.block, self.block + self.length);
        let pass = Pass {
            tokens: self.canvas[cached..end].to_vec(),
            positions: (cached as u32..end as u32).collect(),
            base: cached,
            sees: Sees::Blocks(self.length),
            keep: Keep::Append((0..(block - cached) as u32).collect()),
            read: reading.iter().map(|&p| (p - cached) as u32).collect(),
            tap: None,
        };
        let scans = rules.into_iter().enumerate().map(|(read, rule)| Scan { read, guide: None, rule }).collect();
        let rows = self.kept_rows(cached, block).and(PassKind::Denoise, self.length);
        Wish { model: Role::Target, cache: 0, pass, scans, kind: PassKind::Denoise, rows }
    }

    /// The rows `from..to`, which go into a cache, by what they serve.
    pub(crate) fn kept_rows(&self, from: usize, to: usize) -> Counts {
        let given = (from..to).filter(|p| self.given.get(p / self.length) == Some(&true)).count();
        Counts::of(PassKind::Prefill, given).and(PassKind::Commit, to - from - given)
    }
}
