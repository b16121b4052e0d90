//! `config.json` and `generation_config.json`.

use std::fs;

use dlmrs::{Llm, LoadOptions, Overrides};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::{CHECKPOINTS, alone, at, is_sentence, measured, tried};
use crate::mutations::{edited, edits, slipped, slips};

/// What a reader may allocate for a config, whatever it says: some of it per byte, the rest for names and shapes of 1,024 layers.
const MEMORY: usize = 8 << 20;

fn read(checkpoint: &str, name: &str) -> Value {
    let default = || json!({"eos_token_id": [318, 2]}).to_string().into_bytes();
    serde_json::from_slice(&fs::read(at(checkpoint).join(name)).unwrap_or_else(|_| default())).unwrap()
}

#[test]
fn changed_configs_are_read_or_refused() {
    let _alone = alone();
    let folders: Vec<_> = CHECKPOINTS
        .iter()
        .map(|checkpoint| {
            let folder = tempfile::tempdir().unwrap();
            fs::copy(at(checkpoint).join("model.safetensors"), folder.path().join("model.safetensors")).unwrap();
            let configs = ["config.json", "generation_config.json"].map(|name| read(checkpoint, name));
            (folder, configs)
        })
        .collect();
    let changes = (0..CHECKPOINTS.len(), edits(), slips(), edits(), slips());
    tried(changes, |(which, edits, slips, generation_edits, generation_slips)| {
        let (folder, [config, generation]) = &folders[which];
        let config = slipped(edited(config.clone(), &edits).to_string().into_bytes(), &slips);
        let generation = slipped(edited(generation.clone(), &generation_edits).to_string().into_bytes(), &generation_slips);
        fs::write(folder.path().join("config.json"), &config).unwrap();
        fs::write(folder.path().join("generation_config.json"), &generation).unwrap();
        let name = folder.path().to_str().unwrap();
        let (report, risen) = measured(|| Llm::inspect(name, &Overrides::default()).map(|report| report.to_string()));
        prop_assert!(risen < MEMORY + 100 * (config.len() + generation.len()), "{risen} bytes");
        match report {
            // The weights are read as well, and the network is built.
            Ok(report) => {
                prop_assert!(report.contains("parameters"));
                let options = LoadOptions { device: "cpu".into(), threads: Some(1), ..LoadOptions::default() };
                if let Err(error) = Llm::load(name, &options, &Overrides::default()) {
                    is_sentence(&error, &[name, "mask_token_id"]);
                }
            }
            Err(error) => is_sentence(&error, &[name]),
        }
        Ok(())
    });
}

#[test]
fn deep_json_is_refused() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for text in ["[".repeat(1 << 20), "{\"a\":".repeat(1 << 20), format!("{{\"x\": {}1{}}}", "[".repeat(200), "]".repeat(200))] {
        fs::write(folder.path().join("config.json"), &text).unwrap();
        let name = folder.path().to_str().unwrap();
        let (result, risen) = measured(|| Llm::inspect(name, &Overrides::default()));
        let error = result.unwrap_err();
        is_sentence(&error, &[name]);
        assert!(error.to_string().contains("recursion limit"), "{error}");
        assert!(risen < 4 * text.len() + MEMORY, "{risen}");
    }
}
