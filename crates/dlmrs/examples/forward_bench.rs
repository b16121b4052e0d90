//! The dlmrs side of `benches/forward_beside_torch.py` and `benches/sdar_beside_transformers.py`: loads a checkpoint once, then does what each
//! line of stdin asks for.
//!
//! `time N` runs one forward over N rows with the logits of every row, and prints milliseconds. `logits N FILE` writes those logits,
//! [N, V] in f32, for a comparison. `cache N` fills a cache with N tokens; `block B` times one pass of B rows over it, `block-logits B FILE`
//! writes its logits. `generate B N M` times an answer of M tokens after N by block diffusion, B passes a block. `experts N` runs a forward over N
//! rows and prints how many experts it read, `read N` times the reading of N bytes by all threads. Each answer is one line.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::sync::Arc;
use std::time::Instant;

use dlmrs::cache::KvCache;
use dlmrs::decode::{BlockDiffusion, Decoding, Strategy};
use dlmrs::model::{Hidden, RowScan};
use dlmrs::pass::{Keep, Pass, Sees};
use dlmrs::sample::RowRule;
use dlmrs::{Llm, LoadOptions, Overrides, Request, SamplingParams};

const USAGE: &str = "usage: forward_bench FOLDER THREADS DTYPE";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, threads, dtype] = arguments.as_slice() else { return Err(USAGE.into()) };
    let options = LoadOptions { device: "cpu".into(), threads: Some(threads.parse()?), dtype: dtype.parse()?, ..LoadOptions::default() };
    let llm = Llm::load(folder, &options, &Overrides::default())?;
    let mut cache = llm.model().new_cache();
    println!("ready {} {}", llm.model().weights(), llm.model().team().isa().name());
    for line in stdin().lock().lines() {
        let line = line?;
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["time", rows] => println!("{}", time(&llm, rows.parse()?)?),
            ["logits", rows, file] => write(&forward(&llm, rows.parse()?)?, file)?,
            ["cache", tokens] => fill(&llm, &mut cache, tokens.parse()?)?,
            ["block", rows] => println!("{}", time_block(&llm, &mut cache, rows.parse()?)?),
            ["block-logits", rows, file] => write(&block(&llm, &mut cache, rows.parse()?)?, file)?,
            ["generate", block, prompt, tokens] => println!("{}", generate(&llm, block.parse()?, prompt.parse()?, tokens.parse()?)?),
            ["experts", rows] => {
                let before = llm.model().expert_reads();
                forward(&llm, rows.parse()?)?;
                println!("{}", llm.model().expert_reads() - before);
            }
            ["read", bytes] => println!("{}", time_read(bytes.parse()?, threads.parse()?)),
            _ => return Err(format!("unknown: {line}").into()),
        }
        stdout().flush()?;
    }
    Ok(())
}

fn write(hidden: &Hidden, file: &str) -> Result<(), Box<dyn Error>> {
    let mut bytes = Vec::new();
    for row in 0..hidden.len() {
        bytes.extend(hidden.row(row)?.into_iter().flat_map(f32::to_le_bytes));
    }
    std::fs::write(file, bytes)?;
    println!("written");
    Ok(())
}

/// The Python side computes the same ids.
fn tokens(llm: &Llm, range: std::ops::Range<u32>) -> Vec<u32> {
    range.map(|i| (i * 7919 + 13) % (llm.config().vocab as u32 - 1)).collect()
}

/// One pass of `rows` rows that all see each other and are all read.
fn forward(llm: &Llm, rows: u32) -> dlmrs::Result<Hidden> {
    let pass = Pass {
        tokens: tokens(llm, 0..rows),
        positions: (0..rows).collect(),
        base: 0,
        sees: Sees::Full,
        keep: Keep::Nothing,
        read: (0..rows).collect(),
        tap: None,
    };
    llm.model().forward(&mut [(pass, &mut llm.model().new_cache())])
}

fn scan(llm: &Llm, hidden: &Hidden) -> dlmrs::Result<()> {
    let rule = |row: usize| RowRule::greedy(llm.facts().mask_token_id, row as u32);
    let scans: Vec<RowScan> = (0..hidden.len()).map(|row| RowScan { row, guide: None, rule: rule(row) }).collect();
    // The library never makes a tensor [rows, V]: it computes the logits in tiles and takes each row's statistics from them, as here.
    std::hint::black_box(hidden.scan(&scans)?);
    Ok(())
}

fn time(llm: &Llm, rows: u32) -> dlmrs::Result<f64> {
    let started = Instant::now();
    scan(llm, &forward(llm, rows)?)?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

fn fill(llm: &Llm, cache: &mut KvCache, n: u32) -> dlmrs::Result<()> {
    let pass = Pass {
        tokens: tokens(llm, 0..n),
        positions: (0..n).collect(),
        base: 0,
        sees: Sees::Blocks(4),
        keep: Keep::Append((0..n).collect()),
        read: vec![],
        tap: None,
    };
    llm.model().forward(&mut [(pass, cache)])?;
    println!("filled");
    Ok(())
}

/// A block behind the cached tokens that sees them and itself; nothing is kept.
fn block(llm: &Llm, cache: &mut KvCache, rows: u32) -> dlmrs::Result<Hidden> {
    let base = cache.len();
    let pass = Pass {
        tokens: tokens(llm, base as u32..base as u32 + rows),
        positions: (base as u32..base as u32 + rows).collect(),
        base,
        sees: Sees::Full,
        keep: Keep::Nothing,
        read: (0..rows).collect(),
        tap: None,
    };
    llm.model().forward(&mut [(pass, cache)])
}

fn time_block(llm: &Llm, cache: &mut KvCache, rows: u32) -> dlmrs::Result<f64> {
    let started = Instant::now();
    scan(llm, &block(llm, cache, rows)?)?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

/// Reads memory that is in no cache, the threads sharing it.
fn time_read(bytes: usize, threads: usize) -> f64 {
    let far = vec![1u64; bytes / 8];
    let started = Instant::now();
    std::thread::scope(|scope| {
        for own in far.chunks(far.len().div_ceil(threads).max(1)) {
            scope.spawn(move || {
                let mut sums = [0u64; 16];
                own.chunks_exact(16).for_each(|chunk| sums.iter_mut().zip(chunk).for_each(|(sum, value)| *sum ^= value));
                std::hint::black_box(sums)
            });
        }
    });
    started.elapsed().as_secs_f64() * 1e3
}

/// One token a pass, as many passes a block as it has slots, from left blocks to right ones.
fn generate(llm: &Arc<Llm>, block: usize, prompt: u32, max_tokens: usize) -> dlmrs::Result<f64> {
    let rule = BlockDiffusion { block_length: Some(block), strategy: Strategy::LowConfidenceStatic, ..BlockDiffusion::default() };
    let params = SamplingParams { max_tokens, ignore_eos: true, ..SamplingParams::default() };
    let request = Request { prompt: tokens(llm, 0..prompt), params, decoding: Some(Decoding::Block(rule)) };
    let started = Instant::now();
    llm.generate(vec![request], |_, _| true)?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}
