//! `model.safetensors`, its header, and the index of several.

use std::fs::{self, File};
use std::path::Path;

use dlmrs::checkpoint::{Folder, ModelConfig, Weights};
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{MIXTURES, alone, at, is_sentence, measured, tried};
use crate::mutations::{edited, edits, slipped, slips};

const FILE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const ONE_LAYER: &str = "../../tests/golden/sdar_onelayer";
const MEMORY: usize = 4 << 20;

/// A folder with the config, and the header and the data of the weights that belong to it.
fn parts() -> (TempDir, Value, Vec<u8>) {
    parts_of(ONE_LAYER)
}

fn parts_of(checkpoint: &str) -> (TempDir, Value, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(at(checkpoint).join("config.json"), folder.path().join("config.json")).unwrap();
    let file = fs::read(at(checkpoint).join(FILE)).unwrap();
    let length = usize::try_from(u64::from_le_bytes(*file.first_chunk().unwrap())).unwrap();
    (folder, serde_json::from_slice(&file[8..8 + length]).unwrap(), file[8 + length..].to_vec())
}

fn file(length: u64, header: &[u8], data: &[u8]) -> Vec<u8> {
    [&length.to_le_bytes()[..], header, data].concat()
}

/// Opens the weights and reads every tensor that is asked for; an error must be a sentence.
fn open(folder: &Path, names: &[String], input: usize) {
    let disk = Folder::Disk(folder.to_path_buf());
    let config = ModelConfig::read(&disk).unwrap();
    let (opened, risen) = measured(|| Weights::open(&disk, &config));
    assert!(risen < MEMORY + 100 * input, "{risen} bytes for {input}");
    let place = folder.to_str().unwrap();
    match opened {
        Ok(weights) => {
            assert_eq!(weights.parameters(), config.parameters());
            for name in names {
                let (loaded, risen) = measured(|| weights.load_f32(name));
                assert!(risen < MEMORY + 4 * input, "{risen} bytes");
                if let Err(error) = loaded {
                    is_sentence(&error, &[place]);
                }
            }
        }
        Err(error) => is_sentence(&error, &[place]),
    }
}

/// Dense weights, and those of each mixture.
#[test]
fn changed_headers_are_read_or_refused() {
    let _alone = alone();
    let checkpoints: Vec<_> = [ONE_LAYER].into_iter().chain(MIXTURES).map(parts_of).collect();
    let lie = prop_oneof![4 => Just(0_i64), 1 => -200_i64..200, 1 => any::<i64>()];
    let cut = prop_oneof![4 => Just(0_usize), 1 => 1_usize..100_000];
    // Half of the tries for the dense ones, which are the smallest.
    let which = prop_oneof![Just(0_usize), 1..checkpoints.len()];
    tried((which, edits(), slips(), lie, cut), |(which, edits, slips, lie, cut)| {
        let (folder, header, data) = &checkpoints[which];
        // The first, the last and some between: what is read from each does not depend on the others.
        let names: Vec<String> = header.as_object().unwrap().keys().step_by(1 + 9 * which.min(1)).cloned().collect();
        let header = slipped(edited(header.clone(), &edits).to_string().into_bytes(), &slips);
        let length = (header.len() as u64).wrapping_add_signed(lie);
        let bytes = file(length, &header, &data[..data.len().saturating_sub(cut)]);
        fs::write(folder.path().join(FILE), &bytes).unwrap();
        open(folder.path(), &names, bytes.len());
        Ok(())
    });
}

/// Offsets and shapes that a careless reader would add, multiply or allocate.
#[test]
fn headers_that_lie_about_sizes() {
    let _alone = alone();
    let (folder, header, data) = parts();
    let first = header.as_object().unwrap().keys().find(|name| *name != "__metadata__").unwrap().clone();
    let huge = [json!(0), json!(1), json!(1_u64 << 32), json!(1_u64 << 62), json!(u64::MAX), json!(u64::MAX - 1), json!(-1), json!(0.5)];
    for a in &huge {
        for b in &huge {
            for (part, value) in
                [("data_offsets", json!([a, b])), ("shape", json!([a, b])), ("shape", json!([a, b, a, b])), ("shape", json!(a))]
            {
                let mut header = header.clone();
                header[&first][part] = value;
                let text = header.to_string().into_bytes();
                fs::write(folder.path().join(FILE), file(text.len() as u64, &text, &data)).unwrap();
                open(folder.path(), &[], text.len() + data.len());
            }
        }
    }
}

#[test]
fn cut_at_every_byte_of_the_header() {
    let _alone = alone();
    let (folder, header, data) = parts();
    let text = header.to_string().into_bytes();
    let whole = file(text.len() as u64, &text, &data);
    fs::write(folder.path().join(FILE), &whole).unwrap();
    let disk = Folder::Disk(folder.path().to_path_buf());
    let config = ModelConfig::read(&disk).unwrap();
    Weights::open(&disk, &config).unwrap();
    let end = 8 + text.len();
    for length in (end..whole.len()).rev().step_by(499).chain((0..=end).rev()) {
        File::options().write(true).open(folder.path().join(FILE)).unwrap().set_len(length as u64).unwrap();
        is_sentence(&Weights::open(&disk, &config).unwrap_err(), &[FILE]);
    }
}

#[test]
fn changed_indexes_are_read_or_refused() {
    let _alone = alone();
    let (folder, header, data) = parts();
    let names: Vec<String> = header.as_object().unwrap().keys().cloned().collect();
    let text = header.to_string().into_bytes();
    fs::write(folder.path().join("a.safetensors"), file(text.len() as u64, &text, &data)).unwrap();
    let map: Value = names
        .iter()
        .filter(|name| *name != "__metadata__")
        .map(|name| (name.clone(), json!("a.safetensors")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let index = json!({"metadata": {"total_size": 1}, "weight_map": map});
    let shards =
        ["/etc/passwd", "../a.safetensors", "b.safetensors", ".", "..", "a.safetensors/", "", "a\0b", "config.json", "./a.safetensors"];
    let shard = prop_oneof![1 => Just(None), 1 => (0_usize..100, proptest::sample::select(shards.to_vec())).prop_map(Some)];
    tried((edits(), slips(), shard), |(edits, slips, shard)| {
        let mut index = index.clone();
        if let Some((which, file)) = shard {
            let map = index["weight_map"].as_object_mut().unwrap();
            let at = which % map.len();
            *map.values_mut().nth(at).unwrap() = json!(file);
        }
        let bytes = slipped(edited(index, &edits).to_string().into_bytes(), &slips);
        fs::write(folder.path().join(INDEX), &bytes).unwrap();
        open(folder.path(), &names, bytes.len() + data.len());
        Ok(())
    });
}
