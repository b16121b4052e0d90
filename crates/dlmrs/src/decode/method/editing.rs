//! Settings of block diffusion with token editing.

use super::{BlockDiffusion, Method, Subject, Task, check};
use crate::checkpoint::NativeAttention;
use crate::decode::{Decoder, EditingDecoder};
use crate::error::{Error, Result};

/// Block diffusion that may rewrite decided tokens of the current block (LLaDA2.1). The defaults are those of its generation code.
#[derive(Clone, Debug, PartialEq)]
pub struct Editing {
    /// The reveal rule.
    pub block: BlockDiffusion,
    /// A decided token of the current block is rewritten if the model's token for its slot is another one and more probable than this: from 0
    /// (whatever differs) to below 1.
    pub editing_threshold: f32,
    /// Passes at most over a block that has no mask any more. They end before where one rewrites nothing.
    pub max_post_steps: usize,
}

impl Default for Editing {
    fn default() -> Self {
        Self { block: BlockDiffusion::default(), editing_threshold: 0.9, max_post_steps: 16 }
    }
}

impl Method for Editing {
    fn name(&self) -> &'static str {
        self.block.name()
    }

    fn attention(&self) -> NativeAttention {
        self.block.attention()
    }

    fn block_length(&self) -> Option<usize> {
        self.block.block_length
    }

    fn validate(&self) -> Result<()> {
        self.block.validate()?;
        if !(self.editing_threshold >= 0.0 && self.editing_threshold < 1.0) {
            let message =
                format!("is {}; a number from 0 to below 1 is needed, or \"off\": no token is more than certain", self.editing_threshold);
            return Err(Error::input("editing_threshold", message));
        }
        check::at_most_steps("max_post_steps", self.max_post_steps)
    }

    fn suits(&self, subject: &Subject<'_>) -> Result<()> {
        self.block.suits(subject)?;
        if !subject.edits {
            let message = format!(
                "is {}, but {} was not trained to look at decided tokens again (LLaDA2.1 was); leave it out",
                self.editing_threshold, subject.name
            );
            return Err(Error::input("editing_threshold", message));
        }
        Ok(())
    }

    fn warnings(&self, subject: &Subject<'_>) -> Vec<String> {
        self.block.warnings(subject)
    }

    fn decoder(&self, task: Task) -> Box<dyn Decoder> {
        Box::new(EditingDecoder::new(self, task))
    }
}
