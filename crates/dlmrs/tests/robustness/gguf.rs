//! GGUF files: header, tokenizer and data in one.

use std::fs::{self, File};
use std::path::Path;

use dlmrs::checkpoint::Folder;
use dlmrs::{Llm, LoadOptions, Overrides};
use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::common::{alone, at, is_sentence, measured, tried};
use crate::gguf_writer::Writer;
use crate::mutations::{slipped, slips};

/// For the tables of a tokenizer, and names and shapes of 1,024 layers.
const MEMORY: usize = 32 << 20;
const FILE: &str = "model.gguf";

/// A folder, and header and data of a file with one layer and a tokenizer.
fn parts() -> (TempDir, Vec<u8>, Vec<u8>) {
    let mut writer = Writer::llada(&at("../../tests/golden/llada")).with_tokenizer().set("llada.block_count", 1);
    writer.tensors.retain(|tensor| !tensor.name.starts_with("blk.") || tensor.name.starts_with("blk.0."));
    let (header, data) = writer.parts();
    (tempfile::tempdir().unwrap(), header, data)
}

/// Reads header, config and tokenizer, and if they are well the weights; an error must be a sentence, and memory be bounded by the file.
fn open(path: &Path, input: usize) {
    let name = path.to_str().unwrap();
    let (read, risen) = measured(|| Llm::inspect(name, &Overrides::default()).map(|report| report.to_string()));
    assert!(risen < MEMORY + 100 * input, "{risen} bytes for {input}");
    match read {
        Ok(report) => {
            assert!(report.contains("parameters"), "{report}");
            let options = LoadOptions { device: "cpu".into(), threads: Some(1), ..LoadOptions::default() };
            if let Err(error) = Llm::load(name, &options, &Overrides::default()) {
                is_sentence(&error, &[FILE, "mask_token_id", "mask token", "chat template"]);
            }
        }
        Err(error) => is_sentence(&error, &[FILE, "mask token", "chat template"]),
    }
}

/// Bytes of the header flipped, cut, doubled or put in between, lengths and counts that lie, and less data than it says.
#[test]
fn changed_files_are_read_or_refused() {
    let _alone = alone();
    let (folder, header, data) = parts();
    let path = folder.path().join(FILE);
    let numbers = vec![0, 1, 255, 1 << 20, u64::from(u32::MAX), 1 << 40, 1 << 62, u64::MAX - 1, u64::MAX];
    let lie = (any::<u32>(), proptest::sample::select(numbers));
    let cut = prop_oneof![4 => Just(0_usize), 1 => 1_usize..100_000];
    tried((slips(), vec(lie, 0..3), cut), |(slips, lies, cut)| {
        let mut header = header.clone();
        for (place, number) in lies {
            let place = place as usize % (header.len() - 8);
            header[place..place + 8].copy_from_slice(&number.to_le_bytes());
        }
        let header = slipped(header, &slips);
        let bytes = [&header[..], &data[..data.len().saturating_sub(cut)]].concat();
        fs::write(&path, &bytes).unwrap();
        open(&path, bytes.len());
        Ok(())
    });
}

/// Each count and length of the header in turn: every place where eight bytes could be one.
#[test]
fn headers_that_lie_about_lengths() {
    let _alone = alone();
    let (folder, header, data) = parts();
    let path = folder.path().join(FILE);
    let small = |place: &usize| header[*place..].first_chunk().is_some_and(|bytes| u64::from_le_bytes(*bytes) < 1 << 20);
    for place in (8..header.len() - 8).filter(small).step_by(5) {
        for number in [u64::MAX, 1 << 31] {
            let mut header = header.clone();
            header[place..place + 8].copy_from_slice(&number.to_le_bytes());
            fs::write(&path, [&header[..], &data].concat()).unwrap();
            let name = path.to_str().unwrap();
            let (opened, risen) = measured(|| Folder::open(name));
            assert!(risen < (1 << 20) + 20 * header.len(), "{risen} bytes");
            if let Err(error) = opened {
                is_sentence(&error, &[FILE]);
            }
        }
    }
}

#[test]
fn cut_at_every_byte_of_the_header() {
    let _alone = alone();
    let (folder, header, data) = parts();
    let path = folder.path().join(FILE);
    fs::write(&path, [&header[..], &data].concat()).unwrap();
    let name = path.to_str().unwrap();
    Folder::open(name).unwrap();
    // The last tensor may be followed by some bytes that only align what would come next.
    let end = header.len();
    for length in (end..end + data.len() - 32).rev().step_by(499).chain((0..=end).rev()) {
        File::options().write(true).open(&path).unwrap().set_len(length as u64).unwrap();
        is_sentence(&Folder::open(name).unwrap_err(), &[FILE]);
    }
}
