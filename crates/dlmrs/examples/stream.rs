//! What the engine reports while it works: each slot as it is decided, in the order of the passes, then the text block by block.
//!
//! `cargo run --release -p dlmrs --features bundled --example stream -- "6 * 2 ="`
#![allow(clippy::print_stdout)]

use std::error::Error;

use dlmrs::tokenizer::{ChatOptions, Message, Specials};
use dlmrs::{Event, Llm, LoadOptions, Overrides, Request, SamplingParams};

const QUESTION: &str = "Mia buys 9 marbles for 5 dollars each and 4 pens for 9 dollars each. How much does Mia spend?";

fn main() -> Result<(), Box<dyn Error>> {
    let question = std::env::args().nth(1).unwrap_or_else(|| QUESTION.to_string());
    let llm = Llm::load("tiny-sdar", &LoadOptions::default(), &Overrides::default())?;
    let tokenizer = llm.require_tokenizer()?;
    let prompt = tokenizer.encode_chat(&[Message::new("user", question)], &ChatOptions::default(), Specials::AsText)?;
    let start = prompt.len();

    let mut engine = llm.engine();
    // More requests may join at any time; the number that `submit` gives tells their events apart, and `cancel` ends one.
    engine.submit(Request { prompt, params: SamplingParams { max_tokens: 96, ..SamplingParams::default() }, decoding: None })?;
    while !engine.is_idle() {
        for event in engine.step()? {
            match event {
                Event::Revealed { pass, slots, .. } => {
                    for slot in slots {
                        let token = tokenizer.decode(&[slot.stat.token], false)?;
                        println!("pass {pass:3}  slot {:3}  {token:?}, probability {:.3}", slot.position - start, slot.stat.probability);
                    }
                }
                Event::Committed { text, .. } => println!("          text      {text:?}"),
                Event::Finished { output, .. } => {
                    println!("\n{}\n{}, {:.1} tokens a pass", output.text, output.finish_reason.name(), output.stats.tokens_per_pass());
                }
                Event::Failed { error, .. } => return Err(error.into()),
            }
        }
    }
    Ok(())
}
