//! The dlmrs side of `benches/forward_beside_torch.py`: loads a checkpoint once, then does what each line of stdin asks for.
//!
//! `time N` runs one forward over N rows with the logits of every row, and prints milliseconds. `logits N FILE` writes those logits,
//! [N, V] in f32, for a comparison. Each answer is one line.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::sync::Arc;
use std::time::Instant;

use dlmrs::model::{Hidden, RowScan};
use dlmrs::pass::{Keep, Pass, Sees};
use dlmrs::sample::RowRule;
use dlmrs::{Llm, LoadOptions, Overrides};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: forward_bench FOLDER THREADS")?;
    let threads = arguments.next().ok_or("usage: forward_bench FOLDER THREADS")?.parse()?;
    let options = LoadOptions { device: "cpu".into(), threads: Some(threads), ..LoadOptions::default() };
    let llm = Llm::load(&folder, &options, &Overrides::default())?;
    println!("ready");
    for line in stdin().lock().lines() {
        let line = line?;
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["time", rows] => println!("{}", time(&llm, rows.parse()?)?),
            ["logits", rows, file] => {
                let hidden = forward(&llm, rows.parse()?)?;
                let mut bytes = Vec::new();
                for row in 0..hidden.len() {
                    bytes.extend(hidden.row(row)?.into_iter().flat_map(f32::to_le_bytes));
                }
                std::fs::write(file, bytes)?;
                println!("written");
            }
            _ => return Err(format!("unknown: {line}").into()),
        }
        stdout().flush()?;
    }
    Ok(())
}

/// One pass of `rows` rows that all see each other and are all read. The Python side computes the same ids.
fn forward(llm: &Llm, rows: u32) -> dlmrs::Result<Hidden> {
    let vocab = llm.config().vocab as u32;
    let pass = Pass {
        tokens: (0..rows).map(|i| (i * 7919 + 13) % vocab).collect(),
        positions: (0..rows).collect(),
        base: 0,
        sees: Sees::Full,
        keep: Keep::Nothing,
        read: (0..rows).collect(),
        tap: None,
    };
    llm.model().forward(&mut [(pass, &mut llm.model().new_cache())])
}

fn time(llm: &Arc<Llm>, rows: u32) -> dlmrs::Result<f64> {
    let scans: Vec<RowScan> =
        (0..rows).map(|row| RowScan { row: row as usize, guide: None, rule: RowRule::greedy(llm.facts().mask_token_id, row) }).collect();
    let started = Instant::now();
    // The library never makes a tensor [rows, V]: it computes the logits in tiles and takes each row's statistics from them, as here.
    std::hint::black_box(forward(llm, rows)?.scan(&scans)?);
    Ok(started.elapsed().as_secs_f64() * 1e3)
}
