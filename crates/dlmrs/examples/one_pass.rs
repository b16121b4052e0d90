//! The Rust side of `benches/python_overhead.py`: one request of one pass, over and over.
//!
//! `one_pass MODEL THREADS ID,ID,...` loads a model and prints `ready`. For each line `N` of stdin it runs N requests and prints the
//! nanoseconds of each in a line, as CALL:ENGINE: the whole call, and from submission to the end, as its output says.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead, Write, stdin, stdout};
use std::sync::Arc;
use std::time::Instant;

use dlmrs::{BlockDiffusion, Decoding, Llm, LoadOptions, Overrides, Request, SamplingParams};

/// As many slots as are asked for, so that one pass decides all of them.
const SLOTS: usize = 4;

fn main() -> Result<(), Box<dyn Error>> {
    const USAGE: &str = "usage: one_pass MODEL THREADS ID,ID,...";
    let mut arguments = std::env::args().skip(1);
    let mut argument = || arguments.next().ok_or(USAGE);
    let (model, threads, ids) = (argument()?, argument()?.parse()?, argument()?);
    let prompt = ids.split(',').map(str::parse).collect::<Result<Vec<u32>, _>>()?;
    let options = LoadOptions { device: "cpu".into(), threads: Some(threads), ..LoadOptions::default() };
    let llm = Llm::load(&model, &options, &Overrides::default())?;
    println!("ready");
    for line in stdin().lock().lines() {
        let times = (0..line?.trim().parse()?).map(|_| time(&llm, &prompt)).collect::<Result<Vec<_>, _>>()?;
        println!("{}", times.iter().map(|(call, engine)| format!("{call}:{engine}")).collect::<Vec<_>>().join(" "));
        stdout().flush()?;
    }
    Ok(())
}

/// Nanoseconds from the ids of a prompt to an output, as a caller has them, and those of the engine among them.
fn time(llm: &Arc<Llm>, prompt: &[u32]) -> Result<(u128, u128), Box<dyn Error>> {
    let started = Instant::now();
    let params = SamplingParams { max_tokens: SLOTS, seed: Some(0), ignore_eos: true, ..SamplingParams::default() };
    // A threshold that every slot is above.
    let decoding = Decoding::Block(BlockDiffusion { block_length: Some(SLOTS), threshold: Some(0.0), ..BlockDiffusion::default() });
    let outputs = llm.generate(vec![Request { prompt: prompt.to_vec(), params, decoding: Some(decoding) }], |_, _| true)?;
    let call = started.elapsed().as_nanos();
    match black_box(outputs).as_slice() {
        [output] if output.stats.total_passes() == 1 => Ok((call, output.stats.total.as_nanos())),
        _ => Err(format!("one pass is to be measured; give whole blocks of {SLOTS} tokens").into()),
    }
}
