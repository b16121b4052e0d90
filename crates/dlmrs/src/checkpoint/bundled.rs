//! The tiny trained models inside the library (feature `bundled`), so that it runs anywhere with no download.

/// Files of one model: name and content.
pub type Files = &'static [(&'static str, &'static [u8])];

/// The models that are inside the library.
pub const NAMES: &[&str] = &["tiny-sdar", "tiny-sdar-draft", "tiny-llada"];

macro_rules! files {
    ($model:literal: $($file:literal),+) => {
        &[$(($file, include_bytes!(concat!("../../bundled/", $model, "/", $file)))),+]
    };
}

macro_rules! model {
    ($model:literal) => {
        files!($model: "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    };
}

const TINY_SDAR: Files = model!("tiny-sdar");
const TINY_SDAR_DRAFT: Files = model!("tiny-sdar-draft");
const TINY_LLADA: Files = model!("tiny-llada");

/// The bundled model of this name, with the name as a constant.
pub fn find(name: &str) -> Option<(&'static str, Files)> {
    let index = NAMES.iter().position(|&known| known == name)?;
    let files = [TINY_SDAR, TINY_SDAR_DRAFT, TINY_LLADA].get(index)?;
    Some((NAMES.get(index)?, files))
}
